/**
 * Short-lived tokens in exchange for the credential: renewed in the background while they are good, on demand when they
 * are about to end, by one exchange at a time however many callers wait for it.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { TinkerError } from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"

/** Time before its end from which a caller renews a token that the background has not renewed. */
const urgent = 60_000

/**
 * The background renews at half of a token's lifetime, give or take a tenth of that: clients that began together do not
 * all come at once.
 */
const half = { min: 0.45, max: 0.55 }

/** Never two renewals closer than this, however short a token lives. */
const spacing = 10_000

const afterFailure = 60_000

/** Assumed lifetime of a token without a readable expiry. */
const unknownLife = 120_000

/**
 * The claims of a token, not verified: it came from the server over TLS.
 *
 * @internal
 */
export const claims = (token: Redacted.Redacted): Either.Either<Readonly<Record<string, unknown>>, string> => {
  const payload = Redacted.value(token).split(".")[1]
  if (payload === undefined) return Either.left("not a token")
  return Either.flatMap(Either.mapLeft(Encoding.decodeBase64UrlString(payload), () => "not base64url"), (text) => {
    try {
      const parsed: unknown = JSON.parse(text)
      return typeof parsed === "object" && parsed !== null
        ? Either.right(parsed as Readonly<Record<string, unknown>>)
        : Either.left("claims are not an object")
    } catch {
      return Either.left("claims are not JSON")
    }
  })
}

interface Held {
  readonly token: Redacted.Redacted
  readonly received: number
  readonly expires: number
  /** When the background renews it. */
  readonly renew: number
}

/** @internal */
export interface TokenExchange {
  readonly token: Effect.Effect<Redacted.Redacted, TinkerError>
  /** The token we hold, if it will do for now: no need to wait for `token`. */
  readonly held: (now: number) => Redacted.Redacted | undefined
  /**
   * The server refused this token: if it is the one we hold, get another one before the next request. Refusals of many
   * requests arrive one by one, also when the next token is already here.
   */
  readonly invalidate: (refused: string) => void
  /** A token other than this one, which the server refused: requests that are refused together share one exchange. */
  readonly replace: (refused: string) => Effect.Effect<Redacted.Redacted, TinkerError>
}

const seconds = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value * 1000 : undefined

/**
 * When a token ends, by its claims, in milliseconds since 1970; `undefined` for a key that is no token, or has no end.
 *
 * @internal
 */
export const expiryOf = (token: Redacted.Redacted): number | undefined =>
  Either.match(claims(token), { onLeft: () => undefined, onRight: ({ exp }) => seconds(exp) })

/** Both claims of a lifetime are the server's, so a clock that is wrong here does not change when a token is renewed. */
const hold = (token: Redacted.Redacted, now: number): Effect.Effect<Held> =>
  Effect.map(Random.nextRange(half.min, half.max), (part) => {
    const issued = Either.match(claims(token), { onLeft: () => undefined, onRight: ({ iat }) => seconds(iat) })
    const expires = expiryOf(token) ?? now + unknownLife
    const life = expires - (issued ?? now)
    return { token, received: now, expires, renew: now + (life > 0 ? life * part : afterFailure) }
  })

/**
 * When to renew: the usual margin, but never more than a fraction of the token's lifetime, or a short-lived token would be
 * renewed continuously.
 */
const dueBefore = (held: Held, margin: number, part: number): number =>
  held.expires - Math.min(margin, Math.max(0, held.expires - held.received) * part)

/** @internal */
export const make = (
  exchange: Effect.Effect<Redacted.Redacted, TinkerError>,
  scope: Scope.Scope
): TokenExchange => {
  let held: Held | undefined
  let inFlight: Fiber.Fiber<Redacted.Redacted, TinkerError> | undefined
  let lastTry = Number.NEGATIVE_INFINITY
  let watching = false
  /** The last exchange ended because the server refused the credential: trying later does not help. */
  let refused = false

  const renew = Effect.gen(function*() {
    lastTry = yield* Clock.currentTimeMillis
    const token = yield* Effect.tapError(exchange, (error) =>
      Effect.sync(() => {
        refused = error._tag === "Authentication"
      }))
    refused = false
    held = yield* hold(token, yield* Clock.currentTimeMillis)
    return token
  })

  // Owned by the tenant, so that one caller leaving does not take the token from the others.
  const shared: Effect.Effect<Redacted.Redacted, TinkerError> = Effect.uninterruptibleMask((restore) =>
    Effect.suspend(() => {
      const running = inFlight
      if (running !== undefined) return restore(Fiber.join(running))
      return Effect.interruptible(renew).pipe(
        Effect.ensuring(Effect.sync(() => {
          inFlight = undefined
        })),
        Effect.forkIn(scope),
        Effect.tap((fiber) =>
          Effect.sync(() => {
            inFlight = fiber.unsafePoll() === null ? fiber : undefined
          })
        ),
        Effect.flatMap((fiber) => restore(Fiber.join(fiber)))
      )
    })
  )

  const watch: Effect.Effect<void> = Effect.gen(function*() {
    for (;;) {
      const now = yield* Clock.currentTimeMillis
      const due = held === undefined ? now + afterFailure : held.renew
      yield* Effect.sleep(Math.max(spacing, due - now))
      const exit = yield* Effect.exit(shared)
      if (Exit.isFailure(exit)) {
        yield* Effect.logDebug("token renewal failed", exit.cause)
        yield* Effect.sleep(afterFailure)
      }
    }
  }).pipe(Logs.of("Credentials"))

  const fetch: Effect.Effect<Redacted.Redacted, TinkerError> = Effect.suspend(() => {
    if (watching) return shared
    watching = true
    return Effect.zipLeft(shared, Effect.forkIn(Effect.interruptible(watch), scope)).pipe(
      Effect.onError(() =>
        Effect.sync(() => {
          watching = false
        })
      )
    )
  })

  const usable = (now: number): Redacted.Redacted | undefined => {
    if (held === undefined) return undefined
    // Within its renewal margin a token is still valid while a renewal is in progress or has just failed, unless it failed
    // for good.
    const good = now < dueBefore(held, urgent, 0.25) || (now < held.expires && now - lastTry < spacing && !refused)
    return good ? held.token : undefined
  }

  return {
    held: usable,
    invalidate: (refused) => {
      if (held !== undefined && Redacted.value(held.token) === refused) {
        held = { ...held, expires: Math.min(held.expires, held.received) }
      }
    },
    replace: (refused) =>
      Effect.suspend(() =>
        held !== undefined && Redacted.value(held.token) !== refused ? Effect.succeed(held.token) : fetch
      ),
    token: Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const current = held
      if (current === undefined) return fetch
      const good = usable(now)
      if (good !== undefined) return Effect.succeed(good)
      return Effect.catchAll(fetch, (error) =>
        // A credential that the server refuses cannot be exchanged later either: its owner learns of it now.
        now < current.expires && error._tag !== "Authentication"
          ? Effect.as(
            Effect.logWarning("token renewal failed, the old token is still used", error.message),
            current.token
          )
          : Effect.fail(error))
    })
  }
}

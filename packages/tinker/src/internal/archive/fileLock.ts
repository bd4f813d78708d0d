/**
 * A lock file next to something on disk: one owner at a time. The owner renews the file, so a lock that a killed process
 * left behind is recognised because it is no longer renewed.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"

const renewEvery = Duration.seconds(2)
/** Several renewals: a busy machine must not look like a dead process. */
const staleAfter = Duration.seconds(8)
const lookEvery = Duration.millis(500)

const hasReason = (reason: PlatformError.SystemErrorReason) => (error: PlatformError.PlatformError): boolean =>
  error._tag === "SystemError" && error.reason === reason

/**
 * Takes the lock until the end of the scope; fails with `busy` once another owner has shown that it is alive.
 *
 * @internal
 */
export const acquire = <E>(
  path: string,
  busy: () => E
): Effect.Effect<void, E | PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const owner = (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)
    const stamp = Effect.map(Clock.currentTimeMillis, (now) => `${owner} ${now}`)
    const isOurs = (content: string) => content.startsWith(`${owner} `)
    const read = fs.readFileString(path).pipe(
      Effect.asSome,
      Effect.catchIf(hasReason("NotFound"), () => Effect.succeedNone)
    )
    const create = Effect.flatMap(stamp, (content) => fs.writeFileString(path, content, { flag: "wx" })).pipe(
      Effect.as(true),
      Effect.catchIf(hasReason("AlreadyExists"), () => Effect.succeed(false))
    )

    /** Whether the file stays unchanged for longer than a live owner would leave it. */
    const abandoned = Effect.fnUntraced(function*(seen: string) {
      const stamped = Number(seen.split(" ")[1])
      const now = yield* Clock.currentTimeMillis
      if (now - stamped > Duration.toMillis(staleAfter)) return true
      for (let waited = 0; waited < Duration.toMillis(staleAfter); waited += Duration.toMillis(lookEvery)) {
        yield* Effect.sleep(lookEvery)
        if (!Option.contains(yield* read, seen)) return false
      }
      return true
    })

    /** Moved before it is removed: of several processes that find the same abandoned file, one wins. */
    const clear = Effect.fnUntraced(function*(seen: string) {
      const aside = `${path}.${owner}`
      yield* fs.rename(path, aside)
      if ((yield* fs.readFileString(aside)) === seen) yield* fs.remove(aside)
      else yield* fs.rename(aside, path)
    }, Effect.catchIf(hasReason("NotFound"), () => Effect.void))

    const take: Effect.Effect<void, E | PlatformError.PlatformError> = Effect.suspend(() =>
      Effect.gen(function*() {
        if (yield* create) return
        const seen = yield* read
        if (Option.isSome(seen)) {
          if (yield* abandoned(seen.value)) yield* clear(seen.value)
          else if (Option.isSome(yield* read)) return yield* Effect.fail(busy())
        }
        return yield* take
      })
    )
    const whileOurs = (effect: Effect.Effect<void, PlatformError.PlatformError>) =>
      Effect.ignore(Effect.flatMap(read, (content) => Option.exists(content, isOurs) ? effect : Effect.void))

    yield* Effect.acquireReleaseInterruptible(take, () => whileOurs(fs.remove(path)))
    const renew = Effect.flatMap(stamp, (content) => fs.writeFileString(path, content))
    // Uninterruptible once started: a write that outlives its fiber would bring back a lock that has been removed.
    const renewal = Effect.uninterruptible(whileOurs(renew))
    yield* Effect.forkScoped(Effect.repeat(Effect.delay(renewal, renewEvery), Schedule.forever))
  })

/**
 * Accepted operations and their results, fetched by polling.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { HttpFailure } from "./failure.js"
import { notFound } from "./failure.js"
import { Settings } from "./settings.js"

/** @internal */
export type Outcome =
  | { readonly _tag: "Completed"; readonly json: () => string; readonly proto: (() => Uint8Array) | undefined }
  | { readonly _tag: "Failed"; readonly error: string; readonly category: "user" | "server" }
  /** The result is no longer kept, or will never be computed. */
  | { readonly _tag: "Gone"; readonly why: string }

/** @internal */
export interface QueueReport {
  readonly state: "active" | "paused_capacity" | "paused_rate_limit"
  readonly reason?: string | undefined
}

/** @internal */
export interface Future {
  readonly requestId: string
  readonly owner: string
  readonly sessionId: string | undefined
  /** Identifies the request, so that a repetition can be told from a contradiction. */
  readonly fingerprint: string
  /** What the operation waits for. */
  readonly report: () => QueueReport
  /** Open until there is an outcome. */
  readonly settled: Deferred.Deferred<void>
  /** Replaced when the result is no longer kept. */
  outcome: Outcome | undefined
}

/** @internal */
export const completed = (json: () => unknown, proto?: () => Uint8Array): Outcome => {
  // encoded when first asked for, in the format asked for, and only once
  let text: string | undefined
  let bytes: Uint8Array | undefined
  return {
    _tag: "Completed",
    json: () => text ??= JSON.stringify(json()),
    proto: proto === undefined ? undefined : () => bytes ??= proto()
  }
}

const expired: Outcome = { _tag: "Gone", why: "the result is no longer kept" }

// how many futures are opened between two looks for results to drop
const sweepEvery = 64

/** @internal */
export interface FuturesShape {
  readonly open: (options: {
    readonly requestId: string
    readonly owner: string
    readonly sessionId?: string | undefined
    readonly fingerprint: string
    readonly report?: (() => QueueReport) | undefined
  }) => Effect.Effect<Future>
  readonly find: (requestId: string) => Future | undefined
  /** The future of its owner; 404 for anyone else. */
  readonly require: (requestId: string, owner: string) => Effect.Effect<Future, HttpFailure>
  /** Settles it once; later outcomes are ignored. */
  readonly settle: (future: Future, outcome: Outcome) => Effect.Effect<void>
  /** The outcome, or nothing when it took longer than the hold. */
  readonly wait: (future: Future, hold: Duration.Duration) => Effect.Effect<Option.Option<Outcome>>
  /** Frees what has been fetched. */
  readonly forget: (requestId: string, owner: string) => Effect.Effect<void>
}

/** @internal */
export class Futures extends Context.Tag("@effect-tinker/local/Futures")<Futures, FuturesShape>() {}

/** @internal */
export const make: Effect.Effect<FuturesShape, never, Settings> = Effect.gen(function*() {
  const { retention } = yield* Settings
  const futures = new Map<string, Future>()
  // in the order in which they were settled
  const settledAt = new Map<string, number>()
  let opened = 0

  const drop = (requestId: string) => {
    settledAt.delete(requestId)
    const future = futures.get(requestId)
    if (future !== undefined) future.outcome = expired
  }
  const sweep = (now: number) => {
    for (const [requestId, at] of settledAt) {
      if (at > now - Duration.toMillis(retention)) return
      drop(requestId)
    }
  }

  return Futures.of({
    open: Effect.fnUntraced(function*(options) {
      if (++opened % sweepEvery === 0) sweep(yield* Clock.currentTimeMillis)
      const future: Future = {
        requestId: options.requestId,
        owner: options.owner,
        sessionId: options.sessionId,
        fingerprint: options.fingerprint,
        report: options.report ?? (() => ({ state: "active" })),
        settled: yield* Deferred.make<void>(),
        outcome: undefined
      }
      futures.set(future.requestId, future)
      return future
    }),
    find: (requestId) => futures.get(requestId),
    require: Effect.fnUntraced(function*(requestId, owner) {
      sweep(yield* Clock.currentTimeMillis)
      const future = futures.get(requestId)
      if (future === undefined || future.owner !== owner) return yield* notFound(`Request ${requestId} not found`)
      return future
    }),
    settle: Effect.fnUntraced(function*(future, outcome) {
      if (future.outcome !== undefined) return
      future.outcome = outcome
      settledAt.set(future.requestId, yield* Clock.currentTimeMillis)
      yield* Deferred.succeed(future.settled, undefined)
    }),
    wait: (future, hold) =>
      Effect.map(
        Effect.timeoutOption(Deferred.await(future.settled), hold),
        () => Option.fromNullable(future.outcome)
      ),
    forget: (requestId, owner) =>
      Effect.sync(() => {
        const future = futures.get(requestId)
        if (future?.owner === owner && future.outcome !== undefined) drop(requestId)
      })
  })
})

/** @internal */
export const layer: Layer.Layer<Futures, never, Settings> = Layer.effect(Futures, make)

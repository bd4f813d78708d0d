/**
 * Accepted operations and their results, fetched by polling; and the gate that can hold all of them back.
 */
import { UntypedFuture } from "effect-tinker/wire/Future"
import { ModelId, RequestId, SequenceId } from "effect-tinker/wire/Id"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { EngineError } from "../../EngineError.js"
import type { StorageFailed } from "../../Storage.js"
import type { HttpFailure } from "./message.js"
import { notFound } from "./message.js"
import { Settings } from "./settings.js"

/** @internal */
export type Outcome =
  | {
    readonly _tag: "Completed"
    readonly json: () => string
    readonly proto: (() => Uint8Array) | undefined
    /** About how many bytes keeping it takes. */
    readonly bytes: number
  }
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
  /** Tells a repeated request from another one under the same number. */
  readonly fingerprint: string
  /** Reason for which the operation waits. */
  readonly report: () => QueueReport
  /** Open until there is an outcome. */
  readonly settled: Deferred.Deferred<void>
  /** Replaced when the result is no longer kept. */
  outcome: Outcome | undefined
}

/** @internal */
export const completed = (json: () => unknown, proto?: () => Uint8Array, bytes = 1024): Outcome => {
  // encoded when first asked for, in the format asked for, and only once
  let text: string | undefined
  let protobuf: Uint8Array | undefined
  return {
    _tag: "Completed",
    json: () => text ??= JSON.stringify(json()),
    proto: proto === undefined ? undefined : () => protobuf ??= proto(),
    bytes
  }
}

/** The response to an accepted operation. @internal */
export const accepted = (
  future: Future,
  more?: { readonly modelId?: string | undefined; readonly sequences?: ReadonlyArray<string> | undefined }
): UntypedFuture =>
  new UntypedFuture({
    requestId: RequestId.make(future.requestId),
    ...(more?.modelId === undefined ? {} : { modelId: ModelId.make(more.modelId) }),
    ...(more?.sequences === undefined ? {} : { sampleSequenceIds: more.sequences.map((id) => SequenceId.make(id)) })
  })

/** A result, encoded by its schema when it is first fetched. @internal */
export const result = <A, I>(
  schema: Schema.Schema<A, I>,
  value: A,
  large?: { readonly proto: () => Uint8Array; readonly bytes: number }
): Outcome => {
  const encode = ParseResult.encodeSync(schema)
  return completed(() => encode(value), large?.proto, large?.bytes)
}

/** @internal */
export type OperationError = EngineError | StorageFailed | HttpFailure

const failed = (error: string, category: "user" | "server"): Outcome => ({ _tag: "Failed", error, category })

const outcomeOf = (error: OperationError): Outcome => {
  switch (error._tag) {
    case "StorageFailed":
    case "ThreadLost":
      return failed(error.message, "server")
    case "HttpFailure":
      return failed(error.message, error.status < 500 ? "user" : "server")
    default:
      return failed(error.message, "user")
  }
}

/** Runs an operation to its outcome; only interruption gets through. @internal */
export const toOutcome = (operation: Effect.Effect<Outcome, OperationError>): Effect.Effect<Outcome> =>
  operation.pipe(
    Effect.catchAll((error) => Effect.succeed(outcomeOf(error))),
    Effect.catchAllCause((cause) =>
      Cause.isInterrupted(cause)
        ? Effect.failCause(cause)
        : Effect.as(
          Effect.logError("An operation died", cause),
          failed("Internal error; see the log of the server", "server")
        )
    )
  )

const expired: Outcome = { _tag: "Gone", why: "the result is no longer kept" }

// how many futures are opened between two sweeps for results to drop
const sweepEvery = 64

// Kept results, encoded or not: beyond this the oldest are dropped, those that were fetched first.
const keptBytes = 96 * 1024 * 1024

// A result that was sent may have been lost on the way; the client asks again soon or never.
const afterDelivery = Duration.minutes(2)

/** @internal */
export interface FuturesShape {
  /** Opens a future, or gives the one of a copy of the request that was faster. */
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
  /** The outcome, or nothing when it takes longer than the hold. */
  readonly wait: (future: Future, hold: Duration.Duration) => Effect.Effect<Option.Option<Outcome>>
  /** Notes that the result was sent: it is not kept for much longer. */
  readonly delivered: (future: Future) => Effect.Effect<void>
  /** Frees what has been fetched. */
  readonly forget: (requestId: string, owner: string) => Effect.Effect<void>
}

/** @internal */
export class Futures extends Context.Tag("@effect-tinker/local/Futures")<Futures, FuturesShape>() {}

/** @internal */
export const make: Effect.Effect<FuturesShape, never, Settings> = Effect.gen(function*() {
  const { retention } = yield* Settings
  const futures = new Map<string, Future>()
  // each in the order of their times
  const settledAt = new Map<string, number>()
  const deliveredAt = new Map<string, number>()
  const expiredAt = new Map<string, number>()
  let opened = 0
  let kept = 0

  const sizeOf = (outcome: Outcome | undefined) => outcome?._tag === "Completed" ? outcome.bytes : 0

  const expire = (requestId: string, now: number) => {
    settledAt.delete(requestId)
    deliveredAt.delete(requestId)
    const future = futures.get(requestId)
    if (future === undefined) return
    kept -= sizeOf(future.outcome)
    future.outcome = expired
    expiredAt.set(requestId, now)
  }
  const olderThan = function*(times: Map<string, number>, age: Duration.Duration, now: number) {
    for (const [requestId, at] of times) {
      if (at > now - Duration.toMillis(age)) return
      yield requestId
    }
  }
  const makeRoom = (newest: string, now: number) => {
    for (const requestId of [...deliveredAt.keys(), ...settledAt.keys()]) {
      if (kept <= keptBytes) return
      if (requestId !== newest) expire(requestId, now)
    }
  }
  const sweep = (now: number) => {
    for (const requestId of olderThan(settledAt, retention, now)) expire(requestId, now)
    for (const requestId of olderThan(deliveredAt, Duration.min(afterDelivery, retention), now)) expire(requestId, now)
    // for as long again it is known that there was one
    for (const requestId of olderThan(expiredAt, retention, now)) {
      expiredAt.delete(requestId)
      futures.delete(requestId)
    }
  }

  return Futures.of({
    open: (options) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        if (++opened % sweepEvery === 0) sweep(now)
        const known = futures.get(options.requestId)
        if (known !== undefined) return known
        const future: Future = {
          requestId: options.requestId,
          owner: options.owner,
          sessionId: options.sessionId,
          fingerprint: options.fingerprint,
          report: options.report ?? (() => ({ state: "active" })),
          settled: Deferred.unsafeMake(FiberId.none),
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
      const now = yield* Clock.currentTimeMillis
      future.outcome = outcome
      kept += sizeOf(outcome)
      settledAt.set(future.requestId, now)
      if (kept > keptBytes) makeRoom(future.requestId, now)
      yield* Deferred.succeed(future.settled, undefined)
    }),
    wait: (future, hold) =>
      Effect.map(
        Effect.timeoutOption(Deferred.await(future.settled), hold),
        () => Option.fromNullable(future.outcome)
      ),
    delivered: (future) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        if (settledAt.has(future.requestId) && !deliveredAt.has(future.requestId)) {
          deliveredAt.set(future.requestId, now)
        }
      }),
    forget: (requestId, owner) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const future = futures.get(requestId)
        if (future?.owner === owner && future.outcome !== undefined) expire(requestId, now)
      })
  })
})

/** @internal */
export const layer: Layer.Layer<Futures, never, Settings> = Layer.effect(Futures, make)

/** Holds work back on request, so that clients can be seen waiting. @internal */
export interface GateShape {
  readonly wait: Effect.Effect<void>
  /** Why work is held back, if it is. */
  readonly report: () => QueueReport | undefined
  readonly pause: (report: QueueReport) => Effect.Effect<void>
  readonly resume: Effect.Effect<void>
}

/** @internal */
export class Gate extends Context.Tag("@effect-tinker/local/Gate")<Gate, GateShape>() {}

/** @internal */
export const layerGate: Layer.Layer<Gate> = Layer.effect(
  Gate,
  Effect.map(Effect.makeLatch(true), (latch) => {
    let current: QueueReport | undefined
    return Gate.of({
      wait: latch.await,
      report: () => current,
      pause: (report) => Effect.zipRight(Effect.sync(() => current = report), Effect.asVoid(latch.close)),
      resume: Effect.zipRight(Effect.sync(() => current = undefined), Effect.asVoid(latch.open))
    })
  })
)

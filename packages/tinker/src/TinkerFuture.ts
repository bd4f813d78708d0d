/**
 * An operation the server has accepted: an Effect of its result.
 *
 * - Nothing is polled until someone waits. However many wait, and however often, there is one poll.
 * - An interrupted waiter returns at once; when the last one leaves, the poll's request is aborted. Waiting again
 *   resumes the poll. What the server has accepted keeps running there in any case.
 * - A result, or a final failure, is kept.
 * - A failure nobody observes is not lost: it fails the model's next save, sampler or close. Awaiting a future, or one
 *   derived from it, observes it; {@link ignore} opts out.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { dual } from "effect/Function"
import * as Predicate from "effect/Predicate"
import type * as Stream from "effect/Stream"
import * as Accepted from "./internal/polling/accepted.js"
import type * as QueueState from "./QueueState.js"
import * as TinkerError from "./TinkerError.js"

/**
 * Unique identifier of futures.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: typeof Accepted.TypeId = Accepted.TypeId

/**
 * Unique identifier of futures.
 *
 * @since 0.1.0
 * @category models
 */
export type TypeId = typeof TypeId

/**
 * An accepted operation. `yield*` it to wait for its result.
 *
 * @since 0.1.0
 * @category models
 */
export interface TinkerFuture<out A> extends Effect.Effect<A, TinkerError.TrainingError> {
  readonly [TypeId]: TypeId
  /** The server's ids of the operation: several when a batch was sent in pieces. */
  readonly requestIds: ReadonlyArray<string>
  /**
   * Events of the wait: the latest event, if there is one, then each as it comes, until the operation ends.
   * It reports what the waiters see, and does not wait itself.
   */
  readonly events: Stream.Stream<QueueState.Event>
}

/**
 * Whether something is a {@link TinkerFuture}.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTinkerFuture = (u: unknown): u is TinkerFuture<unknown> => Predicate.hasProperty(u, TypeId)

/**
 * The future of an accepted operation.
 *
 * @internal
 */
export const make = <A>(options: Accepted.Options<A>): TinkerFuture<A> => new Accepted.Accepted(options)

/**
 * A future of any Effect, which runs each time the future is awaited: for a fake `TrainingClient` in a test.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromEffect = <A>(
  effect: Effect.Effect<A, TinkerError.TrainingError>,
  requestIds: ReadonlyArray<string> = []
): TinkerFuture<A> => new Accepted.Derived({ effect, sources: [], requestIds })

/**
 * Waits until an operation is accepted, and then for its result.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { type Datum, TinkerFuture, TrainingClient } from "effect-tinker"
 *
 * const lossOf = (batch: ReadonlyArray<Datum.With<"target_tokens" | "weights">>) =>
 *   Effect.gen(function*() {
 *     const training = yield* TrainingClient.TrainingClient
 *     const { metrics } = yield* training.forward(batch, "cross_entropy").pipe(TinkerFuture.await)
 *     return metrics["loss:sum"]
 *   })
 * ```
 *
 * @since 0.1.0
 * @category combinators
 */
const await_: <A, E, R>(
  operation: Effect.Effect<TinkerFuture<A>, E, R>
) => Effect.Effect<A, E | TinkerError.TrainingError, R> = Effect.flatten

export {
  /**
   * Waits until an operation is accepted, and then for its result: `operation.pipe(TinkerFuture.await)`.
   *
   * @since 0.1.0
   * @category combinators
   */
  await_ as await
}

/**
 * Declares that the outcome will not be observed: a failure is neither logged nor raised by the model's next save,
 * sampler or close.
 *
 * @since 0.1.0
 * @category combinators
 */
export const ignore = (self: TinkerFuture<unknown>): Effect.Effect<void> => Effect.sync(() => Accepted.observe(self))

/**
 * A future of something computed from the result, once however often it is awaited. For what may fail there is
 * {@link mapEither}.
 *
 * @since 0.1.0
 * @category combinators
 */
export const map: {
  <A, B>(f: (value: A) => B): (self: TinkerFuture<A>) => TinkerFuture<B>
  <A, B>(self: TinkerFuture<A>, f: (value: A) => B): TinkerFuture<B>
} = dual(
  2,
  <A, B>(self: TinkerFuture<A>, f: (value: A) => B): TinkerFuture<B> =>
    mapEither(self, (value) => Either.right(f(value)))
)

/**
 * A future of something computed from the result, which may fail.
 *
 * @since 0.1.0
 * @category combinators
 */
export const mapEither: {
  <A, B>(f: (value: A) => Either.Either<B, TinkerError.TrainingError>): (self: TinkerFuture<A>) => TinkerFuture<B>
  <A, B>(self: TinkerFuture<A>, f: (value: A) => Either.Either<B, TinkerError.TrainingError>): TinkerFuture<B>
} = dual(
  2,
  <A, B>(self: TinkerFuture<A>, f: (value: A) => Either.Either<B, TinkerError.TrainingError>): TinkerFuture<B> => {
    let kept: Either.Either<B, TinkerError.TrainingError> | undefined
    return new Accepted.Derived({
      effect: Effect.suspend(() => kept ?? Effect.flatMap(self, (value) => kept ??= f(value))),
      sources: [self]
    })
  }
)

/**
 * One future of several: their results in order. It fails with the first failure; the others are then no longer waited
 * for here, but can still be awaited themselves.
 *
 * @since 0.1.0
 * @category combinators
 */
export const all = <A>(futures: ReadonlyArray<TinkerFuture<A>>): TinkerFuture<ReadonlyArray<A>> =>
  new Accepted.Derived<ReadonlyArray<A>>({
    // most operations are one request: they need no fibers of their own
    effect: Effect.all(futures, { concurrency: futures.length > 1 ? "unbounded" : 1 }),
    sources: futures
  })

/**
 * One future of two, as {@link all}.
 *
 * @since 0.1.0
 * @category combinators
 */
export const zip = <A, B>(self: TinkerFuture<A>, that: TinkerFuture<B>): TinkerFuture<readonly [A, B]> =>
  new Accepted.Derived<readonly [A, B]>({
    effect: Effect.all([self, that], { concurrency: "unbounded" }),
    sources: [self, that]
  })

/**
 * The same future, failing with `TimedOut` whenever a wait takes longer than this. The operation itself runs on, and
 * the original future can still be awaited.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { TinkerFuture } from "effect-tinker"
 *
 * // what takes longer is left to run on, and may be awaited again later
 * const soon = <A>(future: TinkerFuture.TinkerFuture<A>) =>
 *   future.pipe(
 *     TinkerFuture.timeout("10 minutes"),
 *     Effect.asSome,
 *     Effect.catchTag("TimedOut", () => Effect.succeedNone)
 *   )
 * ```
 *
 * @since 0.1.0
 * @category combinators
 */
export const timeout: {
  (duration: Duration.DurationInput): <A>(self: TinkerFuture<A>) => TinkerFuture<A>
  <A>(self: TinkerFuture<A>, duration: Duration.DurationInput): TinkerFuture<A>
} = dual(2, <A>(self: TinkerFuture<A>, duration: Duration.DurationInput): TinkerFuture<A> =>
  new Accepted.Derived<A>({
    effect: Effect.timeoutFail(self, {
      duration,
      onTimeout: () =>
        new TinkerError.TimedOut({
          module: "TinkerFuture",
          method: "timeout",
          requestId: self.requestIds.join(", "),
          description: "the result did not arrive in time; the operation keeps running"
        })
    }),
    sources: [self]
  }))

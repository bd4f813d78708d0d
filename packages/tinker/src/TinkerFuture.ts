/**
 * An operation the server has accepted: an Effect of its result.
 *
 * - Nothing is asked of the server until someone waits. However many wait, and however often, there is one poll.
 * - Whoever stops waiting leaves at once; when the last one leaves, the poll's request is aborted. Waiting again later
 *   takes the poll up again. What the server accepted runs on there in any case.
 * - A result, or a failure that is final, is kept.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { dual } from "effect/Function"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Observer from "./internal/observer.js"
import * as Poll from "./internal/poll.js"
import { forkQuietly } from "./internal/turnstile.js"
import type * as QueueState from "./QueueState.js"
import * as TinkerError from "./TinkerError.js"

/**
 * What marks the values of this module.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: unique symbol = Symbol.for("effect-tinker/TinkerFuture")

/**
 * What marks the values of this module.
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
export interface TinkerFuture<out A> extends Effect.Effect<A, TinkerError.TinkerError> {
  readonly [TypeId]: TypeId
  /** The server's ids of the operation: several when a batch was sent in pieces. */
  readonly requestIds: ReadonlyArray<string>
  /**
   * What is known about the wait: the latest event, if there is one, then each as it comes, until the operation ends.
   * It shows what those who wait see; it does not itself wait.
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

type Result<A> = Exit.Exit<A, TinkerError.TinkerError>

interface Waiting<A> {
  readonly fiber: Fiber.RuntimeFiber<A, TinkerError.TinkerError>
  waiters: number
}

class Future<A> extends Effectable.Class<A, TinkerError.TinkerError> implements TinkerFuture<A> {
  readonly [TypeId]: TypeId = TypeId
  constructor(
    private readonly effect: Effect.Effect<A, TinkerError.TinkerError>,
    readonly requestIds: ReadonlyArray<string>,
    private readonly stream: () => Stream.Stream<QueueState.Event>
  ) {
    super()
  }
  get events(): Stream.Stream<QueueState.Event> {
    return this.stream()
  }
  commit(): Effect.Effect<A, TinkerError.TinkerError> {
    return this.effect
  }
}

/** What may be otherwise when asked again is not kept. */
const isFinal = <A>(exit: Result<A>): boolean =>
  Exit.match(exit, {
    onSuccess: () => true,
    onFailure: (cause) =>
      Option.match(Cause.failureOption(cause), {
        onNone: () => false,
        onSome: (error) => error._tag === "FutureExpired" || !TinkerError.isRetryable(error)
      })
  })

interface Listener {
  readonly push: (event: QueueState.Event) => void
  readonly end: () => void
}

/** What an accepted operation is waited for with. */
interface Options<A> extends Omit<Poll.Options<A>, "iteration" | "onIteration" | "ready"> {
  /** Polls end with it. */
  readonly scope: Scope.Scope
  /** Told when the result has come. */
  readonly onResult?: ((now: number) => void) | undefined
}

/**
 * One poll for all who wait at the same time, in the scope of its client; its final result for all who come later.
 *
 * Thousands of these may be in flight: methods instead of closures, and nothing is built before it is needed.
 */
class Accepted<A> extends Effectable.Class<A, TinkerError.TinkerError> implements TinkerFuture<A> {
  readonly [TypeId]: TypeId = TypeId
  private kept: Result<A> | undefined
  private waiting: Waiting<A> | undefined
  private iteration = 0
  /** For those who come late. */
  private latest: QueueState.Event | undefined
  private listeners: Set<Listener> | undefined

  constructor(private readonly options: Options<A>) {
    super()
  }

  get requestIds(): ReadonlyArray<string> {
    return [this.options.requestId]
  }

  get events(): Stream.Stream<QueueState.Event> {
    return Stream.asyncPush<QueueState.Event>((emit) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          if (this.latest !== undefined) emit.single(this.latest)
          if (this.kept !== undefined) emit.end()
          const listener: Listener = { push: emit.single, end: emit.end }
          this.listeners ??= new Set()
          this.listeners.add(listener)
          return listener
        }),
        (listener) => Effect.sync(() => this.listeners?.delete(listener))
      ), { bufferSize: 64, strategy: "sliding" })
  }

  commit(): Effect.Effect<A, TinkerError.TinkerError> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.suspend(() => this.kept ?? Effect.flatMap(this.join(), (joined) => this.wait(joined, restore)))
    )
  }

  private wait(
    joined: Waiting<A>,
    restore: <B, E>(effect: Effect.Effect<B, E>) => Effect.Effect<B, E>
  ): Effect.Effect<A, TinkerError.TinkerError> {
    joined.waiters++
    return Effect.flatMap(
      Effect.onInterrupt(restore(Fiber.await(joined.fiber)), () => this.leave(joined)),
      (exit) =>
        Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause)
          // Nobody but the scope interrupts a poll that someone waits for.
          ? closedError(this.options.from, this.options.requestId)
          : exit
    )
  }

  private join(): Effect.Effect<Waiting<A>> {
    if (this.waiting !== undefined) return Effect.succeed(this.waiting)
    return Effect.map(forkQuietly(Effect.interruptible(this.work()), this.options.scope), (fiber) => {
      const started: Waiting<A> = { fiber, waiters: 0 }
      this.waiting = started
      fiber.addObserver((exit) => {
        if (this.waiting === started) this.settle(exit)
      })
      return started
    })
  }

  private leave(left: Waiting<A>): Effect.Effect<void> {
    if (--left.waiters > 0 || this.waiting !== left) return Effect.void
    this.waiting = undefined
    return Effect.asVoid(Fiber.interrupt(left.fiber))
  }

  private settle(exit: Result<A>): void {
    this.waiting = undefined
    if (this.kept !== undefined || !isFinal(exit)) return
    this.kept = exit
    for (const listener of this.listeners ?? []) listener.end()
    this.listeners = undefined
  }

  private work(): Effect.Effect<A, TinkerError.TinkerError> {
    const { onResult, transport } = this.options
    const result = Effect.suspend(() =>
      Poll.poll({
        ...this.options,
        iteration: this.iteration,
        onIteration: (next) => {
          this.iteration = next
        },
        onEvent: (event) => {
          this.latest = event
          for (const listener of this.listeners ?? []) listener.push(event)
          return this.options.onEvent(event)
        }
      })
    )
    return Observer.reported(
      transport.emit,
      onResult === undefined
        ? result
        : Effect.tap(
          result,
          () => Effect.clockWith((clock) => Effect.sync(() => onResult(clock.unsafeCurrentTimeMillis())))
        )
    )
  }
}

const closedError = (from: { readonly module: string; readonly method: string }, requestId: string | undefined) =>
  new TinkerError.Closed({ ...from, requestId, description: "its scope closed while the result was awaited" })

/**
 * The future of an accepted operation.
 *
 * @internal
 */
export const make = <A>(options: Options<A>): TinkerFuture<A> => new Accepted(options)

/**
 * A future of something computed from the result; failures of the computation fail the future.
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
  <A, B>(f: (value: A) => Either.Either<B, TinkerError.TinkerError>): (self: TinkerFuture<A>) => TinkerFuture<B>
  <A, B>(self: TinkerFuture<A>, f: (value: A) => Either.Either<B, TinkerError.TinkerError>): TinkerFuture<B>
} = dual(
  2,
  <A, B>(self: TinkerFuture<A>, f: (value: A) => Either.Either<B, TinkerError.TinkerError>): TinkerFuture<B> => {
    let kept: Either.Either<B, TinkerError.TinkerError> | undefined
    return new Future(
      Effect.suspend(() => kept ?? Effect.flatMap(self, (value) => kept ??= f(value))),
      self.requestIds,
      () => self.events
    )
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
  new Future<ReadonlyArray<A>>(
    Effect.all(futures, { concurrency: "unbounded" }),
    futures.flatMap((future) => future.requestIds),
    () => Stream.mergeAll(futures.map((future) => future.events), { concurrency: "unbounded" })
  )

/**
 * One future of two, as {@link all}.
 *
 * @since 0.1.0
 * @category combinators
 */
export const zip = <A, B>(self: TinkerFuture<A>, that: TinkerFuture<B>): TinkerFuture<readonly [A, B]> =>
  new Future<readonly [A, B]>(
    Effect.all([self, that], { concurrency: "unbounded" }),
    [...self.requestIds, ...that.requestIds],
    () => Stream.merge(self.events, that.events)
  )

/**
 * The same future, failing with `TimedOut` whenever a wait takes longer than this. The operation itself runs on, and
 * the original future can still be awaited.
 *
 * @since 0.1.0
 * @category combinators
 */
export const timeout: {
  (duration: Duration.DurationInput): <A>(self: TinkerFuture<A>) => TinkerFuture<A>
  <A>(self: TinkerFuture<A>, duration: Duration.DurationInput): TinkerFuture<A>
} = dual(2, <A>(self: TinkerFuture<A>, duration: Duration.DurationInput): TinkerFuture<A> =>
  new Future<A>(
    Effect.timeoutFail(self, {
      duration,
      onTimeout: () =>
        new TinkerError.TimedOut({
          module: "TinkerFuture",
          method: "timeout",
          requestId: self.requestIds.join(", "),
          description: "the result did not come in time; the operation runs on"
        })
    }),
    self.requestIds,
    () => self.events
  ))

/**
 * An operation the server has accepted, waited for by anyone, any number of times.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as QueueState from "../../QueueState.js"
import * as TinkerError from "../../TinkerError.js"
import type { TinkerFuture } from "../../TinkerFuture.js"
import * as Observer from "../observability/observer.js"
import { forkQuietly } from "../transport/admission.js"
import * as Poll from "./poll.js"

/** @internal */
export const TypeId: unique symbol = Symbol.for("effect-tinker/TinkerFuture")

/** @internal */
export type TypeId = typeof TypeId

type Result<A> = Exit.Exit<A, TinkerError.TinkerError>

/** Whether awaiting a future counts as observing its outcome. */
const observing: FiberRef.FiberRef<boolean> = globalValue(
  Symbol.for("effect-tinker/TinkerFuture/observing"),
  () => FiberRef.unsafeMake(true)
)

/**
 * Waits for a future without observing it: a failure still counts as lost unless someone else awaits it.
 *
 * @internal
 */
export const peek = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.locally(self, observing, false)

/**
 * Marks the outcome of a future as observed, as awaiting it does.
 *
 * @internal
 */
export const observe = (future: TinkerFuture<unknown>): void => {
  if (future instanceof Accepted || future instanceof Derived) future.observe()
}

interface Waiting<A> {
  readonly fiber: Fiber.RuntimeFiber<A, TinkerError.TinkerError>
  waiters: number
}

/** Only an outcome that asking again cannot change is kept. */
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

/**
 * How to wait for an accepted operation.
 *
 * @internal
 */
export interface Options<A> extends Omit<Poll.Options<A>, "polls" | "ready"> {
  /** Polls end with it. */
  readonly scope: Scope.Scope
  /** When the operation was started. */
  readonly started: number
  /** Called when the result has arrived. */
  readonly onResult?: ((now: number) => void) | undefined
  /** Its sequence number. */
  readonly seqId: number
  /** Called when the outcome has reached someone who awaited it, or is ignored on purpose. */
  readonly onObserved?: ((seqId: number) => void) | undefined
}

/**
 * One poll for everyone who waits at the same time, in the scope of the client; the final result is kept for later waiters.
 *
 * Thousands of these may be in flight: methods instead of closures, and nothing is built before it is needed.
 *
 * @internal
 */
export class Accepted<A> extends Effectable.Class<A, TinkerError.TinkerError> implements TinkerFuture<A> {
  readonly [TypeId]: TypeId = TypeId
  private kept: Result<A> | undefined
  private observed = false
  /** Current waiters that will observe the outcome. */
  private observers = 0
  private waiting: Waiting<A> | undefined
  /** Polls so far. */
  iteration = 0
  /** For late subscribers. */
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

  /** Whether the outcome has been observed, or is about to be. */
  get isObserved(): boolean {
    return this.observed || this.observers > 0
  }

  observe(): void {
    if (this.observed) return
    this.observed = true
    this.options.onObserved?.(this.options.seqId)
  }

  commit(): Effect.Effect<A, TinkerError.TinkerError> {
    return FiberRef.getWith(observing, (observes) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          if (this.kept === undefined) {
            return Effect.flatMap(this.join(), (joined) => this.wait(joined, observes, restore))
          }
          if (observes) this.observe()
          return this.kept
        })
      ))
  }

  /** The outcome through a separate poll, for when the client's scope is closing. It does not count as observed. */
  settleDetached(): Effect.Effect<A, TinkerError.TinkerError> {
    return Effect.suspend(() => this.kept ?? Effect.onExit(this.work(), (exit) => Effect.sync(() => this.settle(exit))))
  }

  private wait(
    joined: Waiting<A>,
    observes: boolean,
    restore: <B, E>(effect: Effect.Effect<B, E>) => Effect.Effect<B, E>
  ): Effect.Effect<A, TinkerError.TinkerError> {
    joined.waiters++
    if (observes) this.observers++
    return Effect.flatMap(
      Effect.onInterrupt(restore(Fiber.await(joined.fiber)), () => {
        if (observes) this.observers--
        return this.leave(joined)
      }),
      (exit) => {
        if (observes) {
          this.observers--
          this.observe()
        }
        return Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause)
          // Only the scope interrupts a poll that someone waits for.
          ? closedError(this.options.from, this.options.requestId)
          : exit
      }
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
    const { api } = this.options
    const result = Effect.suspend(() =>
      Poll.poll({
        ...this.options,
        polls: this,
        onEvent: (event) => {
          this.latest = event
          for (const listener of this.listeners ?? []) listener.push(event)
          return this.options.onEvent(event)
        }
      })
    )
    return Observer.reported(
      api.emit,
      Effect.tap(result, () => Effect.map(Clock.currentTimeMillis, (now) => this.arrived(now)))
    )
  }

  private arrived(now: number): void {
    const { onResult, requestType, started } = this.options
    Observer.finished(requestType, now - started)
    onResult?.(now)
  }
}

/**
 * A future computed from others.
 *
 * @internal
 */
export class Derived<A> extends Effectable.Class<A, TinkerError.TinkerError> implements TinkerFuture<A> {
  readonly [TypeId]: TypeId = TypeId
  readonly requestIds: ReadonlyArray<string>

  constructor(
    private readonly options: {
      readonly effect: Effect.Effect<A, TinkerError.TinkerError>
      readonly sources: ReadonlyArray<TinkerFuture<unknown>>
      readonly requestIds?: ReadonlyArray<string> | undefined
      /** Called when its outcome, rather than that of a source, has been observed. */
      readonly onObserved?: (() => void) | undefined
    }
  ) {
    super()
    this.requestIds = options.requestIds ?? options.sources.flatMap((source) => source.requestIds)
  }

  get events(): Stream.Stream<QueueState.Event> {
    const { sources } = this.options
    const [only] = sources
    return only !== undefined && sources.length === 1
      ? only.events
      : Stream.mergeAll(sources.map((source) => source.events), { concurrency: "unbounded" })
  }

  observe(): void {
    this.options.sources.forEach(observe)
    this.options.onObserved?.()
  }

  commit(): Effect.Effect<A, TinkerError.TinkerError> {
    const { effect, onObserved, sources } = this.options
    // A single source observes itself. Of several, the first failure speaks for all of them.
    if (sources.length === 1 && onObserved === undefined) return effect
    return FiberRef.getWith(observing, (observes) =>
      observes
        ? Effect.onExit(effect, (exit) => Exit.isInterrupted(exit) ? Effect.void : Effect.sync(() => this.observe()))
        : effect)
  }
}

const closedError = (from: { readonly module: string; readonly method: string }, requestId: string | undefined) =>
  new TinkerError.Closed({ ...from, requestId, description: "the scope closed while the result was awaited" })

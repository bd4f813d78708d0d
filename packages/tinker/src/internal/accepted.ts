/**
 * An operation the server has accepted, waited for by anyone, any number of times.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as QueueState from "../QueueState.js"
import * as TinkerError from "../TinkerError.js"
import type { TinkerFuture } from "../TinkerFuture.js"
import * as Observer from "./observer.js"
import * as Poll from "./poll.js"
import { forkQuietly } from "./turnstile.js"

/** @internal */
export const TypeId: unique symbol = Symbol.for("effect-tinker/TinkerFuture")

/** @internal */
export type TypeId = typeof TypeId

type Result<A> = Exit.Exit<A, TinkerError.TinkerError>

interface Waiting<A> {
  readonly fiber: Fiber.RuntimeFiber<A, TinkerError.TinkerError>
  waiters: number
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

/**
 * What an accepted operation is waited for with.
 *
 * @internal
 */
export interface Options<A> extends Omit<Poll.Options<A>, "iteration" | "onIteration" | "ready"> {
  /** Polls end with it. */
  readonly scope: Scope.Scope
  /** Told when the result has come. */
  readonly onResult?: ((now: number) => void) | undefined
}

/**
 * One poll for all who wait at the same time, in the scope of its client; its final result for all who come later.
 *
 * Thousands of these may be in flight: methods instead of closures, and nothing is built before it is needed.
 *
 * @internal
 */
export class Accepted<A> extends Effectable.Class<A, TinkerError.TinkerError> implements TinkerFuture<A> {
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
    const { onResult, api } = this.options
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
      api.emit,
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

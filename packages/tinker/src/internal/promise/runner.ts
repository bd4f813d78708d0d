/**
 * From Effects to Promises and async iterators: started at once, abortable, and rejected with the error itself.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import type * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as QueueState from "../../QueueState.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerFuture from "../../TinkerFuture.js"
import * as Accepted from "../polling/accepted.js"

/** @internal */
export interface CallOptions {
  /** Stops waiting when it is aborted: the call rejects with the signal's reason, and what was not sent never is. */
  readonly signal?: AbortSignal | undefined
}

/** @internal */
export interface OperationOptions extends CallOptions {
  /** Told what the operation waits for. */
  readonly onEvent?: ((event: QueueState.Event) => void) | undefined
}

/** @internal */
export interface Runner {
  /** Starts at once, so calls made one after the other start in that order. */
  readonly run: <A, E>(effect: Effect.Effect<A, E>, options?: CallOptions) => Promise<A>
  /** From submission to result. */
  readonly operation: <A, E>(
    operation: Effect.Effect<TinkerFuture.TinkerFuture<A>, E>,
    options?: OperationOptions
  ) => Promise<A>
  readonly iterate: <A, E>(stream: Stream.Stream<A, E>, options?: CallOptions) => AsyncIterable<A>
  /** Runs to its end, whatever is aborted or stopped. */
  readonly release: (effect: Effect.Effect<void>) => Promise<void>
  /** Rejects what is under way as `Closed`, and everything from now on. */
  readonly stop: () => void
}

const ignore = () => {}

/** A rejection is the caller's to look at; one that nobody awaits must not end the process. */
const quiet = <A>(promise: Promise<A>): Promise<A> => {
  promise.catch(ignore)
  return promise
}

const closed = () => new TinkerError.Closed({ module: "Tinker", method: "close" })

/** @internal */
export const errorOf = (cause: Cause.Cause<unknown>): unknown =>
  Cause.isInterruptedOnly(cause)
    ? closed()
    : Either.match(Cause.failureOrCause(cause), { onLeft: (error) => error, onRight: Cause.squash })

/** @internal */
export const make = (runtime: Runtime.Runtime<never>, parent: Scope.Scope): Runner => {
  const fork = Runtime.runFork(runtime)
  /** Calls in flight, by what ends them when the connection closes. */
  const inFlight = new Set<() => void>()
  let stopped = false

  const start = <A, E>(effect: Effect.Effect<A, E>, options: CallOptions | undefined, onLeft?: () => void) => {
    const signal = options?.signal
    if (stopped) return quiet(Promise.reject<A>(closed()))
    if (signal?.aborted === true) return quiet(Promise.reject<A>(signal.reason))
    const fiber = fork(effect)
    return quiet(
      new Promise<A>((resolve, reject) => {
        const leave = (reason: unknown) => {
          onLeft?.()
          reject(reason)
          fork(Fiber.interrupt(fiber))
        }
        const onAbort = () => leave(signal?.reason)
        signal?.addEventListener("abort", onAbort, { once: true })
        const end = () => leave(closed())
        inFlight.add(end)
        fiber.addObserver((exit) => {
          inFlight.delete(end)
          signal?.removeEventListener("abort", onAbort)
          if (Exit.isSuccess(exit)) resolve(exit.value)
          else reject(errorOf(exit.cause))
        })
      })
    )
  }

  const run: Runner["run"] = (effect, options) => start(effect, options)

  const operation: Runner["operation"] = (submission, options) => {
    const onEvent = options?.onEvent
    let accepted: TinkerFuture.TinkerFuture<unknown> | undefined
    const result = Effect.flatMap(submission, (future) => {
      accepted = future
      if (onEvent === undefined) return future
      return Effect.scopedWith((scope) => {
        const listen = Stream.runForEach(future.events, (event) => Effect.sync(() => onEvent(event)))
        return Effect.zipRight(Effect.forkIn(listen, scope), future)
      })
    })
    // Aborted, or ended by closing the connection: nobody will look at the outcome, and closing must not wait for it.
    return start(result, options, () => accepted === undefined ? undefined : Accepted.observe(accepted))
  }

  const release: Runner["release"] = async (effect) => {
    const exit = await Runtime.runPromiseExit(runtime)(effect)
    if (Exit.isFailure(exit)) throw errorOf(exit.cause)
  }

  const iterate: Runner["iterate"] = <A, E>(stream: Stream.Stream<A, E>, options: CallOptions | undefined) => ({
    [Symbol.asyncIterator]: () => {
      const end: IteratorResult<A> = { done: true, value: undefined }
      let scope: Scope.CloseableScope | undefined
      let pull: Effect.Effect<Chunk.Chunk<A>, Option.Option<E>> | undefined
      let ready: Iterator<A> = [][Symbol.iterator]()
      let over = false
      let turn: Promise<unknown> = Promise.resolve()

      const close = Effect.suspend(() => {
        over = true
        return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
      })
      const open = Effect.gen(function*() {
        if (pull !== undefined) return pull
        scope = yield* Scope.fork(parent, ExecutionStrategy.sequential)
        return pull = yield* Scope.extend(Stream.toPull(stream), scope)
      })
      const more: Effect.Effect<IteratorResult<A>, E> = Effect.suspend(() => {
        const next = ready.next()
        if (next.done !== true) return Effect.succeed(next)
        if (over) return Effect.succeed(end)
        return Effect.matchEffect(Effect.flatten(open), {
          onFailure: (failure) =>
            Effect.zipRight(close, Option.isNone(failure) ? Effect.succeed(end) : Effect.fail(failure.value)),
          onSuccess: (chunk) => {
            ready = chunk[Symbol.iterator]()
            return more
          }
        })
      })
      // Calls of an iterator are answered one after the other, however early they come.
      const inTurn = <B>(next: () => Promise<B>): Promise<B> => {
        const answer = turn.then(next, next)
        turn = answer
        return quiet(answer)
      }
      const next = async (): Promise<IteratorResult<A>> => {
        // A loop whose `next` rejects does not call `return`: what runs ahead of it would run on.
        if (options?.signal?.aborted === true) await release(close)
        return run(Effect.onExit(more, (exit) => Exit.isSuccess(exit) ? Effect.void : close), options)
      }
      return {
        next: () => inTurn(next),
        return: () => inTurn(() => release(close).then(() => end))
      }
    }
  })

  return {
    run,
    operation,
    iterate,
    release,
    stop: () => {
      stopped = true
      for (const end of inFlight) end()
    }
  }
}

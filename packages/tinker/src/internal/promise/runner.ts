/**
 * From Effects to Promises and async iterators: started at once, abortable, and rejected with the error itself.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import type * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
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
import * as Logs from "../observability/logs.js"
import * as Accepted from "../polling/accepted.js"

// -----------------------------------------------------------------------------
// Rejections of a model's operations that nobody looks at, as `internal/training/unobserved` is for futures: the promise
// of an operation counts as observed once something is attached to it (`await`, `then`, `catch`, `Promise.all`).
//
// Such a rejection does not end the process, because a pipelined loop often awaits its promises late. It is logged,
// and the model's next save, sampler or close rejects with it.
// -----------------------------------------------------------------------------

/** Before a rejection nobody has looked at yet is logged. */
const grace = Duration.seconds(1)

/** How long closing waits for operations whose promise nobody looks at. */
const closeWithin = Duration.seconds(10)

/**
 * A promise that notices when it is observed. A subclass, because `await` does not call an overridden `then` of a plain
 * promise.
 */
class Watched<A> extends Promise<A> {
  onObserved: (() => void) | undefined

  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  override then<B = A, C = never>(
    onFulfilled?: ((value: A) => B | PromiseLike<B>) | null,
    onRejected?: ((reason: unknown) => C | PromiseLike<C>) | null
  ): Promise<B | C> {
    this.onObserved?.()
    return super.then(onFulfilled, onRejected)
  }
}

interface Outstanding {
  readonly method: string
  /** Resolves when the operation has ended, however it did. */
  settled: Promise<void>
  failure: { readonly error: unknown } | undefined
  isLogged: boolean
}

/** @internal */
export interface Unobserved {
  /** An operation whose rejection must not be lost. */
  readonly watch: <A>(method: string, run: () => Promise<A>, options?: CallOptions) => Promise<A>
  /** An operation that rejects if one before it was rejected unobserved. */
  readonly barrier: <A>(
    method: string,
    run: () => Promise<A>,
    options?: CallOptions & { readonly discard?: ((value: A) => Promise<void>) | undefined }
  ) => Promise<A>
  /** Waits, within a bound, for operations nobody looks at; `undefined` if there are none. */
  readonly settle: () => Promise<void> | undefined
  /** Throws if an operation was rejected unobserved. */
  readonly raise: (method: string) => void
}

const message = ({ error }: NonNullable<Outstanding["failure"]>): string =>
  error instanceof Error ? error.message : String(error)

/** @internal */
export const makeUnobserved = (runner: Runner, modelId: string): Unobserved => {
  const outstanding = new Set<Outstanding>()

  const log = (one: Outstanding): void => {
    if (one.isLogged || one.failure === undefined || !outstanding.has(one)) return
    one.isLogged = true
    void runner.release(
      Effect.logWarning(
        `${one.method} of model ${modelId} failed and its promise was not awaited: ${message(one.failure)}\n  ` +
          "The model's next save, sampler or close will reject with this."
      ).pipe(Logs.of("TrainingClient", { modelId, operation: one.method }))
    )
  }

  const raiseAmong = (method: string, among: Iterable<Outstanding>): void => {
    const failed = Array.from(among).filter((one) => one.failure !== undefined && outstanding.has(one))
    const [first] = failed
    if (first === undefined) return
    for (const one of failed) {
      log(one)
      outstanding.delete(one)
    }
    throw new TinkerError.UnobservedFailure({
      module: "TrainingClient",
      method,
      modelId,
      operation: first.method,
      others: failed.length - 1,
      description: first.failure === undefined ? undefined : message(first.failure),
      cause: first.failure?.error
    })
  }

  const watch = <A>(method: string, run: () => Promise<A>, options?: CallOptions): Promise<A> => {
    const operation = run()
    const promise = new Watched<A>((resolve, reject) => {
      operation.then(resolve, reject)
    })
    const one: Outstanding = { method, settled: Promise.resolve(), failure: undefined, isLogged: false }
    one.settled = operation.then(
      () => void outstanding.delete(one),
      (error: unknown) => {
        // An abort, or closing the client, is the caller's own doing.
        if (options?.signal?.aborted === true || error instanceof TinkerError.Closed) outstanding.delete(one)
        else if (outstanding.has(one)) {
          one.failure = { error }
          void runner.release(Effect.delay(Effect.sync(() => log(one)), grace))
        }
      }
    )
    outstanding.add(one)
    // Not yet watched: this handler only keeps the process alive.
    promise.catch(() => {})
    promise.onObserved = () => void outstanding.delete(one)
    return promise
  }

  const barrier: Unobserved["barrier"] = (method, run, options) => {
    const guarded = async () => {
      const before = Array.from(outstanding)
      if (options?.signal?.aborted !== true) raiseAmong(method, before)
      const value = await run()
      try {
        await Promise.all(before.map((one) => one.settled))
        raiseAmong(method, before)
      } catch (error) {
        await options?.discard?.(value)
        throw error
      }
      return value
    }
    return watch(method, guarded, options)
  }

  return {
    watch,
    barrier,
    settle: () => {
      const pending = Array.from(outstanding, (one) => one.settled)
      if (pending.length === 0) return undefined
      return runner.release(
        Effect.asVoid(Effect.timeoutOption(Effect.promise(() => Promise.all(pending)), closeWithin))
      )
    },
    raise: (method) => raiseAmong(method, outstanding)
  }
}

// -----------------------------------------------------------------------------
// Running Effects as Promises.
// -----------------------------------------------------------------------------

/** @internal */
export interface CallOptions {
  /** Stops waiting when it is aborted: the call rejects with the signal's reason, and what was not sent never is. */
  readonly signal?: AbortSignal | undefined
}

/** @internal */
export interface OperationOptions extends CallOptions {
  /** Called when what the operation waits for changes. */
  readonly onEvent?: ((event: QueueState.Event) => void) | undefined
}

/** @internal */
export interface Runner<in R = never> {
  /** Starts at once, so calls made one after the other start in that order. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, R>, options?: CallOptions) => Promise<A>
  /** From submission to result. */
  readonly operation: <A, E>(
    operation: Effect.Effect<TinkerFuture.TinkerFuture<A>, E>,
    options?: OperationOptions
  ) => Promise<A>
  readonly iterate: <A, E>(stream: Stream.Stream<A, E, R>, options?: CallOptions) => AsyncIterable<A>
  /** Runs to its end, whatever is aborted or stopped. */
  readonly release: (effect: Effect.Effect<void>) => Promise<void>
  /** Ends when every iterator that was left has released what it had, such as a trainer that saves. */
  readonly settled: () => Promise<void>
  /** Rejects what is in flight as `Closed`, and everything from now on. */
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
export const make = <R>(runtime: Runtime.Runtime<R>, parent: Scope.Scope): Runner<R> => {
  const fork = Runtime.runFork(runtime)
  /** Calls in flight, each with the function that ends it when the connection closes. */
  const inFlight = new Set<() => void>()
  let stopped = false

  const start = <A, E>(effect: Effect.Effect<A, E, R>, options: CallOptions | undefined, onLeft?: () => void) => {
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

  const run: Runner<R>["run"] = (effect, options) => start(effect, options)

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

  /** Iterators that are being left. */
  const left = new Set<Promise<void>>()
  const leaving = (closing: Promise<void>): Promise<void> => {
    left.add(closing)
    const forget = () => left.delete(closing)
    closing.then(forget, forget)
    return closing
  }

  const iterate = <A, E>(stream: Stream.Stream<A, E, R>, options?: CallOptions): AsyncIterable<A> => ({
    [Symbol.asyncIterator]: () => {
      const end: IteratorResult<A> = { done: true, value: undefined }
      let scope: Scope.CloseableScope | undefined
      let pull: Effect.Effect<Chunk.Chunk<A>, Option.Option<E>, R> | undefined
      let ready: Iterator<A> = [][Symbol.iterator]()
      let over = false
      let turn: Promise<unknown> = Promise.resolve()
      let pulled: Promise<void> = Promise.resolve()
      let closing: Promise<void> | undefined

      const closeScope = Effect.suspend(() => {
        over = true
        return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
      })
      /** Ends when all has been released: a pull that was aborted ends the stream by itself, after it was answered. */
      const close = () => closing ??= leaving(pulled.then(() => release(closeScope)))
      const open = Effect.gen(function*() {
        if (pull !== undefined) return pull
        scope = yield* Scope.fork(parent, ExecutionStrategy.sequential)
        return pull = yield* Scope.extend(Stream.toPull(stream), scope)
      })
      const more: Effect.Effect<IteratorResult<A>, E, R> = Effect.suspend(() => {
        const next = ready.next()
        if (next.done !== true) return Effect.succeed(next)
        if (over) return Effect.succeed(end)
        return Effect.matchEffect(Effect.flatten(open), {
          onFailure: (failure) =>
            Effect.zipRight(closeScope, Option.isNone(failure) ? Effect.succeed(end) : Effect.fail(failure.value)),
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
        if (options?.signal?.aborted === true) await close()
        let ended = ignore
        const pulling = Effect.suspend(() => {
          pulled = new Promise((resolve) => {
            ended = resolve
          })
          return Effect.onExit(more, (exit) => Exit.isSuccess(exit) ? Effect.void : closeScope)
        })
        try {
          return await run(Effect.ensuring(pulling, Effect.sync(() => ended())), options)
        } catch (error) {
          quiet(close())
          throw error
        }
      }
      return {
        next: () => inTurn(next),
        return: () => inTurn(() => close().then(() => end))
      }
    }
  })

  return {
    run,
    operation,
    iterate,
    release,
    settled: async () => {
      await Promise.allSettled(left)
    },
    stop: () => {
      stopped = true
      for (const end of inFlight) end()
    }
  }
}

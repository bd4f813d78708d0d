/**
 * Rejections of a model's operations that nobody looks at, as `internal/training/unobserved` is for futures: the promise
 * of an operation counts as observed once something is attached to it (`await`, `then`, `catch`, `Promise.all`).
 *
 * Such a rejection does not end the process, for the promises of a pipelined loop are often awaited late. It is logged,
 * and the model's next save, sampler or close rejects with it.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as TinkerError from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"
import type { CallOptions, Runner } from "./runner.js"

/** Before a rejection nobody has looked at yet is logged. */
const grace = Duration.seconds(1)

/** How long closing waits for operations whose promise nobody looks at. */
const closeWithin = Duration.seconds(10)

/** A promise that says when someone looks at it. A subclass, for `await` does not call the `then` of a plain one. */
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
export const make = (runner: Runner, modelId: string): Unobserved => {
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

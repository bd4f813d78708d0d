/**
 * Promises as Effects, and async iterators as Streams: interruption aborts, and waits for what has to be finished.
 */
import { isTinkerError } from "@effect-tinker/promise"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type TinkerError, TrainingFailed } from "../TinkerError.js"

interface Options {
  readonly signal: AbortSignal
}

/** @internal */
export const call = <A>(make: (options: Options) => Promise<A>): Effect.Effect<A, TinkerError> =>
  Effect.catch(
    Effect.tryPromise({ try: (signal) => make({ signal }), catch: (error) => error }),
    (error) => isTinkerError(error) ? Effect.fail(error) : Effect.die(error)
  )

/** The iterator of a stream that is being pulled. */
const open = <A>(make: (options: Options) => AsyncIterable<A>) => {
  const controller = new AbortController()
  const iterator = make({ signal: controller.signal })[Symbol.asyncIterator]()
  let pending: Promise<IteratorResult<A>> | undefined
  return {
    iterable: { [Symbol.asyncIterator]: () => ({ next: () => pending = iterator.next() }) },
    close: async () => {
      controller.abort()
      await pending?.catch(() => undefined)
      await iterator.return?.()
    }
  }
}

/** Leaving the stream, by interruption too, waits for the end of what it ran: a trainer saves a checkpoint. */
const streamOf = <A>(make: (options: Options) => AsyncIterable<A>): Stream.Stream<A, unknown> =>
  Stream.unwrap(
    Effect.map(
      Effect.acquireRelease(Effect.sync(() => open(make)), ({ close }) => Effect.promise(() => close())),
      ({ iterable }) => Stream.fromAsyncIterable(iterable, (error) => error)
    )
  )

/** @internal */
export const stream = <A>(make: (options: Options) => AsyncIterable<A>): Stream.Stream<A, TinkerError> =>
  Stream.catch(streamOf(make), (error) => isTinkerError(error) ? Stream.fail(error) : Stream.die(error))

const reasonOf = (error: unknown) => {
  if (!(error instanceof Error)) return { reason: "Unknown", message: String(error) }
  return { reason: "_tag" in error && typeof error._tag === "string" ? error._tag : error.name, message: error.message }
}

/** @internal */
export const run = <A>(make: (options: Options) => AsyncIterable<A>): Stream.Stream<A, TinkerError | TrainingFailed> =>
  Stream.mapError(
    streamOf(make),
    (error) => isTinkerError(error) ? error : new TrainingFailed({ ...reasonOf(error), cause: error })
  )

/**
 * The latest state of something, for any number of readers. Publishing is synchronous and never waits: each reader buffers
 * the newest states only, and a slow one skips.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

/** @internal */
export interface Latest<A> {
  readonly push: (state: A) => void
  /** Ends all streams, including those started later, after the current state. */
  readonly end: () => void
  /** The current state, then each as it comes. */
  readonly stream: (current: Effect.Effect<A>) => Stream.Stream<A>
}

/** @internal */
export const make = <A>(): Latest<A> => {
  const readers = new Set<{ readonly push: (state: A) => void; readonly end: () => void }>()
  let ended = false
  return {
    push: (state) => {
      for (const reader of readers) reader.push(state)
    },
    end: () => {
      ended = true
      for (const reader of readers) reader.end()
      readers.clear()
    },
    stream: (current) =>
      Stream.asyncPush<A>((emit) =>
        Effect.acquireRelease(
          Effect.map(current, (state) => {
            emit.single(state)
            if (ended) emit.end()
            const reader = { push: emit.single, end: emit.end }
            readers.add(reader)
            return reader
          }),
          (reader) => Effect.sync(() => readers.delete(reader))
        ), { bufferSize: 16, strategy: "sliding" })
  }
}

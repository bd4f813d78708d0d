/**
 * Batches of a run: read one ahead, so that a step knows whether it is the last, together with the rows that were left out.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Dataset from "../../Dataset.js"

/** Why there are no more batches. @internal */
export type End = "data" | "steps" | "budget"

/** A batch, and the rows that were left out since the one before. @internal */
export interface Read<out B> {
  readonly batch: Dataset.Batch<B>
  readonly skipped: ReadonlyArray<Dataset.Skipped>
}

/** @internal */
export interface BatchReader<out B, out E, out R> {
  /** Whether there is another batch. A limit that is reached ends the reading, unless a batch is held already. */
  readonly hasNext: (limit: Option.Option<End>) => Effect.Effect<boolean, E, R>
  /** The batch that is held, if one is; it is held no longer. */
  readonly take: () => Option.Option<Read<B>>
  /** Rows that were left out since the last batch was taken. */
  readonly takeSkipped: () => ReadonlyArray<Dataset.Skipped>
  /** Why the reading has ended, if it has. */
  readonly end: () => Option.Option<End>
}

/** @internal */
export const make = Effect.fnUntraced(function*<B, E, R>(
  batches: Stream.Stream<Dataset.Batch<B>, E, R>
): Effect.fn.Return<BatchReader<B, E, R>, never, R | Scope.Scope> {
  const pull = yield* Stream.toPull(Stream.rechunk(batches, 1))
  let held = Option.none<Dataset.Batch<B>>()
  let end = Option.none<End>()
  let skipped: Array<Dataset.Skipped> = []

  const next = pull.pipe(
    Effect.map(Chunk.head),
    Effect.catchAll(Option.match({ onNone: () => Effect.succeed("end" as const), onSome: Effect.fail }))
  )

  const takeSkipped = () => {
    const taken = skipped
    skipped = []
    return taken
  }

  return {
    hasNext: Effect.fnUntraced(function*(limit) {
      while (Option.isNone(held) && Option.isNone(end)) {
        if (Option.isSome(limit)) {
          end = limit
          break
        }
        const found = yield* next
        if (found === "end") end = Option.some("data")
        else if (Option.isSome(found)) {
          skipped.push(...found.value.skipped)
          if (found.value.items.length > 0) held = found
        }
      }
      return Option.isSome(held)
    }),
    take: () => {
      const taken = Option.map(held, (batch): Read<B> => ({ batch, skipped: takeSkipped() }))
      held = Option.none()
      return taken
    },
    takeSkipped,
    end: () => end
  }
})

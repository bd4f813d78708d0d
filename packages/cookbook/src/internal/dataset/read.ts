/**
 * Reading a dataset: the rows of its epochs, in batches or counted.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Batch, Dataset, Inspection, Kept, ReadOptions, Row, Skipped, SkipReason } from "../../Dataset.js"
import { skipped, start } from "./make.js"

/** @internal */
export const rows = <A, E, R>(self: Dataset<A, E, R>, options?: ReadOptions): Stream.Stream<Row<A>, E, R> => {
  const from = options?.from ?? start()
  const epochs = options?.epochs ?? 1
  return Stream.iterate(from.epoch, (epoch) => epoch + 1).pipe(
    Stream.takeWhile((epoch) => epoch < epochs),
    Stream.flatMap((epoch) => self.rows(epoch === from.epoch ? from : start(epoch)))
  )
}

/** @internal */
export const batches = <A, E, R>(
  self: Dataset<A, E, R>,
  options: ReadOptions & {
    readonly size: number
    readonly partial?: "drop" | "keep" | undefined
  }
): Stream.Stream<Batch<A>, E, R> =>
  Stream.suspend(() => {
    const size = Math.max(1, Math.trunc(options.size))
    let held: Array<Kept<A>> = []
    let left: Array<Skipped> = []
    let last = options.from ?? start()
    const take = (): Batch<A> => {
      const batch = { epoch: last.epoch, items: held.map(({ value }) => value), skipped: left, next: last }
      held = []
      left = []
      return batch
    }
    const endOfEpoch = (): ReadonlyArray<Batch<A>> => {
      if (held.length > 0 && options.partial === "keep") return [take()]
      const detail = `${held.length} rows left of a batch of ${size}`
      for (const row of held) left.push(skipped({ reason: "remainder", detail }, row))
      held = []
      return []
    }
    return rows(self, options).pipe(
      Stream.mapConcat((row): ReadonlyArray<Batch<A>> => {
        const before = row.next.epoch === last.epoch ? [] : endOfEpoch()
        last = row.next
        if (row._tag === "Skipped") left.push(row)
        else held.push(row)
        return held.length === size ? [...before, take()] : before
      }),
      Stream.concat(Stream.suspend(() => {
        const rest = endOfEpoch()
        return Stream.fromIterable(left.length > 0 ? [...rest, take()] : rest)
      }))
    )
  })

/** @internal */
export const inspect = <A, E, R>(
  self: Dataset<A, E, R>,
  options?: {
    readonly examples?: number | undefined
  }
): Effect.Effect<Inspection, E, R> =>
  Effect.suspend(() => {
    const counts: Partial<Record<SkipReason, number>> = {}
    const examples: Array<Skipped> = []
    let keptRows = 0
    return Stream.runForEach(self.rows(start()), (row) =>
      Effect.sync(() => {
        if (row._tag === "Kept") keptRows++
        else {
          const count = (counts[row.reason] ?? 0) + 1
          counts[row.reason] = count
          if (count <= (options?.examples ?? 5)) examples.push(row)
        }
      })).pipe(Effect.map(() => ({ kept: keptRows, skipped: counts, examples })))
  })

/**
 * Two datasets of one.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Dataset, Row } from "../../Dataset.js"
import * as random from "../random.js"
import { make, start } from "./make.js"

/** @internal */
export const split = <A, E, R>(
  self: Dataset<A, E, R>,
  options: { readonly share: number; readonly seed?: number | undefined }
): readonly [rest: Dataset<A, E, R>, share: Dataset<A, E, R>] => {
  const inShare = (row: number) => random.uniform(options.seed ?? 0, row) < options.share
  const side = (wanted: boolean): Dataset<A, E, R> =>
    make({
      rows: (from) =>
        self.rows(from.parts?.[0] ?? start(from.epoch)).pipe(
          Stream.filter((row) => inShare(row.origin.row) === wanted),
          Stream.zipWithIndex,
          Stream.map(([row, i]): Row<A> => ({
            ...row,
            next: { epoch: from.epoch, index: from.index + i + 1, offset: 0, parts: [row.next] }
          }))
        ),
      indexed: Option.getOrUndefined(Option.map(self.indexed, (open) =>
        Effect.map(open, ({ read, size }) => {
          const numbers = Array.from({ length: size }, (_, row) => row).filter((row) => inShare(row) === wanted)
          return {
            size: numbers.length,
            read: (rows: ReadonlyArray<number>) => read(rows.map((row) => numbers[row] ?? size))
          }
        })))
    })
  return [side(false), side(true)]
}

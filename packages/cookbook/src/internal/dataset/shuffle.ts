/**
 * Shuffles: orders that a seed and the epoch decide.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Dataset, Indexed, Position, Row } from "../../Dataset.js"
import * as random from "../random.js"
import * as scoped from "../scoped.js"
import { make, pages, start } from "./make.js"

/** All rows, where the source can be read by number. @internal */
export const shuffleAll = <A, E, R>(
  open: Effect.Effect<Indexed<A, E, R>, E, R | Scope.Scope>,
  seed: number
): Dataset<A, E, R> =>
  make({
    rows: (from) =>
      scoped.stream(Effect.map(open, ({ read, size }) => {
        const order = random.permutation(size, seed, from.epoch)
        return pages(read, { size, slice: (first, end) => Array.from(order.subarray(first, end)) }, from, 64)
      }))
  })

/**
 * Within windows. The position of a shuffled row names the beginning of its window in the source, which is read again on
 * resuming.
 *
 * @internal
 */
export const shuffleWindows = <A, E, R>(self: Dataset<A, E, R>, seed: number, window: number): Dataset<A, E, R> =>
  make({
    rows: (from) => {
      const within = from.index % window
      const first = from.index - within
      const source = from.parts?.[0] ?? start(from.epoch)
      return self.rows(source).pipe(
        Stream.grouped(window),
        Stream.mapAccum(
          { number: first / window, at: source },
          (state: { readonly number: number; readonly at: Position }, chunk) => {
            const rows = Chunk.toReadonlyArray(chunk)
            const end = rows[rows.length - 1]?.next ?? state.at
            const base = state.number * window
            const shuffled = Array.from(
              random.permutation(rows.length, seed, from.epoch, state.number),
              (n, i): Row<A> => {
                const row = rows[n]
                if (row === undefined) throw new Error(`no row ${n} of ${rows.length}`)
                const last = i === rows.length - 1
                return {
                  ...row,
                  next: {
                    epoch: from.epoch,
                    index: base + i + 1,
                    offset: 0,
                    parts: [last && rows.length === window ? end : state.at]
                  }
                }
              }
            )
            return [{ number: state.number + 1, at: end }, shuffled] as const
          }
        ),
        Stream.mapConcat((rows) => rows),
        Stream.drop(within)
      )
    }
  })

/**
 * Several datasets as one.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Dataset, Position, Row } from "../../Dataset.js"
import * as random from "../random.js"
import * as scoped from "../scoped.js"
import { make, start } from "./make.js"

/** @internal */
export const interleave = <A, E, R>(
  list: ReadonlyArray<Dataset<A, E, R>>,
  options?: {
    readonly weights?: ReadonlyArray<number> | undefined
    readonly seed?: number | undefined
    readonly until?: "first" | "all" | undefined
  }
): Dataset<A, E, R> => {
  const weights = list.map((_, i) => Math.max(0, options?.weights?.[i] ?? 1))
  const choose = (alive: ReadonlyArray<boolean>, epoch: number, index: number): number => {
    const shares = weights.map((weight, i) => alive[i] === true ? weight : 0)
    let left = random.uniform(options?.seed ?? 0, epoch, index) * shares.reduce((sum, share) => sum + share, 0)
    let chosen = -1
    for (let i = 0; i < shares.length; i++) {
      const share = shares[i] ?? 0
      if (share <= 0) continue
      chosen = i
      left -= share
      if (left < 0) break
    }
    return chosen
  }
  return make({
    rows: (from) =>
      scoped.stream(Effect.gen(function*() {
        const positions = list.map((_, i) => from.parts?.[i] ?? start(from.epoch))
        const pulls = yield* Effect.forEach(list, (dataset, i) =>
          Stream.toPull(Stream.rechunk(dataset.rows(positions[i] ?? start(from.epoch)), 1)))
        // One row of each is read ahead: which datasets are exhausted must be known before the draw, not by it.
        const heads: Array<Option.Option<Row<A>>> = []
        const pull = (i: number): Effect.Effect<Option.Option<Row<A>>, E, R> => {
          const next = pulls[i]
          return next === undefined ? Effect.succeedNone : next.pipe(
            Effect.map(Chunk.head),
            Effect.catchAll(Option.match({
              onNone: () =>
                Effect.succeedNone,
              onSome: Effect.fail
            }))
          )
        }
        for (let i = 0; i < list.length; i++) heads.push(yield* pull(i))
        return Stream.paginateChunkEffect(from.index, (index) =>
          Effect.gen(function*() {
            const alive = heads.map(Option.isSome)
            const ended = options?.until === "all" ? !alive.includes(true) : alive.includes(false)
            const chosen = ended ? -1 : choose(alive, from.epoch, index)
            const row = heads[chosen]
            if (row === undefined || Option.isNone(row)) return [Chunk.empty<Row<A>>(), Option.none<number>()] as const
            positions[chosen] = row.value.next
            const next: Position = { epoch: from.epoch, index: index + 1, offset: 0, parts: [...positions] }
            heads[chosen] = yield* pull(chosen)
            return [Chunk.of<Row<A>>({ ...row.value, next }), Option.some(index + 1)] as const
          }))
      }))
  })
}

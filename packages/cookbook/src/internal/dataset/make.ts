/**
 * Datasets and rows from their parts.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { pipeArguments } from "effect/Pipeable"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Dataset, Indexed, Kept, Origin, Position, Row, Skipped, SkipReason } from "../../Dataset.js"

/** @internal */
export const TypeId = "~@effect-tinker/cookbook/Dataset" as const

const Proto = {
  [TypeId]: TypeId,
  pipe() {
    return pipeArguments(this, arguments)
  }
}

/** @internal */
export const make = <A, E = never, R = never>(options: {
  readonly rows: (from: Position) => Stream.Stream<Row<A>, E, R>
  readonly indexed?: Effect.Effect<Indexed<A, E, R>, E, R | Scope.Scope> | undefined
}): Dataset<A, E, R> =>
  Object.assign(Object.create(Proto), {
    rows: options.rows,
    indexed: Option.fromNullable(options.indexed)
  })

/** @internal */
export const isDataset = (u: unknown): u is Dataset<unknown, unknown, unknown> =>
  typeof u === "object" && u !== null && TypeId in u

/** @internal */
export const start = (epoch: number = 0): Position => ({ epoch, index: 0, offset: 0 })

/** The position in the same epoch after so many rows. @internal */
export const after = ({ epoch }: Position, index: number): Position => ({ epoch, index, offset: 0 })

/** @internal */
export const kept = <A>(value: A, source: string, row: number, next: Position): Kept<A> => ({
  _tag: "Kept",
  value,
  origin: { source, row },
  next
})

/** @internal */
export const skipped = (
  { detail, reason }: { readonly reason: SkipReason; readonly detail: string },
  { next, origin }: { readonly origin: Origin; readonly next: Position }
): Skipped => ({
  _tag: "Skipped",
  reason,
  detail: detail.length > 300 ? `${detail.slice(0, 300)}…` : detail,
  origin,
  next
})

/** The rows after a position, in an order of their numbers, `page` of them at a time. @internal */
export const pages = <A, E, R>(
  read: Indexed<A, E, R>["read"],
  order: { readonly size: number; readonly slice: (from: number, to: number) => ReadonlyArray<number> },
  from: Position,
  page: number
): Stream.Stream<Row<A>, E, R> =>
  Stream.range(0, Math.ceil(Math.max(0, order.size - from.index) / page) - 1).pipe(
    Stream.mapConcatEffect((n) => {
      const first = from.index + n * page
      return Effect.map(
        read(order.slice(first, Math.min(first + page, order.size))),
        (rows) => rows.map((row, i): Row<A> => ({ ...row, next: after(from, first + i + 1) }))
      )
    })
  )

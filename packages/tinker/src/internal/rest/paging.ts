/**
 * Lists of the service as streams: a page is asked for when its first item is.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"

/**
 * By offset. Servers may give shorter pages than asked for, so the next offset is what was received; without a total,
 * the end is the first empty page.
 *
 * @internal
 */
export const paginate = <A, E, R>(
  options: {
    readonly pageSize: number
    readonly offset?: number | undefined
    readonly onTotal?: ((total: number) => Effect.Effect<void>) | undefined
  },
  page: (
    limit: number,
    offset: number
  ) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly total: number | undefined }, E, R>
): Stream.Stream<A, E, R> =>
  Stream.paginateChunkEffect(options.offset ?? 0, (offset) =>
    page(options.pageSize, offset).pipe(
      Effect.tap(({ total }) => total === undefined ? Effect.void : options.onTotal?.(total) ?? Effect.void),
      Effect.map(({ items, total }) => {
        const next = offset + items.length
        const more = items.length > 0 && (total === undefined || next < total)
        return [Chunk.unsafeFromArray(items), more ? Option.some(next) : Option.none<number>()] as const
      })
    ))

/**
 * By a cursor that each page hands out.
 *
 * @internal
 */
export const paginateByCursor = <A, Cursor, E, R>(
  first: Cursor | undefined,
  page: (
    cursor: Cursor | undefined
  ) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly next: Cursor | undefined }, E, R>
): Stream.Stream<A, E, R> =>
  Stream.paginateChunkEffect(first, (cursor) =>
    Effect.map(page(cursor), ({ items, next }) =>
      [
        Chunk.unsafeFromArray(items),
        next === undefined ? Option.none<Cursor | undefined>() : Option.some<Cursor | undefined>(next)
      ] as const))

/**
 * Prints lists of the service page by page: as a table, JSON, or one value per line.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as OutputModule from "./Output.js"
import { Output } from "./Output.js"
import * as Progress from "./Progress.js"
import type { Stdio } from "./Stdio.js"
import * as text from "./text.js"

/**
 * How many items to ask for at once, when `limit` (0: all) are wanted.
 *
 * @internal
 */
export const pageSize = (limit: number, most: number): number => limit > 0 ? Math.min(limit, most) : most

/** @internal */
export const print: <A, E, R>(options: {
  readonly noun: string
  /** Key of the items in the JSON value. */
  readonly key: string
  /** Further fields of the list's JSON value. */
  readonly about?: Readonly<Record<string, unknown>> | undefined
  /** Most items to show; 0 for all. */
  readonly limit: number
  readonly offset: number
  readonly items: (onTotal: (total: number) => Effect.Effect<void>) => Stream.Stream<A, E, R>
  readonly columns: ReadonlyArray<OutputModule.Column>
  readonly row: (item: A) => ReadonlyArray<string>
  readonly encode: (item: A) => unknown
}) => Effect.Effect<void, E, R | Output | Stdio> = Effect.fnUntraced(function*(options) {
  const output = yield* Output
  let total: number | undefined
  let shown = 0
  const wanted = () => total === undefined ? undefined : Math.min(options.limit > 0 ? options.limit : total, total)
  const items = yield* Effect.scoped(Effect.gen(function*() {
    const progress = yield* Progress.make({ label: `Fetching ${options.noun}s` })
    const all = options.items((value) =>
      Effect.sync(() => {
        total = value
      })
    )
    return yield* (options.limit > 0 ? Stream.take(all, options.limit) : all).pipe(
      Stream.mapChunksEffect((chunk) => {
        shown += chunk.length
        return Effect.as(progress.update(shown, wanted()), chunk)
      }),
      output.format === "ndjson"
        ? Stream.tap((item) => output.printItem(options.encode(item)))
        : (stream) => stream,
      // What has been printed need not be kept.
      output.format === "ndjson" ? Stream.drain : (stream) => stream,
      Stream.runCollect
    )
  }))
  if (output.format === "ndjson") return
  const rows = Chunk.toReadonlyArray(items)
  const next = options.offset + rows.length
  const more = total === undefined ? 0 : Math.max(0, total - next)
  yield* output.print({
    title: rows.length === 0
      ? `No ${options.noun}s found`
      : `${text.count(rows.length, options.noun)}${
        more > 0 ? ` (${more.toLocaleString("en-US")} more: --limit 0 shows all)` : ""
      }`,
    columns: options.columns,
    rows: rows.map(options.row),
    json: {
      ...options.about,
      [options.key]: rows.map(options.encode),
      shown: rows.length,
      ...(total === undefined ? {} : { total }),
      next_offset: more > 0 ? next : null
    }
  })
})

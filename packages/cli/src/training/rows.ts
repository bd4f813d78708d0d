/**
 * Files of rows that a command writes.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

const newline = new TextEncoder().encode("\n")

/** Writes rows as JSON lines beside the file, which is put in its place when all are there. @internal */
export const writeRows = <E, R>(path: string, rows: Stream.Stream<unknown, E, R>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const encoder = new TextEncoder()
    let count = 0
    const draft = `${path}.partial`
    yield* rows.pipe(
      Stream.tap(() => Effect.sync(() => count++)),
      Stream.flatMap((row) => Stream.make(encoder.encode(text.json(row)), newline)),
      Stream.run(fs.sink(draft)),
      Effect.onError(() => Effect.ignore(fs.remove(draft)))
    )
    yield* fs.rename(draft, path)
    return count
  })

/** The files that were written, with their rows. @internal */
export const wrote = Effect.fnUntraced(
  function*(files: ReadonlyArray<{ readonly file: string; readonly rows: number }>) {
    const output = yield* Output
    yield* output.print({
      columns: [{ header: "File", keep: true }, { header: "Rows", align: "right" }],
      rows: files.map(({ file, rows }) => [file, rows.toLocaleString("en-US")]),
      json: { files }
    })
  }
)

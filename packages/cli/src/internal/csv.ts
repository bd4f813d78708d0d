/**
 * Comma-separated values for spreadsheets.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import { Output } from "../Output.js"
import * as text from "./text.js"

const cell = (value: unknown): string => {
  if (value === undefined || value === null) return ""
  const plain = typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value)
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll("\"", "\"\"")}"` : plain
}

/**
 * The keys of all rows, in the order they first occur.
 *
 * @internal
 */
export const columns = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>): ReadonlyArray<string> => [
  ...new Set(rows.flatMap((row) => Object.keys(row)))
]

/** @internal */
export const render = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>): string => {
  const names = columns(rows)
  return [names, ...rows.map((row) => names.map((name) => row[name]))]
    .map((row) => `${row.map(cell).join(",")}\r\n`).join("")
}

/**
 * To a file, or to stdout for `-`.
 *
 * @internal
 */
export const write = Effect.fnUntraced(
  function*(rows: ReadonlyArray<Readonly<Record<string, unknown>>>, path: string) {
    const output = yield* Output
    if (path === "-") return yield* output.write(render(rows))
    const fs = yield* FileSystem.FileSystem
    yield* fs.writeFileString(path, render(rows))
    yield* output.note(`Wrote ${text.count(rows.length, "row")} to ${path}`)
  }
)

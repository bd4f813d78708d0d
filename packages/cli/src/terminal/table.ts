/**
 * Tables that fit the terminal: the widest columns shrink first, ids stay whole. Where that is not enough, the first column
 * moves to a separate line above the others; as a last resort each row becomes a record.
 *
 * @since 0.1.0
 */
import type { Tone } from "./Output.js"
import * as text from "./text.js"

/** @internal */
export interface Column {
  readonly header: string
  readonly align?: "left" | "right" | undefined
  /** Never cut: an id must stay copyable. */
  readonly keep?: boolean | undefined
  /** Broken between words where it does not fit, instead of cut. */
  readonly wrap?: boolean | undefined
  readonly tone?: ((value: string) => Tone | undefined) | undefined
}

/** @internal */
export interface Style {
  readonly header: (text: string) => string
  readonly key: (text: string) => string
  readonly tone: (tone: Tone, text: string) => string
}

/** @internal */
export const plain: Style = { header: (value) => value, key: (value) => value, tone: (_, value) => value }

const painted = (style: Style, column: Column | undefined, i: number, value: string, shown: string): string => {
  const tone = column?.tone?.(value)
  return tone !== undefined ? style.tone(tone, shown) : i === 0 ? style.key(shown) : shown
}

const gap = "  "
const indent = "  "
const least = 8

const fit = (
  columns: ReadonlyArray<Column>,
  natural: ReadonlyArray<number>,
  available: number
): Array<number> | undefined => {
  const widths = [...natural]
  const used = () => widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1)
  while (used() > available) {
    let widest = -1
    for (let i = 0; i < widths.length; i++) {
      const column = columns[i]
      const width = widths[i] ?? 0
      if (column?.keep === true || width <= Math.max(least, text.width(column?.header ?? ""))) continue
      if (widest === -1 || width > (widths[widest] ?? 0)) widest = i
    }
    if (widest === -1) return undefined
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  return widths
}

/**
 * The lines of a table at most `available` columns wide.
 *
 * @internal
 */
export const render = (
  columns: ReadonlyArray<Column>,
  rows: ReadonlyArray<ReadonlyArray<string>>,
  available: number,
  style: Style = plain
): ReadonlyArray<string> => {
  const cells = rows.map((row) => columns.map((_, i) => text.printable(row[i] ?? "")))
  const natural = columns.map((column, i) =>
    cells.reduce((widest, row) => Math.max(widest, text.width(row[i] ?? "")), text.width(column.header))
  )
  const widths = fit(columns, natural, available)
  if (widths === undefined) {
    const rest = columns.length > 1 ? fit(columns.slice(1), natural.slice(1), available - indent.length) : undefined
    return rest === undefined
      ? records(columns, cells, available, style)
      : interleave(
        // Alone on its line, an id is never cut: it must stay copyable.
        lines(columns.slice(0, 1), natural.slice(0, 1), cells.map((row) => row.slice(0, 1)), style, 0),
        lines(columns.slice(1), rest, cells.map((row) => row.slice(1)), style, 1)
      )
  }
  return lines(columns, widths, cells, style, 0).flat()
}

const interleave = (
  above: ReadonlyArray<ReadonlyArray<string>>,
  below: ReadonlyArray<ReadonlyArray<string>>
): ReadonlyArray<string> => above.flatMap((row, i) => [...row, ...(below[i] ?? []).map((line) => `${indent}${line}`)])

/** The lines of the header and of each row; the first of these columns is column `from` of the whole. */
const lines = (
  columns: ReadonlyArray<Column>,
  widths: ReadonlyArray<number>,
  cells: ReadonlyArray<ReadonlyArray<string>>,
  style: Style,
  from: number
): ReadonlyArray<ReadonlyArray<string>> => {
  const line = (values: ReadonlyArray<string>, paint: (shown: string, i: number) => string) =>
    values.map((value, i) => {
      const width = widths[i] ?? 0
      const last = i === values.length - 1 && columns[i]?.align !== "right"
      const cut = text.truncate(value, width)
      return paint(last ? cut : text.pad(cut, width, columns[i]?.align), i)
    }).join(gap).trimEnd()
  return [
    [line(columns.map((column) => column.header.toUpperCase()), (value) => style.header(value))],
    ...cells.map((row) => {
      const parts = row.map((value, i) => columns[i]?.wrap === true ? text.breakInto(value, widths[i] ?? 0) : [value])
      const height = Math.max(...parts.map(({ length }) => length))
      return Array.from({ length: height }, (_, n) =>
        line(
          parts.map((lines) => lines[n] ?? ""),
          (shown, i) => painted(style, columns[i], i + from, row[i] ?? "", shown)
        ))
    })
  ]
}

const records = (
  columns: ReadonlyArray<Column>,
  cells: ReadonlyArray<ReadonlyArray<string>>,
  available: number,
  style: Style
): ReadonlyArray<string> => {
  const label = Math.max(...columns.map((column) => text.width(column.header)))
  return cells.flatMap((row, n) => [
    ...(n === 0 ? [] : [""]),
    ...columns.map((column, i) => {
      const value = row[i] ?? ""
      const room = Math.max(least, available - label - gap.length)
      const shown = column.keep === true
        ? value
        : column.wrap === true
        ? text.breakInto(value, room).join(`\n${" ".repeat(label)}${gap}`)
        : text.truncate(value, room)
      return `${style.header(text.pad(column.header.toUpperCase(), label))}${gap}${
        painted(style, column, i, value, shown)
      }`
    })
  ])
}

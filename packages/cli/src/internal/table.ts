/**
 * Tables that fit the terminal: columns give way from the widest, names to copy are kept whole, and when nothing fits
 * each row becomes a small record.
 *
 * @since 0.1.0
 */
import * as text from "./text.js"

/** @internal */
export interface Column {
  readonly header: string
  readonly align?: "left" | "right" | undefined
  /** Kept whole: an id that is cut cannot be copied. */
  readonly keep?: boolean | undefined
}

/** @internal */
export interface Style {
  readonly header: (text: string) => string
  readonly key: (text: string) => string
}

/** @internal */
export const plain: Style = { header: (value) => value, key: (value) => value }

const gap = "  "
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
  if (widths === undefined) return records(columns, cells, available, style)
  const line = (values: ReadonlyArray<string>, paint: (value: string, i: number) => string) =>
    values.map((value, i) => {
      const width = widths[i] ?? 0
      const last = i === values.length - 1 && columns[i]?.align !== "right"
      const cut = text.truncate(value, width)
      return paint(last ? cut : text.pad(cut, width, columns[i]?.align), i)
    }).join(gap).trimEnd()
  return [
    line(columns.map((column) => column.header.toUpperCase()), (value) => style.header(value)),
    ...cells.map((row) => line(row, (value, i) => i === 0 ? style.key(value) : value))
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
      const cut = column.keep === true ? value : text.truncate(value, Math.max(least, available - label - gap.length))
      return `${style.header(text.pad(column.header.toUpperCase(), label))}${gap}${i === 0 ? style.key(cut) : cut}`
    })
  ])
}

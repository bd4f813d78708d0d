/**
 * What the quickstart shows: bars that move where there is a terminal, plain lines where there is none.
 */
import { Clock, Effect } from "effect"

export interface Screen {
  readonly line: (text?: string) => Effect.Effect<void>
  readonly heading: (text: string) => Effect.Effect<void>
  /** Shows that something takes its time: a dot every half second. */
  readonly waiting: (label: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** A bar that is drawn again with every call, and ends with the last; a log gets every fifth of it, and a line a second. */
  readonly bar: (label: string, total: number) => (done: number, note: string) => Effect.Effect<void>
  /** Values from left to right as columns. */
  readonly chart: (values: ReadonlyArray<number>, label: (value: number) => string) => Effect.Effect<void>
  /** Rows in columns as wide as their widest cell; the first row is the heading. */
  readonly table: (rows: ReadonlyArray<ReadonlyArray<string>>) => Effect.Effect<void>
}

const chartHeight = 5
const widestCell = 34

/** At most `width` values, each the mean of a run of neighbours. */
const squeeze = (values: ReadonlyArray<number>, width: number): ReadonlyArray<number> => {
  if (values.length <= width) return values
  return Array.from({ length: width }, (_, column) => {
    const run = values.slice(
      Math.floor(column * values.length / width),
      Math.floor((column + 1) * values.length / width)
    )
    return run.reduce((sum, value) => sum + value, 0) / run.length
  })
}

/** Rows from top to bottom. A full cell is `#` in a log and a block on a terminal, where parts of a cell show too. */
export const drawChart = (
  values: ReadonlyArray<number>,
  label: (value: number) => string,
  fine: boolean
): ReadonlyArray<string> => {
  const columns = squeeze(values, 60)
  const top = Math.max(...columns, Number.MIN_VALUE)
  const cells = fine ? " ▁▂▃▄▅▆▇█" : " #"
  const steps = cells.length - 1
  const heights = columns.map((value) => Math.max(1, Math.round(value / top * chartHeight * steps)))
  const labels = [label(top), label(0)]
  const margin = Math.max(...labels.map(({ length }) => length))
  return Array.from({ length: chartHeight }, (_, index) => {
    const floor = (chartHeight - 1 - index) * steps
    const row = heights.map((height) => cells[Math.min(Math.max(height - floor, 0), steps)] ?? " ").join("")
    const name = index === 0 ? labels[0] : index === chartHeight - 1 ? labels[1] : ""
    return `  ${(name ?? "").padStart(margin)} | ${row}`.trimEnd()
  })
}

export const makeScreen = (
  output: { readonly write: (text: string) => unknown; readonly isTTY?: boolean; readonly columns?: number },
  options: { readonly color: boolean }
): Screen => {
  const live = output.isTTY === true
  const columns = output.columns || 80
  const write = (text: string) => Effect.sync(() => void output.write(text))
  const paint = (code: number, text: string) => live && options.color ? `\u001b[${code}m${text}\u001b[0m` : text
  const line = (text = "") => write(`${text}\n`)
  const lines = (rows: ReadonlyArray<string>) => Effect.forEach(rows, (row) => line(row), { discard: true })
  return {
    line,
    heading: (text) => line(`\n${paint(1, text)}`),
    waiting: (label) => (effect) =>
      write(label).pipe(
        Effect.zipRight(
          Effect.raceFirst(effect, Effect.forever(Effect.zipRight(Effect.sleep("500 millis"), write("."))))
        ),
        Effect.zipLeft(line())
      ),
    bar: (label, total) => {
      const width = Math.max(8, Math.min(28, columns - 60))
      let last = Number.NEGATIVE_INFINITY
      const log = (done: number, text: string) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          const due = done === 1 || done === total || done % Math.ceil(total / 5) === 0 || now - last >= 1000
          if (!due) return Effect.void
          last = now
          return line(`  ${text}`)
        })
      return (done, note) => {
        const text = `${label} ${done}/${total} ${note}`.trimEnd()
        if (!live) return log(done, text)
        const filled = Math.round(done / total * width)
        const blocks = paint(36, "█".repeat(filled)) + paint(90, "░".repeat(width - filled))
        // A line that wraps cannot be written over.
        return write(`\r\u001b[K  ${blocks} ${text.slice(0, columns - width - 4)}${done === total ? "\n" : ""}`)
      }
    },
    chart: (values, label) => lines(["", ...drawChart(values, label, live), ""]),
    table: (rows) => {
      const cut = rows.map((row) =>
        row.map((cell) => cell.length > widestCell ? `${cell.slice(0, widestCell - 1)}…` : cell)
      )
      const widths = (cut[0] ?? []).map((_, i) => Math.max(...cut.map((row) => row[i]?.length ?? 0)))
      return lines(cut.map((row, n) => {
        const text = `  ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()}`
        return n === 0 ? paint(90, text) : text
      }))
    }
  }
}

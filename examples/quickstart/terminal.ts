/**
 * What the quickstart shows: a progress bar that moves where there is a terminal, plain lines where there is none.
 */
import { Effect } from "effect"
import { Progress } from "effect-tinker"

export interface Screen {
  readonly line: (text?: string) => Effect.Effect<void>
  readonly heading: (text: string) => Effect.Effect<void>
  /** Shows how far training is, and a word more; in a plain log only every few steps, and at the end. */
  readonly progress: (label: string, more?: () => string) => (now: Progress.Snapshot) => Effect.Effect<void>
  /** Values from left to right as columns, after an empty line. */
  readonly chart: (values: ReadonlyArray<number>, label: (value: number) => string) => Effect.Effect<void>
}

const chartHeight = 6

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
    return `${(name ?? "").padStart(margin)} | ${row}`.trimEnd()
  })
}

export const makeScreen = (
  output: { readonly write: (text: string) => unknown; readonly isTTY?: boolean; readonly columns?: number },
  options: { readonly color: boolean }
): Screen => {
  const live = output.isTTY === true
  const columns = output.columns || 80
  const barWidth = Math.max(8, Math.min(28, columns - 66))
  const write = (text: string) => Effect.sync(() => void output.write(text))
  const paint = (code: number, text: string) => live && options.color ? `\u001b[${code}m${text}\u001b[0m` : text
  const line = (text = "") => write(`${text}\n`)
  return {
    line,
    heading: (text) => line(`\n${paint(1, text)}`),
    progress: (label, more = () => "") => {
      let shown = 0
      return (now) => {
        const { step, totalSteps = step } = now
        const note = `${step}/${totalSteps} ${Progress.note(now)} ${more()}`.trimEnd()
        if (!live) {
          if (step === shown || (step > 1 && step < totalSteps && step % Math.ceil(totalSteps / 5) > 0)) {
            return Effect.void
          }
          shown = step
          return line(`${label} ${note}`)
        }
        const filled = Math.round(step / totalSteps * barWidth)
        const bar = paint(36, "█".repeat(filled)) + paint(90, "░".repeat(barWidth - filled))
        // A line that wraps cannot be written over.
        const fits = note.slice(0, columns - label.length - barWidth - 3)
        const end = step === totalSteps && step !== shown ? "\n" : ""
        shown = step
        return write(`\r\u001b[K${label} ${bar} ${fits}${end}`)
      }
    },
    chart: (values, label) =>
      Effect.forEach(["", ...drawChart(values, label, live)], (row) => line(row), { discard: true })
  }
}

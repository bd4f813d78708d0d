/**
 * A run in one line that fits the terminal: bar, steps, curve, and what `Progress` has to say.
 *
 * @since 0.1.0
 */
import * as Progress from "effect-tinker/Progress"
import { drawBar } from "./bar.js"
import * as text from "./text.js"

/** Numbers that are kept for the curve: more are averaged by twos. */
const most = 1024
const curveWidth = 16
const barWidth = 16

/**
 * The course of one metric, in bounded memory however long it is.
 *
 * @internal
 */
export interface Curve {
  readonly add: (value: number) => void
  readonly draw: (width: number) => string
  readonly clear: () => void
}

/** @internal */
export const curve = (): Curve => {
  let values: Array<number> = []
  let each = 1
  let sum = 0
  let count = 0
  return {
    add: (value) => {
      if (!Number.isFinite(value)) return
      sum += value
      if (++count < each) return
      values.push(sum / count)
      sum = count = 0
      if (values.length < most) return
      values = Array.from({ length: most / 2 }, (_, i) => ((values[2 * i] ?? 0) + (values[2 * i + 1] ?? 0)) / 2)
      each *= 2
    },
    draw: (width) => Progress.sparkline(count === 0 ? values : [...values, sum / count], width),
    clear: () => {
      values = []
      each = 1
      sum = count = 0
    }
  }
}

/**
 * The metric one looks at first.
 *
 * @internal
 */
export const mainMetric = (metrics: Progress.Metrics): string | undefined => {
  const names = Object.keys(metrics)
  return names.find((name) => /loss/i.test(name)) ?? names.find((name) => /reward/i.test(name)) ?? names[0]
}

interface Style {
  readonly columns: number
  readonly colour: boolean
}

/**
 * What does not fit gives way: metrics but the first, then the curve, then the bar, then the end of the line.
 *
 * @internal
 */
export const render = (standing: Progress.Standing, drawn: string, main: string | undefined, style: Style): string => {
  const paint = (code: number) => (value: string) =>
    style.colour && value !== "" ? `\u001b[${code}m${value}\u001b[0m` : value
  const { step, totalSteps } = standing
  const head = totalSteps === undefined ? `step ${step}` : `${step}/${totalSteps}`
  const others = Object.entries(standing.metrics).filter(([name]) => name !== main)
  const first = Object.entries(standing.metrics).filter(([name]) => name === main)
  const line = (metrics: number, curved: boolean, barred: boolean) => {
    const said = { ...standing, metrics: Object.fromEntries([...first, ...others.slice(0, metrics)]) }
    const note = text.printable(Progress.note(said))
    const bar = (full: (value: string) => string, empty: (value: string) => string) =>
      barred && totalSteps !== undefined && totalSteps > 0
        ? [drawBar(step / totalSteps, barWidth, { full, empty })]
        : []
    const parts = (plain: boolean) => {
      const hue = (code: number) => plain ? (value: string) => value : paint(code)
      return [...bar(hue(36), hue(90)), hue(1)(head), ...(curved && drawn !== "" ? [hue(36)(drawn)] : []), note].filter(
        (part) => part !== ""
      ).join("  ")
    }
    return { plain: parts(true), painted: parts(false) }
  }
  for (const [curved, barred] of [[true, true], [false, true], [false, false]] as const) {
    for (let metrics = others.length; metrics >= 0; metrics--) {
      const { painted, plain } = line(metrics, curved, barred)
      if (text.width(plain) < style.columns) return painted
    }
  }
  return text.truncate(line(0, false, false).plain, style.columns - 1)
}

/** @internal */
export const widthOfCurve: number = curveWidth

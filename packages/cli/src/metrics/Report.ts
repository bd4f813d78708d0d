/**
 * A training run as one HTML file: its curves as inline SVG, without scripts or network access. It follows the light or dark
 * setting of the browser, and prints.
 *
 * @since 0.1.0
 */
import * as SeriesTable from "@effect-tinker/studio/Series"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as MetricsLog from "effect-tinker/MetricsLog"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

interface Point {
  readonly x: number
  readonly y: number
}

const entities = new Map([["&", "&amp;"], ["<", "&lt;"], [">", "&gt;"], ["\"", "&quot;"], ["'", "&#39;"]])

const escape = (text: string): string =>
  // Control characters have no place in a page at all.
  text.replace(/[&<>"'\p{Cc}]/gu, (char) => entities.get(char) ?? "\ufffd")

const format = (n: number): string => {
  if (!Number.isFinite(n)) return String(n)
  const size = Math.abs(n)
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return n.toExponential(2).replace("e+", "e")
  return Number.isInteger(n) || size >= 1000 ? Math.round(n).toLocaleString("en-US") : String(Number(n.toPrecision(4)))
}

const width = 720
const height = 280
const margin = { top: 14, right: 18, bottom: 32, left: 66 }
const plot = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom }

/** Round numbers that cover the range: steps of 1, 2 or 5 times a power of ten. */
const ticks = (low: number, high: number, count: number): ReadonlyArray<number> => {
  const rough = (high - low) / count
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10) * power
  const first = Math.ceil(low / step - 1e-9)
  const last = Math.floor(high / step + 1e-9)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step)
}

/** Keeps the lowest and the highest of each column, so that a spike survives. */
const thin = (points: ReadonlyArray<Point>, columns: number): ReadonlyArray<Point> => {
  if (points.length <= columns * 2) return points
  const kept: Array<Point> = []
  for (let column = 0; column < columns; column++) {
    const from = Math.floor(column * points.length / columns)
    const to = Math.floor((column + 1) * points.length / columns)
    let low = points[from]
    let high = points[from]
    for (let i = from; i < to; i++) {
      const point = points[i]
      if (point === undefined || low === undefined || high === undefined) continue
      if (point.y < low.y) low = point
      if (point.y > high.y) high = point
    }
    if (low === undefined || high === undefined) continue
    kept.push(...(low === high ? [low] : low.x < high.x ? [low, high] : [high, low]))
  }
  return kept
}

/** A mean of neighbours that weighs the near ones more. */
const trail = (values: ReadonlyArray<number>, keep: number): ReadonlyArray<number> => {
  let mean = 0
  let weight = 0
  return values.map((y) => {
    mean = keep * mean + (1 - keep) * y
    weight = keep * weight + (1 - keep)
    return mean / weight
  })
}

/** Smoothed curve: from both sides, so that it does not lag behind. */
const smooth = (points: ReadonlyArray<Point>): ReadonlyArray<Point> => {
  const keep = 1 - 1 / Math.max(2, points.length / 30)
  const values = points.map(({ y }) => y)
  const before = trail(values, keep)
  const after = trail(values.reverse(), keep)
  return points.map(({ x, y }, i) => ({ x, y: ((before[i] ?? y) + (after[points.length - 1 - i] ?? y)) / 2 }))
}

const widen = (low: number, high: number): readonly [number, number] => {
  if (high > low) return [low - (high - low) * 0.04, high + (high - low) * 0.04]
  const pad = Math.abs(low) * 0.1 || 1
  return [low - pad, high + pad]
}

const chart = (name: string, points: ReadonlyArray<Point>): string => {
  const shown = thin(points, 500)
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity]
  for (const { x, y } of points) {
    left = Math.min(left, x)
    right = Math.max(right, x)
    low = Math.min(low, y)
    high = Math.max(high, y)
  }
  const [bottom, top] = widen(low, high)
  if (right === left) [left, right] = [left - 1, right + 1]
  const px = (x: number) => Number((margin.left + (x - left) / (right - left) * plot.width).toFixed(2))
  const py = (y: number) => Number((margin.top + (top - y) / (top - bottom) * plot.height).toFixed(2))
  const line = (of: ReadonlyArray<Point>) => of.map(({ x, y }, i) => `${i === 0 ? "M" : "L"}${px(x)} ${py(y)}`).join("")
  const floor = height - margin.bottom
  const first = shown[0]
  const last = shown[shown.length - 1]
  const area = first === undefined || last === undefined
    ? ""
    : `${line(shown)}L${px(last.x)} ${floor}L${px(first.x)} ${floor}Z`
  const grid = ticks(bottom, top, 5).map((y) =>
    `<line class="grid" x1="${margin.left}" x2="${width - margin.right}" y1="${py(y)}" y2="${py(y)}"/>` +
    `<text class="tick" x="${margin.left - 9}" y="${py(y) + 4}" text-anchor="end">${format(y)}</text>`
  )
  const below = ticks(left, right, 7).filter(Number.isInteger).map((x) =>
    `<text class="tick" x="${px(x)}" y="${floor + 20}" text-anchor="middle">${format(x)}</text>`
  )
  const trend = points.length >= 40 ? smooth(points) : undefined
  const end = (trend ?? points)[points.length - 1]
  const dots = thin(points, 90).map((point) =>
    `<circle cx="${px(point.x)}" cy="${py(point.y)}" r="7">` +
    `<title>step ${format(point.x)}: ${format(point.y)}</title></circle>`
  )
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(name)} by step">` +
    `${grid.join("")}${below.join("")}` +
    `<text class="tick" x="${margin.left - 9}" y="${floor + 20}" text-anchor="end">step</text>` +
    `<line class="axis" x1="${margin.left}" x2="${width - margin.right}" y1="${floor}" y2="${floor}"/>` +
    `<path class="area" d="${area}"/>` +
    `<path class="curve${trend === undefined ? "" : " raw"}" d="${line(shown)}"/>` +
    (trend === undefined ? "" : `<path class="curve" d="${line(thin(trend, 250))}"/>`) +
    (end === undefined ? "" : `<circle class="end" cx="${px(end.x)}" cy="${py(end.y)}" r="4.5"/>`) +
    `<g class="hover">${dots.join("")}</g></svg>`
}

/**
 * How the page is headed.
 *
 * @internal
 */
export interface Options {
  /** Defaults to `Training run`. */
  readonly title?: string | undefined
}

interface Series {
  readonly name: string
  readonly points: ReadonlyArray<Point>
  /** Values that were no finite numbers. */
  readonly gaps: number
}

/** One value per step: of a run that was resumed, the last attempt at a step counts. */
const tableOf = (entries: ReadonlyArray<MetricsLog.Entry>): SeriesTable.Table => {
  const table = SeriesTable.make()
  for (const { metrics, step, time } of entries) table.record(step, time, Object.entries(metrics))
  return table
}

const seriesOf = (table: SeriesTable.Table): ReadonlyArray<Series> =>
  table.names().map((name) => {
    const points: Array<Point> = []
    let gaps = 0
    table.each(name, (x, y) => {
      if (Number.isFinite(y)) points.push({ x, y })
      else gaps++
    })
    return { name, points, gaps }
  }).sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1))

/** Losses first, then rewards: that is what one looks for. */
const rank = (name: string): number => /loss/i.test(name) ? 0 : /reward|score|accuracy/i.test(name) ? 1 : 2

const colors = ["loss", "reward", "other"]

const card = ({ gaps, name, points }: Series): string => {
  const last = points[points.length - 1]
  const note = gaps === 0
    ? ""
    : `<p class="note">${gaps} ${gaps === 1 ? "value is" : "values are"} no finite number</p>`
  return `<section class="card ${colors[rank(name)]}"><header><h2>${escape(name)}</h2>` +
    `<output>${last === undefined ? "–" : format(last.y)}</output></header>` +
    `${points.length === 0 ? "" : chart(name, points)}${note}</section>`
}

const row = ({ name, points }: Series): string => {
  const first = points[0]
  if (first === undefined) return `<tr><th>${escape(name)}</th><td colspan="4">–</td></tr>`
  const last = points[points.length - 1] ?? first
  const low = points.reduce((a, b) => b.y < a.y ? b : a)
  const high = points.reduce((a, b) => b.y > a.y ? b : a)
  const cell = (point: Point, at: boolean) =>
    `<td>${format(point.y)}${at ? `<small>step ${format(point.x)}</small>` : ""}</td>`
  return `<tr><th>${escape(name)}</th>${cell(first, false)}${cell(last, false)}${cell(low, true)}${
    cell(high, true)
  }</tr>`
}

const facts = (table: SeriesTable.Table): string => {
  const times = table.times()
  const steps = `${table.size().toLocaleString("en-US")} ${table.size() === 1 ? "step" : "steps"}`
  if (times === undefined || Math.abs(times.first) > 8.64e15) return steps
  const { first, last } = times
  const day = DateTime.formatIso(DateTime.unsafeMake(first)).slice(0, 16).replace("T", " ")
  const took = Duration.format(Duration.seconds(Math.round(Math.max(0, last - first) / 1000)))
  return `${steps} · from ${day} UTC${last > first ? ` · ${took}` : ""}`
}

const style = `
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#16181d;--soft:#667085;--line:#e4e7ec;
--loss:#2f6feb;--reward:#12946a;--other:#8250df}
@media (prefers-color-scheme:dark){:root{--page:#0e1117;--card:#161b22;--ink:#e8eaed;--soft:#98a2b3;--line:#2a313c;
--loss:#6ea8ff;--reward:#3fce9b;--other:#b794f6}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;-webkit-font-smoothing:antialiased}
main{max-width:1240px;margin:0 auto;padding:40px 24px 56px}h1{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}
.facts{color:var(--soft);margin:6px 0 26px}.cards{display:grid;gap:18px;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:18px 20px 12px;min-width:0;break-inside:avoid}
.card header{display:flex;align-items:baseline;justify-content:space-between;gap:16px;margin-bottom:8px}
.card h2{font-size:15px;font-weight:600;margin:0;overflow-wrap:anywhere}
.card output{font-size:22px;font-weight:650;font-variant-numeric:tabular-nums;color:var(--hue)}
.loss{--hue:var(--loss)}.reward{--hue:var(--reward)}.other{--hue:var(--other)}
svg{display:block;width:100%;height:auto}.grid{stroke:var(--line);stroke-dasharray:2 4}.axis{stroke:var(--line)}
.tick{fill:var(--soft);font-size:14px;font-variant-numeric:tabular-nums}
.curve{fill:none;stroke:var(--hue);stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}
.curve.raw{stroke-width:1;opacity:.35}.area{fill:var(--hue);opacity:.08}.end{fill:var(--hue);stroke:var(--card);stroke-width:2}
.hover circle{fill:var(--hue);opacity:0}.hover circle:hover{opacity:.45}.note{color:var(--soft);font-size:13px;margin:4px 0 6px}
.table{overflow-x:auto;margin-top:18px;padding:8px 20px 10px}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:9px 12px 9px 0;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}th:first-child{text-align:left}
thead th{color:var(--soft);font-weight:500;font-size:13px}tbody th{font-weight:600}tbody tr:last-child>*{border-bottom:0}
td small{color:var(--soft);margin-left:8px}.empty{color:var(--soft)}`

/**
 * The page. Everything it says is escaped, and its own policy forbids it to load anything.
 *
 * @internal
 */
export const render = (entries: ReadonlyArray<MetricsLog.Entry>, options?: Options): string =>
  renderTable(tableOf(entries), options)

const renderTable = (table: SeriesTable.Table, options: Options = {}): string => {
  const title = escape(options.title ?? "Training run")
  const series = seriesOf(table)
  const body = series.length === 0
    ? `<p class="card empty">The log has no numbers yet.</p>`
    : `<div class="cards">${series.map(card).join("")}</div><div class="card table"><table><thead><tr><th>metric</th>` +
      `<th>first</th><th>last</th><th>lowest</th><th>highest</th></tr></thead><tbody>${series.map(row).join("")}` +
      `</tbody></table></div>`
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">` +
    `<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">` +
    `<meta name="viewport" content="width=device-width,initial-scale=1"><title>${title}</title>` +
    `<style>${style}</style></head><body><main><h1>${title}</h1><p class="facts">${facts(table)}</p>${body}` +
    `</main></body></html>\n`
}

/** The table of a run directory, or of a metrics log. */
const readTable = Effect.fnUntraced(function*(log: string) {
  const fs = yield* FileSystem.FileSystem
  if ((yield* fs.stat(log)).type === "Directory") {
    // Loaded on demand: most reports are of a file.
    const { read } = yield* Effect.promise(() => import("@effect-tinker/studio/RunDirectory"))
    const run = yield* read(log)
    if (Option.isNone(run)) return { table: SeriesTable.make(), torn: undefined }
    return { table: run.value.table, torn: undefined }
  }
  const { entries, torn } = yield* MetricsLog.read(log)
  return { table: tableOf(entries), torn }
})

/**
 * Writes the page of a metrics log or a run directory. A torn last line is left out and yielded as what it is.
 *
 * @internal
 */
export const write: (
  options: Options & {
    /** The log or the run directory to read. */
    readonly log: string
    /** The file to write; a reader never sees half of it. */
    readonly output: string
  }
) => Effect.Effect<
  { readonly steps: number; readonly torn: MetricsLog.TornLine | undefined },
  MetricsLog.MalformedLine | PlatformError.PlatformError,
  FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*({ log, output, ...options }) {
  const fs = yield* FileSystem.FileSystem
  const { table, torn } = yield* readTable(log)
  const draft = `${output}.part`
  yield* fs.writeFileString(draft, renderTable(table, options))
  yield* fs.rename(draft, output)
  return { steps: table.size(), torn }
})

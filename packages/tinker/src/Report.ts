/**
 * A run as a page: its curves as inline SVG in one HTML file that needs no network, no script and no server. It follows
 * the reader's light or dark setting, and prints.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { chart, escape, format, type Point } from "./internal/report/chart.js"
import * as MetricsLog from "./MetricsLog.js"

/**
 * How the page is headed.
 *
 * @since 0.1.0
 * @category models
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

const seriesOf = (entries: ReadonlyArray<MetricsLog.Entry>): ReadonlyArray<Series> => {
  const byName = new Map<string, { readonly points: Array<Point>; gaps: number }>()
  for (const { metrics, step } of entries) {
    for (const [name, y] of Object.entries(metrics)) {
      const series = byName.get(name) ?? { points: [], gaps: 0 }
      byName.set(name, series)
      if (Number.isFinite(y)) series.points.push({ x: step, y })
      else series.gaps++
    }
  }
  return Array.from(byName, ([name, series]) => ({ name, ...series })).sort((a, b) =>
    rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1)
  )
}

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

const facts = (entries: ReadonlyArray<MetricsLog.Entry>): string => {
  const times = entries.flatMap(({ time }) => time === undefined || !Number.isFinite(time) ? [] : [time])
  const [begin, end] = [times[0], times[times.length - 1]]
  const steps = `${entries.length.toLocaleString("en-US")} ${entries.length === 1 ? "step" : "steps"}`
  if (begin === undefined || end === undefined || Math.abs(begin) > 8.64e15) return steps
  const day = DateTime.formatIso(DateTime.unsafeMake(begin)).slice(0, 16).replace("T", " ")
  const took = Duration.format(Duration.seconds(Math.round(Math.max(0, end - begin) / 1000)))
  return `${steps} · from ${day} UTC${end > begin ? ` · ${took}` : ""}`
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
 * @since 0.1.0
 * @category constructors
 */
export const render = (entries: ReadonlyArray<MetricsLog.Entry>, options: Options = {}): string => {
  const title = escape(options.title ?? "Training run")
  const series = seriesOf(entries)
  const body = series.length === 0
    ? `<p class="card empty">The log has no numbers yet.</p>`
    : `<div class="cards">${series.map(card).join("")}</div><div class="card table"><table><thead><tr><th>metric</th>` +
      `<th>first</th><th>last</th><th>lowest</th><th>highest</th></tr></thead><tbody>${series.map(row).join("")}` +
      `</tbody></table></div>`
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">` +
    `<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">` +
    `<meta name="viewport" content="width=device-width,initial-scale=1"><title>${title}</title>` +
    `<style>${style}</style></head><body><main><h1>${title}</h1><p class="facts">${facts(entries)}</p>${body}` +
    `</main></body></html>\n`
}

/**
 * Writes the page of a log. A torn last line is left out and yielded as what it is.
 *
 * @since 0.1.0
 * @category constructors
 */
export const write: (
  options: Options & {
    /** The log to read. */
    readonly log: string
    /** The file to write; a reader never sees half of it. */
    readonly output: string
  }
) => Effect.Effect<
  { readonly steps: number; readonly torn: MetricsLog.TornLine | undefined },
  MetricsLog.MalformedLine | PlatformError.PlatformError,
  FileSystem.FileSystem
> = Effect.fnUntraced(function*({ log, output, ...options }) {
  const fs = yield* FileSystem.FileSystem
  const { entries, torn } = yield* MetricsLog.read(log)
  const draft = `${output}.part`
  yield* fs.writeFileString(draft, render(entries, options))
  yield* fs.rename(draft, output)
  return { steps: entries.length, torn }
})

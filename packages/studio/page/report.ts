/**
 * A run as one HTML file to send or to keep: what it was, where it ended, its curves, configuration and notes. It has no script
 * and loads nothing; all text of the run is escaped.
 */
import type { Detail, Points } from "./api.js"
import { api } from "./api.js"
import * as format from "./format.js"

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;"
}

// Control characters have no place in a page at all.
const escape = (text: string): string =>
  text.replace(/[&<>"']|(?![\n\t])\p{Cc}/gu, (char) => entities[char] ?? "\ufffd")

const width = 640
const height = 220
const edge = { left: 62, right: 14, top: 10, bottom: 36 }

const path = (points: ReadonlyArray<readonly [number, number]>): string =>
  points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("")

const chart = (name: string, { smooth, x, y }: Points): string => {
  const known = x.flatMap((at, i) => {
    const value = y[i]
    return value === null || value === undefined ? [] : [{ at, value, mean: smooth?.[i] ?? value }]
  })
  // Of a few points each counts.
  const isSmooth = known.length >= 40
  const [first] = known
  const last = known[known.length - 1]
  if (first === undefined || last === undefined) return ""
  const values = known.map(({ value }) => value)
  const [low, high] = [Math.min(...values), Math.max(...values)]
  const across = (at: number) =>
    edge.left + (last.at === first.at ? 0.5 : (at - first.at) / (last.at - first.at)) * (width - edge.left - edge.right)
  const up = (value: number) =>
    height - edge.bottom - (high === low ? 0.5 : (value - low) / (high - low)) * (height - edge.top - edge.bottom)
  const level = (value: number) =>
    `<line class="grid" x1="${edge.left}" x2="${width - edge.right}" y1="${up(value)}" y2="${up(value)}"/>` +
    `<text x="${edge.left - 8}" y="${up(value) + 4}" text-anchor="end">${format.number(value)}</text>`
  const floor = height - edge.bottom + 16
  const mark = (at: number, anchor: string) =>
    `<text x="${across(at)}" y="${floor}" text-anchor="${anchor}">${format.number(at)}</text>`
  return `<figure><figcaption><b>${escape(format.metric(name))}</b> <code>${escape(name)}</code> <span>${
    format.number(last.value)
  }</span></figcaption>
<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(format.metric(name))} from ${
    format.number(first.value)
  } to ${format.number(last.value)}">${(high === low ? [low] : [low, (low + high) / 2, high]).map(level).join("")}${
    known.length === 1
      ? `<circle cx="${across(first.at)}" cy="${up(first.value)}" r="3"/>`
      : `<path${isSmooth ? " class=\"raw\"" : ""} d="${path(known.map(({ at, value }) => [across(at), up(value)]))}"/>${
        isSmooth ? `<path d="${path(known.map(({ at, mean }) => [across(at), up(mean)]))}"/>` : ""
      }`
  }${first.at === last.at ? "" : mark(first.at, "start")}${mark(last.at, "end")}<text x="${
    (edge.left + width - edge.right) / 2
  }" y="${height - 4}" text-anchor="middle">step</text></svg></figure>`
}

const style = `:root{color-scheme:light dark;--ink:#1d1c1a;--soft:#69655f;--line:#e7e4df;--paper:#fff;--accent:#0f6b62}
@media (prefers-color-scheme:dark){:root{--ink:#e9e7e3;--soft:#9c9890;--line:#2a2d31;--paper:#131416;--accent:#5cc8ba}}
body{margin:0 auto;padding:32px 20px 64px;max-width:980px;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,sans-serif}
h1{font-size:24px;margin:0}h2{font-size:17px;margin:36px 0 10px}p{margin:4px 0}.soft,figcaption code,dt{color:var(--soft)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:14px;margin:20px 0}dt{font-size:13px}dd{margin:0;font-size:20px;font-weight:600}
.curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:22px}figure{margin:0;min-width:0}
figcaption{display:flex;gap:8px;align-items:baseline}figcaption span{margin-left:auto;font-weight:600}
svg{width:100%;display:block}text{font:11px system-ui,sans-serif;fill:var(--soft)}.grid{stroke:var(--line)}
path{fill:none;stroke:var(--accent);stroke-width:1.8}path.raw{opacity:.3;stroke-width:1}circle{fill:var(--accent)}
table{border-collapse:collapse;width:100%;font-size:13.5px}td,th{border-bottom:1px solid var(--line);padding:6px 12px 6px 0;text-align:left;overflow-wrap:anywhere}
code,pre{font:12.5px ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}pre{white-space:pre-wrap;border:1px solid var(--line);border-radius:8px;padding:12px 14px}
@media print{figure,tr{break-inside:avoid}}`

const stat = (name: string, value: string) => `<div><dt>${escape(name)}</dt><dd>${escape(value)}</dd></div>`

/** @internal */
export const html = (run: Detail, series: Readonly<Record<string, Points>>): string => {
  const names = [
    ...run.headline.map(({ name }) => name),
    ...run.metrics.map(({ name }) => name).filter((name) => !run.headline.some((other) => other.name === name)).sort()
  ]
  const stats = [
    stat("Status", run.status),
    stat("Steps", `${format.number(run.step)}${run.totalSteps === null ? "" : ` of ${format.number(run.totalSteps)}`}`),
    ...run.headline.map(({ name, value }) => stat(format.metric(name), format.number(value))),
    ...(run.tokens === null ? [] : [stat("Tokens", format.count(run.tokens))]),
    ...(run.seconds === null ? [] : [stat("Duration", format.seconds(run.seconds))]),
    ...(run.cost === null ? [] : [stat("Cost", format.money(run.cost, run.currency ?? "USD"))])
  ]
  const notes = run.notes.map(({ level, message, step }) =>
    `<tr><td>step ${step}</td><td>${level === "warning" ? "⚠ " : ""}${escape(message)}</td></tr>`
  )
  const checkpoints = run.checkpoints.map(({ name, samplerPath, statePath, step }) =>
    `<tr><td>${escape(name)}</td><td>step ${step}</td><td><code>${
      escape(samplerPath ?? statePath ?? "")
    }</code></td></tr>`
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escape(`${format.titleOf(run)} · ${run.id}`)}</title><style>${style}</style></head><body>
<h1>${escape(format.titleOf(run))}</h1>
<p class="soft">${
    escape([run.id, run.model, `started ${format.date(run.startedAt)}`].filter((fact) => fact !== "").join(" · "))
  }</p>
${run.message === null ? "" : `<p>${escape(run.message)}</p>`}
<dl>${stats.join("")}</dl>
<h2>Curves</h2>
<div class="curves">${
    names.map((name) => {
      const points = series[name]
      return points === undefined ? "" : chart(name, points)
    }).join("\n")
  }</div>
${notes.length === 0 ? "" : `<h2>Notes</h2><table>${notes.join("")}</table>`}
${checkpoints.length === 0 ? "" : `<h2>Checkpoints</h2><table>${checkpoints.join("")}</table>`}
<h2>Configuration</h2>
<pre>${escape(JSON.stringify(run.config ?? null, undefined, 2))}</pre>
${run.command === null ? "" : `<h2>The same run again</h2><pre>${escape(run.command)}</pre>`}
</body></html>
`
}

/** Metrics that are asked for at once, so that the address stays short. */
const atOnce = 40

/** Reads the curves of a run and hands the file to the browser to save. */
export const save = async (run: Detail): Promise<void> => {
  const names = run.metrics.map(({ name }) => name)
  const series: Record<string, Points> = {}
  for (let from = 0; from < names.length; from += atOnce) {
    Object.assign(
      series,
      await api.series(run.id, names.slice(from, from + atOnce), { axis: "step", smooth: 0.6, points: 400 })
    )
  }
  const href = URL.createObjectURL(new Blob([html(run, series)], { type: "text/html" }))
  const link = document.createElement("a")
  link.href = href
  link.download = `${run.id.replaceAll(/[^\w.-]+/g, "-")}.html`
  link.click()
  setTimeout(() => URL.revokeObjectURL(href), 10_000)
}

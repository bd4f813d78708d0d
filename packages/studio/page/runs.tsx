/**
 * The list of runs, and several of them over each other.
 */
import { useMemo, useRef, useState } from "preact/hooks"
import type { Axis, Detail, Live, Summary } from "./api.js"
import { api, useLoaded } from "./api.js"
import type { Zoom } from "./chart.js"
import { Chart, palette, Spark } from "./chart.js"
import { Controls, Failure, group, useControls, useWindow } from "./controls.js"
import * as format from "./format.js"
import { useKeys } from "./shortcuts.js"

const words: Readonly<Record<Summary["status"], string>> = {
  running: "Running",
  gone: "Process gone",
  silent: "Silent",
  complete: "Complete",
  interrupted: "Interrupted",
  failed: "Failed"
}

const meanings: Readonly<Record<Summary["status"], string>> = {
  running: "It is being written",
  gone: "Its process ended without a word: the same command again goes on from its latest checkpoint",
  silent: "It has not ended, and nothing was written for ten minutes or more",
  complete: "All steps are done",
  interrupted: "It was stopped, and can be resumed",
  failed: "It ended with an error"
}

export const Status = ({ status }: { readonly status: Summary["status"] }) => (
  <span class={`status ${status}`} title={meanings[status]}>{words[status]}</span>
)

/** How much of a run is done, as a bar; nothing where its end is not known. */
export const Share = ({ run }: { readonly run: Summary }) => {
  if (run.totalSteps === null || run.totalSteps === 0) return null
  return (
    <svg class="bar" viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rail" width="100" height="3" />
      <rect width={Math.min(1, run.step / run.totalSteps) * 100} height="3" />
    </svg>
  )
}

const Progress = ({ run }: { readonly run: Summary }) => (
  <span class="progress">
    <small class="narrow-only">{"Step "}</small>
    {format.number(run.step)}
    {run.totalSteps === null ? "" : <span class="soft">{` / ${format.number(run.totalSteps)}`}</span>}
    <Share run={run} />
  </span>
)

export const runHref = (id: string, rest = "") => `#/run/${encodeURIComponent(id)}${rest}`

const matches = (run: Summary, filter: string) =>
  filter.toLowerCase().split(/\s+/).every((word) =>
    `${run.id} ${run.model} ${run.trainer} ${run.status}`.toLowerCase().includes(word)
  )

export const Runs = ({ live }: { readonly live: Live }) => {
  const [filter, setFilter] = useState("")
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const search = useRef<HTMLInputElement>(null)
  useKeys((event) => {
    const links = Array.from(document.querySelectorAll<HTMLAnchorElement>("table.runs .name a"))
    const index = links.findIndex((link) => link === document.activeElement)
    const by = { j: 1, k: -1 }[event.key]
    if (by !== undefined) links[Math.max(0, Math.min(links.length - 1, index + by))]?.focus()
    else if (event.key === "x") links[index]?.closest("tr")?.querySelector("input")?.click()
    else if (event.key === "c") document.querySelector<HTMLAnchorElement>("a.compare[href]")?.click()
    else if (event.key === "/") {
      event.preventDefault()
      search.current?.focus()
    }
  })
  const runs = Array.from(live.runs.values())
    .filter((run) => matches(run, filter))
    .sort((a, b) => (b.updatedAt ?? 0) - (a.updatedAt ?? 0) || (a.id < b.id ? -1 : 1))
  const toggle = (id: string) => {
    const next = new Set(chosen)
    if (!next.delete(id)) next.add(id)
    setChosen(next)
  }
  const costs = runs.some(({ cost }) => cost !== null)
  const running = runs.filter(({ status }) => status === "running").length
  return (
    <main id="content" tabIndex={-1}>
      <div class="head">
        <div>
          <h1>Runs</h1>
          <p class="soft">
            {!live.ready ? "Reading…" : live.runs.size === 1 ? "1 run" : `${live.runs.size} runs`}
            {running === 0 ? "" : ` · ${running} running`}
            {live.loading === 0 ? "" : ` · reading ${live.loading} more`}
          </p>
        </div>
        <div class="tools">
          <input
            ref={search}
            type="search"
            placeholder="Filter   /"
            aria-label="Filter runs by name, model, trainer or status"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
          <a
            class="button compare"
            role="button"
            aria-disabled={chosen.size < 2}
            title="Choose two runs or more"
            href={chosen.size < 2 ? undefined : `#/compare/${Array.from(chosen, encodeURIComponent).join(",")}`}
          >
            Compare{chosen.size === 0 ? "" : ` ${chosen.size}`}
          </a>
        </div>
      </div>
      {!live.ready ? null : live.runs.size === 0 && live.loading === 0
        ? (
          <div class="empty">
            <h2>No runs yet</h2>
            <p>
              A run appears here as soon as it writes its first line below <code>{live.directory}</code>:
            </p>
            <pre>tinker train sft chats.jsonl --local --model local/chat --run-dir {live.directory}/first</pre>
            <p>
              In a program, <code>log: RunLog.directory("…")</code>{" "}
              does the same. Log directories of the Python cookbook open unchanged.
            </p>
          </div>
        )
        : runs.length === 0 && live.loading === 0
        ? (
          <div class="empty">
            <h2>No run matches “{filter}”</h2>
            <p>Names, models, trainers and statuses are searched, each word by itself.</p>
            <button type="button" onClick={() => setFilter("")}>Show all {live.runs.size}</button>
          </div>
        )
        : (
          <table class="runs">
            <caption class="hidden">Runs, the latest first</caption>
            <thead>
              <tr>
                <th class="pick">
                  <span class="hidden">Compare</span>
                </th>
                <th>Run</th>
                <th>Status</th>
                <th>Model</th>
                <th>Settings</th>
                <th>Step</th>
                <th>Latest</th>
                <th>Course</th>
                <th class="number">Duration</th>
                {costs ? <th class="number">Cost</th> : null}
                <th>Updated</th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => (
                <tr key={run.id}>
                  <td class="pick">
                    <input
                      type="checkbox"
                      aria-label={`Compare ${run.id}`}
                      checked={chosen.has(run.id)}
                      onChange={() => toggle(run.id)}
                    />
                  </td>
                  <td class="name">
                    <a href={runHref(run.id)}>{run.id}</a>
                    <small>{format.recipe(run.trainer)}</small>
                  </td>
                  <td>
                    <Status status={run.status} />
                  </td>
                  <td class="model">{run.model || "–"}</td>
                  <td class="settings-of">
                    {run.settings.slice(0, 4).map(({ name, value }) => (
                      <span key={name}>
                        <small>{name}</small> {value}
                      </span>
                    ))}
                  </td>
                  <td class="number step">
                    <Progress run={run} />
                  </td>
                  <td class="latest">
                    {run.headline.slice(0, 2).map(({ name, value }) => (
                      <span key={name}>
                        <b>{format.number(value)}</b> <small title={name}>{format.metric(name)}</small>
                      </span>
                    ))}
                  </td>
                  <td class="course">
                    <Spark values={run.spark} label={format.metric(run.headline[0]?.name ?? "metric")} />
                  </td>
                  <td class="number duration">{run.seconds === null ? "–" : format.seconds(run.seconds)}</td>
                  {costs
                    ? (
                      <td class="number cost">
                        {run.cost === null ? "–" : format.money(run.cost, run.currency ?? live.currency)}
                      </td>
                    )
                    : null}
                  <td class="soft when">
                    {format.ago(run.updatedAt)}
                    {run.waited < 1
                      ? null
                      : <em title="Time in which the server let it wait">waited {format.seconds(run.waited)}</em>}
                    {run.warnings === 0
                      ? null
                      : <em class="warn">{run.warnings} {run.warnings === 1 ? "warning" : "warnings"}</em>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
    </main>
  )
}

// -----------------------------------------------------------------------------
// comparison
// -----------------------------------------------------------------------------

const flatten = (value: unknown, path = ""): ReadonlyArray<readonly [string, string]> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.entries(value).flatMap(([key, inner]) => flatten(inner, path === "" ? key : `${path}.${key}`))
    : [[path, typeof value === "string" ? value : JSON.stringify(value) ?? "–"]]

const Differences = ({ runs }: { readonly runs: ReadonlyArray<Detail> }) => {
  const [all, setAll] = useState(false)
  const tables = runs.map(({ config }) => new Map(flatten(config)))
  const paths = Array.from(new Set(tables.flatMap((table) => Array.from(table.keys())))).sort()
  const rows = paths.map((path) => ({ path, values: tables.map((table) => table.get(path)) }))
    .map((row) => ({ ...row, differs: new Set(row.values).size > 1 }))
  const shown = rows.filter(({ differs }) => all || differs)
  return (
    <section class="card">
      <div class="head">
        <h2>Configuration</h2>
        <label class="check">
          <input type="checkbox" checked={all} onChange={() => setAll(!all)} /> also what is the same
        </label>
      </div>
      {shown.length === 0 ?
        <p class="soft">The configurations are the same.</p> :
        (
          <div class="scroll" tabIndex={0} role="region" aria-label="Configurations">
            <table class="diff">
              <thead>
                <tr>
                  <th>Field</th>
                  {runs.map(({ id }, i) => (
                    <th key={id}>
                      <i class={`swatch series-${i % palette}`} />
                      {id}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {shown.map(({ differs, path, values }) => (
                  <tr key={path} class={differs ? "differs" : ""}>
                    <th scope="row">{path}</th>
                    {values.map((value, i) => (
                      <td key={i}>
                        <code>{value ?? "–"}</code>
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
    </section>
  )
}

const Overlay = (props: {
  readonly runs: ReadonlyArray<Detail>
  readonly metric: string
  readonly axis: Axis
  readonly smooth: number
  readonly zoom: Zoom | undefined
  readonly onZoom: (zoom: Zoom | undefined) => void
  readonly theme: string
}) => {
  const { axis, metric, runs, smooth, zoom } = props
  const having = runs.map((run, color) => ({ run, color })).filter(({ run }) =>
    run.metrics.some(({ name }) => name === metric)
  )
  const asked = useWindow(zoom, 1200)
  const { error, value } = useLoaded(
    () => Promise.all(having.map(({ run }) => api.series(run.id, [metric], { axis, smooth, ...asked }))),
    [metric, axis, smooth, asked.from, asked.to, having.map(({ run }) => `${run.id} ${run.version}`).join()]
  )
  const lines = useMemo(() =>
    having.flatMap(({ color, run }, i) => {
      const points = value?.[i]?.[metric]
      return points === undefined ? [] : [{ label: run.id, points, color }]
    }), [value])
  return (
    <section class="card" aria-label={format.metric(metric)} data-metric={metric}>
      <header>
        <h3 title={metric}>{format.metric(metric)}</h3>
      </header>
      <Failure message={error} />
      {lines.length === 0 ?
        <div class="plot placeholder" /> :
        (
          <Chart
            title={format.metric(metric)}
            lines={lines}
            axis={axis}
            zoom={zoom}
            onZoom={props.onZoom}
            theme={props.theme}
            height={230}
          />
        )}
    </section>
  )
}

export const Compare = ({ ids, live, theme }: {
  readonly ids: ReadonlyArray<string>
  readonly live: Live
  readonly theme: string
}) => {
  const controls = useControls()
  const { error, value } = useLoaded(
    () => Promise.all(ids.map(api.run)),
    [ids.map((id) => `${id} ${live.runs.get(id)?.version}`).join()]
  )
  const metrics = useMemo(() => {
    const counts = new Map<string, number>()
    for (const run of value ?? []) for (const { name } of run.metrics) counts.set(name, (counts.get(name) ?? 0) + 1)
    // What several of them have comes first: that is what can be compared.
    return Array.from(counts).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).map(([name]) => name)
  }, [value])
  const headline = Array.from(new Set((value ?? []).flatMap((run) => run.headline.map(({ name }) => name))))
  const groups = group(metrics.filter((name) => controls.matches(name)), headline)
  return (
    <main id="content" tabIndex={-1}>
      <div class="head">
        <div>
          <p class="crumbs">
            <a href="#/">Runs</a>
          </p>
          <h1>Compare {ids.length} runs</h1>
        </div>
      </div>
      <Failure message={error} />
      <ul class="legend">
        {ids.map((id, i) => (
          <li key={id}>
            <i class={`swatch series-${i % palette}`} />
            <a href={runHref(id)}>{id}</a>
            {live.runs.has(id) ? <Status status={live.runs.get(id)?.status ?? "silent"} /> : null}
          </li>
        ))}
      </ul>
      <Controls controls={controls} />
      {value === undefined ?
        null :
        groups.map(({ metrics, open, title }) => (
          <details key={title} class="group" open={open}>
            <summary>
              <h2>{title}</h2>
              <span class="soft">{metrics.length}</span>
            </summary>
            <div class="cards wide">
              {metrics.map((metric) => (
                <Overlay
                  key={metric}
                  runs={value}
                  metric={metric}
                  axis={controls.axis}
                  smooth={controls.smooth}
                  zoom={controls.zoom}
                  onZoom={controls.setZoom}
                  theme={theme}
                />
              ))}
            </div>
          </details>
        ))}
      {value === undefined ? null : <Differences runs={value} />}
    </main>
  )
}

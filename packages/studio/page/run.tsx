/**
 * One run: its curves, checkpoints, configuration and notes.
 */
import { useMemo, useState } from "preact/hooks"
import type { Checkpoint, Detail, Live } from "./api.js"
import { api, useLoaded } from "./api.js"
import type { Zoom } from "./chart.js"
import { Chart } from "./chart.js"
import type { State } from "./controls.js"
import { Controls, Failure, group, useControls } from "./controls.js"
import * as format from "./format.js"
import { Rollouts } from "./rollouts.js"
import { Progress, runHref, Status } from "./runs.js"

const Curves = ({ controls, metrics, run, theme }: {
  readonly run: Detail
  readonly metrics: ReadonlyArray<string>
  readonly controls: State
  readonly theme: string
}) => {
  const { axis, smooth, zoom } = controls
  const { error, value } = useLoaded(
    () => api.series(run.id, metrics, { axis, smooth, points: 1000, ...zoom }),
    [run.id, run.version, metrics.join(), axis, smooth, zoom]
  )
  return (
    <div class="cards">
      <Failure message={error} />
      {metrics.map((metric) => (
        <Curve
          key={metric}
          metric={metric}
          run={run}
          value={value?.[metric]}
          controls={controls}
          theme={theme}
          zoom={zoom}
        />
      ))}
    </div>
  )
}

const Curve = ({ controls, metric, run, theme, value, zoom }: {
  readonly metric: string
  readonly run: Detail
  readonly value: Awaited<ReturnType<typeof api.series>>[string] | undefined
  readonly controls: State
  readonly theme: string
  readonly zoom: Zoom | undefined
}) => {
  const summary = run.metrics.find(({ name }) => name === metric)
  const lines = useMemo(() => value === undefined ? [] : [{ label: metric, points: value, color: 0 }], [value])
  return (
    <section class="card" aria-label={metric}>
      <header>
        <h3>{metric}</h3>
        <output>{format.number(summary?.last)}</output>
      </header>
      {lines.length === 0 ? <div class="plot placeholder" /> : (
        <Chart
          title={metric}
          lines={lines}
          axis={controls.axis}
          zoom={zoom}
          onZoom={controls.setZoom}
          theme={theme}
          onStep={run.hasRollouts
            ? (step) => {
              location.hash = runHref(run.id, `/rollouts/${step}`)
            }
            : undefined}
        />
      )}
      {summary === undefined || summary.nonFinite === 0 ?
        null :
        (
          <p class="warn">
            {summary.nonFinite} {summary.nonFinite === 1 ? "value is" : "values are"} not a finite number
          </p>
        )}
    </section>
  )
}

const Overview = ({ run, theme }: { readonly run: Detail; readonly theme: string }) => {
  const controls = useControls()
  const groups = group(
    run.metrics.map(({ name }) => name).filter(controls.matches).sort(),
    run.headline.map(({ name }) => name)
  )
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map())
  return (
    <>
      <Controls controls={controls} />
      {run.metrics.length === 0 ? <p class="empty">No step is done yet.</p> : null}
      {groups.map(({ metrics, open, title }) => {
        const isOpen = opened.get(title) ?? open
        return (
          <details
            key={title}
            class="group"
            open={isOpen}
            onToggle={(event) => setOpened(new Map(opened).set(title, event.currentTarget.open))}
          >
            <summary>
              <h2>{title}</h2>
              <span class="soft">{metrics.length}</span>
            </summary>
            {isOpen ? <Curves run={run} metrics={metrics} controls={controls} theme={theme} /> : null}
          </details>
        )
      })}
    </>
  )
}

const Copy = ({ label, text }: { readonly text: string; readonly label: string }) => {
  const [done, setDone] = useState(false)
  const copy = () => {
    void navigator.clipboard.writeText(text).then(() => {
      setDone(true)
      setTimeout(() => setDone(false), 1500)
    })
  }
  return (
    <button type="button" class="copy" aria-label={`Copy ${label}`} onClick={copy}>{done ? "Copied" : "Copy"}</button>
  )
}

const expiry = (checkpoint: Checkpoint): string => {
  if (checkpoint.expiresAt === null) return "never"
  const left = (checkpoint.expiresAt - Date.now()) / 1000
  return left <= 0 ? "expired" : `in ${format.seconds(left)}`
}

const Checkpoints = ({ chat, run }: { readonly run: Detail; readonly chat: boolean }) => (
  run.checkpoints.length === 0 ? <p class="empty">No checkpoint has been saved yet.</p> : (
    <div class="scroll card">
      <table class="checkpoints">
        <thead>
          <tr>
            <th>Name</th>
            <th>Kind</th>
            <th>Steps</th>
            <th>Expires</th>
            <th>Weights</th>
            <th>
              <span class="hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {[...run.checkpoints].reverse().map((checkpoint) => (
            <tr key={checkpoint.name}>
              <th scope="row">{checkpoint.name}</th>
              <td>{checkpoint.kind}</td>
              <td class="number">{format.number(checkpoint.step)}</td>
              <td>{expiry(checkpoint)}</td>
              <td class="paths">
                {[["state", checkpoint.statePath], ["sampler", checkpoint.samplerPath]].map(([kind, path]) =>
                  typeof path !== "string" ? null : (
                    <span key={kind}>
                      <small>{kind}</small>
                      <code>{path}</code>
                      <Copy text={path} label={`path of the ${kind}`} />
                    </span>
                  )
                )}
              </td>
              <td class="actions">
                {checkpoint.samplerPath === null ? null : (
                  <>
                    {chat
                      ? (
                        <a
                          class="button"
                          href={`#/chat/${encodeURIComponent(run.id)}/${encodeURIComponent(checkpoint.name)}`}
                        >
                          Chat
                        </a>
                      )
                      : null}
                    <Copy text={`tinker checkpoint download ${checkpoint.samplerPath}`} label="download command" />
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {run.format === "journal" && (run.status === "interrupted" || run.status === "silent" || run.status === "failed")
        ? (
          <p class="soft hint">
            Running the same program again with <code>{`RunLog.directory(${JSON.stringify(run.path)})`}</code>{" "}
            resumes from the latest of these.
          </p>
        )
        : null}
    </div>
  )
)

const Notes = ({ run }: { readonly run: Detail }) => (
  <>
    {run.message === null ? null : <p class="failure">{run.message}</p>}
    {run.notes.length === 0 ? <p class="empty">Nothing to report.</p> : (
      <ol class="notes card">
        {[...run.notes].reverse().map((note, i) => (
          <li key={i} class={note.level}>
            <span class="soft">step {format.number(note.step)}</span>
            <span>{note.message}</span>
            <span class="soft">{format.date(note.time)}</span>
          </li>
        ))}
      </ol>
    )}
  </>
)

const Configuration = ({ run }: { readonly run: Detail }) => (
  <section class="card">
    <div class="head">
      <p class="soft">
        <code>{run.path}</code>
      </p>
      <Copy text={JSON.stringify(run.config, undefined, 2)} label="configuration" />
    </div>
    <pre class="json">{JSON.stringify(run.config ?? null, undefined, 2)}</pre>
  </section>
)

const tabs = [["", "Curves"], ["rollouts", "Rollouts"], ["checkpoints", "Checkpoints"], ["config", "Configuration"], [
  "notes",
  "Notes"
]] as const

export const Run = ({ id, live, rest, theme }: {
  readonly id: string
  readonly rest: ReadonlyArray<string>
  readonly live: Live
  readonly theme: string
}) => {
  const summary = live.runs.get(id)
  const { error, value: run } = useLoaded(() => api.run(id), [id, summary?.version])
  const [tab = ""] = rest
  if (run === undefined) {
    return (
      <main>
        <p class="crumbs">
          <a href="#/">Runs</a>
        </p>
        <Failure message={error} />
      </main>
    )
  }
  const took = run.startedAt === null || run.updatedAt === null ? undefined : (run.updatedAt - run.startedAt) / 1000
  const facts = [
    run.model,
    run.trainer,
    run.tokens === null ? "" : `${format.count(run.tokens)} tokens`,
    took === undefined ? "" : format.seconds(took),
    run.resumes === 0 ? "" : run.resumes === 1 ? "resumed once" : `resumed ${run.resumes} times`,
    run.startedAt === null ? "" : `since ${format.date(run.startedAt)}`
  ].filter((fact) => fact !== "")
  const counts: Readonly<Record<string, number>> = { checkpoints: run.checkpoints.length, notes: run.notes.length }
  return (
    <main>
      <div class="head">
        <div>
          <p class="crumbs">
            <a href="#/">Runs</a>
          </p>
          <h1>
            {run.id} <Status status={summary?.status ?? run.status} />
          </h1>
          <p class="facts">{facts.map((fact) => <span key={fact}>{fact}</span>)}</p>
        </div>
        <div class="big">
          <Progress run={summary ?? run} />
          <small>steps</small>
        </div>
      </div>
      {run.unreadable === 0
        ? null
        : <p class="warn">{run.unreadable} {run.unreadable === 1 ? "line" : "lines"} of its files cannot be read</p>}
      <nav class="tabs" aria-label="Parts of the run">
        {tabs.filter(([name]) => name !== "rollouts" || run.hasRollouts).map(([name, title]) => (
          <a
            key={name}
            href={runHref(id, name === "" ? "" : `/${name}`)}
            aria-current={tab === name ? "page" : undefined}
          >
            {title}
            {(counts[name] ?? 0) === 0 ? "" : <span class="count">{counts[name]}</span>}
          </a>
        ))}
      </nav>
      {tab === "rollouts"
        ? <Rollouts run={run} rest={rest.slice(1)} />
        : tab === "checkpoints"
        ? <Checkpoints run={run} chat={live.chat} />
        : tab === "config"
        ? <Configuration run={run} />
        : tab === "notes"
        ? <Notes run={run} />
        : <Overview key={id} run={run} theme={theme} />}
    </main>
  )
}

/**
 * One run: its curves, checkpoints, configuration and notes.
 */
import { useMemo, useState } from "preact/hooks"
import type { Checkpoint, Detail, Live } from "./api.js"
import { api, useLoaded } from "./api.js"
import type { Zoom } from "./chart.js"
import { Chart } from "./chart.js"
import type { State } from "./controls.js"
import { Controls, Failure, group, Stat, useControls, useWindow } from "./controls.js"
import * as format from "./format.js"
import * as report from "./report.js"
import { Rollouts } from "./rollouts.js"
import { runHref, Share, Status } from "./runs.js"
import { useKeys } from "./shortcuts.js"

const Curves = ({ controls, first, metrics, run, theme }: {
  readonly first: boolean
  readonly run: Detail
  readonly metrics: ReadonlyArray<string>
  readonly controls: State
  readonly theme: string
}) => {
  const { axis, smooth, zoom } = controls
  const asked = useWindow(zoom, 1000)
  const { error, value } = useLoaded(
    () => api.series(run.id, metrics, { axis, smooth, ...asked }),
    [run.id, run.version, metrics.join(), axis, smooth, asked.from, asked.to]
  )
  return (
    <div class={first || metrics.length < 3 ? "cards first" : "cards"}>
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
    <section class="card" aria-label={format.metric(metric)} data-metric={metric}>
      <header>
        <h3 title={metric}>{format.metric(metric)}</h3>
        <output>{format.number(summary?.last)}</output>
      </header>
      {lines.length === 0 ? <div class="plot placeholder" /> : (
        <Chart
          title={format.metric(metric)}
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
      {run.metrics.length === 0
        ? (
          <div class="empty">
            <h2>No step is done yet</h2>
            <p>Curves appear with the first step, and grow by themselves.</p>
          </div>
        )
        : null}
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
            {isOpen
              ? (
                <Curves
                  run={run}
                  metrics={metrics}
                  controls={controls}
                  theme={theme}
                  first={title === "Overview"}
                />
              )
              : null}
          </details>
        )
      })}
    </>
  )
}

const Copy = ({ label, text, word = "Copy" }: {
  readonly text: string
  readonly label: string
  readonly word?: string
}) => {
  const [done, setDone] = useState(false)
  const copy = () => {
    void navigator.clipboard.writeText(text).then(() => {
      setDone(true)
      setTimeout(() => setDone(false), 1500)
    })
  }
  return (
    <button type="button" class="copy" title={text} aria-label={`Copy ${label}`} onClick={copy}>
      {done ? "Copied" : word}
    </button>
  )
}

const expiry = (checkpoint: Checkpoint): string => {
  if (checkpoint.expiresAt === null) return "never"
  const left = (checkpoint.expiresAt - Date.now()) / 1000
  return left <= 0 ? "expired" : `in ${format.seconds(left)}`
}

/** How to take the run up again. */
const Resume = ({ run }: { readonly run: Detail }) => {
  if (run.format !== "journal" || run.status === "complete") return null
  return (
    <section class="card resume" aria-label="Resume">
      <h2>Resume</h2>
      {run.command === null
        ? (
          <p class="soft">
            Running the same program again with <code>{`RunLog.directory(${JSON.stringify(run.path)})`}</code>{" "}
            goes on from the latest checkpoint.
          </p>
        )
        : (
          <p class="copyable">
            <code>{run.command}</code>
            <Copy text={run.command} label="resume command" />
          </p>
        )}
    </section>
  )
}

const Checkpoints = ({ chat, run }: { readonly run: Detail; readonly chat: boolean }) => (
  run.checkpoints.length === 0
    ? (
      <div class="empty">
        <h2>No checkpoint yet</h2>
        <p>Saved weights appear here with their paths, when they expire, and the commands to download and resume.</p>
      </div>
    )
    : (
      <>
        <Resume run={run} />
        <div class="scroll card">
          <table class="checkpoints">
            <caption class="hidden">Checkpoints, the latest first</caption>
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
                        <Copy
                          text={`tinker checkpoint download ${checkpoint.samplerPath}`}
                          label="download command"
                          word="Download"
                        />
                      </>
                    )}
                    {checkpoint.statePath === null
                      ? null
                      : (
                        <Copy
                          text={`--from ${checkpoint.statePath}`}
                          label="option to train from here"
                          word="Train from"
                        />
                      )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </>
    )
)

const Notes = ({ run }: { readonly run: Detail }) => (
  <>
    {run.message === null ? null : <p class="failure">{run.message}</p>}
    {run.notes.length === 0 && run.message === null
      ? (
        <div class="empty">
          <h2>Nothing to report</h2>
          <p>Rows that were skipped, checkpoints about to expire and other warnings of the run appear here.</p>
        </div>
      )
      : null}
    {run.notes.length === 0 ? null : (
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
    <pre class="json" tabIndex={0}>{JSON.stringify(run.config ?? null, undefined, 2)}</pre>
  </section>
)

/** The latest of what matters. */
const Stats = ({ run }: { readonly run: Detail }) => {
  const took = run.seconds ?? undefined
  const left = took === undefined || run.totalSteps === null || run.step === 0 || run.status !== "running"
    ? undefined
    : took / run.step * Math.max(0, run.totalSteps - run.step)
  return (
    <dl class="stats">
      <div class="stat steps-done">
        <dt>Steps</dt>
        <dd>
          {format.number(run.step)}
          {run.totalSteps === null ? null : <span class="soft">{` / ${format.number(run.totalSteps)}`}</span>}
        </dd>
        <dd class="note">
          <Share run={run} />
        </dd>
      </div>
      {run.headline.slice(0, 3).map(({ name, value }) => {
        const metric = run.metrics.find((other) => other.name === name)
        return (
          <Stat
            key={name}
            name={format.metric(name)}
            raw={name}
            value={format.number(value)}
            note={metric === undefined ? "" : `${format.number(metric.min)} to ${format.number(metric.max)}`}
          />
        )
      })}
      {run.tokens === null ? null : <Stat name="Tokens" value={format.count(run.tokens)} note="trained on" />}
      {took === undefined ? null : (
        <Stat
          name="Duration"
          value={format.seconds(took)}
          note={left === undefined || left < 1 ? "" : `about ${format.seconds(left)} left`}
        />
      )}
      {run.cost === null
        ? null
        : <Stat name="Cost" value={format.money(run.cost, run.currency ?? "USD")} note="so far" />}
      {run.waited < 1 ? null : (
        <Stat
          name="Waited"
          value={format.seconds(run.waited)}
          note={run.waits.map(({ reason, seconds }) => `${reason.replaceAll("_", " ")} ${format.seconds(seconds)}`)
            .join(", ")}
        />
      )}
    </dl>
  )
}

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
  const [failed, setFailed] = useState<string | undefined>(undefined)
  const shown = tabs.filter(([name]) => name !== "rollouts" || run?.hasRollouts === true)
  const save = () => {
    if (run !== undefined) report.save(run).then(() => setFailed(undefined), (error: Error) => setFailed(error.message))
  }
  useKeys(({ key }) => {
    const chosen = shown[Number(key) - 1]
    if (chosen !== undefined) location.hash = runHref(id, chosen[0] === "" ? "" : `/${chosen[0]}`)
    else if (key === "u") location.hash = "#/"
    else if (key === "e") save()
  })
  if (run === undefined) {
    return (
      <main id="content" tabIndex={-1}>
        <p class="crumbs">
          <a href="#/">Runs</a>
        </p>
        {error === undefined ? <h1 class="soft">Reading {id}…</h1> : (
          <div class="empty">
            <h1>{id} cannot be shown</h1>
            <p role="alert">{error}.</p>
            <p>
              It may have been moved, or removed from <code>{live.directory}</code>. A run that comes back appears in
              {" "}
              <a class="link" href="#/">the list</a> by itself.
            </p>
          </div>
        )}
      </main>
    )
  }
  const facts = [
    run.model,
    ...run.settings.map(({ name, value }) => `${name} ${value}`),
    run.startedAt === null ? "" : `started ${format.date(run.startedAt)}`,
    run.resumes === 0 ? "" : run.resumes === 1 ? "resumed once" : `resumed ${run.resumes} times`
  ].filter((fact) => fact !== "")
  const counts: Readonly<Record<string, number>> = { checkpoints: run.checkpoints.length, notes: run.notes.length }
  return (
    <main id="content" tabIndex={-1}>
      <div class="head">
        <div>
          <p class="crumbs">
            <a href="#/">Runs</a>
            <span>{run.id}</span>
          </p>
          <h1>
            {format.titleOf(run)} <Status status={summary?.status ?? run.status} />
          </h1>
          <p class="facts">{facts.map((fact) => <span key={fact}>{fact}</span>)}</p>
        </div>
        <button type="button" onClick={save} title="Curves, configuration and notes as one HTML file">
          Save report
        </button>
      </div>
      <Failure message={failed} />
      <Stats run={run} />
      {run.unreadable === 0
        ? null
        : <p class="warn">{run.unreadable} {run.unreadable === 1 ? "line" : "lines"} of its files cannot be read</p>}
      <nav class="tabs" aria-label="Parts of the run">
        {shown.map(([name, title]) => (
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

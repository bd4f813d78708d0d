/**
 * Two evaluations beside each other: the difference with its uncertainty, and the examples that changed, side by side.
 */
import { useEffect, useState } from "preact/hooks"
import type { Comparison, Live } from "./api.js"
import { api } from "./api.js"
import { Failure, Stat } from "./controls.js"
import * as format from "./format.js"

const figure = (value: number): string => format.number(Number(value.toPrecision(3)))

const Changes = ({ report }: { readonly report: Comparison }) => {
  const [only, setOnly] = useState<"all" | "worse" | "better">("all")
  const changes = report.changed.filter(({ first, second }) =>
    only === "all" || (only === "worse") === (second.value < first.value)
  )
  return (
    <section class="card" aria-label="Changed examples">
      <header>
        <h2>Changed examples</h2>
        <select
          aria-label="Which changes"
          value={only}
          onChange={({ currentTarget: { value } }) => setOnly(value === "worse" || value === "better" ? value : "all")}
        >
          <option value="all">all {format.number(report.better + report.worse)}</option>
          <option value="worse">worse {format.number(report.worse)}</option>
          <option value="better">better {format.number(report.better)}</option>
        </select>
      </header>
      {changes.length === 0 ? <p class="soft">No example has another value.</p> : (
        <ol class="changes">
          {changes.map(({ first, id, input, second, target }) => (
            <li key={id}>
              <p class="facts">
                <b>{id}</b>
                <span class={second.value < first.value ? "warn" : "good"}>
                  {figure(first.value)} → {figure(second.value)}
                </span>
              </p>
              {input === "" ? null : <p class="text">{input}</p>}
              {target === "" ? null : <p class="soft text">expected: {target}</p>}
              <div class="twocolumns">
                <div>
                  <p class="soft">{report.models[0]}</p>
                  <p class="text">{first.answer}</p>
                </div>
                <div>
                  <p class="soft">{report.models[1]}</p>
                  <p class="text">{second.answer}</p>
                </div>
              </div>
            </li>
          ))}
        </ol>
      )}
    </section>
  )
}

export const Evaluations = ({ live }: { readonly live: Live }) => {
  const files = live.evaluations ?? []
  const [chosen, setChosen] = useState<{ readonly first?: string; readonly second?: string }>({})
  const [state, setState] = useState<{ readonly report?: Comparison; readonly error?: string }>({})
  const first = chosen.first ?? files[0] ?? ""
  const second = chosen.second ?? files[1] ?? ""
  useEffect(() => {
    if (first === "" || second === "") return
    let current = true
    api.compareEvaluations({ first, second }).then(
      (report) => current && setState({ report }),
      (error: Error) => current && setState({ error: error.message })
    )
    return () => {
      current = false
    }
  }, [first, second])
  const { report } = state
  const field = (name: string, value: string, key: "first" | "second") => (
    <label class="field grow">
      {name}
      <select value={value} onChange={({ currentTarget }) => setChosen({ ...chosen, [key]: currentTarget.value })}>
        {files.map((file) => <option key={file} value={file}>{file}</option>)}
      </select>
    </label>
  )
  if (live.ready && files.length < 2) {
    return (
      <main id="content" tabIndex={-1}>
        <h1>Evaluations</h1>
        <div class="empty">
          <h2>Nothing to compare</h2>
          <p>
            Start the studio with the results of evaluations: <code>tinker studio --evals evals</code>.
          </p>
        </div>
      </main>
    )
  }
  return (
    <main id="content" tabIndex={-1} class="data">
      <div class="head">
        <div>
          <h1>Evaluations</h1>
          <p class="soft">Two of them, example by example</p>
        </div>
      </div>
      <form class="card settings">
        {field("First", first, "first")}
        {field("Second", second, "second")}
      </form>
      <Failure message={state.error} />
      {report === undefined ? null : (
        <>
          <dl class="stats">
            <Stat name="First" value={figure(report.scores[0])} note={report.models[0]} />
            <Stat name="Second" value={figure(report.scores[1])} note={report.models[1]} />
            <Stat
              name="Difference"
              value={figure(report.difference.mean)}
              note={report.difference.low === null || report.difference.high === null
                ? "too few examples to say how sure"
                : `95 %: ${figure(report.difference.low)} to ${figure(report.difference.high)}`}
            />
            <Stat
              name="p"
              value={report.p < 0.001 ? "< 0.001" : figure(report.p)}
              note="of such a difference by chance"
            />
            <Stat
              name="Examples"
              value={format.number(report.shared)}
              note={`${report.better} better, ${report.worse} worse`}
            />
          </dl>
          <Changes report={report} />
        </>
      )}
    </main>
  )
}

/**
 * Training data before it is trained on: lengths, what would be skipped, cost, and rows token by token.
 */
import { useEffect, useState } from "preact/hooks"
import type { DataReport, Live } from "./api.js"
import { api } from "./api.js"
import { Failure, Stat, visible } from "./controls.js"
import * as format from "./format.js"
import { useKeys } from "./shortcuts.js"

const Lengths = ({ report }: { readonly report: DataReport }) => {
  const most = Math.max(1, ...report.histogram.map(({ count }) => count))
  const { max, min, p50, p90, p99 } = report.lengths
  return (
    <section class="card" aria-label="Lengths">
      <header>
        <h2>Lengths</h2>
        <span class="soft">tokens of a row</span>
      </header>
      <dl class="bars">
        {report.histogram.map(({ count, from, to }) => (
          <div key={from}>
            <dt>{format.count(from)}–{format.count(to)}</dt>
            <dd>
              <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                <rect width={Math.max(count === 0 ? 0 : 0.6, count / most * 100)} height="8" rx="1" />
              </svg>
              <span>{format.number(count)}</span>
            </dd>
          </div>
        ))}
      </dl>
      <p class="facts">
        {[["shortest", min], ["median", p50], ["90 %", p90], ["99 %", p99], ["longest", max]].map(([name, value]) => (
          <span key={name}>
            {name} <b>{format.number(Number(value))}</b>
          </span>
        ))}
      </p>
    </section>
  )
}

const Skipped = ({ report }: { readonly report: DataReport }) => {
  const total = report.rows - report.kept
  return (
    <section class="card" aria-label="Would be dropped">
      <header>
        <h2>Would be dropped</h2>
        <output class={total === 0 ? "good" : "warn"}>{total === 0 ? "nothing" : format.number(total)}</output>
      </header>
      {total === 0 ? <p class="soft">Every row can be trained on.</p> : (
        <>
          <p class="facts">
            {Object.entries(report.skipped).map(([reason, count]) => (
              <span key={reason}>
                {reason.replaceAll("_", " ")} <b>{format.number(count)}</b>
              </span>
            ))}
          </p>
          <ol class="dropped" tabIndex={0}>
            {report.skippedRows.map(({ detail, reason, row }) => (
              <li key={row}>
                <span class="soft number">row {format.number(row)}</span>
                <span class="text">{detail || reason.replaceAll("_", " ")}</span>
              </li>
            ))}
          </ol>
          {total > report.skippedRows.length
            ? <p class="soft">and {format.number(total - report.skippedRows.length)} more</p>
            : null}
        </>
      )}
    </section>
  )
}

const findings = [
  ["exact", "the same as another row"],
  ["near", "nearly the same as another row"],
  ["leaked", "in the held-out data"],
  ["empty", "without an answer"],
  ["truncated", "answers cut short"],
  ["sensitive", "personal data or secrets"]
] as const

const share = (value: number): string => `${format.number(Math.round(1000 * value) / 10)} %`

const Quality = ({ quality }: { readonly quality: NonNullable<DataReport["quality"]> }) => {
  const total = findings.reduce((sum, [kind]) => sum + quality.counts[kind], 0)
  const languages = Object.entries(quality.languages)
  const told = languages.reduce((sum, [, count]) => sum + count, 0)
  const [frequent] = quality.frequent
  return (
    <section class="card" aria-label="Worth a look">
      <header>
        <h2>Worth a look</h2>
        <output class={total === 0 ? "good" : "warn"}>{total === 0 ? "nothing" : format.number(total)}</output>
      </header>
      {total === 0 ? <p class="soft">No duplicates, no empty answers, no personal data that has a known form.</p> : (
        <>
          <p class="facts">
            {findings.filter(([kind]) => quality.counts[kind] > 0).map(([kind, name]) => (
              <span key={kind}>
                {name} <b>{format.number(quality.counts[kind])}</b>
              </span>
            ))}
          </p>
          <ol class="dropped" tabIndex={0}>
            {quality.findings.map(({ detail, kind, like, row }) => (
              <li key={`${kind} ${row}`}>
                <span class="soft number">row {format.number(row + 1)}</span>
                <span class="text">
                  {findings.find(([known]) => known === kind)?.[1]}
                  {like === undefined ? "" : ` (row ${format.number(like + 1)})`}
                  {detail === undefined ? "" : `: ${detail}`}
                </span>
              </li>
            ))}
          </ol>
        </>
      )}
      <p class="facts">
        {languages.slice(0, 5).map(([code, count]) => (
          <span key={code}>
            {code} <b>{share(count / told)}</b>
          </span>
        ))}
        <span>
          median answer <b>{format.number(quality.answers.p50)}</b> characters
        </span>
        {frequent === undefined ? null : (
          <span>
            most frequent answer <b>{share(frequent.share)}</b>
          </span>
        )}
        {quality.chosenLonger === undefined ? null : (
          <span>
            chosen is longer <b>{share(quality.chosenLonger)}</b>
          </span>
        )}
      </p>
    </section>
  )
}

/** Weights other than 0 and 1 are told apart by their shade. */
const weightClass = (weight: number): string => weight <= 0 ? "w0" : weight < 0.5 ? "w1" : weight < 1 ? "w2" : "w3"

const Rows = ({ report }: { readonly report: DataReport }) => {
  const [at, setAt] = useState(0)
  const { shown } = report
  const index = Math.min(at, shown.length - 1)
  const go = (by: number) => setAt(Math.max(0, Math.min(shown.length - 1, index + by)))
  useKeys(({ key }) => {
    const by = { j: 1, k: -1 }[key]
    if (by !== undefined) go(by)
  })
  const row = shown[index]
  if (row === undefined) return null
  return (
    <section class="card" aria-label="Rows as they are trained on">
      <header>
        <h2>Row {format.number(row.row)}</h2>
        <span class="tokenlegend">
          <span>
            <i class="token w0">given</i>
          </span>
          <span>
            <i class="token w3">trained on</i>
          </span>
        </span>
        <span class="pager">
          <button type="button" disabled={index === 0} onClick={() => go(-1)} aria-label="Row before">
            ← <kbd>K</kbd>
          </button>
          <button type="button" disabled={index >= shown.length - 1} onClick={() => go(1)} aria-label="Row after">
            → <kbd>J</kbd>
          </button>
        </span>
      </header>
      {row.parts.map((part, i) => (
        <div key={i}>
          <p class="facts">
            {part.side === "" ? null : <b>{part.side}</b>}
            <span>{format.number(part.length)} tokens</span>
            <span>
              {format.number(part.weights.filter((weight) => weight > 0).length)} trained on
            </span>
          </p>
          <div class="tokens" tabIndex={0} role="group" aria-label="Tokens">
            {part.ids.map((id, n) => (
              <span
                key={n}
                class={`token ${weightClass(part.weights[n] ?? 0)}`}
                title={`${id} · weight ${format.number(part.weights[n] ?? 0)}`}
              >
                {visible(part.texts[n] ?? "")}
              </span>
            ))}
          </div>
          {part.length > part.ids.length
            ? <p class="soft">and {format.number(part.length - part.ids.length)} more tokens</p>
            : null}
        </div>
      ))}
    </section>
  )
}

const numberIn = (text: string): number | undefined => {
  const value = Number(text)
  return text.trim() === "" || !Number.isFinite(value) ? undefined : value
}

export const Data = ({ live }: { readonly live: Live }) => {
  const files = live.data?.files ?? []
  const seen = Array.from(new Set(Array.from(live.runs.values(), ({ model }) => model).filter((model) => model !== "")))
  const [file, setFile] = useState("")
  const [model, setModel] = useState("")
  const [maxLength, setMaxLength] = useState("")
  const [epochs, setEpochs] = useState("1")
  const [price, setPrice] = useState("")
  const [state, setState] = useState<{ readonly report?: DataReport; readonly error?: string; readonly busy: boolean }>(
    { busy: false }
  )
  const chosen = file === "" ? files[0]?.path ?? "" : file
  const known = model === "" ? live.data?.model || seen[0] || "" : model
  const check = () => {
    if (chosen === "" || known === "") return
    setState((last) => ({ ...last, busy: true }))
    api.checkData({
      file: chosen,
      model: known,
      maxLength: numberIn(maxLength),
      epochs: numberIn(epochs),
      price: numberIn(price)
    }).then(
      (report) => setState({ report, busy: false }),
      (error: Error) => setState({ error: error.message, busy: false })
    )
  }
  // The first look needs no click.
  useEffect(() => {
    if (live.data !== null && state.report === undefined && !state.busy) check()
  }, [live.ready, chosen])
  const { report } = state
  if (live.ready && files.length === 0) {
    return (
      <main id="content" tabIndex={-1}>
        <h1>Data</h1>
        <div class="empty">
          <h2>No file to look at</h2>
          <p>
            Start the studio with the data you are going to train on: <code>tinker studio --data chats.jsonl</code>.
          </p>
        </div>
      </main>
    )
  }
  return (
    <main id="content" tabIndex={-1} class="data">
      <div class="head">
        <div>
          <h1>Data</h1>
          <p class="soft">What a file comes to before it is trained on</p>
        </div>
      </div>
      <form
        class="card settings"
        onSubmit={(event) => {
          event.preventDefault()
          check()
        }}
      >
        <label class="field grow">
          File
          <select value={chosen} onChange={(event) => setFile(event.currentTarget.value)}>
            {files.map(({ bytes, path }) => <option key={path} value={path}>{path} ({format.bytes(bytes)})</option>)}
          </select>
        </label>
        <label class="field grow">
          Model
          <input
            list="models"
            value={known}
            placeholder="Qwen/Qwen3-8B"
            onInput={(event) => setModel(event.currentTarget.value)}
          />
        </label>
        <datalist id="models">{seen.map((name) => <option key={name} value={name} />)}</datalist>
        <label class="field">
          Longest row
          <input
            inputMode="numeric"
            placeholder="no limit"
            value={maxLength}
            onInput={(event) => setMaxLength(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          Epochs
          <input inputMode="numeric" value={epochs} onInput={(event) => setEpochs(event.currentTarget.value)} />
        </label>
        <label class="field">
          Price of a million tokens
          <input
            inputMode="decimal"
            placeholder="none"
            value={price}
            onInput={(event) => setPrice(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary" disabled={state.busy || known === ""}>
          {state.busy ? "Checking" : "Check"}
        </button>
      </form>
      <Failure message={state.error} />
      {report === undefined ? null : (
        <>
          <dl class="stats" aria-busy={state.busy}>
            <Stat
              name="Rows"
              value={format.count(report.rows)}
              note={`${report.kind}${report.complete ? "" : ", only the first of them"}`}
            />
            <Stat
              name="Used"
              value={report.rows === 0 ? "–" : `${format.number(Math.floor(1000 * report.kept / report.rows) / 10)} %`}
              note={`${format.number(report.kept)} rows`}
            />
            <Stat
              name="Tokens"
              value={format.count(report.tokens)}
              note={`${
                report.tokens === 0 ? 0 : Math.round(100 * report.trainedTokens / report.tokens)
              } % of them trained on`}
            />
            <Stat
              name="To train"
              value={format.count(report.trainingTokens)}
              note={`tokens in ${report.epochs} ${report.epochs === 1 ? "epoch" : "epochs"}`}
            />
            <Stat
              name="Estimated cost"
              value={report.estimatedCost === null ? "–" : format.money(report.estimatedCost, live.currency)}
              note={report.estimatedCost === null ? "give a price" : "at the price given"}
            />
          </dl>
          <div class="twocolumns">
            <Lengths report={report} />
            <Skipped report={report} />
          </div>
          {report.quality === undefined ? null : <Quality quality={report.quality} />}
          <Rows key={`${report.file} ${report.model}`} report={report} />
          <p class="soft hint">Written as {report.renderer} for {report.model}</p>
        </>
      )}
    </main>
  )
}

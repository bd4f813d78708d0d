/**
 * What was sampled: from a step to its groups, to a rollout, to its tokens. All text is set as text.
 */
import { useState } from "preact/hooks"
import type { Detail, Found, Head, Message, Rollout, StepSummary, Tokens, Turn } from "./api.js"
import { api, useLoaded } from "./api.js"
import { Failure, visible } from "./controls.js"
import * as format from "./format.js"
import { runHref } from "./runs.js"
import { useKeys } from "./shortcuts.js"

// -----------------------------------------------------------------------------
// rewards
// -----------------------------------------------------------------------------

interface Range {
  readonly low: number
  readonly high: number
}

const rangeOf = (values: ReadonlyArray<number | null>): Range => {
  const known = values.flatMap((value) => value === null || !Number.isFinite(value) ? [] : [value])
  return { low: Math.min(0, ...known), high: Math.max(0, ...known) }
}

/** An advantage with its sign; too small to matter, it is neither good nor bad. */
const signed = (advantage: number) => ({
  text: Math.abs(advantage) < 1e-9 ? "0" : `${advantage > 0 ? "+" : ""}${format.number(advantage)}`,
  tone: Math.abs(advantage) < 1e-9 ? "" : advantage > 0 ? "good" : "bad"
})

/** Five shades from the lowest to the highest reward. */
const shade = (reward: number | null, { high, low }: Range): string =>
  reward === null || high === low ? "r2" : `r${Math.round((reward - low) / (high - low) * 4)}`

const Histogram = ({ range, rewards }: { readonly rewards: ReadonlyArray<number>; readonly range: Range }) => {
  const bins = 12
  const counts = new Array<number>(bins).fill(0)
  for (const reward of rewards) {
    const at = range.high === range.low ? 0 : (reward - range.low) / (range.high - range.low)
    const bin = Math.min(bins - 1, Math.floor(at * bins))
    counts[bin] = (counts[bin] ?? 0) + 1
  }
  const most = Math.max(1, ...counts)
  return (
    <svg
      class="histogram"
      viewBox="0 0 144 40"
      role="img"
      aria-label={`Rewards from ${format.number(Math.min(...rewards))} to ${format.number(Math.max(...rewards))}`}
    >
      {counts.map((value, i) => (
        <rect
          key={i}
          class={value === 0 ? "none" : `r${Math.round(i / (bins - 1) * 4)}`}
          x={i * 12 + 1}
          width="10"
          y={value === 0 ? 38 : 38 - value / most * 36}
          height={value === 0 ? 1 : value / most * 36 + 1}
          rx="1.5"
        />
      ))}
    </svg>
  )
}

// -----------------------------------------------------------------------------
// steps
// -----------------------------------------------------------------------------

const nearest = (steps: ReadonlyArray<StepSummary>, step: number, split: string): StepSummary | undefined =>
  steps.filter((other) => other.split === split).reduce<StepSummary | undefined>(
    (best, other) => best === undefined || Math.abs(other.step - step) < Math.abs(best.step - step) ? other : best,
    undefined
  )

const Steps = ({ at, onStep, steps }: {
  readonly steps: ReadonlyArray<StepSummary>
  readonly at: number
  readonly onStep: (step: number) => void
}) => {
  const index = Math.max(0, steps.findIndex(({ step }) => step === at))
  const go = (by: number) => onStep(steps[Math.max(0, Math.min(steps.length - 1, index + by))]?.step ?? at)
  // As many bars as a screen can tell apart; the chosen step is always one of them.
  const stride = Math.max(1, Math.ceil(steps.length / 160))
  const shown = steps.filter((_, i) => i % stride === 0 || i === index)
  const range = rangeOf(steps.map(({ mean }) => mean))
  return (
    <div class="steps">
      <button type="button" onClick={() => go(-1)} disabled={index === 0} aria-label="Step before">←</button>
      <label class="range">
        <span class="hidden">Step</span>
        <svg viewBox={`0 0 ${shown.length} 30`} preserveAspectRatio="none" aria-hidden="true">
          {shown.map(({ mean, step }, i) => {
            const height = mean === null || range.high === range.low
              ? 8
              : 3 + (mean - range.low) / (range.high - range.low) * 26
            return (
              <rect
                key={step}
                class={step === at ? "at" : ""}
                x={i + 0.1}
                width="0.8"
                y={30 - height}
                height={height}
                onClick={() => onStep(step)}
              />
            )
          })}
        </svg>
        <input
          type="range"
          min="0"
          max={steps.length - 1}
          value={index}
          aria-valuetext={`step ${at}`}
          onInput={(event) => onStep(steps[Number(event.currentTarget.value)]?.step ?? at)}
        />
      </label>
      <button type="button" onClick={() => go(1)} disabled={index >= steps.length - 1} aria-label="Step after">
        →
      </button>
      <b class="number">Step {format.number(at)}</b>
      <span class="soft">
        {steps[index]?.mean === null || steps[index] === undefined
          ? ""
          : `mean reward ${format.number(steps[index].mean)}`}
      </span>
    </div>
  )
}

// -----------------------------------------------------------------------------
// messages and tokens
// -----------------------------------------------------------------------------

const Bubble = ({ message }: { readonly message: Message }) => (
  <div class={`message ${/^(system|user|assistant|tool)$/.test(message.role) ? message.role : "other"}`}>
    <span class="role">{message.role}</span>
    <div class="said">
      {message.reasoning.trim() === "" ? null : (
        <details class="reasoning" open>
          <summary>Reasoning</summary>
          <div class="text">{message.reasoning.trim()}</div>
        </details>
      )}
      {message.text === "" ? null : <div class="text">{message.text}</div>}
      {message.toolCalls.map((call, i) => (
        <div key={i} class="call">
          <b>{call.name}</b>
          <code>{call.arguments}</code>
        </div>
      ))}
      {message.text === "" && message.toolCalls.length === 0 && message.reasoning === ""
        ? <span class="soft">(empty)</span>
        : null}
    </div>
  </div>
)

const TurnFacts = ({ turn }: { readonly turn: Turn }) => (
  <p class="facts">
    <span>{format.number(turn.promptTokens)} prompt tokens</span>
    <span>{format.number(turn.sampledTokens)} sampled</span>
    {turn.reward === null || turn.reward === 0 ? null : <span>reward {format.number(turn.reward)}</span>}
    {turn.policyVersion === null ? null : <span>weights of step {format.number(turn.policyVersion)}</span>}
    {turn.masked ? <span class="warn">masked: not trained on</span> : null}
    {turn.metrics.map(([name, value]) => <span key={name}>{name} {format.number(value)}</span>)}
  </p>
)

const Conversation = ({ rollout }: { readonly rollout: Rollout }) => (
  <ol class="turns">
    {rollout.turns.map((turn, i) => (
      <li key={i}>
        {turn.fork === null ? null : (
          <p class="fork">
            <b>{turn.fork.reason}</b> {turn.fork.description}: trained as a separate row
          </p>
        )}
        {turn.before.map((message, n) => <Bubble key={n} message={message} />)}
        {turn.before.length === 0 && turn.tokens !== null && turn.tokens.texts === null
          ? (
            <p class="soft hint">
              {format.number(turn.promptTokens)} prompt tokens; the tokenizer of this model is not at hand to read them.
            </p>
          )
          : null}
        {turn.message === null ? null : <Bubble message={turn.message} />}
        {turn.logs.map(([name, text]) => (
          <div key={name} class="message other">
            <span class="role">{name}</span>
            <div class="said">
              <div class="text">{text}</div>
            </div>
          </div>
        ))}
        <TurnFacts turn={turn} />
      </li>
    ))}
  </ol>
)

/** How surprising a token was, in six shades: certain, and then by factors of e. */
const surprise = (logprob: number | null): number =>
  logprob === null ? 0 : Math.max(0, Math.min(5, Math.ceil(-logprob - 0.05)))

interface Picked {
  readonly turn: number
  readonly index: number
}

const TokenRow = ({ masked, onPick, picked, tokens, turn }: {
  readonly tokens: Tokens
  readonly turn: number
  readonly masked: boolean
  readonly picked: Picked | undefined
  readonly onPick: (picked: Picked) => void
}) => (
  <div
    class={`tokens${masked ? " masked" : ""}`}
    onMouseOver={(event) => {
      const index = event.target instanceof HTMLElement ? event.target.dataset["i"] : undefined
      if (index !== undefined) onPick({ turn, index: Number(index) })
    }}
  >
    {tokens.omitted === 0
      ? null
      : <span class="soft">{format.number(tokens.omitted)} tokens before this are not shown</span>}
    {tokens.ids.map((id, i) => {
      const given = i < tokens.given
      const chosen = picked?.turn === turn && picked.index === i
      const shadeOf = given ? "given" : `s${surprise(tokens.logprobs[i - tokens.given] ?? null)}`
      return (
        <span key={i} data-i={i} class={`token ${shadeOf}${chosen ? " chosen" : ""}`}>
          {tokens.texts === null ? `${id} ` : visible(tokens.texts[i] ?? "")}
        </span>
      )
    })}
  </div>
)

const describeToken = (rollout: Rollout, picked: Picked | undefined) => {
  const turn = picked === undefined ? undefined : rollout.turns[picked.turn]
  const tokens = turn?.tokens
  if (picked === undefined || turn === undefined || tokens === undefined || tokens === null) return undefined
  const { index } = picked
  const logprob = index < tokens.given ? null : tokens.logprobs[index - tokens.given] ?? null
  return {
    place: tokens.offset + tokens.omitted + index,
    id: tokens.ids[index],
    text: tokens.texts?.[index],
    kind: index < tokens.given ? "given" : turn.masked ? "sampled, masked" : "sampled, trained on",
    logprob
  }
}

const TokenView = ({ rollout }: { readonly rollout: Rollout }) => {
  const [picked, setPicked] = useState<Picked | undefined>(undefined)
  const found = describeToken(rollout, picked)
  const turns = rollout.turns.flatMap((turn, i) => turn.tokens === null ? [] : [{ turn, tokens: turn.tokens, i }])
  if (turns.length === 0) return <p class="empty">The log of this run has messages and no tokens.</p>
  const move = (by: number) => {
    const first = turns[0]
    if (picked === undefined) return setPicked({ turn: first?.i ?? 0, index: first?.tokens.given ?? 0 })
    const size = rollout.turns[picked.turn]?.tokens?.ids.length ?? 0
    const index = picked.index + by
    if (index >= 0 && index < size) return setPicked({ turn: picked.turn, index })
    const next = turns[turns.findIndex(({ i }) => i === picked.turn) + by]
    if (next !== undefined) setPicked({ turn: next.i, index: by > 0 ? 0 : next.tokens.ids.length - 1 })
  }
  return (
    <div
      class="tokenview"
      tabIndex={0}
      role="group"
      aria-label="Tokens; arrow keys move from one to the next"
      onKeyDown={(event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
        if (by === undefined) return
        event.preventDefault()
        move(by)
      }}
    >
      <div class="tokenlegend">
        <span>
          <i class="token given">given</i>
        </span>
        <span>
          sampled, from certain <i class="token s0">1</i>
          <i class="token s1">.4</i>
          <i class="token s2">.1</i>
          <i class="token s3">.05</i>
          <i class="token s4">.02</i>
          <i class="token s5">.01</i> to unlikely
        </span>
        {rollout.advantage === null ?
          null :
          (
            <span class={signed(rollout.advantage).tone}>
              advantage {signed(rollout.advantage).text} on every sampled token
            </span>
          )}
      </div>
      {turns.map(({ i, tokens, turn }) => (
        <section key={i} aria-label={`Turn ${i + 1}`}>
          {turn.fork === null ? null : (
            <p class="fork">
              <b>{turn.fork.reason}</b> {turn.fork.description}
            </p>
          )}
          <TokenRow tokens={tokens} turn={i} masked={turn.masked} picked={picked} onPick={setPicked} />
        </section>
      ))}
      <p class="inspector" aria-live="polite">
        {found === undefined ? <span class="soft">Point at a token, or use the arrow keys</span> : (
          <>
            <code>{found.text === undefined ? `#${found.id}` : JSON.stringify(found.text)}</code>
            <span>id {found.id}</span>
            <span>position {format.number(found.place)}</span>
            <span>{found.kind}</span>
            {found.logprob === null
              ? null
              : <span>logprob {found.logprob.toFixed(3)} · p {format.number(Math.exp(found.logprob))}</span>}
          </>
        )}
      </p>
    </div>
  )
}

// -----------------------------------------------------------------------------
// a step
// -----------------------------------------------------------------------------

const lastWords = (rollout: Rollout): string => {
  const last = rollout.turns[rollout.turns.length - 1]
  const message = last?.message
  if (message === null || message === undefined) return last?.logs[0]?.[1] ?? ""
  return [message.text, ...message.toolCalls.map((call) => `${call.name}(${call.arguments})`)].join("\n")
}

const SideBySide = ({ heads, href, range, run, split, step }: {
  readonly run: string
  readonly step: number
  readonly split: string
  readonly heads: ReadonlyArray<Head>
  readonly range: Range
  readonly href: (index: number) => string
}) => {
  const { error, value } = useLoaded(
    () => Promise.all(heads.slice(0, 16).map(({ index }) => api.rollout(run, step, split, index))),
    [run, step, split, heads.map(({ index }) => index).join()]
  )
  return (
    <div class="sidebyside">
      <Failure message={error} />
      {value?.map((rollout) => (
        <a key={rollout.index} href={href(rollout.index)} class={`column ${shade(rollout.reward, range)}`}>
          <b>{format.number(rollout.reward)}</b>
          <small>
            {rollout.advantage === null ? "" : `advantage ${signed(rollout.advantage).text}`}
          </small>
          <span class="text">{lastWords(rollout).trim() || "(empty)"}</span>
        </a>
      ))}
    </div>
  )
}

const Group = ({ chosen, group, heads, href, range, run, split, step }: {
  readonly run: string
  readonly step: number
  readonly split: string
  readonly group: number
  readonly heads: ReadonlyArray<Head>
  readonly range: Range
  readonly chosen: number | undefined
  readonly href: (index: number) => string
}) => {
  const [beside, setBeside] = useState(false)
  const rewards = heads.flatMap(({ reward }) => reward === null ? [] : [reward])
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length)
  const same = new Set(rewards).size === 1
  const tags = heads[0]?.tags ?? []
  return (
    <section class="card rgroup" aria-label={`Group ${group}`}>
      <header>
        <h2>Group {group}</h2>
        <span class="soft">{tags.join(", ")}</span>
        <span>
          mean <b>{format.number(mean)}</b>
        </span>
        {same ? <span class="soft">all the same</span> : null}
        <button type="button" aria-pressed={beside} onClick={() => setBeside(!beside)}>Side by side</button>
      </header>
      <div class="members">
        {same ? null : <Histogram rewards={rewards} range={range} />}
        <div class="chips">
          {heads.map((head) => (
            <a
              key={head.index}
              href={href(head.index)}
              class={`chip ${shade(head.reward, range)}`}
              aria-current={chosen === head.index ? "true" : undefined}
              title={head.stop ?? undefined}
              aria-label={`Rollout ${head.member}, reward ${format.number(head.reward)}, ${head.stop ?? ""}`}
            >
              {format.number(head.reward)}
              {head.stop === null || head.stop === "completed" ? null : <small>{head.stop.replaceAll("_", " ")}</small>}
            </a>
          ))}
        </div>
      </div>
      {beside ? <SideBySide run={run} step={step} split={split} heads={heads} range={range} href={href} /> : null}
    </section>
  )
}

const One = ({ index, run, split, step, tab }: {
  readonly run: string
  readonly step: number
  readonly split: string
  readonly index: number
  readonly tab: string
}) => {
  const { error, value: rollout } = useLoaded(() => api.rollout(run, step, split, index), [run, step, split, index])
  const base = runHref(run, `/rollouts/${step}/${encodeURIComponent(split)}/${index}`)
  if (rollout === undefined) return <Failure message={error} />
  return (
    <section class="card rollout" aria-label="Rollout">
      <header>
        <h2>Group {rollout.group}, rollout {rollout.member}</h2>
        <span class="facts">
          <span>
            reward <b>{format.number(rollout.reward)}</b>
          </span>
          {rollout.advantage === null ? null : (
            <span class={signed(rollout.advantage).tone}>
              advantage <b>{signed(rollout.advantage).text}</b>
            </span>
          )}
          {rollout.stop === null ? null : <span>{rollout.stop.replaceAll("_", " ")}</span>}
          <span>{rollout.turns.length} {rollout.turns.length === 1 ? "turn" : "turns"}</span>
        </span>
        <div class="segments" role="radiogroup" aria-label="How to show the rollout">
          {[["", "Conversation"], ["tokens", "Tokens"]].map(([name, title]) => (
            <a key={name} role="radio" aria-checked={tab === name} href={name === "" ? base : `${base}/${name}`}>
              {title}
            </a>
          ))}
        </div>
      </header>
      <Failure message={error} />
      {tab === "tokens" ? <TokenView key={`${step} ${index}`} rollout={rollout} /> : <Conversation rollout={rollout} />}
    </section>
  )
}

const Search = ({ run }: { readonly run: string }) => {
  const [text, setText] = useState("")
  const [state, setState] = useState<{ readonly found?: Found; readonly error?: string; readonly busy: boolean }>({
    busy: false
  })
  const search = (event: Event) => {
    event.preventDefault()
    setState({ busy: true })
    api.search(run, text).then(
      (found) => setState({ found, busy: false }),
      (error: Error) => setState({ error: error.message, busy: false })
    )
  }
  return (
    <div class="search">
      <form role="search" onSubmit={search}>
        <input
          type="search"
          placeholder="Search in what was said"
          aria-label="Search in the messages of all rollouts"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value)
            if (event.currentTarget.value === "") setState({ busy: false })
          }}
        />
        <button type="submit" disabled={text.trim().length < 2 || state.busy}>
          {state.busy ? "Searching" : "Search"}
        </button>
      </form>
      <Failure message={state.error} />
      {state.found === undefined ? null : (
        <div class="card results" role="region" aria-label="Found">
          <p class="soft">
            {state.found.matches.length} of {format.number(state.found.searched)}{" "}
            rollouts{state.found.complete ? "" : "; there may be more"}
          </p>
          <ol>
            {state.found.matches.map(({ excerpt, head, split, step }) => (
              <li key={`${step} ${split} ${head.index}`}>
                <a href={runHref(run, `/rollouts/${step}/${encodeURIComponent(split)}/${head.index}`)}>
                  <span class="soft">step {step}, reward {format.number(head.reward)}</span>
                  <span class="text">{excerpt}</span>
                </a>
              </li>
            ))}
          </ol>
        </div>
      )}
    </div>
  )
}

export const Rollouts = ({ rest, run }: { readonly run: Detail; readonly rest: ReadonlyArray<string> }) => {
  const { error, value: steps } = useLoaded(() => api.steps(run.id), [run.id, run.version])
  const splits = Array.from(new Set(steps?.map(({ split }) => split) ?? []))
  const split = rest[1] ?? (splits.includes("train") ? "train" : splits[0] ?? "train")
  const inSplit = steps?.filter((other) => other.split === split) ?? []
  // A step without rollouts leads to the nearest that has some.
  const asked = rest[0] === undefined ? inSplit[inSplit.length - 1]?.step : Number(rest[0])
  const at = asked === undefined || steps === undefined ? undefined : nearest(steps, asked, split)?.step
  const index = rest[2] === undefined ? undefined : Number(rest[2])
  const heads = useLoaded(
    () => at === undefined ? Promise.resolve([]) : api.heads(run.id, at, split),
    [run.id, at, split, run.version]
  )
  const href = (next: number) =>
    runHref(run.id, `/rollouts/${at}/${encodeURIComponent(split)}/${next}${rest[3] === undefined ? "" : `/${rest[3]}`}`)
  const range = rangeOf(heads.value?.map(({ reward }) => reward) ?? [])
  const groups = new Map<number, Array<Head>>()
  for (const head of heads.value ?? []) groups.set(head.group, [...groups.get(head.group) ?? [], head])

  useKeys(({ key }) => {
    const by = { j: 1, k: -1 }[key]
    const next = index === undefined || by === undefined ? undefined : heads.value?.[index + by]
    if (next !== undefined) location.hash = href(next.index)
  })

  if (steps === undefined) return <Failure message={error} />
  if (at === undefined) {
    return (
      <div class="empty">
        <h2>No rollouts yet</h2>
        <p>
          They appear after the first step. A run records them with <code>log</code>, unless it is told not to.
        </p>
      </div>
    )
  }
  return (
    <div class="rollouts">
      <div class="controls">
        {splits.length < 2 ? null : (
          <select
            aria-label="Split"
            value={split}
            onChange={(event) => {
              location.hash = runHref(run.id, `/rollouts/${at}/${encodeURIComponent(event.currentTarget.value)}`)
            }}
          >
            {splits.map((name) => <option key={name}>{name}</option>)}
          </select>
        )}
        <Steps
          steps={inSplit}
          at={at}
          onStep={(step) => {
            location.hash = runHref(run.id, `/rollouts/${step}/${encodeURIComponent(split)}`)
          }}
        />
        <Search run={run.id} />
      </div>
      <Failure message={error ?? heads.error} />
      <div class={index === undefined ? "panes" : "panes open"}>
        <div class="groups">
          {Array.from(
            groups,
            ([group, members]) => (
              <Group
                key={`${at} ${group}`}
                run={run.id}
                step={at}
                split={split}
                group={group}
                heads={members}
                range={range}
                chosen={index}
                href={href}
              />
            )
          )}
        </div>
        {index === undefined ? null : <One run={run.id} step={at} split={split} index={index} tab={rest[3] ?? ""} />}
      </div>
    </div>
  )
}

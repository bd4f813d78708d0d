/**
 * A checkpoint beside its base model: the same question, two answers.
 */
import { useState } from "preact/hooks"
import type { Answer, Live, Question } from "./api.js"
import { api, useLoaded } from "./api.js"
import { Failure } from "./controls.js"
import * as format from "./format.js"
import { runHref } from "./runs.js"

const toolsExample = `[{
  "name": "weather",
  "description": "The weather of a city",
  "parameters": { "type": "object", "properties": { "city": { "type": "string" } } }
}]`

/** Tools as they are written down: an array of JSON, or what is wrong with it. */
const readTools = (text: string): { readonly tools?: Question["tools"]; readonly error?: string } => {
  if (text.trim() === "") return {}
  try {
    const tools: unknown = JSON.parse(text)
    return Array.isArray(tools) ? { tools } : { error: "Tools are an array" }
  } catch (error) {
    return { error: `Tools are not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}

interface Exchange {
  /** A tool answers where the model called one. */
  readonly role: "user" | "tool"
  readonly question: string
  readonly answers: ReadonlyArray<{ readonly answer?: Answer; readonly error?: string } | undefined>
}

const Reply = ({ reply }: { readonly reply: Exchange["answers"][number] }) => {
  if (reply === undefined) return <p class="soft" aria-busy="true">…</p>
  if (reply.answer === undefined) return <Failure message={reply.error} />
  const { millis, reasoning, stop, text, tokens, toolCalls } = reply.answer
  const known = tokens.flatMap(({ logprob }) => logprob === null ? [] : [logprob])
  const mean = known.reduce((sum, logprob) => sum + logprob, 0) / Math.max(1, known.length)
  return (
    <>
      {reasoning.trim() === "" ? null : (
        <details class="reasoning">
          <summary>Reasoning</summary>
          <div class="text">{reasoning.trim()}</div>
        </details>
      )}
      {text.trim() === "" && toolCalls.length > 0 ? null : <div class="text">{text.trim() || "(empty)"}</div>}
      {toolCalls.map((call, i) => (
        <div key={i} class="call">
          <b>{call.name}</b>
          <code>{call.arguments}</code>
        </div>
      ))}
      <p class="facts">
        <span>{tokens.length} tokens</span>
        <span>{format.seconds(millis / 1000)}</span>
        {known.length === 0 ? null : <span>mean p {format.number(Math.exp(mean))}</span>}
        {stop === "length" ? <span class="warn">cut off</span> : null}
      </p>
    </>
  )
}

export const Chat = (
  { checkpoint, id, live }: { readonly id: string; readonly checkpoint: string; readonly live: Live }
) => {
  const { error, value: run } = useLoaded(() => api.run(id), [id])
  const [system, setSystem] = useState("")
  const [tools, setTools] = useState("")
  const [question, setQuestion] = useState("")
  const [temperature, setTemperature] = useState(0.7)
  const [maxTokens, setMaxTokens] = useState(256)
  const [seed, setSeed] = useState(1)
  const [talk, setTalk] = useState<ReadonlyArray<Exchange>>([])
  const [busy, setBusy] = useState(false)
  const [asTool, setAsTool] = useState(true)
  const found = run?.checkpoints.find(({ name }) => name === checkpoint)
  const path = found?.samplerPath ?? undefined
  const models = run === undefined || path === undefined ? [] : [
    { title: `${run.id} · ${checkpoint}`, model: path },
    { title: `${run.model} (base)`, model: run.model }
  ]
  const read = readTools(tools)
  const called = (talk[talk.length - 1]?.answers ?? []).some((reply) => (reply?.answer?.toolCalls.length ?? 0) > 0)
  const role = called && asTool ? "tool" as const : "user" as const
  const ask = async (event: Event) => {
    event.preventDefault()
    const text = question.trim()
    if (text === "" || busy || read.error !== undefined) return
    setBusy(true)
    setQuestion("")
    const before = talk
    const answers: Array<Exchange["answers"][number]> = models.map(() => undefined)
    const show = () => setTalk([...before, { role, question: text, answers: [...answers] }])
    show()
    await Promise.all(models.map(async ({ model }, column) => {
      const history = before.flatMap((exchange) => [
        { role: exchange.role, content: exchange.question },
        {
          role: "assistant" as const,
          content: exchange.answers[column]?.answer?.text ?? "",
          toolCalls: exchange.answers[column]?.answer?.toolCalls ?? []
        }
      ])
      const last = { role, content: text }
      const rest = [...history, last]
      const [first = last, ...following] = system.trim() === ""
        ? rest
        : [{ role: "system" as const, content: system.trim() }, ...rest]
      const declared = read.tools === undefined ? {} : { tools: read.tools }
      const settings = { temperature, maxTokens, seed, ...declared }
      answers[column] = await api.ask({ model, messages: [first, ...following], ...settings }).then(
        (answer) => ({ answer }),
        (failure: Error) => ({ error: failure.message })
      )
      show()
    }))
    setBusy(false)
  }
  return (
    <main id="content" tabIndex={-1} class="chat">
      <div class="head">
        <div>
          <p class="crumbs">
            <a href="#/">Runs</a> <a href={runHref(id)}>{id}</a> <a href={runHref(id, "/checkpoints")}>Checkpoints</a>
          </p>
          <h1>Chat</h1>
          <p class="soft">The same question to both, with the same seed.</p>
        </div>
        {run === undefined ? null : (
          <label class="field">
            Checkpoint
            <select
              value={checkpoint}
              onChange={(event) => {
                setTalk([])
                location.hash = `#/chat/${encodeURIComponent(id)}/${encodeURIComponent(event.currentTarget.value)}`
              }}
            >
              {run.checkpoints.filter(({ samplerPath }) => samplerPath !== null).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      <Failure
        message={error ?? (live.ready && !live.chat ? "This studio has no connection to talk to models" : undefined)}
      />
      <div class="columns" aria-live="polite">
        {models.map(({ title }, column) => (
          <section key={column} class="card" aria-label={title}>
            <h2>{title}</h2>
            {talk.length === 0 ? <p class="soft quiet">Its answers appear here.</p> : null}
            {talk.map((exchange, i) => (
              <div key={i} class="exchange">
                <div class="question text">
                  {exchange.role === "tool" ? <small>tool</small> : null}
                  {exchange.question}
                </div>
                <Reply reply={exchange.answers[column]} />
              </div>
            ))}
          </section>
        ))}
      </div>
      <form class="ask card" onSubmit={(event) => void ask(event)}>
        <textarea
          rows={3}
          aria-label="Your message"
          placeholder={role === "tool"
            ? "What the tool returned. Enter sends it to both."
            : "Ask both. Enter sends, Shift+Enter starts a line."}
          value={question}
          onInput={(event) => setQuestion(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey) void ask(event)
          }}
        />
        <div class="settings">
          <label class="field">
            System <input value={system} onInput={(event) => setSystem(event.currentTarget.value)} />
          </label>
          <label class="field">
            Temperature{" "}
            <input
              type="number"
              min="0"
              max="2"
              step="0.1"
              value={temperature}
              onInput={(event) => setTemperature(Number(event.currentTarget.value))}
            />
          </label>
          <label class="field">
            Tokens{" "}
            <input
              type="number"
              min="1"
              max="4096"
              value={maxTokens}
              onInput={(event) => setMaxTokens(Number(event.currentTarget.value))}
            />
          </label>
          <label class="field">
            Seed <input type="number" value={seed} onInput={(event) => setSeed(Number(event.currentTarget.value))} />
          </label>
          {called
            ? (
              <label class="check">
                <input type="checkbox" checked={asTool} onChange={() => setAsTool(!asTool)} /> as the tool's answer
              </label>
            )
            : null}
          <span class="right">
            <button type="button" disabled={busy || talk.length === 0} onClick={() => setTalk([])}>Start over</button>
            <button type="submit" class="primary" disabled={busy || question.trim() === ""}>Send</button>
          </span>
        </div>
        <details class="toolbox">
          <summary>Tools{read.tools === undefined ? "" : ` ${read.tools.length}`}</summary>
          <textarea
            rows={6}
            aria-label="Tools the models may call, as JSON"
            placeholder={toolsExample}
            value={tools}
            onInput={(event) => setTools(event.currentTarget.value)}
          />
          <Failure message={read.error} />
        </details>
      </form>
    </main>
  )
}

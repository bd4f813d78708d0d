/**
 * What the page knows of the server: its answers, and the run summaries it keeps sending.
 */
import { useEffect, useState } from "preact/hooks"
import type * as CheckpointChat from "../src/CheckpointChat.js"
import type * as DataCheck from "../src/DataCheck.js"
import type * as Evaluations from "../src/Evaluations.js"
import type * as Grades from "../src/Grades.js"
import type * as Rollouts from "../src/Rollouts.js"
import type * as RunDirectory from "../src/RunDirectory.js"
import type * as Series from "../src/Series.js"
import type * as Studio from "../src/Studio.js"

export type Axis = Series.Axis
export type Points = Series.Points
export type Summary = RunDirectory.Summary
export type Detail = RunDirectory.Detail
export type Checkpoint = RunDirectory.Checkpoint
export type Runs = Studio.Runs
export type StepSummary = Rollouts.StepSummary
export type Head = Rollouts.Head
export type Rollout = Rollouts.Rollout
export type Turn = Rollouts.Turn
export type Message = Rollouts.Message
export type Tokens = Rollouts.Tokens
export type Found = Rollouts.Found
export type Answer = CheckpointChat.Answer
export type Question = typeof CheckpointChat.Question.Encoded
export type Waiting = Grades.Waiting
export type DataReport = DataCheck.Report
export type Comparison = Evaluations.Report

const storedAs = "tinker-studio"

/**
 * The key, from the address that was opened. It stays in this tab: a cookie would be sent to every port of this machine, and
 * storage is of this port only.
 */
const key = ((): string => {
  const given = /^#token=([\w-]+)$/.exec(location.hash)?.[1]
  if (given === undefined) return sessionStorage.getItem(storedAs) ?? ""
  sessionStorage.setItem(storedAs, given)
  history.replaceState(null, "", location.pathname)
  return given
})()

/** Sends the key along. */
const authorized = (path: string, init?: RequestInit): Promise<Response> =>
  fetch(path, { ...init, headers: { ...init?.headers, authorization: `Bearer ${key}` } })

const request = async <A>(
  path: string,
  init?: RequestInit & { readonly headers?: Record<string, string> }
): Promise<A> => {
  const response = await authorized(path, init)
  if (!response.ok) {
    const body: { readonly message?: string } | undefined = await response.json().catch(() => undefined)
    throw new Error(body?.message ?? `${response.status} ${response.statusText}`)
  }
  return response.json()
}

const post = <A>(path: string, body: unknown) =>
  request<A>(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body)
  })

const runPath = (id: string) => `/api/runs/${encodeURIComponent(id)}`

export interface SeriesQuery {
  readonly axis: Axis
  readonly smooth: number
  readonly points: number
  readonly from?: number | undefined
  readonly to?: number | undefined
}

export const api = {
  runs: () => request<Runs>("/api/runs"),
  run: (id: string) => request<Detail>(runPath(id)),
  series: (id: string, metrics: ReadonlyArray<string>, query: SeriesQuery) => {
    const words = new URLSearchParams({
      x: query.axis,
      smooth: String(query.smooth),
      points: String(query.points),
      ...(query.from === undefined ? {} : { from: String(query.from) }),
      ...(query.to === undefined ? {} : { to: String(query.to) })
    })
    for (const metric of metrics) words.append("metric", metric)
    return request<Readonly<Record<string, Points>>>(`${runPath(id)}/series?${words}`)
  },
  steps: (id: string) => request<ReadonlyArray<StepSummary>>(`${runPath(id)}/rollouts`),
  heads: (id: string, step: number, split: string) =>
    request<ReadonlyArray<Head>>(`${runPath(id)}/rollouts/${step}?split=${encodeURIComponent(split)}`),
  rollout: (id: string, step: number, split: string, index: number) =>
    request<Rollout>(`${runPath(id)}/rollouts/${step}/${index}?split=${encodeURIComponent(split)}`),
  search: (id: string, text: string) => request<Found>(`${runPath(id)}/search?q=${encodeURIComponent(text)}`),
  ask: (question: Question) => post<Answer>("/api/chat", question),
  grades: () => request<ReadonlyArray<Waiting>>("/api/grades"),
  grade: (grade: typeof Grades.Grade.Encoded) => post<unknown>("/api/grades", grade),
  checkData: (wanted: Optional<typeof DataCheck.Request.Encoded>) => post<DataReport>("/api/data", wanted),
  compareEvaluations: (wanted: typeof Evaluations.Request.Encoded) => post<Comparison>("/api/evaluations", wanted)
}

interface Listener {
  readonly onOpen: () => void
  readonly onEvent: (name: string, data: string) => void
  readonly onLost: () => void
}

/** Server-sent events, which `EventSource` cannot ask for with a key. Connects again until it is stopped. */
const listen = (path: string, { onEvent, onLost, onOpen }: Listener): () => void => {
  const stop = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const read = async () => {
    const { body, ok } = await authorized(path, { signal: stop.signal })
    if (!ok || body === null) return
    onOpen()
    const reader = body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ""
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (rest + value).split("\n\n")
      rest = blocks.pop() ?? ""
      for (const block of blocks) {
        const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? []
        if (name !== undefined && data !== undefined) onEvent(name, data)
      }
    }
  }
  const connect = () => {
    read().catch(() => undefined).finally(() => {
      if (stop.signal.aborted) return
      onLost()
      timer = setTimeout(connect, 2_000)
    })
  }
  connect()
  return () => {
    clearTimeout(timer)
    stop.abort()
  }
}

/** What is left out in JSON may be `undefined` here. */
type Optional<A> = { readonly [K in keyof A]: undefined extends A[K] ? A[K] | undefined : A[K] }

/** An answer of the server: not there yet, there, or why not. */
export interface Loaded<A> {
  readonly value: A | undefined
  readonly error: string | undefined
}

/** Asks again whenever one of the `keys` changes; until then the last answer stays on the screen. */
export const useLoaded = <A>(load: () => Promise<A>, keys: ReadonlyArray<unknown>): Loaded<A> => {
  const [state, setState] = useState<Loaded<A>>({ value: undefined, error: undefined })
  useEffect(() => {
    let current = true
    load().then(
      (value) => current && setState({ value, error: undefined }),
      (error: unknown) =>
        current && setState((last) => ({ ...last, error: error instanceof Error ? error.message : String(error) }))
    )
    return () => {
      current = false
    }
  }, keys)
  return state
}

export interface Live {
  readonly runs: ReadonlyMap<string, Summary>
  readonly loading: number
  readonly directory: string
  readonly chat: boolean
  readonly grades: number | null
  readonly data: Runs["data"]
  readonly evaluations: Runs["evaluations"]
  readonly connected: boolean
  readonly ready: boolean
}

/** The runs, kept up to date by server-sent events. */
export const useLive = (): Live => {
  const [live, setLive] = useState<Live>({
    runs: new Map(),
    loading: 0,
    directory: "",
    chat: false,
    grades: null,
    data: null,
    evaluations: null,
    connected: false,
    ready: false
  })
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const pending = new Map<string, Summary>()
    const load = async () => {
      const answer = await api.runs().catch(() => undefined)
      if (answer === undefined) {
        timer = setTimeout(() => void load(), 2_000)
        return
      }
      const { runs, ...rest } = answer
      setLive((last) => ({ ...last, ...rest, runs: new Map(runs.map((run) => [run.id, run])), ready: true }))
      if (rest.loading > 0) timer = setTimeout(() => void load(), 500)
    }
    // Many runs may change at once: they are drawn together.
    const flush = () => {
      const news = Array.from(pending)
      pending.clear()
      setLive((last) => ({ ...last, runs: new Map([...last.runs, ...news]) }))
    }
    void load()
    let lost = false
    const close = listen("/api/events", {
      onEvent: (name, data) => {
        if (name === "grades") {
          const grades: number = JSON.parse(data)
          setLive((last) => ({ ...last, grades }))
        } else if (name === "run") {
          const summary: Summary = JSON.parse(data)
          if (pending.size === 0) setTimeout(flush, 100)
          pending.set(summary.id, summary)
        }
      },
      onOpen: () => {
        setLive((last) => ({ ...last, connected: true }))
        // Changes during the interruption were missed.
        if (lost) void load()
        lost = false
      },
      onLost: () => {
        lost = true
        setLive((last) => ({ ...last, connected: false }))
      }
    })
    return () => {
      clearTimeout(timer)
      close()
    }
  }, [])
  return live
}

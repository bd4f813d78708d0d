/**
 * A recording without what differs from run to run: ids, times, keys of retries, and who sends. What is left is what the
 * two SDKs must agree on.
 */
import { fromBinary, toJson } from "@bufbuild/protobuf"
import { ForwardBackwardRequestSchema } from "../../../tinker/test/gen/tinker_pb.js"
import type { Seen } from "./Recorder.js"
import type { Scenario } from "./Scenario.js"

/** One request and how it was answered. */
export interface Exchange {
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  readonly status: number
  /** How long after the answer to the one before. */
  readonly delay: string
}

/** A request with its retries, and the polls for its result. */
export interface Step {
  readonly name: string
  readonly query: Readonly<Record<string, string>>
  readonly attempts: Array<Exchange>
  readonly polls: Array<Exchange>
}

/** Says who sends, or belongs to the HTTP library. */
const unheeded = new Set([
  "accept-encoding",
  "accept-language",
  "connection",
  "content-length",
  "host",
  "sec-fetch-mode",
  "transfer-encoding",
  "user-agent",
  "x-stainless-arch",
  "x-stainless-async",
  "x-stainless-os",
  "x-stainless-package-version",
  "x-stainless-raw-response",
  "x-stainless-runtime",
  "x-stainless-runtime-version"
])

/**
 * Classes of delays: each policy waits a power of two times half a second, or what the server said, shortened by up to a
 * quarter; what the machine adds must not matter.
 */
const classes = [0.25, 0.7, 1.4, 2.8, 4.6, 5.8, 11, 22]

/** The class of a delay, by its upper bound in seconds. */
export const delayClass = (millis: number): string => {
  const bound = classes.find((seconds) => millis < seconds * 1000)
  return bound === classes[0] ? "at once" : bound === undefined ? "later" : `under ${bound} s`
}

const token = /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/

const headersOf = (seen: Seen, keys: Set<string>, previous: Seen | undefined): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(seen.headers)) {
    if (value === undefined || unheeded.has(name)) continue
    switch (name) {
      case "x-idempotency-key":
        out[name] = previous?.headers[name] === value ? "the same" : keys.has(value) ? "another's" : "fresh"
        keys.add(value)
        break
      case "x-api-key":
        out[name] = token.test(value) ? "a token" : value
        break
      case "x-tinker-create-promise-roundtrip-time":
        out[name] = Number.isFinite(Number(value)) ? "seconds" : value
        break
      case "x-stainless-read-timeout":
        out[name] = String(Number(value))
        break
      default:
        out[name] = value
    }
  }
  return out
}

const bodyOf = ({ body, headers }: Seen): unknown => {
  if (body.length === 0) return undefined
  if (headers["content-encoding"] !== undefined) return `${headers["content-encoding"]} bytes`
  if (headers["content-type"]?.includes("protobuf") === true) {
    return toJson(ForwardBackwardRequestSchema, fromBinary(ForwardBackwardRequestSchema, body))
  }
  const text = new TextDecoder().decode(body)
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const field = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined

const sequence = (step: Step): number =>
  Number(field(step.attempts[0]?.body, "seqId") ?? field(step.attempts[0]?.body, "seq_id") ?? 0)

/** Runs of the same request in an order of their own, but for the last of each. */
const settled = (steps: ReadonlyArray<Step>): Array<Step> => {
  const out: Array<Step> = []
  for (let from = 0; from < steps.length;) {
    let to = from
    while (to < steps.length && steps[to]?.name === steps[from]?.name) to++
    out.push(...steps.slice(from, to - 1).sort((a, b) => sequence(a) - sequence(b)), ...steps.slice(to - 1, to))
    from = to
  }
  return out
}

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g

/** Ids by the order in which they first occur. */
const named = (steps: ReadonlyArray<Step>): ReadonlyArray<Step> => {
  const ids = new Map<string, string>()
  const text = JSON.stringify(steps).replaceAll(uuid, (id) => {
    const name = ids.get(id) ?? `id-${ids.size + 1}`
    ids.set(id, name)
    return name
  })
  return JSON.parse(text)
}

const poll = "/api/v1/retrieve_future"

/** The steps of a recording, in the order in which the server saw them. */
export const steps = (
  recording: ReadonlyArray<Seen>,
  options: Pick<Scenario, "sideBySide" | "heartbeats"> = {}
): ReadonlyArray<Step> => {
  const out: Array<Step> = []
  const keys = new Set<string>()
  const accepted = new Map<unknown, Step>()
  const last = new Map<Array<Exchange>, Seen>()
  const open = new Map<string, Step>()

  const add = (list: Array<Exchange>, seen: Seen): void => {
    const previous = last.get(list)
    list.push({
      headers: headersOf(seen, keys, previous),
      body: bodyOf(seen),
      status: seen.answer?.status ?? 0,
      delay: previous === undefined ? "" : delayClass(seen.at - (previous.answer?.at ?? seen.at))
    })
    last.set(list, seen)
  }

  for (const seen of recording) {
    if (seen.path === "/api/v1/telemetry") continue
    if (seen.path === "/api/v1/session_heartbeat" && options.heartbeats !== true) continue
    const submitted = seen.path === poll ? accepted.get(field(bodyOf(seen), "request_id")) : undefined
    if (submitted !== undefined) {
      add(submitted.polls, seen)
      continue
    }
    const name = `${seen.method} ${seen.path}`
    const key = JSON.stringify([name, seen.query, bodyOf(seen) ?? null])
    const step = open.get(key) ?? { name, query: seen.query, attempts: [], polls: [] }
    if (step.attempts.length === 0) out.push(step)
    add(step.attempts, seen)
    const status = seen.answer?.status ?? 0
    if (status >= 200 && status < 300) open.delete(key)
    else open.set(key, step)
    const id = field(seen.answer?.json, "request_id")
    if (id !== undefined) accepted.set(id, step)
  }
  return named(options.sideBySide === true ? settled(out) : out)
}

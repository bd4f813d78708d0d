/**
 * Reports field by field: the same fields with the same values, or a row of the table of what differs on purpose.
 */
import { leftOut, ownWords, reasonFor } from "./deliberate.js"

type Json = Readonly<Record<string, unknown>>

export interface Comparison {
  readonly differences: ReadonlyArray<string>
  /** Each deliberate difference that was met, with its reason. */
  readonly deliberate: ReadonlyMap<string, string>
  readonly fields: number
}

const isRecord = (u: unknown): u is Json => typeof u === "object" && u !== null && !Array.isArray(u)

export const eventsOf = (reports: ReadonlyArray<Json>): ReadonlyArray<Json> =>
  reports.flatMap(({ events }) => Array.isArray(events) ? events.filter(isRecord) : [])

export const nameOf = (event: Json): string =>
  String(event["event"] === "GENERIC_EVENT" ? event["event_name"] : event["event"])

/** Values that differ from run to run, by what they must look like. */
const shapes: Readonly<Record<string, RegExp>> = {
  event_id: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  process_uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  timestamp: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/,
  duration: /^(\d+ days?, )?\d+:\d\d:\d\d(\.\d{6})?$/
}

/** Numbers that differ from run to run. */
const measured = new Set(["event_session_index", "elapsed_time", "start_time", "current_time"])

const typeOf = (value: unknown): string => value === null ? "null" : typeof value

const same = (field: string, theirs: unknown, ours: unknown): boolean => {
  const shape = shapes[field]
  if (shape !== undefined) return [theirs, ours].every((value) => typeof value === "string" && shape.test(value))
  if (field === "session_id" && String(theirs).startsWith("sessionless-")) {
    return /^sessionless-[0-9a-f-]{36}$/.test(String(ours))
  }
  return measured.has(field) ? typeOf(theirs) === typeOf(ours) : theirs === ours
}

/** Compares two objects; `event_data` is looked into. */
export const compareObjects = (event: string, theirs: Json, ours: Json): Comparison => {
  const differences: Array<string> = []
  const deliberate = new Map<string, string>()
  let fields = 0
  for (const field of new Set([...Object.keys(theirs), ...Object.keys(ours)])) {
    const [a, b] = [theirs[field], ours[field]]
    if (field === "events") continue
    if (isRecord(a) && isRecord(b)) {
      const inner = compareObjects(event, a, b)
      differences.push(...inner.differences)
      for (const [key, reason] of inner.deliberate) deliberate.set(key, reason)
      fields += inner.fields
      continue
    }
    fields++
    if (field in theirs && !(field in ours)) {
      const reason = reasonFor(leftOut, event, field)
      if (reason === undefined) differences.push(`${event}.${field}: only the official SDK sends it`)
      else deliberate.set(`${event}.${field} left out`, reason)
    } else if (!(field in theirs)) {
      differences.push(`${event}.${field}: only we send it`)
    } else if (!same(field, a, b)) {
      const reason = reasonFor(ownWords, event, field)
      if (reason === undefined) {
        differences.push(`${event}.${field}: ${JSON.stringify(a)} there, ${JSON.stringify(b)} here`)
      } else if (typeOf(a) !== typeOf(b)) differences.push(`${event}.${field}: ${typeOf(a)} there, ${typeOf(b)} here`)
      else deliberate.set(`${event}.${field} in our words`, reason)
    }
  }
  return { differences, deliberate, fields }
}

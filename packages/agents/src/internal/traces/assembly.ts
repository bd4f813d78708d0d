/**
 * Conversations out of records: facts are held by trace until it is complete or room is needed, and calls whose prompts
 * continue each other become one conversation.
 */
import * as Duplicates from "@effect-tinker/cookbook/Duplicates"
import * as Message from "@effect-tinker/tokenizer/Message"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Trace from "../../Trace.js"
import type { Call, Fact, Score } from "./fact.js"
import * as Messages from "./messages.js"

/** Where a record stands in its file, to begin again from. @internal */
export interface Place {
  readonly file: string
  readonly row: number
  readonly offset: number
}

/** Records that cannot be used, and why. @internal */
export interface Bad {
  readonly place: Place
  readonly reason: string
  readonly record: unknown
}

/** @internal */
export type Assembled = { readonly _tag: "Trace"; readonly trace: Trace.Trace } | {
  readonly _tag: "Bad"
  readonly bad: Bad
}

interface Held {
  readonly key: string
  source: Trace.Source
  readonly places: Map<string, Place>
  readonly calls: Map<string, { call: Call; place: Place }>
  readonly spans: Set<string>
  readonly scores: Array<Score & { readonly observation: string | undefined }>
  session: string | undefined
  readonly tags: Set<string>
  bytes: number
}

/** A call with its messages. */
interface Told {
  readonly id: string
  readonly call: Call
  readonly prompt: ReadonlyArray<Message.Message>
  readonly messages: ReadonlyArray<Message.Message>
}

const merged = (before: Call | undefined, after: Call): Call => ({
  ...before,
  ...Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined))
})

const same = (a: Message.Message, b: Message.Message): boolean => Option.isNone(Message.difference(a, b))

/** Whether a call's prompt begins with everything that was said in another one. */
const continues = (later: Told, earlier: Told): boolean =>
  later.prompt.length >= earlier.messages.length && earlier.messages.every((message, i) => {
    const other = later.prompt[i]
    return other !== undefined && same(message, other)
  })

const isFeedback = (name: string): boolean => /feedback|thumb|rating|csat|reaction/i.test(name)

const sum = (values: ReadonlyArray<number | undefined>): number | undefined => {
  const known = values.filter((value) => value !== undefined)
  return known.length === 0 ? undefined : known.reduce((total, value) => total + value, 0)
}

const told = (id: string, call: Call): Either.Either<Told, string> =>
  Either.gen(function*() {
    const prompt = yield* Messages.read(call.prompt, "user")
    const answer = yield* Messages.read(call.answer, "assistant")
    const system = call.system === undefined || prompt[0]?.role === "system"
      ? []
      : [{ role: "system", content: call.system }]
    const last = answer.at(-1)
    if (prompt.length === 0) return yield* Either.left("a call without a prompt: was recording of contents turned off?")
    if (last?.role !== "assistant") return yield* Either.left("a call without an answer")
    return { id, call, prompt: [...system, ...prompt], messages: [...system, ...prompt, ...answer] }
  })

/** Conversations of a trace: chains of calls, of which the last has it all. */
const chainsOf = (calls: ReadonlyArray<Told>): ReadonlyArray<ReadonlyArray<Told>> => {
  const chains: Array<Array<Told>> = []
  for (const call of calls) {
    let best: Array<Told> | undefined
    for (const chain of chains) {
      const last = chain.at(-1)
      if (last !== undefined && continues(call, last) && (best?.at(-1)?.messages.length ?? 0) < last.messages.length) {
        best = chain
      }
    }
    if (best === undefined) chains.push([call])
    else best.push(call)
  }
  return chains
}

const traceOf = (held: Held, chain: ReadonlyArray<Told>): Trace.Trace | undefined => {
  const [last] = chain.slice(-1)
  if (last === undefined) return undefined
  const mine = new Set(chain.map(({ id }) => id))
  const scores: Record<string, number> = {}
  let feedback: { value?: number; comment?: string } | undefined
  for (const { comment, name, observation, value } of held.scores) {
    if (observation !== undefined && held.calls.get(observation)?.call.isModel === true && !mine.has(observation)) {
      continue
    }
    if (isFeedback(name)) {
      feedback = {
        ...feedback,
        ...value === undefined ? {} : { value },
        ...comment === undefined ? {} : { comment }
      }
    } else if (value !== undefined) scores[name] = value
  }
  const calls = chain.map(({ call }) => call)
  const [input, output, cost] = [
    sum(calls.map(({ input }) => input)),
    sum(calls.map(({ output }) => output)),
    sum(calls.map(({ cost }) => cost))
  ]
  const tools = Messages.tools(calls.map(({ tools }) => tools).filter(Predicate.isNotUndefined).at(-1))
  const started = calls.flatMap(({ startedAt }) => startedAt === undefined ? [] : [startedAt])
  const ended = calls.flatMap(({ endedAt }) => endedAt === undefined ? [] : [endedAt])
  const model = calls.map(({ model }) => model).filter(Predicate.isNotUndefined).at(-1)
  return new Trace.Trace({
    id: held.key.startsWith("batch-")
      // custom ids are those of one batch: the next one may have the same
      ? `${held.key}-${Duplicates.hashOf(JSON.stringify(last.messages)).toString(16)}`
      : last.id === held.key
      ? last.id
      : `${held.key}/${last.id}`,
    session: held.session ?? held.key,
    source: held.source,
    ...model === undefined ? {} : { model },
    ...started.length === 0 ? {} : { started_at: Math.min(...started) },
    ...ended.length === 0 ? {} : { ended_at: Math.max(...ended) },
    // what a call was given, other traces have written
    messages: last.messages.map((message, i) =>
      message.role === "assistant" ? { ...message, trainable: i >= (chain[0]?.prompt.length ?? 0) } : message
    ),
    ...tools.length === 0 ? {} : { tools },
    scores,
    ...feedback === undefined ? {} : { feedback },
    calls: chain.length,
    ...input === undefined && output === undefined ? {} : { usage: { input: input ?? 0, output: output ?? 0 } },
    ...cost === undefined ? {} : { cost },
    ...held.tags.size === 0 ? {} : { tags: Array.from(held.tags) }
    // made of parts that were checked
  }, { disableValidation: true })
}

const finish = (held: Held): ReadonlyArray<Assembled> => {
  const out: Array<Assembled> = []
  const calls: Array<Told> = []
  for (const [id, { call, place }] of held.calls) {
    if (call.isModel !== true) continue
    const found = told(id, call)
    if (Either.isLeft(found)) {
      out.push({ _tag: "Bad", bad: { place, reason: found.left, record: { trace: held.key, call: id, ...call } } })
    } else calls.push(found.right)
  }
  // by time; a prompt with more messages is later where clocks say nothing
  calls.sort((a, b) => (a.call.startedAt ?? 0) - (b.call.startedAt ?? 0) || a.prompt.length - b.prompt.length)
  for (const chain of chainsOf(calls)) {
    const trace = traceOf(held, chain)
    if (trace !== undefined) out.push({ _tag: "Trace", trace })
  }
  return out
}

/** @internal */
export interface Assembly {
  /** Takes what a record says; gives what had to make room for it. */
  readonly add: (facts: ReadonlyArray<Fact>, place: Place, bytes: number) => ReadonlyArray<Assembled>
  /** Everything that is held. */
  readonly end: () => ReadonlyArray<Assembled>
  /** The first record of a file that is still needed. */
  readonly needed: (file: string) => Place | undefined
}

const unclaimed = (fact: Fact, place: Place): Assembled => ({
  _tag: "Bad",
  bad: { place, reason: "it is about a call that is not there", record: fact }
})

/** Scores that came before what they are about. */
const maxWaiting = 100_000

/** @internal */
export const make = (options: { readonly maxBytes: number }): Assembly => {
  // a Map keeps the order of insertion: the trace that was touched least recently is the first
  const held = new Map<string, Held>()
  const traceOfSpan = new Map<string, string>()
  const waiting: Array<{ readonly fact: Fact; readonly place: Place }> = []
  let bytes = 0

  const drop = (one: Held): ReadonlyArray<Assembled> => {
    held.delete(one.key)
    for (const span of one.spans) traceOfSpan.delete(span)
    bytes -= one.bytes
    return finish(one)
  }

  const put = (fact: Fact, key: string, place: Place, size: number) => {
    const known = held.get(key)
    const one: Held = known ?? {
      key,
      source: fact.source,
      places: new Map(),
      calls: new Map(),
      spans: new Set(),
      scores: [],
      session: undefined,
      tags: new Set(),
      bytes: 0
    }
    if (known !== undefined) held.delete(key)
    held.set(key, one)
    if (!one.places.has(place.file)) one.places.set(place.file, place)
    one.bytes += size
    bytes += size
    one.session = fact.session ?? one.session
    for (const tag of fact.tags ?? []) one.tags.add(tag)
    const { call, observation, scores = [] } = fact
    if (observation !== undefined) {
      one.spans.add(observation)
      traceOfSpan.set(observation, key)
    }
    if (observation !== undefined && call !== undefined) {
      const before = one.calls.get(observation)
      one.calls.set(observation, { call: merged(before?.call, call), place: before?.place ?? place })
    }
    for (const score of scores) one.scores.push({ ...score, observation })
  }

  return {
    add: (facts, place, size) => {
      const share = Math.ceil(size / Math.max(1, facts.length)) + 200
      const out: Array<Assembled> = []
      for (const fact of facts) {
        const key = fact.trace ?? (fact.observation === undefined ? undefined : traceOfSpan.get(fact.observation))
        if (key !== undefined) put(fact, key, place, share)
        else if (waiting.length < maxWaiting) waiting.push({ fact, place })
        else out.push(unclaimed(fact, place))
      }
      while (bytes > options.maxBytes && held.size > 1) {
        const [oldest] = held.values()
        if (oldest === undefined) break
        out.push(...drop(oldest))
      }
      return out
    },
    end: () => {
      const out: Array<Assembled> = []
      for (const { fact, place } of waiting.splice(0)) {
        const key = fact.observation === undefined ? undefined : traceOfSpan.get(fact.observation)
        if (key === undefined) out.push(unclaimed(fact, place))
        else put(fact, key, place, 200)
      }
      for (const one of Array.from(held.values())) out.push(...drop(one))
      return out
    },
    needed: (file) => {
      let first: Place | undefined
      for (const { places } of held.values()) {
        const place = places.get(file)
        if (place !== undefined && (first === undefined || place.row < first.row)) first = place
      }
      for (const { place } of waiting) {
        if (place.file === file && (first === undefined || place.row < first.row)) first = place
      }
      return first
    }
  }
}

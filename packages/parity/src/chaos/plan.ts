/**
 * What the processes of a chaos run agree on: how an operation is recognised on the server, and what they write down.
 */
import { Schema } from "effect"

export const baseModel = "local/tiny"
export const apiKey = "tml-chaos"

/** An operation as the server executed it. */
export const Executed = Schema.Struct({
  /** Which start of the server. */
  life: Schema.Int,
  /** Which adapter of that life; -1 for samples. */
  adapter: Schema.Int,
  kind: Schema.Literal("pass", "step", "sample"),
  op: Schema.Int,
  /** Which example of the pass; 0 for everything else. */
  part: Schema.Int
})

export type Executed = typeof Executed.Type

export const kinds = ["create", "pass", "step", "save", "sample", "rest"] as const

/** A call as the client saw it end. */
export const Settled = Schema.Struct({
  op: Schema.Int,
  kind: Schema.Literal(...kinds),
  /** The client of one model, or of nothing. */
  line: Schema.String,
  /** `ok`, `interrupted`, the tag of a typed failure, or `defect`. */
  exit: Schema.String,
  /** Ids of the accepted requests. */
  requests: Schema.Array(Schema.String),
  /** Examples of a pass. */
  parts: Schema.Int,
  millis: Schema.Number,
  /** What a defect or a wrong result was. */
  note: Schema.optional(Schema.String),
  /** The tokens of a sample, some of the time. */
  tokens: Schema.optional(Schema.Array(Schema.Int))
})

export type Settled = typeof Settled.Type

/** What the client says at the end. */
export const Summary = Schema.Struct({
  /** Operations begun. */
  begun: Schema.Int,
  /** Still open at the end, or open for too long. */
  hung: Schema.Array(Schema.String),
  unhandled: Schema.Array(Schema.String),
  clockJumps: Schema.Int,
  /** Bytes of the heap after collection, at equal distances. */
  heap: Schema.Array(Schema.Number),
  cpuSeconds: Schema.Number
})

export type Summary = typeof Summary.Type

/** What the client of a load test says at the end. */
export const LoadSummary = Schema.Struct({
  /** From the first sample to the last answer. */
  seconds: Schema.Number,
  cpuSeconds: Schema.Number,
  /** Milliseconds. */
  steps: Schema.Struct({ count: Schema.Int, p50: Schema.Number, p99: Schema.Number, max: Schema.Number }),
  trainingFailed: Schema.NullOr(Schema.String),
  /** What health said, whenever it was not `Alive`. */
  unhealthy: Schema.Array(Schema.String),
  unhandled: Schema.Array(Schema.String),
  heap: Schema.Array(Schema.Number),
  rss: Schema.Number
})

export type LoadSummary = typeof LoadSummary.Type

/** What the server says when it is asked to end. */
export const Stats = Schema.Struct({
  /** By endpoint. */
  requests: Schema.Record({ key: Schema.String, value: Schema.Int }),
  /** By fault. */
  struck: Schema.Record({ key: Schema.String, value: Schema.Int })
})

export type Stats = typeof Stats.Type

/** The longest a call may take: a poll that meets a dead connection twice, and the policy's budget after it. */
export const boundMillis = 150_000

/** How long the network is watched after the last call has settled: several times as long as the server holds a poll. */
export const quietMillis = 8_000

/** An interrupted call returns at once; a busy machine is given this. */
export const leaveMillis = 5_000

const base = 100

/** Tokens that say which operation they belong to, and which part of it. */
export const mark = (op: number, part: number, length: number): Int32Array => {
  const tokens = new Int32Array(5 + length)
  tokens[0] = Math.floor(op / base ** 2) % base
  tokens[1] = Math.floor(op / base) % base
  tokens[2] = op % base
  tokens[3] = part
  for (let i = 4; i < tokens.length; i++) tokens[i] = (op * 31 + i * 7) % 200
  return tokens
}

export const marked = (tokens: ArrayLike<number>): { readonly op: number; readonly part: number } => ({
  op: (tokens[0] ?? 0) * base ** 2 + (tokens[1] ?? 0) * base + (tokens[2] ?? 0),
  part: tokens[3] ?? 0
})

/** An optimizer step carries its number as the learning rate. */
const rate = 1e-9

export const rateOf = (op: number): number => op * rate
export const opOfRate = (learningRate: number): number => Math.round(learningRate / rate)

/** Tokens of a sample that takes the server longer than its caller waits. */
export const longSample = 500

/** What a sample asks for, by its number. */
export const sampleOf = (op: number) => ({
  tokens: mark(op, 0, op % 4),
  numSamples: 1 + op % 2,
  maxTokens: 1 + op % 4,
  seed: op
})

/** A sample that takes an idle server longer than its caller stays. */
export const partingOf = (op: number) => ({ ...sampleOf(op), numSamples: 8, maxTokens: longSample })

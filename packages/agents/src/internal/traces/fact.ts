/**
 * Statements of one record of a log about one trace. Records are partial: a call is begun by one, ended by another, and scored
 * by a third.
 */
import type * as Trace from "../../Trace.js"

/** @internal */
export interface Score {
  readonly name: string
  readonly value?: number | undefined
  readonly comment?: string | undefined
}

/** Knowledge of one call of a model; later records fill in what earlier ones left out. @internal */
export interface Call {
  /** Whether it is one: other spans have inputs and outputs too. */
  readonly isModel?: boolean | undefined
  /** Before the prompt. */
  readonly system?: string | undefined
  /** As they were logged. */
  readonly prompt?: unknown
  readonly answer?: unknown
  readonly tools?: unknown
  readonly model?: string | undefined
  readonly startedAt?: number | undefined
  readonly endedAt?: number | undefined
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly cost?: number | undefined
}

/** @internal */
export interface Fact {
  readonly source: Trace.Source
  /** The trace it belongs to; `undefined` where only the observation is known. */
  readonly trace: string | undefined
  /** The span, run or row it is about; `undefined` for the trace itself. */
  readonly observation?: string | undefined
  readonly call?: Call | undefined
  readonly session?: string | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  readonly scores?: ReadonlyArray<Score> | undefined
}

/** Milliseconds of a date as logs write it: text, or a number of seconds, milliseconds or nanoseconds. @internal */
export const time = (u: unknown): number | undefined => {
  if (typeof u === "string" && !/^\d+(\.\d+)?$/.test(u)) {
    const found = Date.parse(u)
    return Number.isNaN(found) ? undefined : found
  }
  const value = typeof u === "string" ? Number(u) : u
  if (typeof value !== "number" || !(value > 0) || !Number.isFinite(value)) return undefined
  // nanoseconds of a date have more digits than a number
  return value > 1e17 ? Math.round(value / 1e3) / 1e3 : value > 1e14 ? value / 1e3 : value > 1e11 ? value : value * 1e3
}

/** Keys under which applications name a session. @internal */
export const sessionKeys: ReadonlyArray<string> = [
  "session.id",
  "session_id",
  "sessionId",
  "thread_id",
  "threadId",
  "conversation_id",
  "conversationId",
  "gen_ai.conversation.id"
]

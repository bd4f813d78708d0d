/**
 * Reactions of a run to what people ask of it: to pause, resume or cancel, and to the grades they give.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as RunControl from "../../RunControl.js"
import type { Answer } from "./execution.js"
import type { Signal } from "./segment.js"

/** Requests in the directory of a run. @internal */
export interface Requests {
  readonly cancel: Option.Option<RunControl.Request>
  readonly pause: Option.Option<RunControl.Request>
  readonly resume: Option.Option<RunControl.Request>
}

/** @internal */
export const read = (directory: string): Effect.Effect<Requests, never, FileSystem.FileSystem> =>
  Effect.all({
    cancel: RunControl.requested(directory, "cancel"),
    pause: RunControl.requested(directory, "pause"),
    resume: RunControl.requested(directory, "resume")
  })

/** Why the segment at work ends before its checkpoint, if it does. @internal */
export const signalFor = (
  { cancel, pause }: Requests,
  waiting: { readonly keys: ReadonlyArray<string>; readonly since: number },
  { now, patience }: { readonly now: number; readonly patience: number }
): Option.Option<Signal> => {
  if (Option.isSome(cancel)) return Option.some({ _tag: "Cancelled", request: cancel.value })
  if (Option.isSome(pause)) return Option.some({ _tag: "Suspended", reason: "paused", request: pause.value })
  return waiting.keys.length > 0 && now - waiting.since >= patience
    ? Option.some({ _tag: "Judging", questions: waiting.keys })
    : Option.none()
}

/** Reaction of a run that is halted. @internal */
export type Reaction =
  | { readonly _tag: "Answer"; readonly answer: Answer }
  | { readonly _tag: "Interrupt" }
  /** Goes on when these questions have grades. */
  | { readonly _tag: "GoOnWhenGraded"; readonly questions: ReadonlyArray<string> }
  | { readonly _tag: "GoOn" }
  | { readonly _tag: "Stay" }

/** @internal */
export const isPaused = (segment: Signal): boolean => segment._tag === "Suspended" && segment.reason === "paused"

/** Reaction to the requests that a run finds where it is halted. @internal */
export const reactionTo = ({ cancel, resume }: Requests, segment: Signal): Reaction => {
  const paused = isPaused(segment)
  if (Option.isSome(cancel)) return paused ? { _tag: "Answer", answer: "cancel" } : { _tag: "Interrupt" }
  if (paused) return Option.isSome(resume) ? { _tag: "Answer", answer: "resume" } : { _tag: "Stay" }
  switch (segment._tag) {
    case "Judging":
      return { _tag: "GoOnWhenGraded", questions: segment.questions }
    case "Suspended":
      return { _tag: "GoOn" }
    default:
      return { _tag: "Stay" }
  }
}

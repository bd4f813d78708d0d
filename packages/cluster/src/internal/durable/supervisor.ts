/**
 * The supervisor of a run in this process: starts or resumes the workflow, takes up what people ask of it, publishes how it
 * stands, and says when there is nothing more to do here.
 */
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as RunControl from "../../RunControl.js"
import type { Grading } from "../grading.js"
import type { Attempts } from "./attempts.js"
import type { Execution } from "./execution.js"
import * as Requests from "./requests.js"
import type { Event, Halted, Outcome } from "./segment.js"
import { firstLine } from "./segment.js"
import type { StatusFile } from "./status.js"

/** How often requests and grades are looked for, beside the beginning of every segment. */
const tick = Duration.millis(300)

/** Why there is nothing more to do: the run is over, or is left waiting for somebody else. @internal */
export type Ending = Outcome["outcome"] | "left"

/** @internal */
export interface Options<E> {
  readonly directory: string
  readonly execution: Execution
  readonly events: Queue.Dequeue<Event>
  readonly attempts: Attempts<E>
  readonly grading: Grading
  readonly status: StatusFile
  /** Milliseconds that rollouts wait for a grade before the run lets go of its model. */
  readonly patience: number
  /** Whether a run that waits is left. */
  readonly detach: boolean
}

/** @internal */
export const supervise = <E>(
  options: Options<E>
): Effect.Effect<
  Ending,
  E | PlatformError.PlatformError,
  FileSystem.FileSystem | WorkflowEngine.WorkflowEngine
> => {
  const { attempts, detach, directory, execution, grading, status } = options

  const cancelled = Effect.fnUntraced(function*(step: number) {
    const { cancel } = yield* Requests.read(directory)
    if (Option.isSome(cancel)) yield* RunControl.done(directory, cancel.value)
    yield* status.set("cancelled", step)
    return "cancelled" as const
  })

  const ended = Effect.fnUntraced(function*(exit: Exit.Exit<Outcome>, step: number) {
    if (Exit.isSuccess(exit)) {
      const { checkpoint, outcome } = exit.value
      if (outcome === "cancelled") return yield* cancelled(step)
      yield* status.set("complete", checkpoint?.step ?? 0)
      return "complete" as const
    }
    // Cancelled while suspended, the workflow ends without running its body.
    if (Cause.isInterrupted(exit.cause)) return yield* cancelled(step)
    yield* status.set("failed", step, { message: firstLine(exit.cause) })
    return yield* Effect.failCause(exit.cause)
  })

  /** Whether the run cannot go on in this process. */
  const onHalted = Effect.fnUntraced(function*({ n, segment, step }: Halted) {
    switch (segment._tag) {
      case "Suspended": {
        const { message, reason, request } = segment
        if (!attempts.has(n) && reason !== "paused") {
          yield* execution.answer(n, "resume")
          return false
        }
        yield* status.set(reason, step, { message })
        if (request !== undefined) yield* RunControl.done(directory, request)
        if (reason === "paused" && !attempts.isStopping()) return detach
        const cause = attempts.failure(n)
        return Option.isSome(cause) ? yield* Effect.failCause(cause.value) : true
      }
      case "Waiting":
        yield* status.set("waiting", step, { until: (yield* Clock.currentTimeMillis) + segment.millis })
        return detach
      case "Judging": {
        yield* grading.take
        const questions = yield* grading.unanswered(segment.questions)
        yield* status.set("judging", step, { questions })
        return detach && questions.length > 0
      }
      case "Cancelled":
        return false
    }
  })

  const lookAtWork = Effect.fnUntraced(function*(requests: Requests.Requests) {
    const now = yield* Clock.currentTimeMillis
    const signal = Requests.signalFor(requests, grading.waiting(), { now, patience: options.patience })
    if (Option.isSome(signal)) yield* attempts.signal(signal.value)
    if (Option.isSome(requests.resume)) yield* RunControl.done(directory, requests.resume.value)
  })

  const lookAtHalted = Effect.fnUntraced(function*(requests: Requests.Requests, { n, segment }: Halted) {
    const reaction = Requests.reactionTo(requests, segment)
    switch (reaction._tag) {
      case "Answer":
        yield* execution.answer(n, reaction.answer)
        return yield* execution.nudge
      case "Interrupt":
        yield* execution.interrupt
        return yield* execution.nudge
      case "GoOnWhenGraded":
        if ((yield* grading.unanswered(reaction.questions)).length === 0) yield* execution.nudge
        return
      case "GoOn":
        return yield* execution.nudge
      case "Stay":
        return
    }
  })

  return Effect.gen(function*() {
    const before = yield* execution.poll
    if (before?._tag === "Complete") return yield* ended(before.exit, 0)
    yield* before === undefined ? execution.start : execution.resume
    // A fiber of its own that a tick does not interrupt: what an interrupted one has just taken would be lost.
    const take = Effect.fork(Queue.take(options.events))
    let next = yield* take
    let halted: Halted | undefined
    for (;;) {
      const event = yield* Effect.timeoutOption(Fiber.join(next), tick)
      if (Option.isSome(event)) {
        next = yield* take
        if (event.value._tag === "Ended") return yield* ended(event.value.exit, halted?.step ?? 0)
        halted = event.value._tag === "Halted" ? event.value : undefined
        if (halted !== undefined && (yield* onHalted(halted))) return "left"
      } else if (halted !== undefined) {
        // It waits for something else than a segment: there is nothing to save.
        if (attempts.isStopping()) return "left"
        const found = yield* execution.poll
        if (found?._tag === "Complete" && Exit.isFailure(found.exit)) return yield* ended(found.exit, halted.step)
      }
      yield* grading.take
      const requests = yield* Requests.read(directory)
      yield* halted === undefined ? lookAtWork(requests) : lookAtHalted(requests, halted)
    }
  })
}

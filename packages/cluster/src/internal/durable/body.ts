/**
 * The body of a run's workflow: segment after segment, with the evaluations between them and the waits that interrupt them.
 */
import * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import * as Activity from "@effect/workflow/Activity"
import * as DurableClock from "@effect/workflow/DurableClock"
import * as DurableDeferred from "@effect/workflow/DurableDeferred"
import type * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Grading from "../grading.js"
import type { TrainerSession } from "../trainerSession.js"
import type { Attempts } from "./attempts.js"
import { answerOf } from "./execution.js"
import type { Checkpoint, Event, Outcome, Signal } from "./segment.js"
import { annotated, Segment } from "./segment.js"

/** An evaluator that needs nothing more. @internal */
export interface Measurement {
  readonly name: string
  readonly measure: (checkpoint: Checkpoint) => Effect.Effect<RunEntry.Metrics, unknown>
}

/** @internal */
export interface Options<E> {
  readonly run: string
  readonly attempts: Attempts<E>
  readonly session: TrainerSession<E, WorkflowEngine.WorkflowInstance["Type"]>
  readonly events: Queue.Enqueue<Event>
  readonly measurements: ReadonlyArray<Measurement>
  /** Checkpoints between evaluations. */
  readonly evaluateEvery: number
}

/** A measurement of a checkpoint, as an activity. */
const measure = Effect.fnUntraced(function*<E>(
  { run, session }: Pick<Options<E>, "run" | "session">,
  n: number,
  checkpoint: Checkpoint,
  { measure, name }: Measurement
) {
  const logs = annotated(run)
  const entry = (metrics: RunEntry.Metrics) => ({ _tag: "Evaluation" as const, step: checkpoint.step, name, metrics })
  const metrics = yield* Activity.make({
    name: `evaluate/${n}/${name}`,
    success: RunEntry.Evaluation.fields.metrics,
    execute: Effect.gen(function*() {
      const found = yield* Effect.exit(measure(checkpoint))
      if (Exit.isSuccess(found)) {
        // What cannot be recorded now is recorded by the next session.
        yield* Effect.catchAll(
          session.record(entry(found.value)),
          (error) => logs(Effect.logWarning("an evaluation was not recorded", error))
        )
        return found.value
      }
      // A measurement that fails does not end a run of days; it is missing in the journal.
      yield* logs(Effect.logWarning(`the evaluator ${name} failed`, found.cause))
      return {}
    })
  })
  if (Object.keys(metrics).length > 0) session.measured.push(entry(metrics))
})

/** @internal */
export const make = <E>(options: Options<E>) =>
  Effect.gen(function*() {
    const { attempts, events, session } = options
    let checkpoint: Checkpoint | undefined
    let advanced = 0
    // The engine runs the body again from its beginning after every suspension.
    session.measured.length = 0
    const halt = (n: number, segment: Signal) =>
      Queue.offer(events, { _tag: "Halted", n, segment, step: checkpoint?.step ?? 0 })
    const end = (outcome: Outcome["outcome"]): Outcome => ({ outcome, checkpoint })
    for (let n = 1;; n++) {
      const segment: Segment = yield* Activity.make({
        name: `segment/${n}`,
        success: Segment,
        execute: attempts.attempt(n, checkpoint?.step ?? 0)
      })
      if (segment._tag === "Advanced") {
        checkpoint = segment.checkpoint
        if (segment.complete || ++advanced % options.evaluateEvery === 0) {
          for (const measurement of options.measurements) yield* measure(options, n, checkpoint, measurement)
        }
        if (!segment.complete) continue
        yield* session.complete
        return end("complete")
      }
      yield* halt(n, segment)
      switch (segment._tag) {
        case "Waiting":
          yield* DurableClock.sleep({ name: `wait/${n}`, duration: Duration.millis(segment.millis) })
          break
        case "Judging":
          for (const key of segment.questions) yield* DurableDeferred.await(Grading.gradeOf(key))
          break
        case "Suspended":
          if ((yield* DurableDeferred.await(answerOf(n))) === "cancel") return end("cancelled")
          break
        case "Cancelled":
          return end("cancelled")
      }
    }
  })

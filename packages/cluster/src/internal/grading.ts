/**
 * The grades of a run: questions that its rollouts ask, and the answers that people leave in its directory. A grade is
 * durable before anybody hears of it.
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as DurableDeferred from "@effect/workflow/DurableDeferred"
import type * as Workflow from "@effect/workflow/Workflow"
import * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Schema from "effect/Schema"
import * as Judgement from "../Judgement.js"
import * as RunControl from "../RunControl.js"

/** @internal */
export const gradeOf = (key: string) => DurableDeferred.make(`grade/${key}`, { success: Schema.Finite })

/** @internal */
export interface Grading {
  /** Answers the questions of rollouts that run in an instance of the workflow. */
  readonly judgements: (instance: WorkflowEngine.WorkflowInstance["Type"]) => Judgement.Judgements["Type"]
  /** Takes up the grades that people have left: durable first, then known to the rollouts that wait. */
  readonly take: Effect.Effect<void, PlatformError.PlatformError>
  /** Questions without a durable grade: one stays in the directory until its grade is durable. */
  readonly unanswered: (
    keys: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<string>, PlatformError.PlatformError>
  /** Grades that rollouts wait for, and when the last of them asked. */
  readonly waiting: () => { readonly keys: ReadonlyArray<string>; readonly since: number }
  /** Nobody waits any more: the rollouts are gone. */
  readonly leave: () => void
}

/** @internal */
export const make = Effect.fnUntraced(function*(
  directory: string,
  execution: { readonly workflow: Workflow.Any; readonly executionId: string }
): Effect.fn.Return<Grading, never, FileSystem.FileSystem | WorkflowEngine.WorkflowEngine> {
  const engine = yield* WorkflowEngine.WorkflowEngine
  const fs = yield* FileSystem.FileSystem
  const grades = new Map<string, number>()
  const pending = new Map<string, Deferred.Deferred<number>>()
  let lastAsked = 0

  const gradedBefore = (key: string, instance: WorkflowEngine.WorkflowInstance["Type"]) =>
    Effect.map(
      Effect.provideService(engine.deferredResult(gradeOf(key)), WorkflowEngine.WorkflowInstance, instance),
      (exit) => exit !== undefined && Exit.isSuccess(exit) ? exit.value : undefined
    )

  return {
    judgements: (instance) => ({
      ask: Effect.fnUntraced(function*(question) {
        const key = yield* Judgement.keyOf(question)
        const known = grades.get(key) ?? (yield* gradedBefore(key, instance))
        if (known !== undefined) return known
        const time = yield* Clock.currentTimeMillis
        lastAsked = time
        yield* Effect.orDie(RunControl.ask(directory, new RunControl.Question({ key, time, ...question }))).pipe(
          Effect.provideService(FileSystem.FileSystem, fs)
        )
        const waiter = pending.get(key) ?? Deferred.unsafeMake<number>(FiberId.none)
        pending.set(key, waiter)
        return yield* Deferred.await(waiter)
      })
    }),
    take: Effect.gen(function*() {
      for (const { grade, key } of yield* RunControl.answers(directory)) {
        const deferred = gradeOf(key)
        const token = DurableDeferred.tokenFromExecutionId(deferred, execution)
        yield* DurableDeferred.succeed(deferred, { token, value: grade })
        yield* RunControl.answered(directory, key)
        grades.set(key, grade)
        const waiter = pending.get(key)
        pending.delete(key)
        if (waiter !== undefined) yield* Deferred.succeed(waiter, grade)
      }
    }).pipe(
      Effect.provideService(WorkflowEngine.WorkflowEngine, engine),
      Effect.provideService(FileSystem.FileSystem, fs)
    ),
    unanswered: (keys) =>
      RunControl.questions(directory).pipe(
        Effect.map((open) => keys.filter((key) => open.some((other) => other.key === key))),
        Effect.provideService(FileSystem.FileSystem, fs)
      ),
    waiting: () => ({ keys: Array.from(pending.keys()), since: lastAsked }),
    leave: () => pending.clear()
  }
})

/**
 * The execution of a run's workflow, as its supervisor sees it: started or resumed, asked how it stands, interrupted, and
 * answered where it waits for a person.
 */
import * as DurableDeferred from "@effect/workflow/DurableDeferred"
import type * as Workflow from "@effect/workflow/Workflow"
import type * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Outcome } from "./segment.js"

/** Answer to a suspended segment. @internal */
export type Answer = "resume" | "cancel"

/** @internal */
export const answerOf = (segment: number) =>
  DurableDeferred.make(`resume/${segment}`, { success: Schema.Literal("resume", "cancel") })

type WithEngine<A> = Effect.Effect<A, never, WorkflowEngine.WorkflowEngine>

/** @internal */
export interface Execution {
  readonly poll: WithEngine<Workflow.Result<Outcome, never> | undefined>
  readonly start: WithEngine<string>
  readonly resume: WithEngine<void>
  readonly interrupt: WithEngine<void>
  /** Resumes it where it is suspended: the engine misses an answer that arrives before the workflow is. */
  readonly nudge: WithEngine<void>
  /** Answers a suspended segment. */
  readonly answer: (segment: number, answer: Answer) => WithEngine<void>
}

/** @internal */
export const make = (
  workflow:
    & Workflow.Any
    & {
      readonly poll: (executionId: string) => WithEngine<Workflow.Result<Outcome, never> | undefined>
      readonly resume: (executionId: string) => WithEngine<void>
      readonly interrupt: (executionId: string) => WithEngine<void>
    },
  executionId: string,
  start: WithEngine<string>
): Execution => {
  const poll = workflow.poll(executionId)
  const resume = workflow.resume(executionId)
  return {
    poll,
    start,
    resume,
    interrupt: workflow.interrupt(executionId),
    nudge: Effect.flatMap(poll, (found) => found?._tag === "Suspended" ? resume : Effect.void),
    answer: (segment, value) => {
      const deferred = answerOf(segment)
      const token = DurableDeferred.tokenFromExecutionId(deferred, { workflow, executionId })
      return DurableDeferred.succeed(deferred, { token, value })
    }
  }
}

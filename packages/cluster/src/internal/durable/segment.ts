/**
 * Segments of a durable run: the steps from one checkpoint to the next, each an activity of the workflow, and what the
 * workflow says of them in this process.
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as RunControl from "../../RunControl.js"

/** Fields of a checkpoint as a row of the workflow holds them. @internal */
export const checkpointFields = {
  name: Schema.String,
  /** Optimizer steps the weights contain. */
  step: Schema.NonNegativeInt,
  /** Where the data goes on. */
  position: Dataset.Position,
  statePath: Schema.String,
  samplerPath: Schema.optional(Schema.String)
}

const Checkpoint = Schema.Struct(checkpointFields)

/** @internal */
export type Checkpoint = typeof Checkpoint.Type

/** Outcome of an attempt to reach the next checkpoint. @internal */
export const Segment = Schema.Union(
  Schema.TaggedStruct("Advanced", { checkpoint: Checkpoint, complete: Schema.Boolean }),
  Schema.TaggedStruct("Waiting", { millis: Schema.Number }),
  Schema.TaggedStruct("Judging", { questions: Schema.Array(Schema.String) }),
  Schema.TaggedStruct("Suspended", {
    reason: Schema.Literal("stopped", "paused", "failed"),
    message: Schema.optional(Schema.String),
    request: Schema.optional(RunControl.Request)
  }),
  Schema.TaggedStruct("Cancelled", { request: Schema.optional(RunControl.Request) })
)

/** @internal */
export type Segment = typeof Segment.Type

/** Why a segment ends before its checkpoint. @internal */
export type Signal = Exclude<Segment, { readonly _tag: "Advanced" }>

/** A run at its end. @internal */
export interface Outcome {
  readonly outcome: "complete" | "cancelled"
  readonly checkpoint?: Checkpoint | undefined
}

/** A segment that ended before its checkpoint. @internal */
export interface Halted {
  readonly _tag: "Halted"
  readonly n: number
  readonly segment: Signal
  readonly step: number
}

/** Events of the workflow in this process. @internal */
export type Event =
  | { readonly _tag: "Segment"; readonly n: number }
  | Halted
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<Outcome> }

/** Annotates the log lines of a run. @internal */
export const annotated = (run: string) =>
  Effect.annotateLogs({ package: "@effect-tinker/cluster", module: "DurableRun", run })

/** @internal */
export const firstLine = (cause: Cause.Cause<unknown>) => Cause.pretty(cause).split("\n")[0]

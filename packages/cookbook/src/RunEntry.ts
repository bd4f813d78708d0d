/**
 * Entries of a run's journal: how the run began or was resumed, a step, a checkpoint, an evaluation, a note, how
 * it ended. `RunLog` writes and reads them.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Cost from "./Cost.js"
import * as Dataset from "./Dataset.js"

/**
 * A number in JSON, which has no NaN: a journal must be able to record a loss that has become one.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Metric = Schema.transform(
  Schema.Union(Schema.Number, Schema.Literal("NaN", "Infinity", "-Infinity")),
  Schema.Number,
  {
    strict: true,
    decode: Number,
    encode: (value) =>
      Number.isNaN(value) ? "NaN" as const : value === Infinity ? "Infinity" : value === -Infinity ? "-Infinity" : value
  }
)

/**
 * Numbers by name.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Metrics = Schema.Record({ key: Schema.String, value: Metric })

/**
 * Numbers by name.
 *
 * @since 0.1.0
 * @category models
 */
export type Metrics = typeof Metrics.Type

const time = { /** Milliseconds since 1970. */ time: Schema.Number }

/**
 * A run began.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Started extends Schema.TaggedClass<Started>("@effect-tinker/cookbook/RunEntry/Started")("Started", {
  ...time,
  /** The trainer, e.g. `supervised`. */
  trainer: Schema.String,
  config: Schema.Unknown,
  /** SHA-256 of the configuration. */
  hash: Schema.String
}) {}

/**
 * A run was resumed: what was recorded after so many steps does not count.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Resumed extends Schema.TaggedClass<Resumed>("@effect-tinker/cookbook/RunEntry/Resumed")("Resumed", {
  ...time,
  /** Optimizer steps that are kept. */
  step: Schema.NonNegativeInt,
  /** Name of the checkpoint; absent when the run began again. */
  checkpoint: Schema.optional(Schema.String),
  config: Schema.Unknown,
  hash: Schema.String
}) {}

/**
 * An optimizer step.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Step extends Schema.TaggedClass<Step>("@effect-tinker/cookbook/RunEntry/Step")("Step", {
  ...time,
  /** Optimizer steps the weights contain after it: the first step is 1. */
  step: Schema.Positive.pipe(Schema.int()),
  metrics: Metrics,
  /** Milliseconds by what they were spent on. */
  timings: Metrics
}) {}

/**
 * Purpose of a checkpoint. `periodic`: to go back to. `rolling`: only until the next one. `final`: the result, which
 * never expires. `exit`: the run was interrupted.
 *
 * @since 0.1.0
 * @category schemas
 */
export const CheckpointKind = Schema.Literal("periodic", "rolling", "final", "exit")

/**
 * Purpose of a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export type CheckpointKind = typeof CheckpointKind.Type

/**
 * A checkpoint.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Checkpoint
  extends Schema.TaggedClass<Checkpoint>("@effect-tinker/cookbook/RunEntry/Checkpoint")("Checkpoint", {
    ...time,
    name: Schema.String,
    kind: CheckpointKind,
    /** Optimizer steps the weights contain. */
    step: Schema.NonNegativeInt,
    /** Where the data goes on. */
    position: Dataset.Position,
    /** Weights and optimizer state, to resume from. */
    statePath: Schema.String,
    /** Weights to sample from. */
    samplerPath: Schema.optional(Schema.String),
    /** Milliseconds since 1970 after which it is gone; absent when it never is. */
    expiresAt: Schema.optional(Schema.Number),
    /** Costs of the run so far. */
    cost: Schema.optional(Cost.Totals),
    /** State of the trainer beside the weights and the position. */
    state: Schema.optional(Schema.Unknown)
  })
{}

/**
 * Result of an evaluator for the weights after a number of steps.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Evaluation
  extends Schema.TaggedClass<Evaluation>("@effect-tinker/cookbook/RunEntry/Evaluation")("Evaluation", {
    ...time,
    step: Schema.NonNegativeInt,
    name: Schema.String,
    metrics: Metrics
  })
{}

/**
 * Something worth knowing: rows that were skipped, a checkpoint about to expire.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Note extends Schema.TaggedClass<Note>("@effect-tinker/cookbook/RunEntry/Note")("Note", {
  ...time,
  step: Schema.NonNegativeInt,
  level: Schema.Literal("info", "warning"),
  message: Schema.String
}) {}

/**
 * The run, or one of its processes, ended.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Ended extends Schema.TaggedClass<Ended>("@effect-tinker/cookbook/RunEntry/Ended")("Ended", {
  ...time,
  step: Schema.NonNegativeInt,
  outcome: Schema.Literal("success", "failure", "interrupted"),
  /** Whether all steps are done. */
  complete: Schema.Boolean,
  message: Schema.optional(Schema.String)
}) {}

/**
 * A line of the journal.
 *
 * @since 0.1.0
 * @category schemas
 */
export const RunEntry = Schema.Union(Started, Resumed, Step, Checkpoint, Evaluation, Note, Ended)

/**
 * A line of the journal.
 *
 * @since 0.1.0
 * @category models
 */
export type RunEntry = typeof RunEntry.Type

/**
 * A line of the journal before it is dated.
 *
 * @since 0.1.0
 * @category models
 */
export type NewEntry = DistributiveOmit<Exclude<RunEntry, Started | Resumed | Ended>, "time">

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never

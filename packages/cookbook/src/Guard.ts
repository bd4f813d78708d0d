/**
 * Stops a run whose model breaks. One bad step is no divergence: the median of the last steps is compared with the best the run
 * had, or with its beginning. A single step counts only where a distance rises twice as far as it may. All of this follows from
 * the steps of the journal, so a resumed run is stopped where the uninterrupted one is.
 *
 * @since 0.2.0
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as RunEntry from "./RunEntry.js"

/**
 * When a run is stopped. `Infinity` turns off one of the limits.
 *
 * @since 0.2.0
 * @category models
 */
export interface Guard {
  /** Nats per token that the loss may rise above its lowest. Of reinforcement learning only where it is given. Defaults to 3. */
  readonly loss?: number | undefined
  /**
   * Nats per token that the distance to the teacher or the reference, and that between sampling and training, may rise above its
   * lowest. Defaults to 3.
   */
  readonly kl?: number | undefined
  /** How many times as large the norm of the gradient may be as in the first ten steps that had one. Defaults to 100. */
  readonly gradNorm?: number | undefined
  /** Steps whose median is judged. Defaults to 3. */
  readonly window?: number | undefined
}

/**
 * A run was stopped because its model breaks.
 *
 * @since 0.2.0
 * @category errors
 */
export class Diverged extends Schema.TaggedError<Diverged>("@effect-tinker/cookbook/Guard/Diverged")("Diverged", {
  trainer: Schema.String,
  /** The step after which it was stopped. */
  step: Schema.Int,
  /** `loss`, `grad_norm`, or one of the distances among the metrics. */
  metric: Schema.String,
  /** The median of the last steps, or the last step. */
  value: Schema.Number,
  limit: Schema.Number,
  /** The `tinker://` path of the last checkpoint from before; absent when there is none. */
  checkpoint: Schema.optional(Schema.String)
}) {
  override get message(): string {
    const good = this.checkpoint === undefined
      ? "there is no checkpoint from before"
      : `the last good checkpoint is ${this.checkpoint}`
    return `${this.trainer}: diverged at step ${this.step}: ${this.metric} is ${shown(this.value)}, more than ${
      shown(this.limit)
    }; ${good}. A lower learning rate, clipping or a larger batch may help`
  }
}

const shown = (value: number): string => Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "not finite"

/**
 * The problem of a run, and the first of the steps that show it.
 *
 * @internal
 */
export interface Finding {
  readonly metric: string
  readonly value: number
  readonly limit: number
  readonly since: number
}

/** @internal */
export interface Watch {
  /** Looks at a step; steps come in order. */
  readonly observe: (step: number, metrics: RunEntry.Metrics) => Option.Option<Finding>
}

const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[sorted.length >> 1] ?? NaN
}

const distances = ["kl_reference", "kl_sample_train_v1"] as const

/** Norms that say what the gradients of a run are like at first. */
const beginning = 10

/** @internal */
export const watch = (guard: Guard): Watch => {
  const size = Math.max(1, Math.round(guard.window ?? 3))

  /** Judges a metric by a limit that follows from what it was before. */
  const judge = (
    metric: string,
    limitOf: (values: ReadonlyArray<number>, typical: number) => number,
    /** How much further a single step may go. */
    room = Infinity
  ) => {
    const values: Array<number> = []
    const steps: Array<number> = []
    return (step: number, metrics: RunEntry.Metrics): ReadonlyArray<Finding> => {
      const given = metrics[metric]
      if (given === undefined) return []
      // What is no number counts as the largest, and is judged like any other.
      values.push(Number.isFinite(given) ? given : Infinity)
      steps.push(step)
      if (values.length < size) return []
      const value = median(values.slice(-size))
      const limit = limitOf(values, value)
      if (value > limit) return [{ metric, value, limit, since: steps[steps.length - size] ?? step }]
      return Number.isFinite(given) && given > limit + room
        ? [{ metric, value: given, limit: limit + room, since: step }]
        : []
    }
  }

  const rising = (metric: string, by: number, room?: number) => {
    let lowest = Infinity
    return judge(metric, (_, value) => {
      lowest = Math.min(lowest, value)
      return lowest + by
    }, room)
  }

  const growing = (metric: string, times: number) =>
    judge(metric, (values) => {
      const first = values.slice(0, -size).filter((value) => Number.isFinite(value) && value > 0).slice(0, beginning)
      return first.length < beginning ? Infinity : times * Math.max(...first)
    })

  const judges = [
    rising("loss", guard.loss ?? 3),
    // A loss may leap and come back, as in a batch of other texts; what two models are apart does not.
    ...distances.map((metric) => rising(metric, guard.kl ?? 3, guard.kl ?? 3)),
    growing("grad_norm", guard.gradNorm ?? 100)
  ]
  return {
    observe: (step, metrics) => Option.fromNullable(judges.flatMap((one) => one(step, metrics))[0])
  }
}

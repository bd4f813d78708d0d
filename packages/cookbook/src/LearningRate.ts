/**
 * Learning rates that change during a run: constant, linear or cosine decay, after a warm-up.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * How the rate goes down.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Decay = Schema.Literal("constant", "linear", "cosine")

/**
 * How the rate goes down.
 *
 * @since 0.1.0
 * @category models
 */
export type Decay = typeof Decay.Type

/**
 * A learning rate over a run.
 *
 * @since 0.1.0
 * @category schemas
 */
export class LearningRate extends Schema.Class<LearningRate>("@effect-tinker/cookbook/LearningRate")({
  /** The highest rate. */
  peak: Schema.Number.pipe(Schema.nonNegative()),
  /** How it goes down from there to the end of the run. Defaults to `constant`. */
  decay: Schema.optionalWith(Decay, { default: () => "constant" as const }),
  /** Steps in which it rises from 0 to the peak. Defaults to 0. */
  warmUp: Schema.optionalWith(Schema.NonNegativeInt, { default: () => 0 }),
  /** Where it ends, as a share of the peak. Defaults to 0. */
  floor: Schema.optionalWith(Schema.Number.pipe(Schema.between(0, 1)), { default: () => 0 })
}) {}

/**
 * The rate of a step, the first of which is 0, of a run of so many.
 *
 * @since 0.1.0
 * @category combinators
 */
export const at = (self: LearningRate, step: number, total: number): number => {
  if (step < self.warmUp) return self.peak * (step + 1) / (self.warmUp + 1)
  if (self.decay === "constant") return self.peak
  const span = Math.max(1, total - self.warmUp)
  const progress = Math.min(1, (step - self.warmUp) / span)
  const left = self.decay === "linear" ? 1 - progress : (1 + Math.cos(Math.PI * progress)) / 2
  return self.peak * (self.floor + (1 - self.floor) * left)
}

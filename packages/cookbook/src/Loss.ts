/**
 * Losses of reinforcement learning by name and settings, with the presets people ask for.
 *
 * @since 0.1.0
 */
import type * as ServerLoss from "effect-tinker/Loss"
import type * as ForwardBackward from "effect-tinker/wire/ForwardBackward"
import * as Schema from "effect/Schema"

/**
 * A loss the server computes, and its settings. Made by {@link make} with the settings that its name allows, by
 * {@link other}, or by a preset.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Loss extends Schema.Class<Loss>("@effect-tinker/cookbook/Loss")({
  name: Schema.String,
  config: Schema.optionalWith(
    Schema.Record({ key: Schema.String, value: Schema.Union(Schema.Number, Schema.String) }),
    { default: () => ({}) }
  ),
  /** Whether advantages are divided by the trained tokens of their rollout. Defaults to `none`. */
  normalize: Schema.optionalWith(Schema.Literal("none", "rollout"), { default: () => "none" as const }),
  /** Factor of a token's advantage for each step that its weights are old. Defaults to 1, so that age does not matter. */
  staleness: Schema.optional(Schema.Number.pipe(Schema.between(0, 1)))
}) {}

/** The losses of the service whose inputs trainers of reinforcement learning make. */
type PolicyLoss = Exclude<ServerLoss.Name, "cross_entropy" | "custom">

/**
 * A loss of the service by its name, with the settings it takes.
 *
 * @example
 * ```ts
 * import { Loss } from "@effect-tinker/cookbook"
 *
 * const loss = Loss.make("ppo", { clip_low_threshold: 0.9 })
 * ```
 *
 * @since 0.2.0
 * @category constructors
 */
export const make = <L extends PolicyLoss>(name: L, config?: ServerLoss.Config<L>): Loss =>
  new Loss({ name, config: { ...config } })

/**
 * A loss by any name, with any settings, for servers that have more than the hosted service.
 *
 * @since 0.2.0
 * @category constructors
 */
export const other = (name: string, config?: ForwardBackward.LossConfig): Loss =>
  new Loss({ name, config: { ...config } })

/**
 * The plain policy gradient, weighted by how much likelier the token has become. Right for samples of the current weights;
 * off policy it grows without bound.
 *
 * @since 0.1.0
 * @category constructors
 */
export const importanceSampling: Loss = make("importance_sampling")

const clipped = (name: "ppo" | "cispo" | "gspo", low: number, high: number) =>
  make(name, { clip_low_threshold: low, clip_high_threshold: high })

/**
 * PPO: tokens that have become likelier or less likely than the bounds allow earn no gradient. The default off policy.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ppo = (options?: {
  /** Defaults to 0.8. */
  readonly low?: number | undefined
  /** Defaults to 1.2. */
  readonly high?: number | undefined
}): Loss => clipped("ppo", options?.low ?? 0.8, options?.high ?? 1.2)

/**
 * CISPO: the weights are clipped, the gradients are not.
 *
 * @since 0.1.0
 * @category constructors
 */
export const cispo = (options?: {
  /** Defaults to 0. */
  readonly low?: number | undefined
  /** Defaults to 4. */
  readonly high?: number | undefined
}): Loss => clipped("cispo", options?.low ?? 0, options?.high ?? 4)

/**
 * Truncated importance sampling: the policy gradient of each token, weighted by its ratio up to a cap. Tokens that have
 * become much likelier since they were sampled cannot outweigh the others, which keeps stale samples from doing harm.
 *
 * @since 0.2.0
 * @category constructors
 */
export const truncated = (options?: {
  /** The largest weight of a token. Defaults to 2. */
  readonly cap?: number | undefined
}): Loss => clipped("cispo", 0, options?.cap ?? 2)

/**
 * DAPO's clipping: more room for tokens to become likelier than to become less so. Give it centred or standardised
 * advantages and leave constant groups out.
 *
 * @since 0.1.0
 * @category constructors
 */
export const dapo: Loss = clipped("ppo", 0.8, 1.28)

/**
 * GSPO: the ratio is that of whole sequences.
 *
 * @since 0.1.0
 * @category constructors
 */
export const gspo = (options?: {
  /** Defaults to 0.9997. */
  readonly low?: number | undefined
  /** Defaults to 1.0004. */
  readonly high?: number | undefined
}): Loss => clipped("gspo", options?.low ?? 1 - 3e-4, options?.high ?? 1 + 4e-4)

/**
 * DRO: a quadratic pull towards the sampler.
 *
 * @since 0.1.0
 * @category constructors
 */
export const dro = (options?: {
  /** Defaults to 0.05. */
  readonly beta?: number | undefined
}): Loss => make("dro", { beta: options?.beta ?? 0.05 })

/**
 * The same loss, every rollout counting the same however long it is.
 *
 * @since 0.1.0
 * @category combinators
 */
export const perRollout = (self: Loss): Loss => new Loss({ ...self, normalize: "rollout" })

/**
 * The same loss, tokens of older weights counting less: the advantage of each token is multiplied by `decay` for every
 * optimizer step between the weights that drew it and those it changes.
 *
 * @since 0.2.0
 * @category combinators
 */
export const discountStale = (self: Loss, options?: {
  /** Between 0, only tokens of the current weights, and 1, all alike. Defaults to 0.8. */
  readonly decay?: number | undefined
}): Loss => new Loss({ ...self, staleness: options?.decay ?? 0.8 })

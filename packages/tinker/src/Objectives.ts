/**
 * Objectives and regularisers people write over per-token logprobs, as plain functions of `Autodiff` values.
 *
 * All take the learner's logprobs of the target tokens first, `[T]` or, with `K` candidates per position, `[T, K]`, and
 * answer one number per position: mask, weigh and sum them as the task asks. {@link dpo} answers one number per pair.
 *
 * @since 0.1.0
 */
import * as Autodiff from "./Autodiff.js"

/** Sums candidates away, so that every objective answers one number per position. */
const perPosition = (terms: Autodiff.Value): Autodiff.Value =>
  terms.shape.length === 2 ? Autodiff.sum(terms, { axis: 1 }) : terms

/**
 * Importance weight of a sampled token. With no record of the sampler its value is 1, yet it carries the gradient of
 * the sampling distribution, which plain differentiation of an average over samples would lose.
 */
const importance = (logprobs: Autodiff.Value, sampled: Autodiff.Operand | undefined): Autodiff.Value =>
  Autodiff.exp(Autodiff.sub(logprobs, sampled ?? Autodiff.detach(logprobs)))

/**
 * `KL(policy ‖ reference)` per position: what the policy pays for leaving the reference where the policy itself goes.
 *
 * - `[T, K]`: the sum over the `K` candidates, `Σ p (log p - log q)`.
 * - `[T]`, tokens drawn from the policy: the non-negative estimator `r - 1 - log r` with `r = q / p`, weighted so that
 *   both its value and its gradient are unbiased. `sampled` is the logprobs at sampling time; without it the tokens
 *   count as drawn from the policy as it is.
 *
 * @since 0.1.0
 * @category combinators
 */
export const reverseKl = (
  logprobs: Autodiff.Value,
  reference: Autodiff.Operand,
  options?: { readonly sampled?: Autodiff.Operand | undefined }
): Autodiff.Value => {
  const shift = Autodiff.sub(reference, logprobs)
  if (logprobs.shape.length === 2) return perPosition(Autodiff.mul(Autodiff.exp(logprobs), Autodiff.neg(shift)))
  const estimate = Autodiff.sub(Autodiff.expm1(shift), shift)
  return Autodiff.mul(importance(logprobs, options?.sampled), estimate)
}

/**
 * `KL(reference ‖ policy)` per position: what the policy pays for missing what the reference does.
 *
 * - `[T, K]`: the sum over the `K` candidates, `Σ q (log q - log p)`: distillation.
 * - `[T]`, tokens drawn from the reference: `log q - log p`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const forwardKl = (logprobs: Autodiff.Value, reference: Autodiff.Operand): Autodiff.Value => {
  const gap = Autodiff.sub(reference, logprobs)
  return logprobs.shape.length === 2 ? perPosition(Autodiff.mul(Autodiff.exp(reference), gap)) : gap
}

/**
 * Entropy of the policy per position; subtract it, scaled, from a loss as a bonus.
 *
 * - `[T, K]`: `-Σ p log p` over the `K` candidates.
 * - `[T]`, tokens drawn from the policy: `-log p`, weighted so that its gradient is that of the entropy.
 *
 * @since 0.1.0
 * @category combinators
 */
export const entropy = (
  logprobs: Autodiff.Value,
  options?: { readonly sampled?: Autodiff.Operand | undefined }
): Autodiff.Value => {
  const weight = logprobs.shape.length === 2 ? Autodiff.exp(logprobs) : importance(logprobs, options?.sampled)
  return Autodiff.neg(perPosition(Autodiff.mul(weight, logprobs)))
}

/**
 * `|log p - log q|` per position: keeps most logprobs exactly where the reference has them.
 *
 * @since 0.1.0
 * @category combinators
 */
export const l1Shift = (logprobs: Autodiff.Value, reference: Autodiff.Operand): Autodiff.Value =>
  perPosition(Autodiff.abs(Autodiff.sub(logprobs, reference)))

/**
 * `(log p - log q)²` per position: keeps all logprobs near the reference.
 *
 * @since 0.1.0
 * @category combinators
 */
export const l2Shift = (logprobs: Autodiff.Value, reference: Autodiff.Operand): Autodiff.Value =>
  perPosition(Autodiff.square(Autodiff.sub(logprobs, reference)))

/**
 * The clipped policy-gradient loss of PPO per position: `-min(r A, clip(r) A)` with `r = p / p_sampled`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const ppoClip = (
  logprobs: Autodiff.Value,
  options: {
    /** Logprobs when the tokens were sampled. */
    readonly sampled: Autodiff.Operand
    readonly advantages: Autodiff.Operand
    /** Lowest ratio that still earns a gradient. Defaults to 0.8. */
    readonly low?: number | undefined
    /** Highest ratio that still earns a gradient. Defaults to 1.2. */
    readonly high?: number | undefined
  }
): Autodiff.Value => {
  const ratio = Autodiff.exp(Autodiff.sub(logprobs, options.sampled))
  const clipped = Autodiff.clip(ratio, options.low ?? 0.8, options.high ?? 1.2)
  return Autodiff.neg(
    Autodiff.minimum(Autodiff.mul(ratio, options.advantages), Autodiff.mul(clipped, options.advantages))
  )
}

/**
 * One answer of a preference pair: the learner's and the reference's logprobs of its tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface Preference {
  readonly logprobs: Autodiff.Value
  readonly reference: Autodiff.Operand
  /** 0 for tokens that do not count, such as the prompt's. Defaults to all ones. */
  readonly weights?: Autodiff.Operand | undefined
}

/**
 * Direct preference optimisation of one pair: the loss and the numbers to watch, as values.
 *
 * @since 0.1.0
 * @category models
 */
export interface DpoTerms {
  /** `-log σ(margin)`. */
  readonly loss: Autodiff.Value
  /** Implicit reward of the chosen answer: `β Σ (log p - log q)`. */
  readonly chosenReward: Autodiff.Value
  /** Implicit reward of the rejected answer. */
  readonly rejectedReward: Autodiff.Value
  /** Chosen minus rejected. */
  readonly margin: Autodiff.Value
}

/**
 * Direct preference optimisation: raises the chosen answer over the rejected one, relative to the reference.
 *
 * @since 0.1.0
 * @category combinators
 */
export const dpo = (options: {
  readonly chosen: Preference
  readonly rejected: Preference
  /** DPO beta: strength of the KL constraint to the reference. Defaults to 0.1. */
  readonly beta?: number | undefined
}): DpoTerms => {
  const beta = options.beta ?? 0.1
  const reward = ({ logprobs, reference, weights }: Preference) =>
    Autodiff.sub(logprobs, reference).pipe(Autodiff.mul(weights ?? 1), Autodiff.sum, Autodiff.mul(beta))
  const chosenReward = reward(options.chosen)
  const rejectedReward = reward(options.rejected)
  const margin = Autodiff.sub(chosenReward, rejectedReward)
  return { loss: Autodiff.neg(Autodiff.logSigmoid(margin)), chosenReward, rejectedReward, margin }
}

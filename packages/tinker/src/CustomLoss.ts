/**
 * Losses written by the user: a function from the logprobs of a batch to one number, differentiated here and sent to
 * the server as the weights of a cross entropy with the same gradient.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import * as Autodiff from "./Autodiff.js"
import type * as Datum from "./Datum.js"
import * as Objectives from "./Objectives.js"
import { InvalidInput } from "./TinkerError.js"

/**
 * Result of a custom loss: a scalar {@link Autodiff} value, or a number with its gradients by the logprobs of each
 * datum, computed elsewhere. `metrics` join those of the pass under their own names.
 *
 * @since 0.1.0
 * @category models
 */
export type Outcome =
  | {
    readonly loss: Autodiff.Value
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }
  | {
    readonly loss: number
    readonly gradients: ReadonlyArray<ArrayLike<number>>
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }

/**
 * A loss over a batch. It is given the data as the caller gave it, extra `lossFnInputs` included (they are not sent), and
 * for each datum the learner's logprobs of its `target_tokens` in their shape. It may be an Effect, for instance of a
 * worker that differentiates with another library.
 *
 * @since 0.1.0
 * @category models
 */
export interface CustomLoss<E = never, R = never> {
  (
    data: ReadonlyArray<Datum.Datum>,
    logprobs: ReadonlyArray<Autodiff.Value>
  ): Outcome | Effect.Effect<Outcome, E, R>
}

/**
 * A loss that is a sum over the data, from the loss of one datum.
 *
 * @example
 * ```ts
 * import { Autodiff, CustomLoss } from "effect-tinker"
 *
 * // Unlikelihood: pushes down what the weights mark
 * const unlikelihood = CustomLoss.perDatum((logprobs, datum) =>
 *   Autodiff.exp(logprobs).pipe(
 *     (p) => Autodiff.log(Autodiff.sub(1.000001, p)),
 *     Autodiff.mul(CustomLoss.input(datum, "weights")),
 *     Autodiff.sum,
 *     Autodiff.neg
 *   )
 * )
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const perDatum = (
  loss: (logprobs: Autodiff.Value, datum: Datum.Datum, index: number) => Autodiff.Value
): CustomLoss =>
(data, logprobs) => ({
  loss: Autodiff.sum(Autodiff.stack(data.map((datum, i) => loss(at(logprobs, i), datum, i))))
})

/**
 * One of a datum's `lossFnInputs` as a constant.
 *
 * @since 0.1.0
 * @category combinators
 */
export const input = (datum: Datum.Datum, name: string): Autodiff.Value => {
  const tensor = datum.lossFnInputs[name]
  if (tensor === undefined) throw invalid("input", `the datum has no lossFnInputs["${name}"]`)
  return Autodiff.fromTensor(tensor)
}

/**
 * The server's own cross entropy, as a custom loss to build on: `-Σ weights · logprobs`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const crossEntropy: CustomLoss = perDatum((logprobs, datum) =>
  Autodiff.neg(Autodiff.sum(Autodiff.mul(logprobs, input(datum, "weights"))))
)

/**
 * Clipped policy gradient over data that carry `logprobs` (at sampling time) and `advantages`, with an optional penalty
 * for leaving a reference policy.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ppoClip = (options?: {
  /** Defaults to 0.8. */
  readonly low?: number | undefined
  /** Defaults to 1.2. */
  readonly high?: number | undefined
  /** Adds `coefficient · KL(policy ‖ reference)` over the tokens with a non-zero advantage. */
  readonly klPenalty?: {
    readonly coefficient: number
    /** The reference's logprobs of each datum. */
    readonly reference: ReadonlyArray<Autodiff.Operand>
  } | undefined
}): CustomLoss =>
  perDatum((logprobs, datum, i) => {
    const sampled = input(datum, "logprobs")
    const advantages = input(datum, "advantages")
    const surrogate = Autodiff.sum(Objectives.ppoClip(logprobs, { ...options, sampled, advantages }))
    if (options?.klPenalty === undefined) return surrogate
    const { coefficient, reference } = options.klPenalty
    const active = Autodiff.gt(Autodiff.abs(advantages), 0)
    return Objectives.reverseKl(logprobs, at(reference, i), { sampled }).pipe(
      Autodiff.mul(active),
      Autodiff.sum,
      Autodiff.mul(coefficient),
      Autodiff.add(surrogate)
    )
  })

/**
 * Direct preference optimisation over data in which each chosen answer is followed by its rejected one. `weights` mark
 * the tokens of the answers; the loss is the mean over the pairs.
 *
 * Metrics: `dpo_loss`, `accuracy`, `margin`, `chosen_reward` and `rejected_reward`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const dpo = (options: {
  /** The reference's logprobs of each datum. */
  readonly reference: ReadonlyArray<Autodiff.Operand>
  /** Defaults to 0.1. */
  readonly beta?: number | undefined
}): CustomLoss =>
(data, logprobs) => {
  if (data.length === 0 || data.length % 2 !== 0) {
    throw invalid("dpo", `${data.length} data are not pairs: each chosen response must be followed by its rejected one`)
  }
  const pairs = Array.from({ length: data.length / 2 }, (_, pair) => {
    const answer = (i: number): Objectives.Preference => ({
      logprobs: at(logprobs, i),
      reference: at(options.reference, i),
      weights: input(at(data, i), "weights")
    })
    return Objectives.dpo({ beta: options.beta, chosen: answer(2 * pair), rejected: answer(2 * pair + 1) })
  })
  const mean = (pick: (terms: Objectives.DpoTerms) => Autodiff.Value) => Autodiff.mean(Autodiff.stack(pairs.map(pick)))
  const loss = mean((terms) => terms.loss)
  return {
    loss,
    metrics: {
      dpo_loss: Autodiff.toNumber(loss),
      accuracy: Autodiff.toNumber(mean((terms) => Autodiff.gt(terms.margin, 0))),
      margin: Autodiff.toNumber(mean((terms) => terms.margin)),
      chosen_reward: Autodiff.toNumber(mean((terms) => terms.chosenReward)),
      rejected_reward: Autodiff.toNumber(mean((terms) => terms.rejectedReward))
    }
  }
}

const invalid = (method: string, description: string) => new InvalidInput({ module: "CustomLoss", method, description })

const at = <A>(items: ReadonlyArray<A>, i: number): A => {
  const item = items[i]
  if (item === undefined) throw invalid("evaluate", `nothing at position ${i} of ${items.length}`)
  return item
}

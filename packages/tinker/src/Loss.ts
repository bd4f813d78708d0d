/**
 * The losses of the service: their names, the inputs each needs and the settings it takes, so that a misspelt name, a
 * misspelt setting or a missing input does not compile. {@link other} is for losses this version does not know.
 *
 * @since 0.1.0
 */
import type * as Datum from "./Datum.js"
import type * as ForwardBackward from "./wire/ForwardBackward.js"

/**
 * Unique identifier of {@link Other}.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: unique symbol = Symbol.for("effect-tinker/Loss")

/**
 * Unique identifier of {@link Other}.
 *
 * @since 0.1.0
 * @category models
 */
export type TypeId = typeof TypeId

/**
 * Bounds of the ratio between the new and the sampled policy.
 *
 * @since 0.1.0
 * @category models
 */
export type ClipConfig = {
  readonly clip_low_threshold?: number
  readonly clip_high_threshold?: number
}

type NoConfig = Readonly<Record<string, never>>
type PolicyInput = "target_tokens" | "logprobs" | "advantages"

/**
 * Inputs each loss needs in a datum's `lossFnInputs`, and the settings it takes.
 *
 * @since 0.1.0
 * @category models
 */
export interface Losses {
  readonly cross_entropy: { readonly inputs: "target_tokens" | "weights"; readonly config: NoConfig }
  readonly importance_sampling: { readonly inputs: PolicyInput; readonly config: NoConfig }
  readonly ppo: { readonly inputs: PolicyInput; readonly config: ClipConfig }
  readonly cispo: { readonly inputs: PolicyInput; readonly config: ClipConfig }
  readonly dro: { readonly inputs: PolicyInput; readonly config: { readonly beta?: number } }
  readonly gspo: { readonly inputs: PolicyInput | "sequence_ratio_mask"; readonly config: ClipConfig }
  readonly stable_reinforce: { readonly inputs: PolicyInput; readonly config: ForwardBackward.LossConfig }
  /** A loss uploaded with `UploadedLoss.make`, which names its own inputs. */
  readonly custom: { readonly inputs: never; readonly config: { readonly loss_id: string } }
}

/**
 * The name of a loss of the service.
 *
 * @since 0.1.0
 * @category models
 */
export type Name = keyof Losses

/**
 * A loss this version does not know, made by {@link other}.
 *
 * @since 0.1.0
 * @category models
 */
export interface Other {
  readonly [TypeId]: TypeId
  readonly name: string
  readonly config: ForwardBackward.LossConfig | undefined
}

/**
 * Identity of a loss: one of the names above, or {@link other}.
 *
 * @since 0.1.0
 * @category models
 */
export type Any = Name | Other

/**
 * The inputs a loss needs.
 *
 * @since 0.1.0
 * @category models
 */
export type Inputs<L extends Any> = L extends infer N extends Name ? Losses[N]["inputs"] : never

/**
 * The settings a loss takes.
 *
 * @since 0.1.0
 * @category models
 */
export type Config<L extends Any> = L extends infer N extends Name ? Losses[N]["config"] : never

/**
 * A loss together with its settings.
 *
 * @since 0.1.0
 * @category models
 */
export interface Configured<L extends Any> {
  readonly name: L
  readonly config: Config<L>
}

/**
 * A loss by any name, with any settings, for servers that have more than the hosted service. Its inputs are not checked.
 *
 * @example
 * ```ts
 * import { Loss } from "effect-tinker"
 *
 * const dppo = Loss.other("dppo", { delta_low: 0.2, delta_high: 0.28 })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const other = (name: string, config?: ForwardBackward.LossConfig): Other => ({ [TypeId]: TypeId, name, config })

/** Only what a server cannot do without: some take a cross entropy without weights as one of equal weights. */
const requiredInputs = (lossFn: string): ReadonlyArray<string> => {
  switch (lossFn) {
    case "cross_entropy":
      return ["target_tokens"]
    case "importance_sampling":
    case "ppo":
    case "cispo":
    case "dro":
    case "gspo":
    case "stable_reinforce":
      return ["target_tokens", "logprobs", "advantages"]
    default:
      return []
  }
}

/**
 * The problem with a batch's inputs for a loss of the service, if there is one.
 *
 * @internal
 */
export const problem = (data: ReadonlyArray<Datum.Datum>, lossFn: string): string | undefined => {
  const inputs = requiredInputs(lossFn)
  for (const [i, { lossFnInputs }] of data.entries()) {
    const missing = inputs.filter((input) => !Object.hasOwn(lossFnInputs, input))
    if (missing.length > 0) {
      const given = Object.keys(lossFnInputs)
      return `${lossFn} needs ${missing.join(" and ")}: datum ${i} has ${
        given.length === 0 ? "none" : given.join(", ")
      }`
    }
  }
  return undefined
}

/**
 * The loss of a batch.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  /** Over all tokens. NaN where the server says nothing it could be computed from. */
  readonly sum: number
  /** Trained tokens: the sum of the weights, or the tokens with an advantage. */
  readonly tokens: number
  /** The mean over the trained tokens. */
  readonly perToken: number
}

const sumOf = (values: ArrayLike<number | bigint>): number => {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += Number(values[i] ?? 0)
  return sum
}

/** How many are not 0. */
const countOf = (values: ArrayLike<number | bigint>): number => {
  let count = 0
  for (let i = 0; i < values.length; i++) if (Number(values[i] ?? 0) !== 0) count++
  return count
}

const dotOf = (a: ArrayLike<number | bigint>, b: ArrayLike<number | bigint>): number => {
  let sum = 0
  for (let i = 0; i < a.length; i++) {
    const weight = Number(b[i] ?? 0)
    // A token that does not count may have a logprob of -Infinity.
    if (weight !== 0) sum += weight * Number(a[i] ?? Number.NaN)
  }
  return sum
}

const trainedTokens = ({ lossFnInputs }: Datum.Datum): number => {
  const { advantages, target_tokens: targets, weights } = lossFnInputs
  if (weights !== undefined) return sumOf(weights.data)
  if (advantages !== undefined) return countOf(advantages.data)
  return targets?.data.length ?? 0
}

/** From the per-token losses, or from the logprobs where the loss is a cross entropy. */
const lossOf = (datum: Datum.Datum, output: ForwardBackward.LossFnOutput | undefined): number => {
  const elementwise = output?.["elementwise_loss"]
  if (elementwise !== undefined) return sumOf(elementwise.data)
  const logprobs = output?.["logprobs"]
  const { advantages, weights } = datum.lossFnInputs
  if (logprobs === undefined || advantages !== undefined) return Number.NaN
  return weights === undefined ? -sumOf(logprobs.data) : -dotOf(logprobs.data, weights.data)
}

/**
 * The loss of a batch and its mean per trained token: from the server's `loss:sum`, or from the outputs of the single
 * data where the server sends none.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Loss, TinkerFuture, type TrainingClient, type Datum } from "effect-tinker"
 *
 * const evaluate = (
 *   training: TrainingClient.Service,
 *   heldOut: ReadonlyArray<Datum.With<"target_tokens" | "weights">>
 * ) =>
 *   training.forward(heldOut, "cross_entropy").pipe(
 *     TinkerFuture.await,
 *     Effect.map((output) => Loss.summarize(output, heldOut).perToken)
 *   )
 * ```
 *
 * @since 0.1.0
 * @category combinators
 */
export const summarize = (output: ForwardBackward.Output, data: ReadonlyArray<Datum.Datum>): Summary => {
  const tokens = data.reduce((sum, datum) => sum + trainedTokens(datum), 0)
  const sum = output.metrics["loss:sum"] ??
    data.reduce((sum, datum, i) => sum + lossOf(datum, output.lossFnOutputs[i]), 0)
  return { sum, tokens, perToken: sum / tokens }
}

/**
 * A custom loss that the server runs: uploaded once as a graph of operations, then named like any other loss,
 * without the extra pass that `forwardBackwardCustom` needs.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as ServiceClient from "./ServiceClient.js"
import type * as TinkerError from "./TinkerError.js"
import type * as CustomLossGraph from "./wire/CustomLossGraph.js"
import type { LossId } from "./wire/Id.js"

/**
 * Loss to upload.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** For people. */
  readonly name: string
  /** Inputs of the loss, in this order: `logprobs`, then entries of a datum's `lossFnInputs`. */
  readonly inputs: ReadonlyArray<{ readonly name: string; readonly rank: 0 | 1 | 2 }>
  /**
   * Operations in the order they run: one `placeholder` per input, what is computed from them, and an `output` of a pair:
   * the loss of one datum, and its metrics by names such as `custom/entropy:mean`.
   */
  readonly graph: ReadonlyArray<{
    readonly op: CustomLossGraph.CustomLossNode["op"]
    readonly name: string
    readonly target: string
    readonly args?: CustomLossGraph.CustomLossNode["args"] | undefined
    readonly kwargs?: CustomLossGraph.CustomLossNode["kwargs"] | undefined
  }>
}

/**
 * A loss the server has. It is what `trainStep` takes; `forwardBackward` takes its two parts. It belongs to the session.
 *
 * @since 0.1.0
 * @category models
 */
export interface UploadedLoss {
  readonly lossId: LossId
  readonly name: "custom"
  readonly config: { readonly loss_id: LossId }
}

/**
 * Uploads a loss and waits until the server has it. A server that does not run custom losses is not asked:
 * use `forwardBackwardCustom` there, which takes a function.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options
): Effect.Effect<UploadedLoss, TinkerError.TinkerError, ServiceClient.ServiceClient> =>
  Effect.flatMap(ServiceClient.ServiceClient, (service) => service.uploadLoss(options))

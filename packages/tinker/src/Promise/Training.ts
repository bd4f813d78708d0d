/**
 * A model in training, for plain async code.
 *
 * @since 0.1.0
 */
import type * as CustomLoss from "../CustomLoss.js"
import type * as ForwardBackward from "../ForwardBackward.js"
import type { ModelId } from "../Id.js"
import type * as Loss from "../Loss.js"
import type { GetInfoResponse } from "../Model.js"
import type * as Optimizer from "../Optimizer.js"
import type * as SamplingClient from "../SamplingClient.js"
import type * as TrainingClient from "../TrainingClient.js"
import type * as Weights from "../Weights.js"
import type { CallOptions, Closing, DatumInput, OperationOptions } from "./Call.js"
import type { Sampler } from "./Sampler.js"

/**
 * A loss of one's own: as `CustomLoss`, or asynchronous.
 *
 * @since 0.1.0
 * @category models
 */
export type OwnLoss = (
  ...args: Parameters<CustomLoss.CustomLoss>
) => CustomLoss.Outcome | Promise<CustomLoss.Outcome>

/**
 * Options of a pass: those of its loss, and those of every operation.
 *
 * @since 0.1.0
 * @category models
 */
export interface PassOptions<L extends Loss.Any = Loss.Any> extends OperationOptions {
  readonly lossFnConfig?: Loss.Config<L> | undefined
}

/**
 * A model in training. See `TrainingClient` for what each operation does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Training extends Closing {
  readonly modelId: ModelId
  readonly forward: <L extends Loss.Any>(
    data: ReadonlyArray<DatumInput<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    options?: PassOptions<NoInfer<L>>
  ) => Promise<ForwardBackward.Output>
  readonly forwardBackward: <L extends Loss.Any>(
    data: ReadonlyArray<DatumInput<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    options?: PassOptions<NoInfer<L>>
  ) => Promise<ForwardBackward.Output>
  /** A forward pass, your loss, and a backward pass; what is called after it waits for all three to be sent. */
  readonly forwardBackwardCustom: (
    data: ReadonlyArray<DatumInput>,
    loss: OwnLoss,
    options?: OperationOptions
  ) => Promise<ForwardBackward.Output>
  readonly optimStep: (
    params?: TrainingClient.OptimizerInput,
    options?: OperationOptions
  ) => Promise<Optimizer.OptimStepResponse>
  readonly trainStep: <L extends Loss.Any>(
    data: ReadonlyArray<DatumInput<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    params?: TrainingClient.OptimizerInput,
    options?: OperationOptions
  ) => Promise<TrainingClient.TrainStep>
  readonly saveState: (
    name: string,
    options?: TrainingClient.SaveOptions & OperationOptions & { readonly overwrite?: boolean | undefined }
  ) => Promise<Weights.SaveWeightsResponse>
  readonly loadState: (
    path: string,
    options?: Pick<TrainingClient.StateOptions, "weightsAccessToken" | "withOptimizer"> & OperationOptions
  ) => Promise<Weights.LoadWeightsResponse>
  readonly saveWeightsForSampler: (
    name: string,
    options?: TrainingClient.SaveOptions & OperationOptions
  ) => Promise<Weights.SaveWeightsForSamplerResponse>
  readonly saveWeightsExternal: (
    name: string,
    options?: NonNullable<Parameters<TrainingClient.Service["saveWeightsExternal"]>[1]> & OperationOptions
  ) => Promise<Weights.SaveWeightsExternalResponse>
  readonly saveWeightsAndGetSamplingClient: (options?: SamplingClient.Settings & CallOptions) => Promise<Sampler>
  readonly createSamplingClient: (
    modelPath: string,
    options?: SamplingClient.Settings & CallOptions
  ) => Promise<Sampler>
  readonly getInfo: (options?: CallOptions) => Promise<GetInfoResponse>
  readonly tokenizerId: (options?: CallOptions) => Promise<string>
}

/**
 * A model in training: passes, optimizer steps and checkpoints, in the order in which they are started.
 *
 * Every operation is an Effect that ends when the server has accepted it, and yields a {@link TinkerFuture}: plain
 * sequential code is ordered and pipelined, and waits only where it awaits a result.
 *
 * - Interrupted while it waits for its turn, an operation is never sent. Interrupted on the wire, its caller leaves at
 *   once and the request settles on its own. What the server has accepted runs on there.
 * - A failed operation never blocks the next one. After a pass that was sent in pieces and failed, the gradients may
 *   hold a part of it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as CustomLoss from "./CustomLoss.js"
import type * as Datum from "./Datum.js"
import type * as Creation from "./internal/training/creation.js"
import type * as Operations from "./internal/training/operations.js"
import type * as Loss from "./Loss.js"
import type * as Optimizer from "./Optimizer.js"
import type * as SamplingClient from "./SamplingClient.js"
import * as ServiceClient from "./ServiceClient.js"
import type * as TinkerError from "./TinkerError.js"
import type * as TinkerFuture from "./TinkerFuture.js"
import type * as ForwardBackward from "./wire/ForwardBackward.js"
import type { ModelId, SamplingSessionId } from "./wire/Id.js"
import type { GetInfoResponse } from "./wire/Model.js"
import type * as Weights from "./wire/Weights.js"

/**
 * An operation: ends when it is accepted, and yields the future of its result.
 *
 * @since 0.1.0
 * @category models
 */
export type Operation<A, E = never, R = never> = Effect.Effect<
  TinkerFuture.TinkerFuture<A>,
  TinkerError.TrainingError | E,
  R
>

/**
 * Parameters of an optimizer step: those of AdamW as a plain object, or of any optimizer as its class.
 *
 * @since 0.1.0
 * @category models
 */
export type OptimizerInput = Operations.OptimizerInput

/**
 * How long a checkpoint is kept, and what is kept with it.
 *
 * @since 0.1.0
 * @category models
 */
export interface SaveOptions {
  /** Seconds until it expires. Defaults to never. */
  readonly ttlSeconds?: number | undefined
  readonly userMetadata?: Readonly<Record<string, string>> | undefined
}

/**
 * How to sample from the weights of a model in training.
 *
 * @since 0.2.0
 * @category models
 */
export interface SamplerSettings extends SamplingClient.Settings {
  /**
   * `snapshot`: the weights as they are now, for as long as the client is used. `inflight`: the weights as they are now or
   * newer: every later save of this kind moves all such samplers of the model to its weights, and a sample that is being
   * generated then goes on with them. Defaults to `snapshot`.
   */
  readonly kind?: typeof Weights.SamplingClientKind.Type | undefined
}

/**
 * Result of {@link Service.trainStep}: those of both halves.
 *
 * @since 0.1.0
 * @category models
 */
export interface TrainStep {
  /** The loss of the pass, also per trained token. */
  readonly loss: Loss.Summary
  readonly pass: ForwardBackward.Output
  readonly step: Optimizer.OptimStepResponse
}

/**
 * The operations of one model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly modelId: ModelId
  /** The loss of a batch, without gradients. */
  readonly forward: <L extends Loss.Any>(
    data: ReadonlyArray<Datum.With<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    config?: Loss.Config<NoInfer<L>>
  ) => Operation<ForwardBackward.Output>
  /** The loss of a batch; its gradients are added to those the model holds. */
  readonly forwardBackward: <L extends Loss.Any>(
    data: ReadonlyArray<Datum.With<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    config?: Loss.Config<NoInfer<L>>
  ) => Operation<ForwardBackward.Output>
  /**
   * The same with a custom loss, computed here from the logprobs of a forward pass. It keeps its place: what is started
   * after it is sent after its second half, or as soon as it has failed or was interrupted. The loss itself cannot start
   * operations of the same model. Metrics: `loss:sum` is the user's loss, `surrogate_loss:sum` the server's.
   */
  readonly forwardBackwardCustom: <E = never, R = never>(
    data: ReadonlyArray<Datum.Datum>,
    loss: CustomLoss.CustomLoss<E, R>
  ) => Operation<ForwardBackward.Output, E, R>
  /** Applies the gradients and clears them. Defaults to AdamW with its own defaults. */
  readonly optimStep: (params?: OptimizerInput) => Operation<Optimizer.OptimStepResponse>
  /** A pass and the step after it, sent in one turn: nothing comes between them. */
  readonly trainStep: <L extends Loss.Any>(
    data: ReadonlyArray<Datum.With<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    params?: OptimizerInput
  ) => Operation<TrainStep>
  /** Saves weights and optimizer state, to resume from. */
  readonly saveState: (
    name: string,
    options?: SaveOptions & {
      /** Replace a checkpoint of that name, its metadata included. Defaults to false. */
      readonly overwrite?: boolean | undefined
    }
  ) => Operation<Weights.SaveWeightsResponse>
  /** Loads weights; a server takes it as the first operation of a model only. */
  readonly loadState: (path: string, options?: Creation.AccessOptions) => Operation<Weights.LoadWeightsResponse>
  /** The same with the optimizer's state. */
  readonly loadStateWithOptimizer: (
    path: string,
    options?: Creation.AccessOptions
  ) => Operation<Weights.LoadWeightsResponse>
  /** Saves weights to sample from. */
  readonly saveWeightsForSampler: (
    name: string,
    options?: SaveOptions
  ) => Operation<Weights.SaveWeightsForSamplerResponse>
  /** Opens a sampler on the current weights, without a checkpoint: what a sampling client is made from. */
  readonly saveWeightsEphemeral: Operation<SamplingSessionId>
  /** A client that samples from the weights as they are now, without a checkpoint. */
  readonly saveWeightsAndGetSamplingClient: (
    settings?: SamplerSettings
  ) => Effect.Effect<SamplingClient.Service, TinkerError.TrainingError, Scope.Scope>
  /** A client that samples from a checkpoint. */
  readonly createSamplingClient: (
    modelPath: string,
    settings?: SamplingClient.Settings
  ) => Effect.Effect<SamplingClient.Service, TinkerError.TrainingError, Scope.Scope>
  /** Saves weights in a format other tools read. */
  readonly saveWeightsExternal: (
    name: string,
    options?: {
      /** Seconds until it expires. Defaults to never. */
      readonly ttlSeconds?: number | undefined
      /** age or SSH public keys to encrypt the files to. */
      readonly ageEncryptionRecipients?: ReadonlyArray<string> | undefined
    }
  ) => Operation<Weights.SaveWeightsExternalResponse>
  /**
   * Waits for every operation accepted so far whose outcome nobody has observed, and fails if one of them failed. Saves
   * and samplers do this by themselves, and so does closing the scope, where such a failure can only be a defect.
   */
  readonly settle: Effect.Effect<void, TinkerError.TrainingError>
  /** Facts about the model. Takes no turn. */
  readonly getInfo: Effect.Effect<GetInfoResponse, TinkerError.RequestError>
  /** Name of the tokenizer to use with the model. */
  readonly tokenizerId: Effect.Effect<string, TinkerError.RequestError>
}

/**
 * The client as a service.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { type Datum, TrainingClient } from "effect-tinker"
 *
 * const step = (batch: ReadonlyArray<Datum.With<"target_tokens" | "weights">>) =>
 *   Effect.gen(function*() {
 *     const training = yield* TrainingClient.TrainingClient
 *     const pass = yield* training.forwardBackward(batch, "cross_entropy") // accepted, in order
 *     const update = yield* training.optimStep({ learningRate: 1e-4 }) // queued right behind it
 *     const { metrics } = yield* pass // only here does it wait for a result
 *     yield* update
 *     return metrics["loss:sum"]
 *   })
 * ```
 *
 * @since 0.1.0
 * @category services
 */
export class TrainingClient extends Context.Tag("effect-tinker/TrainingClient")<TrainingClient, Service>() {}

/**
 * A new model with a LoRA adapter.
 *
 * @since 0.1.0
 * @category models
 */
export type LoraOptions = Creation.LoraOptions

/**
 * A model that continues from a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export type StateOptions = Creation.StateOptions

/**
 * Creates a model with a LoRA adapter and waits until it is ready.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeLora = (
  options: LoraOptions
): Effect.Effect<Service, TinkerError.StartupError, ServiceClient.ServiceClient | Scope.Scope> =>
  Effect.flatMap(ServiceClient.ServiceClient, (service) => service.createLoraTrainingClient(options))

/**
 * Creates a model from a checkpoint and waits until it is loaded: in one request where the server takes it so, in three
 * elsewhere.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeFromState = (
  options: StateOptions
): Effect.Effect<Service, TinkerError.StartupError, ServiceClient.ServiceClient | Scope.Scope> =>
  Effect.flatMap(ServiceClient.ServiceClient, (service) => service.createTrainingClientFromState(options))

/**
 * A new model with a LoRA adapter, made when the layer is built.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerLora = (
  options: LoraOptions
): Layer.Layer<TrainingClient, TinkerError.StartupError, ServiceClient.ServiceClient> =>
  Layer.scoped(TrainingClient, makeLora(options))

/**
 * A model that continues from a checkpoint, made when the layer is built.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromState = (
  options: StateOptions
): Layer.Layer<TrainingClient, TinkerError.StartupError, ServiceClient.ServiceClient> =>
  Layer.scoped(TrainingClient, makeFromState(options))

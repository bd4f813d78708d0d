/**
 * Creates models: new ones, or from a checkpoint.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { LoraConfig } from "../../LoraConfig.js"
import type { OptimizerConfig } from "../../Optimizer.js"
import * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type * as Future from "../../wire/Future.js"
import { ModelId } from "../../wire/Id.js"
import { CreateModelRequest, CreateModelResponse } from "../../wire/Model.js"
import * as Weights from "../../wire/Weights.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Poll from "../polling/poll.js"
import * as SharedConfig from "../session/clientConfig.js"
import type { ServiceContext } from "../session/session.js"
import * as Errors from "../transport/errors.js"

/** @internal */
export interface LoraOptions {
  /** A model of the server's catalogue. */
  readonly baseModel: string
  /** Rank of the adapter. Defaults to 32. */
  readonly rank?: number | undefined
  /** Seed of the initial weights. The server picks one when absent. */
  readonly seed?: number | undefined
  /** Adapt the MLP layers. Defaults to true. */
  readonly trainMlp?: boolean | undefined
  /** Adapt the attention layers. Defaults to true. */
  readonly trainAttn?: boolean | undefined
  /** Adapt the unembedding layer. Defaults to true. */
  readonly trainUnembed?: boolean | undefined
  readonly userMetadata?: Readonly<Record<string, string>> | undefined
  /** Optimizer family. Defaults to AdamW. */
  readonly optimizer?: OptimizerConfig | undefined
}

/** @internal */
export interface AccessOptions {
  /** A credential that may read the weights, when they belong to someone else. */
  readonly weightsAccessToken?: Redacted.Redacted | string | undefined
}

/** @internal */
export interface StateOptions extends AccessOptions {
  /** A `tinker://` path. */
  readonly path: string
  /** Load the optimizer's state too, to go on exactly where it stopped. Defaults to false. */
  readonly withOptimizer?: boolean | undefined
  /** Overrides the checkpoint's base model; must be compatible with it. */
  readonly baseModel?: string | undefined
  readonly userMetadata?: Readonly<Record<string, string>> | undefined
  /** Optimizer family, when the optimizer's state is not loaded. */
  readonly optimizer?: OptimizerConfig | undefined
}

/** @internal */
export const token = (given: Redacted.Redacted | string | undefined): string | undefined =>
  given === undefined || typeof given === "string" ? given : Redacted.value(given)

const from = (method: string) => ({ module: "TrainingClient", method })

/** @internal */
export const request = <A>(method: string, build: () => A): Effect.Effect<A, TinkerError.InvalidInput> =>
  Errors.buildRequest(from(method), build)

/**
 * A model being created has no client yet, so its poll runs here and is not shared.
 *
 * @internal
 */
export const result = <A>(options: {
  readonly service: ServiceContext
  readonly accepted: Future.UntypedFuture
  readonly requestType: string
  readonly from: { readonly module: string; readonly method: string }
  readonly label: string
  readonly decoder: Poll.Decoder<A>
  readonly started: number
}): Effect.Effect<A, TinkerError.TinkerError> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const { api, budgets } = options.service
    return Poll.poll({
      api,
      inflight: budgets.inflight,
      requestId: options.accepted.requestId,
      requestType: options.requestType,
      from: options.from,
      decoder: options.decoder,
      roundtrip: (now - options.started) / 1000,
      onEvent: Logs.makeQueueLog(options.label)
    }).pipe(Effect.tap(() =>
      Effect.map(Clock.currentTimeMillis, (end) => Observer.finished(options.requestType, end - options.started))
    ))
  })

/** @internal */
export interface Created {
  readonly modelId: ModelId
  /** Unless only the server knows it. */
  readonly baseModel: string | undefined
}

const created = Poll.fromSchema(CreateModelResponse)
const loaded = Poll.fromSchema(Weights.LoadWeightsResponse)

const create: (
  service: ServiceContext,
  options: LoraOptions,
  method: string
) => Effect.Effect<Created, TinkerError.TinkerError> = Effect.fnUntraced(function*(service, options, method) {
  const flags = {
    trainMlp: options.trainMlp ?? true,
    trainAttn: options.trainAttn ?? true,
    trainUnembed: options.trainUnembed ?? true
  }
  if (Object.values(flags).every((flag) => !flag)) {
    return yield* new TinkerError.InvalidInput({ ...from(method), description: "no layers are left to train" })
  }
  // Refused before the session gives out a number.
  const loraConfig = yield* request(
    method,
    () => new LoraConfig({ rank: options.rank ?? 32, seed: options.seed, ...flags })
  )
  const started = yield* Clock.currentTimeMillis
  const sessionId = yield* service.sessionId
  const { api, nextModelSeqId } = service
  yield* SharedConfig.checkBaseModel(api, from(method), options.baseModel)
  const body = yield* request(method, () =>
    new CreateModelRequest({
      sessionId,
      modelSeqId: nextModelSeqId(),
      baseModel: options.baseModel,
      userMetadata: options.userMetadata,
      loraConfig,
      optimizerConfig: options.optimizer
    }))
  const accepted = yield* api.call(Api.createModel, body, { from: from(method) })
  const answer = yield* result({
    service,
    accepted,
    started,
    from: from(method),
    requestType: "CreateModel",
    label: `Creating a model from ${options.baseModel}`,
    decoder: created
  })
  return { modelId: answer.modelId, baseModel: options.baseModel }
})

/** @internal */
export const lora = (
  service: ServiceContext,
  options: LoraOptions
): Effect.Effect<Created, TinkerError.TinkerError> => create(service, options, "makeLora")

/**
 * One request creates the model and loads it.
 *
 * @internal
 */
export const viaLoadWeights: (
  service: ServiceContext,
  options: StateOptions
) => Effect.Effect<Created, TinkerError.TinkerError> = Effect.fnUntraced(function*(service, options) {
  const method = "makeFromState"
  const started = yield* Clock.currentTimeMillis
  const sessionId = yield* service.sessionId
  const { api, nextModelSeqId } = service
  const modelSeqId = nextModelSeqId()
  const body = yield* request(method, () =>
    new Weights.LoadWeightsRequest({
      sessionId,
      modelSeqId,
      baseModel: options.baseModel,
      userMetadata: options.userMetadata,
      path: options.path,
      optimizer: options.withOptimizer ?? false,
      optimizerConfig: options.withOptimizer === true ? undefined : options.optimizer,
      weightsAccessToken: token(options.weightsAccessToken)
    }))
  const accepted = yield* api.call(Api.loadWeights, body, { from: from(method) })
  const answer = yield* result({
    service,
    accepted,
    started,
    from: from(method),
    requestType: "LoadWeights",
    label: `Loading ${options.path}`,
    decoder: loaded
  })
  return {
    modelId: answer.modelId ?? accepted.modelId ?? ModelId.make(`${sessionId}:train:${modelSeqId}`),
    baseModel: options.baseModel
  }
})

/**
 * A new model shaped like the one a checkpoint was saved from; loading the weights is a separate step.
 *
 * @internal
 */
export const likeCheckpoint: (
  service: ServiceContext,
  options: StateOptions
) => Effect.Effect<Created, TinkerError.TinkerError> = Effect.fnUntraced(function*(service, options) {
  const method = "makeFromState"
  const { api } = service
  const secret = token(options.weightsAccessToken)
  const info = yield* api.call(
    Api.weightsInfo,
    yield* request(method, () => new Weights.WeightsInfoRequest({ tinkerPath: options.path })),
    { from: from(method), credential: secret === undefined ? undefined : Redacted.make(secret) }
  )
  if (!info.isLora || info.loraRank === undefined) {
    return yield* new TinkerError.InvalidInput({
      ...from(method),
      description: `${options.path} is not a LoRA checkpoint`
    })
  }
  return yield* create(service, {
    baseModel: options.baseModel ?? info.baseModel,
    rank: info.loraRank,
    trainMlp: info.trainMlp,
    trainAttn: info.trainAttn,
    trainUnembed: info.trainUnembed,
    userMetadata: options.userMetadata,
    optimizer: options.withOptimizer === true ? info.optimizerConfig : options.optimizer
  }, method)
})

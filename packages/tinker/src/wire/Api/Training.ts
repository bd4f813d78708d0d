/**
 * Models in training and the operations on them.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { training } from "../../internal/wire/api.js"
import * as passJson from "../../internal/wire/passJson.js"
import { OptimStepRequest } from "../../Optimizer.js"
import { CreateCustomLossRequest } from "../CustomLossGraph.js"
import * as Endpoint from "../Endpoint.js"
import * as ForwardBackward from "../ForwardBackward.js"
import * as Future from "../Future.js"
import * as Model from "../Model.js"
import * as Weights from "../Weights.js"

/** The form of clients before 0.25, which self-hosted servers still read. */
const PassJson: Endpoint.Codec<ForwardBackward.Request> = {
  contentType: "application/json",
  encode: passJson.encode,
  decode: passJson.decode
}

/** Protobuf out; a server also reads the JSON of older clients. */
const PassBody: Endpoint.Codec<ForwardBackward.Request> = {
  contentType: "application/x-protobuf",
  encode: (request) => Either.mapLeft(ForwardBackward.encodeRequest(request), (error) => error.description ?? ""),
  decode: (body, contentType) =>
    contentType?.includes("application/x-protobuf") === true
      ? Either.mapLeft(ForwardBackward.decodeRequest(body), (error) => error.description ?? "")
      : PassJson.decode(body, contentType)
}

/**
 * Creates a model to train.
 *
 * @since 0.1.0
 * @category models
 */
export const createModel: Endpoint.Endpoint<Model.CreateModelRequest, Future.UntypedFuture> = Endpoint.make(
  "createModel",
  "POST",
  "/api/v1/create_model",
  { ...training, request: Model.CreateModelRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Frees a model. Not every server has it.
 *
 * @since 0.1.0
 * @category models
 */
export const unloadModel: Endpoint.Endpoint<Model.UnloadModelRequest, Future.UntypedFuture> = Endpoint.make(
  "unloadModel",
  "POST",
  "/api/v1/unload_model",
  { ...training, request: Model.UnloadModelRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * A pass over training data, with or without gradients.
 *
 * @since 0.1.0
 * @category models
 */
export const forwardBackward: Endpoint.Endpoint<ForwardBackward.Request, Future.UntypedFuture> = Endpoint.makeBody(
  "forwardBackward",
  "POST",
  "/api/v1/forward_backward",
  { ...training, compress: true, request: PassBody, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * A pass without gradients in JSON: where clients before 0.25 send them. In protobuf it is a `forwardBackward` that says
 * so.
 *
 * @since 0.1.0
 * @category models
 */
export const forward: Endpoint.Endpoint<ForwardBackward.Request, Future.UntypedFuture> = Endpoint.makeBody(
  "forward",
  "POST",
  "/api/v1/forward",
  { ...training, request: PassJson, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Applies the accumulated gradients.
 *
 * @since 0.1.0
 * @category models
 */
export const optimStep: Endpoint.Endpoint<OptimStepRequest, Future.UntypedFuture> = Endpoint.make(
  "optimStep",
  "POST",
  "/api/v1/optim_step",
  { ...training, request: OptimStepRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Saves a checkpoint to continue from.
 *
 * @since 0.1.0
 * @category models
 */
export const saveWeights: Endpoint.Endpoint<Weights.SaveWeightsRequest, Future.UntypedFuture> = Endpoint.make(
  "saveWeights",
  "POST",
  "/api/v1/save_weights",
  { ...training, request: Weights.SaveWeightsRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Loads a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const loadWeights: Endpoint.Endpoint<Weights.LoadWeightsRequest, Future.UntypedFuture> = Endpoint.make(
  "loadWeights",
  "POST",
  "/api/v1/load_weights",
  { ...training, request: Weights.LoadWeightsRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Saves a checkpoint to sample from.
 *
 * @since 0.1.0
 * @category models
 */
export const saveWeightsForSampler: Endpoint.Endpoint<Weights.SaveWeightsForSamplerRequest, Future.UntypedFuture> =
  Endpoint.make("saveWeightsForSampler", "POST", "/api/v1/save_weights_for_sampler", {
    ...training,
    request: Weights.SaveWeightsForSamplerRequest,
    response: Endpoint.json(Future.UntypedFuture)
  })

/**
 * Saves a checkpoint in a format of others.
 *
 * @since 0.1.0
 * @category models
 */
export const saveWeightsExternal: Endpoint.Endpoint<Weights.SaveWeightsExternalRequest, Future.UntypedFuture> = Endpoint
  .make("saveWeightsExternal", "POST", "/api/v1/save_weights_external", {
    ...training,
    request: Weights.SaveWeightsExternalRequest,
    response: Endpoint.json(Future.UntypedFuture)
  })

/**
 * Registers a traced loss.
 *
 * @since 0.1.0
 * @category models
 */
export const createCustomLoss: Endpoint.Endpoint<CreateCustomLossRequest, Future.UntypedFuture> = Endpoint.make(
  "createCustomLoss",
  "POST",
  "/api/v1/create_custom_loss",
  { ...training, request: CreateCustomLossRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Description of a model.
 *
 * @since 0.1.0
 * @category models
 */
export const getInfo: Endpoint.Endpoint<Model.GetInfoRequest, Model.GetInfoResponse> = Endpoint.make(
  "getInfo",
  "POST",
  "/api/v1/get_info",
  { pool: "training", retry: "restRead", request: Model.GetInfoRequest, response: Endpoint.json(Model.GetInfoResponse) }
)

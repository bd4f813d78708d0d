/**
 * A model's weights on their way to checkpoints, samplers and back, each a request in its turn.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Api from "../../Api.js"
import type { ModelId, SamplingSessionId } from "../../Id.js"
import * as TinkerError from "../../TinkerError.js"
import * as TinkerFuture from "../../TinkerFuture.js"
import type * as TrainingClient from "../../TrainingClient.js"
import * as Weights from "../../Weights.js"
import * as Decoder from "../polling/decoder.js"
import * as Creation from "./creation.js"
import type * as Submission from "./submission.js"

const saved = Decoder.fromSchema(Weights.SaveWeightsResponse)
const loaded = Decoder.fromSchema(Weights.LoadWeightsResponse)
const savedForSampler = Decoder.fromSchema(Weights.SaveWeightsForSamplerResult)
const savedExternal = Decoder.fromSchema(Weights.SaveWeightsExternalResult)

/**
 * @internal
 */
export const lacks = (method: string, requestIds: ReadonlyArray<string>, what: string) =>
  new TinkerError.MalformedResponse({
    module: "TrainingClient",
    method,
    requestId: requestIds.join(", "),
    description: `the result has no ${what}`
  })

/** @internal */
export type Saving = Pick<
  TrainingClient.Service,
  | "saveState"
  | "loadState"
  | "loadStateWithOptimizer"
  | "saveWeightsForSampler"
  | "saveWeightsEphemeral"
  | "saveWeightsExternal"
>

/** @internal */
export const make = ({ line, modelId, nextSamplingSessionSeqId }: {
  readonly line: Submission.Submission
  readonly modelId: ModelId
  readonly nextSamplingSessionSeqId: () => number
}): Saving => {
  const saveState: TrainingClient.Service["saveState"] = (name, options) =>
    line.one(
      { method: "saveState", requestType: "SaveWeights", decoder: saved, isBarrier: true },
      (seqId) =>
        Effect.flatMap(
          Creation.request("saveState", () =>
            new Weights.SaveWeightsRequest({
              ...options,
              modelId,
              seqId,
              path: name,
              overwrite: options?.overwrite ?? false
            })),
          (body) => line.call(Api.saveWeights, body, "saveState")
        )
    )

  const load = (method: string, optimizer: boolean): TrainingClient.Service["loadState"] => (path, options) =>
    line.one({ method, requestType: "LoadWeights", decoder: loaded }, (seqId) =>
      Effect.flatMap(
        Creation.request(method, () =>
          new Weights.LoadWeightsRequest({
            modelId,
            seqId,
            path,
            optimizer,
            weightsAccessToken: Creation.token(options?.weightsAccessToken)
          })),
        (body) => line.call(Api.loadWeights, body, method)
      ))

  const saveForSampler = (
    method: string,
    fields: () => Partial<Pick<Weights.SaveWeightsForSamplerRequest, "path" | "samplingSessionSeqId">>,
    options?: TrainingClient.SaveOptions
  ) => {
    // The sampler's number is part of the request: a resend must carry the same one.
    let drawn: ReturnType<typeof fields> | undefined
    return line.one(
      { method, requestType: "SaveWeightsForSampler", decoder: savedForSampler, isBarrier: true },
      (seqId) =>
        Effect.flatMap(
          Creation.request(
            method,
            () => new Weights.SaveWeightsForSamplerRequest({ modelId, seqId, ...(drawn ??= fields()), ...options })
          ),
          (body) => line.call(Api.saveWeightsForSampler, body, method)
        )
    )
  }

  const saveWeightsForSampler: TrainingClient.Service["saveWeightsForSampler"] = (name, options) => {
    const method = "saveWeightsForSampler"
    return Effect.map(
      saveForSampler(method, () => ({ path: name }), options),
      (future) =>
        TinkerFuture.mapEither(future, ({ path }) =>
          path === undefined
            ? Either.left(lacks(method, future.requestIds, "path"))
            : Either.right(new Weights.SaveWeightsForSamplerResponse({ path })))
    )
  }

  const saveWeightsEphemeral: TrainingClient.Service["saveWeightsEphemeral"] = Effect.suspend(() => {
    const method = "saveWeightsEphemeral"
    return Effect.map(
      saveForSampler(method, () => ({ samplingSessionSeqId: nextSamplingSessionSeqId() })),
      (future) =>
        TinkerFuture.mapEither(
          future,
          ({ samplingSessionId }): Either.Either<SamplingSessionId, TinkerError.TinkerError> =>
            samplingSessionId === undefined
              ? Either.left(lacks(method, future.requestIds, "sampling_session_id"))
              : Either.right(samplingSessionId)
        )
    )
  })

  const saveWeightsExternal: TrainingClient.Service["saveWeightsExternal"] = (name, options) => {
    const method = "saveWeightsExternal"
    return Effect.map(
      line.one(
        { method, requestType: "SaveWeightsExternal", decoder: savedExternal, isBarrier: true },
        (seqId) =>
          Effect.flatMap(
            Creation.request(
              method,
              () => new Weights.SaveWeightsExternalRequest({ modelId, seqId, path: name, ...options })
            ),
            (body) => line.call(Api.saveWeightsExternal, body, method)
          )
      ),
      (future) =>
        TinkerFuture.mapEither(future, ({ path }) =>
          path === undefined
            ? Either.left(lacks(method, future.requestIds, "path"))
            : Either.right(new Weights.SaveWeightsExternalResponse({ path })))
    )
  }

  return {
    saveState,
    loadState: load("loadState", false),
    loadStateWithOptimizer: load("loadStateWithOptimizer", true),
    saveWeightsForSampler,
    saveWeightsEphemeral,
    saveWeightsExternal
  }
}

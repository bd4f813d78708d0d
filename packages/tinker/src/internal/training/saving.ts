/**
 * Saves and loads a model's weights, each a request in its turn.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as TinkerError from "../../TinkerError.js"
import * as TinkerFuture from "../../TinkerFuture.js"
import type * as TrainingClient from "../../TrainingClient.js"
import * as Api from "../../wire/Api.js"
import type { ModelId, SamplingSessionId } from "../../wire/Id.js"
import * as Weights from "../../wire/Weights.js"
import * as Poll from "../polling/poll.js"
import * as Creation from "./creation.js"
import type { ModelLine } from "./modelLine.js"

const saved = Poll.fromSchema(Weights.SaveWeightsResponse)
const loaded = Poll.fromSchema(Weights.LoadWeightsResponse)
const savedForSampler = Poll.fromSchema(Weights.SaveWeightsForSamplerResult)
const savedExternal = Poll.fromSchema(Weights.SaveWeightsExternalResult)

/**
 * The error of a result that lacks something.
 *
 * @internal
 */
export const missing = (method: string, requestIds: ReadonlyArray<string>, what: string) =>
  new TinkerError.MalformedResponse({
    module: "TrainingClient",
    method,
    requestId: requestIds.join(", "),
    description: `the result has no ${what}`
  })

type Saving =
  & Pick<
    TrainingClient.Service,
    | "saveState"
    | "loadState"
    | "loadStateWithOptimizer"
    | "saveWeightsForSampler"
    | "saveWeightsEphemeral"
    | "saveWeightsExternal"
  >
  & {
    /** Opens a sampler on the current weights for the public method of that name. */
    readonly openSampler: (
      method: string,
      kind: typeof Weights.SamplingClientKind.Type | undefined
    ) => TrainingClient.Operation<SamplingSessionId>
  }

/** @internal */
export const make = ({ line, modelId, nextSamplingSessionSeqId }: {
  readonly line: ModelLine
  readonly modelId: ModelId
  readonly nextSamplingSessionSeqId: () => number
}): Saving => {
  const saveState: TrainingClient.Service["saveState"] = (name, options) => {
    const method = "saveState"
    return Creation.request(
      method,
      () => new Weights.SaveWeightsRequest({ ...options, modelId, path: name, overwrite: options?.overwrite ?? false })
    ).pipe(
      Effect.flatMap((body) =>
        line.send({
          method,
          requestType: "SaveWeights",
          decoder: saved,
          requests: [{ endpoint: Api.saveWeights, body }],
          isBarrier: true
        })
      ),
      Effect.map(([future]) => future)
    )
  }

  const load = (method: string, optimizer: boolean): TrainingClient.Service["loadState"] => (path, options) =>
    Creation.request(
      method,
      () =>
        new Weights.LoadWeightsRequest({
          modelId,
          path,
          optimizer,
          weightsAccessToken: Creation.token(options?.weightsAccessToken)
        })
    ).pipe(
      Effect.flatMap((body) =>
        line.send({
          method,
          requestType: "LoadWeights",
          decoder: loaded,
          requests: [{ endpoint: Api.loadWeights, body }]
        })
      ),
      Effect.map(([future]) => future)
    )

  const saveForSampler = (
    method: string,
    fields: () => Partial<Pick<Weights.SaveWeightsForSamplerRequest, "path" | "samplingSessionSeqId" | "kind">>,
    options?: TrainingClient.SaveOptions
  ) =>
    Creation.request(
      method,
      () => new Weights.SaveWeightsForSamplerRequest({ modelId, ...fields(), ...options })
    ).pipe(
      Effect.flatMap((body) =>
        line.send({
          method,
          requestType: "SaveWeightsForSampler",
          decoder: savedForSampler,
          requests: [{ endpoint: Api.saveWeightsForSampler, body }],
          isBarrier: true
        })
      ),
      Effect.map(([future]) => future)
    )

  const saveWeightsForSampler: TrainingClient.Service["saveWeightsForSampler"] = (name, options) => {
    const method = "saveWeightsForSampler"
    return Effect.map(
      saveForSampler(method, () => ({ path: name }), options),
      (future) =>
        TinkerFuture.mapEither(future, ({ path }) =>
          path === undefined
            ? Either.left(missing(method, future.requestIds, "path"))
            : Either.right(new Weights.SaveWeightsForSamplerResponse({ path })))
    )
  }

  const openSampler: Saving["openSampler"] = (method, kind) =>
    Effect.map(
      saveForSampler(method, () => ({
        samplingSessionSeqId: nextSamplingSessionSeqId(),
        // Servers before 0.38 have snapshots only, and may not know the field.
        kind: kind === "inflight" ? kind : undefined
      })),
      (future) =>
        TinkerFuture.mapEither(
          future,
          ({ samplingSessionId }): Either.Either<SamplingSessionId, TinkerError.TinkerError> =>
            samplingSessionId === undefined
              ? Either.left(missing(method, future.requestIds, "sampling_session_id"))
              : Either.right(samplingSessionId)
        )
    )

  const saveWeightsExternal: TrainingClient.Service["saveWeightsExternal"] = (name, options) => {
    const method = "saveWeightsExternal"
    return Effect.map(
      Effect.flatMap(
        Creation.request(
          method,
          () => new Weights.SaveWeightsExternalRequest({ modelId, path: name, ...options })
        ),
        (body) =>
          line.send({
            method,
            requestType: "SaveWeightsExternal",
            decoder: savedExternal,
            requests: [{ endpoint: Api.saveWeightsExternal, body }],
            isBarrier: true
          })
      ),
      ([future]) =>
        TinkerFuture.mapEither(future, ({ path }) =>
          path === undefined
            ? Either.left(missing(method, future.requestIds, "path"))
            : Either.right(new Weights.SaveWeightsExternalResponse({ path })))
    )
  }

  return {
    saveState,
    loadState: load("loadState", false),
    loadStateWithOptimizer: load("loadStateWithOptimizer", true),
    saveWeightsForSampler,
    saveWeightsEphemeral: Effect.suspend(() => openSampler("saveWeightsEphemeral", undefined)),
    openSampler,
    saveWeightsExternal
  }
}

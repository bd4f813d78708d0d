/**
 * Sampling clients: of a new sampler, of one that a model's weights were handed to, or of one opened elsewhere.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as SubscriptionRef from "effect/SubscriptionRef"
import { SamplerHandle } from "../../SamplerHandle.js"
import type { Options, Service, Settings } from "../../SamplingClient.js"
import * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type { SamplingSessionId, SessionId } from "../../wire/Id.js"
import { CreateSamplingSessionRequest } from "../../wire/Sampler.js"
import * as Observer from "../observability/observer.js"
import * as SharedConfig from "../session/clientConfig.js"
import * as Session from "../session/session.js"
import type { ServiceContext } from "../session/session.js"
import * as Errors from "../transport/errors.js"
import type { Numbering } from "./sampleNumbers.js"
import { sampleMany } from "./sampleRequest.js"
import * as Sampling from "./sampling.js"

const from = (method: string) => ({ module: "SamplingClient", method })

const invalid = (method: string, description: string) => new TinkerError.InvalidInput({ ...from(method), description })

/** How a sampler was opened, and what is known about it by that. */
interface Opened {
  readonly sessionId: SessionId
  readonly numbering: Numbering
  readonly settings?: Settings | undefined
  /** Name of its source, as far as there is one. */
  readonly model?: string | undefined
  readonly baseModel?: string | undefined
}

/**
 * A client of an existing sampler.
 *
 * @internal
 */
export const fromSession: (
  service: ServiceContext,
  samplingSessionId: SamplingSessionId,
  opened: Opened
) => Effect.Effect<Service, TinkerError.TinkerError, Scope.Scope> = Effect.fnUntraced(
  function*(service, samplingSessionId, { baseModel, model, numbering, sessionId, settings = {} }) {
    const { api } = service
    // A sampler keeps its base model: the server is asked at most once.
    let known = baseModel
    const { events, operation } = yield* Sampling.make(service, samplingSessionId, numbering, settings, model)
    const score = operation("computeLogprobs")
    return {
      samplingSessionId,
      sample: operation("sample"),
      computeLogprobs: (prompt, options) =>
        Effect.flatMap(
          score({
            prompt,
            numSamples: 1,
            maxTokens: 1,
            promptLogprobs: true,
            promptLogprobsLastN: options?.lastN
          }),
          ({ promptLogprobs }) =>
            promptLogprobs === undefined
              ? new TinkerError.MalformedResponse({
                ...from("computeLogprobs"),
                description: "the server did not score the prompt"
              })
              : Effect.succeed(promptLogprobs)
        ),
      sampleMany: sampleMany(operation("sampleMany")),
      baseModel: Effect.suspend(() =>
        known !== undefined
          ? Effect.succeed(known)
          : Effect.map(
            Errors.toRequestError(
              api.call(Api.getSampler, { samplerId: samplingSessionId }, { from: from("baseModel") })
            ),
            (sampler) => known = sampler.baseModel
          )
      ),
      events,
      handle: new SamplerHandle({
        sessionId,
        samplingSessionId,
        holder: { baseUrl: api.config.baseUrl },
        recordStabilityInfo: settings.recordStabilityInfo ?? false
      })
    }
  }
)

/**
 * Opens a sampler.
 *
 * @internal
 */
export const make: (
  service: ServiceContext,
  options: Options,
  /** The public method that opens it. */
  caller?: { readonly module: string; readonly method: string }
) => Effect.Effect<Service, TinkerError.TinkerError, Scope.Scope> = Effect.fnUntraced(function*(
  service,
  options,
  caller = from("make")
) {
  const { baseModel, modelPath } = options
  if (baseModel === undefined && modelPath === undefined) {
    return yield* invalid("make", "either baseModel or modelPath must be given")
  }
  if (modelPath !== undefined && !modelPath.startsWith("tinker://")) {
    return yield* invalid("make", `modelPath must start with tinker://, not ${JSON.stringify(modelPath)}`)
  }
  const sessionId = yield* service.sessionId
  const { api, nextSamplingSessionSeqId } = service
  if (baseModel !== undefined) yield* SharedConfig.checkBaseModel(api, from("make"), baseModel)
  const { samplingSessionId } = yield* Observer.reported(
    api.emit,
    api.call(
      Api.createSamplingSession,
      new CreateSamplingSessionRequest({
        sessionId,
        samplingSessionSeqId: nextSamplingSessionSeqId(),
        baseModel,
        modelPath
      }),
      { from: caller }
    )
  )
  return yield* fromSession(service, samplingSessionId, {
    sessionId,
    numbering: "original",
    settings: options,
    model: modelPath ?? baseModel,
    // A checkpoint is of the base model it was trained from, whatever else is given.
    baseModel: modelPath === undefined ? baseModel : undefined
  })
})

/**
 * A client of a sampler opened elsewhere, which keeps that session alive too.
 *
 * @internal
 */
export const fromHandle: (
  service: ServiceContext,
  handle: SamplerHandle,
  settings?: Settings
) => Effect.Effect<Service, TinkerError.TinkerError, Scope.Scope> = Effect.fnUntraced(
  function*(service, handle, settings) {
    const { api } = service
    if (handle.holder.baseUrl.replace(/\/+$/, "") !== api.config.baseUrl) {
      return yield* invalid(
        "fromHandle",
        `the sampler is at ${handle.holder.baseUrl}, the client is connected to ${api.config.baseUrl}`
      )
    }
    const health = yield* SubscriptionRef.make<Session.Health>({ _tag: "Alive" })
    yield* Effect.forkScoped(Session.runHeartbeat(api, handle.sessionId, health))
    return yield* fromSession(service, handle.samplingSessionId, {
      sessionId: handle.sessionId,
      numbering: "copy",
      settings: { recordStabilityInfo: handle.recordStabilityInfo, ...settings }
    })
  }
)

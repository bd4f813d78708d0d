/**
 * The operations of a model in training, each a request in its turn.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import type * as CustomLoss from "../../CustomLoss.js"
import * as Datum from "../../Datum.js"
import * as Loss from "../../Loss.js"
import * as Optimizer from "../../Optimizer.js"
import * as TinkerError from "../../TinkerError.js"
import * as TinkerFuture from "../../TinkerFuture.js"
import type * as TrainingClient from "../../TrainingClient.js"
import * as Api from "../../wire/Api.js"
import * as ForwardBackward from "../../wire/ForwardBackward.js"
import type { ModelId, SamplingSessionId } from "../../wire/Id.js"
import { GetInfoRequest } from "../../wire/Model.js"
import * as Weights from "../../wire/Weights.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Poll from "../polling/poll.js"
import * as Samplers from "../sampling/samplers.js"
import type { ServiceContext } from "../session/session.js"
import * as Errors from "../transport/errors.js"
import * as Batches from "./batches.js"
import { combine } from "./batches.js"
import * as Creation from "./creation.js"
import * as Losses from "./losses.js"
import * as Passes from "./passes.js"
import * as Submission from "./submission.js"
import * as Unobserved from "./unobserved.js"

// -----------------------------------------------------------------------------
// Saving and loading a model's weights, each a request in its turn.
// -----------------------------------------------------------------------------

const saved = Poll.fromSchema(Weights.SaveWeightsResponse)
const loaded = Poll.fromSchema(Weights.LoadWeightsResponse)
const savedForSampler = Poll.fromSchema(Weights.SaveWeightsForSamplerResult)
const savedExternal = Poll.fromSchema(Weights.SaveWeightsExternalResult)

/**
 * @internal
 */
const missing = (method: string, requestIds: ReadonlyArray<string>, what: string) =>
  new TinkerError.MalformedResponse({
    module: "TrainingClient",
    method,
    requestId: requestIds.join(", "),
    description: `the result has no ${what}`
  })

type Saving = Pick<
  TrainingClient.Service,
  | "saveState"
  | "loadState"
  | "loadStateWithOptimizer"
  | "saveWeightsForSampler"
  | "saveWeightsEphemeral"
  | "saveWeightsExternal"
>

const makeSaving = ({ line, modelId, nextSamplingSessionSeqId }: {
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
            ? Either.left(missing(method, future.requestIds, "path"))
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
              ? Either.left(missing(method, future.requestIds, "sampling_session_id"))
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
            ? Either.left(missing(method, future.requestIds, "path"))
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

// -----------------------------------------------------------------------------
// Training operations.
// -----------------------------------------------------------------------------

interface AdamOptions {
  /** Defaults to 1e-4. */
  readonly learningRate?: number | undefined
  /** Defaults to 0.9. */
  readonly beta1?: number | undefined
  /** Defaults to 0.95. */
  readonly beta2?: number | undefined
  /** Defaults to 1e-12. */
  readonly eps?: number | undefined
  /** Defaults to 0. */
  readonly weightDecay?: number | undefined
  /** Largest norm of the gradients; 0 does not clip. Defaults to 0. */
  readonly gradClipNorm?: number | undefined
}

/** @internal */
export type OptimizerInput = Optimizer.OptimizerParams | AdamOptions

const decodeOutput: Poll.Decoder<ForwardBackward.Output> = {
  ...Poll.fromSchema(ForwardBackward.OutputFromJson),
  protobuf: (body) =>
    Either.mapLeft(ForwardBackward.decodeOutput(body), (error) => error.description ?? "not the result of a pass")
}

const optimStepped = Poll.fromSchema(Optimizer.OptimStepResponse)
const from = (method: string) => ({ module: "TrainingClient", method })

const invalid = (method: string, description: string) => new TinkerError.InvalidInput({ ...from(method), description })

/** A single result keeps metrics of reductions we do not know: there is nothing to reduce. */
const combined = (outputs: ReadonlyArray<ForwardBackward.Output>): ForwardBackward.Output => {
  const [only, ...rest] = outputs
  const all = combine(outputs)
  return only === undefined || rest.length > 0 ? all : { ...all, metrics: { ...only.metrics, ...all.metrics } }
}

/** Some servers send the losses of the tokens and leave their sum to the client. */
const withLoss = (output: ForwardBackward.Output, data: ReadonlyArray<Datum.Datum>): ForwardBackward.Output => {
  if (output.metrics["loss:sum"] !== undefined) return output
  const { sum } = Loss.summarize(output, data)
  return Number.isNaN(sum) ? output : { ...output, metrics: { ...output.metrics, "loss:sum": sum } }
}

const toParams = (input: OptimizerInput): Optimizer.OptimizerParams => {
  if (input instanceof Optimizer.AdamParams || input instanceof Optimizer.DimuonParams || isOther(input)) return input
  const given: Record<string, number> = {}
  for (const [name, value] of Object.entries(input)) if (value !== undefined) given[name] = value
  return new Optimizer.AdamParams(given)
}

const isOther = (input: object): input is Optimizer.OtherOptimizerParams =>
  "type" in input && typeof input.type === "string"

/** What is wrong with the parameters of a step, if anything: a server may only notice when the step runs. */
const problemOf = (params: Optimizer.OptimizerParams): string | undefined => {
  const nonNegative = (name: string, value: number) =>
    Number.isFinite(value) && value >= 0 ? undefined : `${name} must be a finite number of at least 0, not ${value}`
  const fraction = (name: string, value: number) =>
    value >= 0 && value < 1 ? undefined : `${name} must be at least 0 and below 1, not ${value}`
  if (params instanceof Optimizer.DimuonParams) {
    return nonNegative("learningRate", params.learningRate) ?? fraction("beta1", params.beta1)
  }
  if (!(params instanceof Optimizer.AdamParams)) return undefined
  return nonNegative("learningRate", params.learningRate) ??
    fraction("beta1", params.beta1) ??
    fraction("beta2", params.beta2) ??
    nonNegative("eps", params.eps) ??
    nonNegative("weightDecay", params.weightDecay) ??
    nonNegative("gradClipNorm", params.gradClipNorm)
}

/** The first of these tokens that the model does not have. */
const tokenBeyond = (tokens: ArrayLike<number | bigint>, size: number): number | undefined => {
  for (let i = 0; i < tokens.length; i++) {
    const token = Number(tokens[i])
    if (token < 0 || token >= size) return token
  }
  return undefined
}

const placeholder = Either.getOrThrow(Datum.fromTokens([0, 0], { weights: [0, 0] }))

type LossInput = string | { readonly name: unknown; readonly config: ForwardBackward.LossConfig | undefined }

const lossOf = (loss: LossInput, config?: ForwardBackward.LossConfig) =>
  typeof loss === "string"
    ? { lossFn: loss, lossFnConfig: config }
    : { lossFn: String(loss.name), lossFnConfig: loss.config }

interface Pass {
  readonly method: string
  readonly data: ReadonlyArray<Datum.Datum>
  readonly lossFn: ForwardBackward.AnyLossName
  readonly lossFnConfig: ForwardBackward.LossConfig | undefined
  readonly forwardOnly: boolean
}

/** @internal */
export const make: (options: {
  readonly service: ServiceContext
  readonly modelId: ModelId
  readonly baseModel: string | undefined
}) => Effect.Effect<TrainingClient.Service, never, Scope.Scope> = Effect.fnUntraced(function*({
  baseModel,
  modelId,
  service
}) {
  const { api, budgets, nextSamplingSessionSeqId } = service
  const unobserved = yield* Unobserved.make(modelId)
  const line = yield* Submission.make({
    unobserved,
    service,
    module: "TrainingClient",
    report: Logs.makeQueueLog(`Training of ${modelId}`),
    attributes: { "tinker.model_id": modelId },
    // The smallest possible forward pass. It has a new idempotency key, because it is not the request whose number it takes.
    placeholder: (seqId) =>
      Passes.send(
        api,
        {
          call: (endpoint, request, method, options) =>
            api.call(endpoint, request, {
              ...options,
              from: from(method),
              idempotencyKey: `effect-tinker-${modelId}-${seqId}-placeholder`
            })
        },
        { modelId, seqId, data: [placeholder], lossFn: "cross_entropy", lossFnConfig: undefined, forwardOnly: true },
        "submit"
      )
  })
  const saving = makeSaving({ line, modelId, nextSamplingSessionSeqId })
  let lastStep: number | undefined

  const request = (pass: Pass, data: ReadonlyArray<Datum.Datum>, seqId?: number): ForwardBackward.Request => ({
    modelId,
    seqId,
    data,
    lossFn: pass.lossFn,
    lossFnConfig: pass.lossFnConfig,
    forwardOnly: pass.forwardOnly
  })

  const vocabularySize = baseModel === undefined ? undefined : api.traits.vocabularySize(baseModel)

  const beyondVocabulary = (data: ReadonlyArray<Datum.Datum>): string | undefined => {
    if (vocabularySize === undefined) return undefined
    for (const [i, { lossFnInputs, modelInput }] of data.entries()) {
      const text = modelInput.chunks.flatMap((chunk) => chunk.type === "encoded_text" ? [chunk.tokens] : [])
      const token = [...text, lossFnInputs["target_tokens"]?.data ?? []]
        .map((tokens) => tokenBeyond(tokens, vocabularySize)).find((token) => token !== undefined)
      if (token !== undefined) return `token ${token} of datum ${i} is beyond the vocabulary of ${vocabularySize}`
    }
    return undefined
  }

  /** What can be found wrong with a batch is found before it has a number. */
  const prepare = Effect.fnUntraced(function*(pass: Pass) {
    if (pass.data.length === 0) return yield* invalid(pass.method, "no data")
    const problem = Loss.problem(pass.data, pass.lossFn) ?? beyondVocabulary(pass.data)
    if (problem !== undefined) return yield* invalid(pass.method, problem)
    const config = yield* service.clientConfig
    const batches = Batches.split(pass.data, {
      maxCount: config.fwdbwdMaxChunkLen,
      maxBytes: config.fwdbwdMaxChunkBytesCount,
      form: api.traits.passForm(pass.forwardOnly)
    })
    if (config.parallelFwdbwdChunks && batches.length > 1) {
      for (const { data } of batches) {
        yield* Either.mapLeft(
          ForwardBackward.encodeRequest(request(pass, data, 1)),
          (error) => invalid(pass.method, error.description ?? "the data cannot be encoded")
        )
      }
    }
    return { batches, parallel: config.parallelFwdbwdChunks }
  })

  const send = (
    on: Submission.Submission,
    pass: Pass,
    { batches, parallel }: { readonly batches: ReadonlyArray<Batches.Batch>; readonly parallel: boolean }
  ): TrainingClient.Operation<ForwardBackward.Output> => {
    const requestType = pass.forwardOnly ? "Forward" : "ForwardBackward"
    const tokens = pass.data.reduce((sum, { modelInput }) => sum + Observer.lengthOf(modelInput), 0)
    return on.many(
      {
        method: pass.method,
        requestType,
        decoder: decodeOutput,
        attributes: { "tinker.tokens": tokens, "tinker.data": pass.data.length, "tinker.loss": pass.lossFn }
      },
      batches.map(({ bytes, data }) => (seqId: number) =>
        budgets.dispatch.withBytes(bytes)(Passes.send(api, on, request(pass, data, seqId), pass.method))
      ),
      parallel
    ).pipe(Effect.map((futures) => {
      Observer.tokensIn(requestType, tokens)
      return TinkerFuture.map(TinkerFuture.all(futures), (outputs) => withLoss(combined(outputs), pass.data))
    }))
  }

  const run = (pass: Pass) => Effect.flatMap(prepare(pass), (prepared) => send(line, pass, prepared))

  const forward: TrainingClient.Service["forward"] = (data, loss, config) =>
    run({ method: "forward", data, ...lossOf(loss, config), forwardOnly: true })

  const forwardBackward: TrainingClient.Service["forwardBackward"] = (data, loss, config) =>
    run({ method: "forwardBackward", data, ...lossOf(loss, config), forwardOnly: false })

  const forwardBackwardCustom = Effect.fnUntraced(function*<E, R>(
    data: ReadonlyArray<Datum.Datum>,
    loss: CustomLoss.CustomLoss<E, R>
  ) {
    const method = "forwardBackwardCustom"
    const surrogate = { method, lossFn: "cross_entropy", lossFnConfig: undefined } as const
    const scored = yield* run({ ...surrogate, data: yield* Losses.forwardData(data), forwardOnly: true })
    const evaluated = yield* Losses.evaluate(loss, data, yield* scored)
    const pass = yield* run({ ...surrogate, data: evaluated.data, forwardOnly: false })
    return TinkerFuture.map(pass, (output) => Losses.mergeMetrics(output, evaluated))
  })

  const stepped = (now: number): void => {
    if (lastStep !== undefined) Observer.stepped(now - lastStep)
    lastStep = now
  }

  const stepOn = (on: Submission.Submission, method: string, params: Optimizer.OptimizerParams) =>
    on.one({ method, requestType: "OptimStep", decoder: optimStepped, onResult: stepped }, (seqId) =>
      Effect.flatMap(
        Creation.request(method, () => Optimizer.optimStepRequest({ modelId, seqId, params })),
        (body) => on.call(Api.optimStep, body, method)
      ))

  const paramsOf = (method: string, input: OptimizerInput | undefined) =>
    Effect.filterOrElse(
      Creation.request(method, () => toParams(input ?? {})),
      (params) => problemOf(params) === undefined,
      (params) => invalid(method, problemOf(params) ?? "")
    )

  const optimStep: TrainingClient.Service["optimStep"] = (input) =>
    Effect.flatMap(paramsOf("optimStep", input), (params) => stepOn(line, "optimStep", params))

  const trainStep = Effect.fnUntraced(function*(
    data: ReadonlyArray<Datum.Datum>,
    loss: LossInput,
    input?: OptimizerInput
  ) {
    const method = "trainStep"
    const pass: Pass = { method, data, ...lossOf(loss), forwardOnly: false }
    const params = yield* paramsOf(method, input)
    const prepared = yield* prepare(pass)
    return yield* line.together(method, (turn) =>
      Effect.zipWith(
        send(turn, pass, prepared),
        stepOn(turn, method, params),
        (passed, stepped) =>
          TinkerFuture.map(TinkerFuture.zip(passed, stepped), ([pass, step]): TrainingClient.TrainStep => ({
            loss: Loss.summarize(pass, data),
            pass,
            step
          }))
      ))
  })

  const saveWeightsAndGetSamplingClient: TrainingClient.Service["saveWeightsAndGetSamplingClient"] = Effect.fnUntraced(
    function*(settings) {
      const sessionId = yield* service.sessionId
      const samplingSessionId = yield* TinkerFuture.await(saving.saveWeightsEphemeral)
      return yield* Samplers.fromSession(service, samplingSessionId, sessionId, "original", settings, modelId)
    }
  )

  const createSamplingClient: TrainingClient.Service["createSamplingClient"] = (modelPath, settings) =>
    Effect.zipRight(unobserved.settle("createSamplingClient"), Samplers.make(service, { ...settings, modelPath }))

  const getInfo: TrainingClient.Service["getInfo"] = Effect.suspend(() =>
    Errors.toRequestError(api.call(Api.getInfo, new GetInfoRequest({ modelId }), { from: from("getInfo") }))
  )

  return {
    modelId,
    forward,
    forwardBackward,
    forwardBackwardCustom,
    optimStep,
    trainStep,
    ...saving,
    saveWeightsAndGetSamplingClient,
    createSamplingClient,
    settle: unobserved.settle("settle"),
    getInfo,
    tokenizerId: Effect.flatMap(getInfo, ({ modelData, modelName }) => {
      // The suffix after the colon names a variant of the service.
      const id = (modelData.tokenizerId ?? modelData.modelName ?? modelName)?.split(":")[0]
      return id === undefined || id === "" ? missing("tokenizerId", [], "name of a tokenizer") : Effect.succeed(id)
    })
  }
})

/**
 * The operations of a model in training, each a request in its turn.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Deferred from "effect/Deferred"
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
import * as Endpoint from "../../wire/Endpoint.js"
import * as ForwardBackward from "../../wire/ForwardBackward.js"
import type { ModelId } from "../../wire/Id.js"
import { GetInfoRequest, type GetInfoResponse } from "../../wire/Model.js"
import * as Observer from "../observability/observer.js"
import * as Poll from "../polling/poll.js"
import * as Samplers from "../sampling/samplers.js"
import type { ServiceContext } from "../session/session.js"
import * as Errors from "../transport/errors.js"
import * as Batches from "./batches.js"
import { combine } from "./batches.js"
import * as Creation from "./creation.js"
import * as Losses from "./losses.js"
import * as ModelLine from "./modelLine.js"
import * as Saving from "./saving.js"
import * as Unobserved from "./unobserved.js"

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

/** The problem with the parameters of a step, if there is one: a server may only notice when the step runs. */
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

/** The same place as protobuf: the content type tells them apart. */
const forwardBackwardJson = Endpoint.withBodyOf(Api.forwardBackward, Api.forward)

const formsOf = (forwardOnly: boolean): ModelLine.Forms<ForwardBackward.Request> => ({
  forwardOnly,
  protobuf: Api.forwardBackward,
  json: forwardOnly ? Api.forward : forwardBackwardJson
})

const tokensOf = ({ data }: Pass): number =>
  data.reduce((sum, { modelInput }) => sum + Observer.lengthOf(modelInput), 0)

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
  const { api, nextSamplingSessionSeqId } = service
  const unobserved = yield* Unobserved.make(modelId)
  const line = yield* ModelLine.make({
    unobserved,
    service,
    modelId,
    // The smallest possible forward pass.
    placeholder: {
      endpoint: formsOf(true),
      body: {
        modelId,
        seqId: undefined,
        data: [placeholder],
        lossFn: "cross_entropy",
        lossFnConfig: undefined,
        forwardOnly: true
      }
    }
  })
  const { openSampler, ...saving } = Saving.make({ line, modelId, nextSamplingSessionSeqId })
  let lastStep: number | undefined

  const request = (pass: Pass, data: ReadonlyArray<Datum.Datum>, seqId?: number): ForwardBackward.Request => ({
    modelId,
    seqId,
    data,
    lossFn: pass.lossFn,
    lossFnConfig: pass.lossFnConfig,
    forwardOnly: pass.forwardOnly
  })

  const vocabularySize = baseModel === undefined ? undefined : api.serverFacts.vocabularySize(baseModel)

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

  const operationOf = (
    pass: Pass,
    batches: Arr.NonEmptyReadonlyArray<Batches.Batch>,
    parallel: boolean
  ): ModelLine.Operation<ForwardBackward.Output, ForwardBackward.Request> => ({
    method: pass.method,
    requestType: pass.forwardOnly ? "Forward" : "ForwardBackward",
    decoder: decodeOutput,
    attributes: { "tinker.tokens": tokensOf(pass), "tinker.data": pass.data.length, "tinker.loss": pass.lossFn },
    requests: Arr.map(batches, ({ bytes, data }) => ({
      endpoint: formsOf(pass.forwardOnly),
      body: request(pass, data),
      bytes
    })),
    parallel
  })

  /** The requests of a pass. Problems with its data are found before it has a number. */
  const prepare = Effect.fnUntraced(function*(pass: Pass) {
    const problem = Loss.problem(pass.data, pass.lossFn) ?? beyondVocabulary(pass.data)
    if (problem !== undefined) return yield* invalid(pass.method, problem)
    const config = yield* service.clientConfig
    const batches = Batches.split(pass.data, {
      maxCount: config.fwdbwdMaxChunkLen,
      maxBytes: config.fwdbwdMaxChunkBytesCount,
      form: api.serverFacts.passForm(pass.forwardOnly)
    })
    if (!Arr.isNonEmptyReadonlyArray(batches)) return yield* invalid(pass.method, "no data")
    if (config.parallelFwdbwdChunks && batches.length > 1) {
      for (const { data } of batches) {
        yield* Either.mapLeft(
          ForwardBackward.encodeRequest(request(pass, data, 1)),
          (error) => invalid(pass.method, error.description ?? "the data cannot be encoded")
        )
      }
    }
    return operationOf(pass, batches, config.parallelFwdbwdChunks)
  })

  const resultOf = (pass: Pass, futures: ReadonlyArray<TinkerFuture.TinkerFuture<ForwardBackward.Output>>) => {
    Observer.tokensIn(pass.forwardOnly ? "Forward" : "ForwardBackward", tokensOf(pass))
    return TinkerFuture.map(TinkerFuture.all(futures), (outputs) => withLoss(combined(outputs), pass.data))
  }

  const run = (pass: Pass): TrainingClient.Operation<ForwardBackward.Output> =>
    prepare(pass).pipe(
      Effect.flatMap((operation) => line.send(operation)),
      Effect.map((futures) => resultOf(pass, futures))
    )

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
    const scoring: Pass = { ...surrogate, data: yield* Losses.forwardData(data), forwardOnly: true }
    const made = yield* Deferred.make<{ readonly pass: Pass; readonly evaluated: Losses.Evaluated }>()
    const futures = yield* line.sendThrough(
      method,
      yield* prepare(scoring),
      Effect.fnUntraced(function*(scores) {
        const evaluated = yield* Losses.evaluate(loss, data, yield* resultOf(scoring, scores))
        const pass: Pass = { ...surrogate, data: evaluated.data, forwardOnly: false }
        yield* Deferred.succeed(made, { evaluated, pass })
        return yield* prepare(pass)
      })
    )
    const { evaluated, pass } = yield* Deferred.await(made)
    return TinkerFuture.map(resultOf(pass, futures), (output) => Losses.mergeMetrics(output, evaluated))
  })

  const stepped = (now: number): void => {
    if (lastStep !== undefined) Observer.stepped(now - lastStep)
    lastStep = now
  }

  const paramsOf = (method: string, input: OptimizerInput | undefined) =>
    Effect.filterOrElse(
      Creation.request(method, () => toParams(input ?? {})),
      (params) => problemOf(params) === undefined,
      (params) => invalid(method, problemOf(params) ?? "")
    )

  const stepOf = (method: string, input: OptimizerInput | undefined) =>
    Effect.map(
      Effect.flatMap(
        paramsOf(method, input),
        (params) => Creation.request(method, () => Optimizer.optimStepRequest({ modelId, params }))
      ),
      (body): ModelLine.Operation<Optimizer.OptimStepResponse, Optimizer.OptimStepRequest> => ({
        method,
        requestType: "OptimStep",
        decoder: optimStepped,
        requests: [{ endpoint: Api.optimStep, body }],
        onResult: stepped
      })
    )

  const optimStep: TrainingClient.Service["optimStep"] = (input) =>
    stepOf("optimStep", input).pipe(
      Effect.flatMap((step) => line.send(step)),
      Effect.map(([future]) => future)
    )

  const trainStep = Effect.fnUntraced(function*(
    data: ReadonlyArray<Datum.Datum>,
    loss: LossInput,
    input?: OptimizerInput
  ) {
    const method = "trainStep"
    const pass: Pass = { method, data, ...lossOf(loss), forwardOnly: false }
    const step = yield* stepOf(method, input)
    const [passed, [stepped]] = yield* line.sendBoth(method, yield* prepare(pass), step)
    return TinkerFuture.map(
      TinkerFuture.zip(resultOf(pass, passed), stepped),
      ([pass, step]): TrainingClient.TrainStep => ({ loss: Loss.summarize(pass, data), pass, step })
    )
  })

  const saveWeightsAndGetSamplingClient: TrainingClient.Service["saveWeightsAndGetSamplingClient"] = Effect.fnUntraced(
    function*(settings) {
      const sessionId = yield* service.sessionId
      const samplingSessionId = yield* TinkerFuture.await(
        openSampler("saveWeightsAndGetSamplingClient", settings?.kind)
      )
      return yield* Samplers.fromSession(service, samplingSessionId, {
        sessionId,
        baseModel,
        numbering: "original",
        settings,
        model: modelId
      })
    }
  )

  const createSamplingClient: TrainingClient.Service["createSamplingClient"] = (modelPath, settings) =>
    Effect.zipRight(
      unobserved.settle("createSamplingClient"),
      Samplers.make(service, { ...settings, modelPath }, from("createSamplingClient"))
    )

  // A model stays what it is: the server is asked once.
  let info: GetInfoResponse | undefined
  const getInfoFor = (method: string): TrainingClient.Service["getInfo"] =>
    Effect.suspend(() =>
      info !== undefined
        ? Effect.succeed(info)
        : Effect.map(
          Errors.toRequestError(api.call(Api.getInfo, new GetInfoRequest({ modelId }), { from: from(method) })),
          (answer) => info = answer
        )
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
    getInfo: getInfoFor("getInfo"),
    tokenizerId: Effect.flatMap(getInfoFor("tokenizerId"), ({ modelData, modelName }) => {
      // The suffix after the colon names a variant of the service.
      const id = (modelData.tokenizerId ?? modelData.modelName ?? modelName)?.split(":")[0]
      return id === undefined || id === ""
        ? Saving.missing("tokenizerId", [], "name of a tokenizer")
        : Effect.succeed(id)
    })
  }
})

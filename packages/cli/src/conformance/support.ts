/**
 * Building blocks of the checks.
 *
 * @since 0.1.0
 */
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as Datum from "effect-tinker/Datum"
import { LoraConfig } from "effect-tinker/LoraConfig"
import * as Loss from "effect-tinker/Loss"
import * as ModelInput from "effect-tinker/ModelInput"
import * as Optimizer from "effect-tinker/Optimizer"
import * as Api from "effect-tinker/wire/Api"
import * as Endpoint from "effect-tinker/wire/Endpoint"
import * as ForwardBackward from "effect-tinker/wire/ForwardBackward"
import type * as Future from "effect-tinker/wire/Future"
import type { SamplingSessionId, SessionId } from "effect-tinker/wire/Id"
import { CheckpointId, ModelId } from "effect-tinker/wire/Id"
import * as Model from "effect-tinker/wire/Model"
import * as Sample from "effect-tinker/wire/Sample"
import * as Sampler from "effect-tinker/wire/Sampler"
import { SamplingParams } from "effect-tinker/wire/SamplingParams"
import * as Weights from "effect-tinker/wire/Weights"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Decoder, Probe, ProbeUnsupported } from "./probe.js"
import { complaint, decoder, No } from "./probe.js"

/** Findings of earlier checks. @internal */
export interface Known {
  model: string | undefined
  sessionId: SessionId | undefined
  modelId: ModelId | undefined
  /** The last operation of the model. */
  seqId: number
  /** Of the next model, and of the next sampler. */
  models: number
  samplers: number
  statePath: string | undefined
  samplerPath: string | undefined
  samplingSessionId: SamplingSessionId | undefined
  loss: number | undefined
  /** The form of a pass: as clients choose it. */
  form: "protobuf" | "json"
}

/** @internal */
export interface Check {
  readonly name: string
  /** Whether clients cannot do without it. */
  readonly required: boolean
  /** Detail of a success. */
  readonly run: (probe: Probe, known: Known) => Effect.Effect<string | void, No | ProbeUnsupported>
}

/** @internal */
export const no = (reason: string) => new No({ reason })

/** @internal */
export const need = <K extends keyof Known>(known: Known, key: K): Effect.Effect<NonNullable<Known[K]>, No> => {
  const value = known[key]
  return value === undefined || value === null
    ? no(`an earlier check failed, there is no ${key}`)
    : Effect.succeed(value)
}

/** @internal */
export const refused = (probe: ReturnType<Probe["send"]>, ...statuses: ReadonlyArray<number>) =>
  Effect.flatMap(probe, (answer) =>
    statuses.includes(answer.status)
      ? Effect.succeed(complaint(answer))
      : no(`expected status ${statuses.join(" or ")}, got ${complaint(answer)}`))

/** @internal */
export const decoders = {
  createModel: decoder(Model.CreateModelResponse),
  pass: decoder(ForwardBackward.OutputFromJson, ForwardBackward.decodeOutput),
  optimStep: decoder(Optimizer.OptimStepResponse),
  save: decoder(Weights.SaveWeightsResponse),
  saveForSampler: decoder(Weights.SaveWeightsForSamplerResult),
  load: decoder(Weights.LoadWeightsResponse),
  sample: decoder(Sample.SampleResponse, Sample.decodeResponse)
}

/** The result of an operation that must succeed. @internal */
export const result = <A>(probe: Probe, { requestId }: Future.UntypedFuture, how: Decoder<A>) =>
  Effect.flatMap(probe.settle(requestId, how), (settled) => {
    switch (settled._tag) {
      case "Result":
        return Effect.succeed(settled)
      case "Failed":
        return no(`the operation failed: ${settled.error}`)
      case "Waiting":
        return no("no result in time")
    }
  })

/** @internal */
export const tokens = [1, 2, 3, 4, 5]

/** @internal */
export const datum = (ids: ReadonlyArray<number> = tokens): Datum.Datum => Either.getOrThrow(Datum.fromTokens(ids))

/** The next operation of the model; one that is refused does not count. @internal */
export const next = <A, E>(known: Known, send: (modelId: ModelId, seqId: number) => Effect.Effect<A, E>) =>
  Effect.flatMap(need(known, "modelId"), (modelId) => {
    const seqId = known.seqId + 1
    return Effect.tap(send(modelId, seqId), () => {
      known.seqId = seqId
    })
  })

const forwardBackwardJson = Endpoint.withBodyOf(Api.forwardBackward, Api.forward)

/** The next operation of the model is a pass. @internal */
export const pass = (
  probe: Probe,
  known: Known,
  options: {
    readonly forwardOnly?: boolean
    readonly data?: ReadonlyArray<Datum.Datum>
    readonly form?: Known["form"]
  } = {}
) =>
  next(known, (modelId, seqId) => {
    const { data = [datum()], form = known.form, forwardOnly = false } = options
    const endpoint = form === "protobuf"
      ? Api.forwardBackward
      : forwardOnly
      ? Api.forward
      : forwardBackwardJson
    return probe.call(endpoint, { modelId, seqId, data, lossFn: "cross_entropy", forwardOnly })
  })

/** @internal */
export const step = (modelId: ModelId, seqId: number) =>
  Optimizer.optimStepRequest({ modelId, seqId, params: new Optimizer.AdamParams({ learningRate: 1e-4 }) })

/** The loss of a pass over one example, from the metrics or from the outputs. @internal */
export const scored = (output: ForwardBackward.Output): Effect.Effect<number, No> => {
  const { lossFnOutputs } = output
  const logprobs = lossFnOutputs[0]?.["logprobs"]
  if (lossFnOutputs.length !== 1 || logprobs?.shape[0] !== tokens.length - 1) {
    return no(
      `one example of ${tokens.length - 1} targets gave ${lossFnOutputs.length} outputs of shape ${logprobs?.shape}`
    )
  }
  const { sum } = Loss.summarize(output, [datum()])
  return Number.isFinite(sum) ? Effect.succeed(sum) : no(`the loss is ${sum}`)
}

/** @internal */
export const createModel = Effect.fnUntraced(function*(probe: Probe, known: Known, baseModel: string) {
  const future = yield* probe.call(
    Api.createModel,
    new Model.CreateModelRequest({
      sessionId: yield* need(known, "sessionId"),
      modelSeqId: known.models++,
      baseModel,
      loraConfig: new LoraConfig({ rank: 8, seed: 1 })
    })
  )
  return (yield* result(probe, future, decoders.createModel)).value.modelId
})

/** @internal */
export const samplingSession = Effect.fnUntraced(function*(
  probe: Probe,
  known: Known,
  source: { readonly baseModel: string } | { readonly modelPath: string }
) {
  const request = new Sampler.CreateSamplingSessionRequest({
    sessionId: yield* need(known, "sessionId"),
    samplingSessionSeqId: known.samplers++,
    ...source
  })
  return (yield* probe.call(Api.createSamplingSession, request)).samplingSessionId
})

/** @internal */
export const sample = Effect.fnUntraced(function*(
  probe: Probe,
  known: Known,
  seqId: number,
  options: { readonly numSamples?: number; readonly promptLogprobs?: boolean } = {}
) {
  const future = yield* probe.call(
    Api.asample,
    new Sample.SampleRequest({
      numSamples: options.numSamples ?? 1,
      prompt: ModelInput.fromInts(tokens),
      samplingParams: new SamplingParams({ maxTokens: 3, temperature: 0, seed: 1 }),
      samplingSessionId: yield* need(known, "samplingSessionId"),
      seqId,
      promptLogprobs: options.promptLogprobs ?? false
    })
  )
  return { future, ...yield* result(probe, future, decoders.sample) }
})

/** @internal */
export const how = (protobuf: boolean) => protobuf ? "protobuf" : "JSON"

/** The parts of a path, with the kind of the checkpoint or without. @internal */
export const parts = (path: string) =>
  Either.match(Checkpoint.parsePath(path), {
    onLeft: () => ({ trainingRunId: ModelId.make("none"), checkpointId: CheckpointId.make("none") }),
    onRight: ({ checkpointId, trainingRunId }) => ({ trainingRunId, checkpointId })
  })

/** A path of the kind that was saved. @internal */
export const named = (
  path: string | undefined,
  type: Checkpoint.ParsedPath["checkpointType"]
): Effect.Effect<string, No> =>
  Either.match(Checkpoint.parsePath(path ?? ""), {
    onLeft: ({ description }) => no(description ?? `${path} is not a path`),
    onRight: (parsed) =>
      parsed.checkpointType === type
        ? Effect.succeed(parsed.tinkerPath)
        : no(`${path} is of kind ${parsed.checkpointType}, not ${type}`)
  })

/** Finds something in a list, or says what was there. @internal */
export const listed = (ids: ReadonlyArray<string>, id: string): Effect.Effect<void, No> =>
  ids.includes(id) ? Effect.void : no(`${id} is not among the ${ids.length} listed`)

/** @internal */
export const check = (name: string, run: Check["run"]): Check => ({ name, required: true, run })
/** @internal */
export const option = (name: string, run: Check["run"]): Check => ({ name, required: false, run })

/** @internal */
export const page = { limit: 100, offset: 0 } as const
/** @internal */
export const owned = { accessScope: "owned" } as const

/**
 * Models, passes and optimizer steps.
 */
import * as Optimizer from "effect-tinker/Optimizer"
import * as Api from "effect-tinker/wire/Api"
import * as CustomLoss from "effect-tinker/wire/CustomLossGraph"
import * as ForwardBackward from "effect-tinker/wire/ForwardBackward"
import { LossId, ModelId } from "effect-tinker/wire/Id"
import * as Model from "effect-tinker/wire/Model"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { Engine } from "../../../Engine.js"
import * as EngineError from "../../../EngineError.js"
import type { Adapter, Datum, FloatTensor, StepParams, Tensor } from "../../../LocalAdapter.js"
import { tokenizerId } from "../../../LocalTokenizer.js"
import { AuditLog } from "../auditLog.js"
import type { CustomLossesShape } from "../customLosses.js"
import { CustomLosses, customPass } from "../customLosses.js"
import { accepted, Futures, result } from "../futures.js"
import { fingerprint, stringMetadata } from "../identity.js"
import { Ledger } from "../ledger.js"
import { badRequest, invalidField } from "../message.js"
import { Models } from "../models.js"
import type { Call } from "../router.js"
import { route } from "../router.js"
import { Runs } from "../runs.js"
import { Sessions } from "../sessions.js"
import { releaseTurn, submitted } from "../submission.js"
import { checkWeights } from "../weightCheck.js"
import { fromFloats, toTensor, toTokens } from "../wire.js"

const isPowerOfTwo = (n: number): boolean => Number.isInteger(Math.log2(n))

const createModel = Effect.fnUntraced(function*(request: Model.CreateModelRequest, call: Call) {
  const audit = yield* AuditLog
  const engine = yield* Engine
  const models = yield* Models
  const runs = yield* Runs
  const sessions = yield* Sessions
  const session = yield* sessions.requireAlive(request.sessionId, call.caller.urn)
  const { baseModel, loraConfig } = request
  if (!engine.models.some((model) => model.name === baseModel)) {
    const known = engine.models.map((model) => model.name).join(", ")
    return yield* badRequest(`Base model ${baseModel} is not supported; supported models: ${known}`)
  }
  if (loraConfig === undefined) return yield* badRequest("lora_config is required: only LoRA models can be trained")
  if (!isPowerOfTwo(loraConfig.rank)) {
    return yield* badRequest(`lora_config.rank must be a power of two, got ${loraConfig.rank}`)
  }
  const userMetadata = yield* stringMetadata(request.userMetadata)
  const id = `${session.id}:train:${request.modelSeqId}`
  const future = yield* models.create({
    id,
    sessionId: session.id,
    owner: call.caller.urn,
    fingerprint: fingerprint(call.body),
    make: Effect.gen(function*() {
      const adapter = yield* engine.createAdapter({
        baseModel,
        rank: loraConfig.rank,
        seed: loraConfig.seed,
        trainAttn: loraConfig.trainAttn,
        trainMlp: loraConfig.trainMlp,
        trainUnembed: loraConfig.trainUnembed,
        optimizer: request.optimizerConfig?.type
      })
      yield* runs.create({
        id,
        sessionId: session.id,
        owner: call.caller.urn,
        projectId: session.projectId,
        baseModel,
        rank: adapter.rank,
        trainAttn: adapter.trainAttn,
        trainMlp: adapter.trainMlp,
        trainUnembed: adapter.trainUnembed,
        userMetadata
      })
      yield* audit.note(call.caller, { resource: "training_run", action: "create", modelId: id, sessionId: session.id })
      const modelId = ModelId.make(id)
      return { adapter, outcome: result(Model.CreateModelResponse, new Model.CreateModelResponse({ modelId })) }
    })
  })
  return accepted(future, { modelId: id })
})

const encodeOutput = (output: ForwardBackward.Output): Uint8Array =>
  Either.getOrThrow(ForwardBackward.encodeOutput(output))

const bytesOf = (outputs: Readonly<Record<string, FloatTensor>>): number =>
  Object.values(outputs).reduce((sum, { data }) => sum + data.byteLength, 0)

const runPass = Effect.fnUntraced(function*(
  losses: CustomLossesShape,
  adapter: Adapter,
  request: ForwardBackward.Request,
  data: ReadonlyArray<Datum>,
  sessionId: string
) {
  const { forwardOnly = false, lossFn, lossFnConfig } = request
  if (lossFn !== "custom") {
    return yield* adapter.forwardBackward({ data, loss: lossFn, config: lossFnConfig, forwardOnly })
  }
  const loss = losses.find(sessionId, lossFnConfig?.["loss_id"])
  return loss === undefined
    ? yield* badRequest(`This session has no custom loss ${lossFnConfig?.["loss_id"]}`)
    : yield* customPass(adapter, loss, request.data, data, forwardOnly)
})

const forwardBackward = Effect.fnUntraced(function*(request: ForwardBackward.Request, call: Call) {
  const ledger = yield* Ledger
  const losses = yield* CustomLosses
  return yield* submitted(
    call,
    request.forwardOnly === true ? "forward" : "forward_backward",
    { modelId: request.modelId, seqId: request.seqId },
    (model) =>
      Effect.succeed(Effect.fnUntraced(function*(adapter) {
        const data: Array<Datum> = []
        for (const { lossFnInputs, modelInput } of request.data) {
          const tokens = yield* toTokens(modelInput)
          const lossInputs: Record<string, Tensor> = {}
          for (const [key, tensor] of Object.entries(lossFnInputs)) {
            lossInputs[key] = yield* toTensor(tensor, `loss_fn_inputs[${JSON.stringify(key)}]`)
          }
          data.push({ tokens, lossInputs })
        }
        const pass = yield* runPass(losses, adapter, request, data, model.sessionId)
        yield* ledger.charge({ ...model.usage, kind: "training", count: pass.tokens })
        const output: ForwardBackward.Output = {
          lossFnOutputType: "TorchLossReturn",
          lossFnOutputs: pass.outputs.map((outputs) =>
            Object.fromEntries(Object.entries(outputs).map(([key, tensor]) => [key, fromFloats(tensor)]))
          ),
          metrics: pass.metrics
        }
        return result(ForwardBackward.OutputFromJson, output, {
          proto: () => encodeOutput(output),
          // computed values, and their encoding
          bytes: 2 * pass.outputs.reduce((sum, outputs) => sum + bytesOf(outputs), 1024)
        })
      }))
  )
})

/** Names on the wire and what is allowed, for every parameter of a step. */
const stepFields: Readonly<
  Record<string, { readonly valid: (value: number) => boolean; readonly expected: string }>
> = {
  learning_rate: { valid: (value) => value >= 0, expected: "a finite number of at least 0" },
  beta1: { valid: (value) => value >= 0 && value < 1, expected: "a number of at least 0 and below 1" },
  beta2: { valid: (value) => value >= 0 && value < 1, expected: "a number of at least 0 and below 1" },
  eps: { valid: (value) => value >= 0, expected: "a finite number of at least 0" },
  weight_decay: { valid: (value) => value >= 0, expected: "a finite number of at least 0" },
  grad_clip_norm: { valid: (value) => value >= 0, expected: "a finite number of at least 0" }
}

/**
 * A parameter that is present and unusable is refused, never replaced by its default. The schema reads `null` as absent,
 * so this looks at the request itself.
 */
const checkStep = (call: Call) => {
  const params: unknown = Object(JSON.parse(new TextDecoder().decode(call.body))).adam_params
  if (typeof params !== "object" || params === null) return Effect.void
  for (const [name, value] of Object.entries(params)) {
    const field = stepFields[name]
    if (field === undefined) continue
    if (typeof value !== "number" || !Number.isFinite(Math.fround(value)) || !field.valid(value)) {
      return invalidField(["adam_params", name], `${name} is ${value}, expected ${field.expected}`)
    }
  }
  return Effect.void
}

/** Where one step can move the weights beyond what 32 bits can compute with. */
const suspiciousRate = 1

/** A step that leaves the model beyond use fails, and the weights and the optimizer are as they were before it. */
const stepSafely = Effect.fnUntraced(function*(adapter: Adapter, params: StepParams) {
  if ((params.learningRate ?? 0) <= suspiciousRate) return yield* adapter.optimStep(params)
  const before = yield* adapter.snapshot()
  const done = yield* adapter.optimStep(params)
  yield* Effect.catchAll(
    Effect.flatMap(adapter.snapshot({ optimizer: false }), checkWeights),
    ({ description }) =>
      Effect.zipRight(
        adapter.load(before, { optimizer: true }),
        new EngineError.NotFinite({
          description: `learning_rate ${params.learningRate} is too large: ${description}; the step was undone`
        })
      )
  )
  return done
})

const optimStep = Effect.fnUntraced(function*(request: Optimizer.OptimStepRequest, call: Call) {
  return yield* submitted(
    call,
    "optim_step",
    request,
    () =>
      Effect.as(checkStep(call), (adapter: Adapter) =>
        Effect.map(
          stepSafely(adapter, request.adamParams ?? { type: request.optimizerParams?.type }),
          ({ metrics }) => result(Optimizer.OptimStepResponse, new Optimizer.OptimStepResponse({ metrics }))
        ))
  )
})

const createCustomLoss = Effect.fnUntraced(function*(request: CustomLoss.CreateCustomLossRequest, call: Call) {
  const futures = yield* Futures
  const losses = yield* CustomLosses
  const sessions = yield* Sessions
  const session = yield* sessions.requireAlive(request.sessionId, call.caller.urn)
  const lossId = yield* losses.create(request)
  const future = yield* futures.open({
    requestId: lossId,
    owner: call.caller.urn,
    sessionId: session.id,
    fingerprint: fingerprint(call.body)
  })
  const answer = new CustomLoss.CreateCustomLossResponse({ lossId: LossId.make(lossId) })
  yield* futures.settle(future, result(CustomLoss.CreateCustomLossResponse, answer))
  return accepted(future)
})

const unloadModel = Effect.fnUntraced(function*(request: Model.UnloadModelRequest, call: Call) {
  const answer = new Model.UnloadModelResponse({ modelId: request.modelId })
  const future = yield* submitted(
    call,
    "unload_model",
    request,
    () => Effect.succeed(() => Effect.succeed(result(Model.UnloadModelResponse, answer)))
  )
  const models = yield* Models
  const futures = yield* Futures
  const model = yield* models.require(request.modelId, call.caller.urn)
  const opened = futures.find(future.requestId)
  if (opened !== undefined) yield* models.unloadAfter(model, opened)
  return future
})

/** @internal */
export const trainingRoutes = [
  route(Api.createModel, createModel),
  route(Api.forwardBackward, forwardBackward, releaseTurn),
  route(Api.forward, forwardBackward, releaseTurn),
  route(Api.optimStep, optimStep, releaseTurn),
  route(Api.getInfo, (request, { caller }) =>
    Effect.gen(function*() {
      const models = yield* Models
      const runs = yield* Runs
      const model = yield* models.require(request.modelId, caller.urn)
      const run = runs.get(model.id)
      const { models: offered } = yield* Engine
      const hasTokenizer = offered.some(({ name, tokenizer }) => name === run?.baseModel && tokenizer !== undefined)
      return new Model.GetInfoResponse({
        modelId: request.modelId,
        modelData: new Model.ModelData({
          arch: "local",
          modelName: run?.baseModel,
          // A model with files of its own has its tokenizer among them.
          tokenizerId: hasTokenizer ? run?.baseModel : tokenizerId
        }),
        isLora: true,
        loraRank: run?.rank,
        modelName: run?.baseModel
      })
    })),
  route(Api.unloadModel, unloadModel, releaseTurn),
  route(Api.createCustomLoss, createCustomLoss)
]

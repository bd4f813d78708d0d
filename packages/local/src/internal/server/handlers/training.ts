/**
 * Models and the operations in their order.
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
import type { Adapter, Datum } from "../../../LocalAdapter.js"
import { tokenizerId } from "../../../LocalTokenizer.js"
import { accepted, result } from "../accept.js"
import type { CustomLossesShape } from "../customLosses.js"
import { CustomLosses, customPass } from "../customLosses.js"
import { badRequest } from "../failure.js"
import { Futures } from "../futures.js"
import { fingerprint, stringMetadata } from "../identity.js"
import { Ledger } from "../ledger.js"
import { Models } from "../models.js"
import { submitted } from "../operations.js"
import type { Call } from "../route.js"
import { route } from "../route.js"
import { Runs } from "../runs.js"
import { Sessions } from "../sessions.js"
import { fromFloats, toTensor, toTokens } from "../tensors.js"

const isPowerOfTwo = (n: number): boolean => Number.isInteger(Math.log2(n))

const createModel = Effect.fnUntraced(function*(request: Model.CreateModelRequest, call: Call) {
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
    return yield* badRequest(`LoRA rank must be a power of two, got ${loraConfig.rank}`)
  }
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
        userMetadata: stringMetadata(request.userMetadata)
      })
      const modelId = ModelId.make(id)
      return { adapter, outcome: result(Model.CreateModelResponse, new Model.CreateModelResponse({ modelId })) }
    })
  })
  return accepted(future, { modelId: id })
})

const encodeOutput = (output: ForwardBackward.Output): Uint8Array =>
  Either.getOrThrow(ForwardBackward.encodeOutput(output))

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
          data.push({
            tokens: yield* toTokens(modelInput),
            lossInputs: Object.fromEntries(Object.entries(lossFnInputs).map(([key, tensor]) => [key, toTensor(tensor)]))
          })
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
        return result(ForwardBackward.OutputFromJson, output, () => encodeOutput(output))
      }))
  )
})

const optimStep = Effect.fnUntraced(function*(request: Optimizer.OptimStepRequest, call: Call) {
  return yield* submitted(call, "optim_step", request, () =>
    Effect.succeed(Effect.fnUntraced(function*(adapter) {
      const { metrics } = yield* adapter.optimStep(
        request.adamParams ?? { type: request.optimizerParams?.type }
      )
      return result(Optimizer.OptimStepResponse, new Optimizer.OptimStepResponse({ metrics }))
    })))
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
  route(Api.forwardBackward, forwardBackward),
  // where older clients send passes without gradients
  route({ ...Api.forwardBackward, name: "forward", path: "/api/v1/forward" }, forwardBackward),
  route(Api.optimStep, optimStep),
  route(Api.getInfo, (request, { caller }) =>
    Effect.gen(function*() {
      const models = yield* Models
      const runs = yield* Runs
      const model = yield* models.require(request.modelId, caller.urn)
      const run = runs.get(model.id)
      return new Model.GetInfoResponse({
        modelId: request.modelId,
        modelData: new Model.ModelData({ arch: "local", modelName: run?.baseModel, tokenizerId }),
        isLora: true,
        loraRank: run?.rank,
        modelName: run?.baseModel
      })
    })),
  route(Api.unloadModel, unloadModel),
  route(Api.createCustomLoss, createCustomLoss)
]

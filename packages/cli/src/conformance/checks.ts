/**
 * Checks of a Tinker-compatible server: what it must do, and what it may. They run in this order and build on each other.
 *
 * @since 0.1.0
 */
import { LoraConfig } from "effect-tinker/LoraConfig"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Api from "effect-tinker/wire/Api"
import { ClientConfigRequest } from "effect-tinker/wire/ClientConfig"
import type * as Endpoint from "effect-tinker/wire/Endpoint"
import * as Future from "effect-tinker/wire/Future"
import { CheckpointId, ModelId } from "effect-tinker/wire/Id"
import * as Model from "effect-tinker/wire/Model"
import * as Sampler from "effect-tinker/wire/Sampler"
import * as Session from "effect-tinker/wire/Session"
import * as Weights from "effect-tinker/wire/Weights"
import * as Effect from "effect/Effect"
import type { Answer, Probe } from "./probe.js"
import { complaint } from "./probe.js"
import type { Check, Known } from "./support.js"
import {
  check,
  createModel,
  datum,
  decoders,
  how,
  listed,
  named,
  need,
  next,
  no,
  option,
  owned,
  page,
  parts,
  pass,
  refused,
  result,
  sample,
  samplingSession,
  scored,
  step,
  tokens
} from "./support.js"

const startup: ReadonlyArray<Check> = [
  option("health", (probe) => Effect.asVoid(probe.call(Api.healthz, {}))),
  check("client configuration", (probe) =>
    Effect.gen(function*() {
      const request = new ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion })
      const config = yield* probe.call(Api.clientConfig, request)
      if (!config.pjwtAuthEnabled) return
      probe.present((yield* probe.call(Api.authToken, {})).jwt)
      return "with tokens"
    })),
  option("dynamic configuration", (probe, known) =>
    Effect.gen(function*() {
      // A server without it is from before 0.25, when passes were JSON.
      known.form = "json"
      yield* probe.call(Api.dynamicConfig, new ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion }))
      known.form = "protobuf"
    })),
  option("token exchange", (probe) => Effect.asVoid(probe.call(Api.authToken, {}))),
  option("capabilities", (probe, known) =>
    Effect.gen(function*() {
      const { supportedModels } = yield* probe.call(Api.capabilities, {})
      const names = supportedModels.flatMap(({ modelName }) => modelName === undefined ? [] : [modelName])
      known.model ??= names[0]
      if (known.model === undefined) return yield* no("no model is offered")
      if (!names.includes(known.model)) return yield* no(`${known.model} is not among the models offered`)
      return `${names.length} models; ${known.model} is used here`
    })),
  check("session", (probe, known) =>
    Effect.gen(function*() {
      const request = new Session.CreateSessionRequest({
        tags: ["conformance"],
        userMetadata: {},
        sdkVersion: TinkerConfig.wireVersion
      })
      known.sessionId = (yield* probe.call(Api.createSession, request)).sessionId
    })),
  option(
    "heartbeat",
    (probe, known) =>
      Effect.flatMap(
        need(known, "sessionId"),
        (sessionId) => Effect.asVoid(probe.call(Api.heartbeat, new Session.SessionHeartbeatRequest({ sessionId })))
      )
  )
]

const passesIn = (form: "protobuf" | "json"): Check =>
  option(`passes in ${how(form === "protobuf")}`, (probe, known) =>
    Effect.gen(function*() {
      const { value } = yield* result(probe, yield* pass(probe, known, { form, forwardOnly: true }), decoders.pass)
      const loss = yield* scored(value)
      if (known.loss !== undefined && Math.abs(loss - known.loss) > 1e-3 * Math.abs(known.loss)) {
        return yield* no(`the loss is ${loss} in this form and ${known.loss} in the other`)
      }
    }))

const training: ReadonlyArray<Check> = [
  check("create model", (probe, known) =>
    Effect.gen(function*() {
      known.modelId = yield* createModel(probe, known, yield* need(known, "model"))
      return known.modelId
    })),
  option("model info", (probe, known) =>
    Effect.gen(function*() {
      const modelId = yield* need(known, "modelId")
      const info = yield* probe.call(Api.getInfo, new Model.GetInfoRequest({ modelId }))
      if (info.modelId !== modelId) return yield* no(`it is said to be ${info.modelId}`)
    })),
  option("forward", (probe, known) =>
    Effect.gen(function*() {
      const output = yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      known.loss = yield* scored(output.value)
      return `in ${how(known.form === "protobuf")}, loss ${known.loss.toFixed(3)}, result in ${how(output.protobuf)}`
    })),
  check("forward backward", (probe, known) =>
    Effect.gen(function*() {
      const output = yield* result(probe, yield* pass(probe, known), decoders.pass)
      const loss = yield* scored(output.value)
      if (known.loss !== undefined && Math.abs(loss - known.loss) > 0.05 * Math.abs(known.loss) + 0.01) {
        return yield* no(`the same pass gave a loss of ${known.loss} forward and ${loss} with gradients`)
      }
    })),
  passesIn("protobuf"),
  passesIn("json"),
  option("loss among the metrics", (probe, known) =>
    Effect.gen(function*() {
      const { value } = yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      const names = Object.keys(value.metrics)
      if (!names.includes("loss:sum")) return yield* no(`the metrics are ${names.join(", ") || "empty"}`)
    })),
  check("optimizer step", (probe, known) =>
    Effect.gen(function*() {
      const future = yield* next(known, (modelId, seqId) => probe.call(Api.optimStep, step(modelId, seqId)))
      yield* result(probe, future, decoders.optimStep)
    })),
  option("operations keep their order", (probe, known) =>
    Effect.gen(function*() {
      const modelId = yield* need(known, "modelId")
      // Clients send the first piece of a batch last.
      const later = yield* probe.call(Api.optimStep, step(modelId, known.seqId + 2))
      const early = yield* probe.settle(later.requestId, decoders.optimStep, "1500 millis")
      yield* result(probe, yield* pass(probe, known), decoders.pass)
      known.seqId++
      if (early._tag !== "Waiting") {
        return yield* no(`operation ${known.seqId} ran before the one it follows was sent`)
      }
      yield* result(probe, later, decoders.optimStep)
    })),
  option("a resend is recognised", (probe, known) =>
    Effect.gen(function*() {
      const send = (modelId: ModelId, seqId: number) => probe.call(Api.optimStep, step(modelId, seqId))
      const once = yield* next(known, send)
      const twice = yield* send(yield* need(known, "modelId"), known.seqId)
      yield* result(probe, once, decoders.optimStep)
      yield* result(probe, twice, decoders.optimStep)
      // The next number is still the next.
      yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      if (once.requestId !== twice.requestId) return yield* no("the resend was accepted as a separate operation")
    })),
  option("a failed operation", (probe, known) =>
    Effect.gen(function*() {
      const future = yield* pass(probe, known, { data: [datum([2_000_000_000, 1, 2])], forwardOnly: true })
      const settled = yield* probe.settle(future.requestId, decoders.pass)
      if (settled._tag !== "Failed") return yield* no("a token beyond any vocabulary was taken")
      yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      return settled.category.toLowerCase() === "user"
        ? undefined
        : yield* no(`the category is ${settled.category}, not user: ${settled.error}`)
    }))
]

const saveForSampler = Effect.fnUntraced(function*(
  probe: Probe,
  known: Known,
  as: { readonly path: string } | { readonly samplingSessionSeqId: number }
) {
  const future = yield* next(
    known,
    (modelId, seqId) =>
      probe.call(Api.saveWeightsForSampler, new Weights.SaveWeightsForSamplerRequest({ modelId, seqId, ...as }))
  )
  return yield* result(probe, future, decoders.saveForSampler)
})

const checkpoints: ReadonlyArray<Check> = [
  option("save state", (probe, known) =>
    Effect.gen(function*() {
      const future = yield* next(known, (modelId, seqId) =>
        probe.call(Api.saveWeights, new Weights.SaveWeightsRequest({ modelId, seqId, path: "conformance" })))
      const saved = yield* result(probe, future, decoders.save)
      known.statePath = yield* named(saved.value.path, "training")
      return known.statePath
    })),
  option("load state", (probe, known) =>
    Effect.gen(function*() {
      const path = yield* need(known, "statePath")
      const before = yield* result(probe, yield* pass(probe, known, { forwardOnly: true }), decoders.pass)
      const modelId = yield* createModel(probe, known, yield* need(known, "model"))
      const other: Known = { ...known, modelId, seqId: 1 }
      const request = new Weights.LoadWeightsRequest({ modelId, seqId: 1, path, optimizer: true })
      yield* result(probe, yield* probe.call(Api.loadWeights, request), decoders.load)
      const after = yield* result(probe, yield* pass(probe, other, { forwardOnly: true }), decoders.pass)
      const [saved, loaded] = [yield* scored(before.value), yield* scored(after.value)]
      if (Math.abs(saved - loaded) > 0.05 * Math.abs(saved) + 0.01) {
        return yield* no(`the loss was ${saved} before, and is ${loaded} after loading`)
      }
    })),
  check("save for sampling", (probe, known) =>
    Effect.gen(function*() {
      const saved = yield* saveForSampler(probe, known, { path: "conformance" })
      known.samplerPath = yield* named(saved.value.path, "sampler")
      return known.samplerPath
    })),
  option(
    "sampler paths with a kind",
    (_, known) =>
      Effect.flatMap(
        need(known, "samplerPath"),
        (path) =>
          path.includes("/sampler_weights/") ? Effect.void : no(`${path} instead of tinker://RUN/sampler_weights/NAME`)
      )
  ),
  option("hand weights to a sampler", (probe, known) =>
    Effect.gen(function*() {
      const saved = yield* saveForSampler(probe, known, { samplingSessionSeqId: known.samplers++ })
      if (saved.value.samplingSessionId === undefined) return yield* no("the result names no sampling session")
    }))
]

const sampling: ReadonlyArray<Check> = [
  check("sampler of a checkpoint", (probe, known) =>
    Effect.gen(function*() {
      const modelPath = yield* need(known, "samplerPath")
      known.samplingSessionId = yield* samplingSession(probe, known, { modelPath })
    })),
  option(
    "sampler of a base model",
    (probe, known) =>
      Effect.flatMap(need(known, "model"), (baseModel) => Effect.asVoid(samplingSession(probe, known, { baseModel })))
  ),
  check("sample", (probe, known) =>
    Effect.gen(function*() {
      const { protobuf, value } = yield* sample(probe, known, 0, { numSamples: 2 })
      if (value.sequences.length !== 2) return yield* no(`2 samples were asked for, ${value.sequences.length} given`)
      for (const { logprobs, tokens } of value.sequences) {
        if (tokens.length === 0 || tokens.length > 3) {
          return yield* no(`${tokens.length} tokens, at most 3 were asked for`)
        }
        if (logprobs !== undefined && logprobs.length !== tokens.length) {
          return yield* no(`${logprobs.length} logprobs for ${tokens.length} tokens`)
        }
      }
      return `result in ${how(protobuf)}`
    })),
  option("names of sequences", (probe, known) =>
    Effect.gen(function*() {
      const ids = (yield* sample(probe, known, 1, { numSamples: 2 })).future.sampleSequenceIds
      if (ids?.length !== 2) return yield* no(`the receipt names ${ids?.length ?? 0} of the 2 sequences`)
    })),
  option("log probabilities", (probe, known) =>
    Effect.gen(function*() {
      const { promptLogprobs } = (yield* sample(probe, known, 2, { promptLogprobs: true })).value
      const count = promptLogprobs?.length ?? 0
      // The first token has none, and its place may be missing.
      if (count !== tokens.length && count !== tokens.length - 1) {
        return yield* no(`${count} logprobs for a prompt of ${tokens.length} tokens`)
      }
      if (promptLogprobs?.some((logprob, i) => i > 0 && !(logprob <= 0)) === true) {
        return yield* no("a logprob above zero")
      }
    })),
  option("log probabilities at their tokens", (probe, known) =>
    Effect.gen(function*() {
      const { promptLogprobs } = (yield* sample(probe, known, 3, { promptLogprobs: true })).value
      if (promptLogprobs?.length !== tokens.length) {
        return yield* no(`${promptLogprobs?.length ?? 0} logprobs for a prompt of ${tokens.length} tokens`)
      }
    })),
  option("one poll for all samples", (probe, known) =>
    Effect.gen(function*() {
      const samplingSessionId = yield* need(known, "samplingSessionId")
      const { completions } = yield* probe.call(
        Api.retrieveFutures,
        new Future.FuturesRetrieveRequest({
          target: new Future.SamplingSessionTarget({ samplingSessionId, clonedSamplerId: 0 }),
          prevCursor: 0
        })
      )
      return `${completions.length} completions`
    })),
  option("copies of a sampler", (probe, known) =>
    Effect.gen(function*() {
      const samplingSessionId = yield* need(known, "samplingSessionId")
      const request = new Sampler.JoinSamplingSessionRequest({ samplingSessionId })
      const { clientCounter } = yield* probe.call(Api.joinSamplingSession, request)
      if (clientCounter < 1) return yield* no(`the copy is number ${clientCounter}, which is the original's`)
    }))
]

const errors: ReadonlyArray<Check> = [
  option("no key is refused", (probe) => refused(probe.send("GET", Api.capabilities.path, { key: false }), 401, 403)),
  option(
    "an unknown base model is refused",
    (probe, known) =>
      Effect.flatMap(need(known, "sessionId"), (sessionId) =>
        refused(
          probe.ask(
            Api.createModel,
            new Model.CreateModelRequest({
              sessionId,
              modelSeqId: known.models++,
              baseModel: "no/such-model",
              loraConfig: new LoraConfig({ rank: 8 })
            })
          ),
          400,
          404,
          422
        ))
  ),
  option(
    "an unknown model is refused",
    (probe) => refused(probe.ask(Api.optimStep, step(ModelId.make("no-such:train:0"), 1)), 400, 404)
  ),
  option("a body that is no JSON is refused", (probe) =>
    refused(
      probe.send("POST", Api.optimStep.path, { body: "{", headers: { "content-type": "application/json" } }),
      400,
      422
    )),
  option("a poll for nothing is refused", (probe) =>
    refused(
      // Ids are numbers on some servers.
      probe.ask(Api.retrieveFuture, { requestId: "999999999", allowMetadataOnly: true }),
      400,
      404,
      410
    )),
  option("an unknown path is not found", (probe) => refused(probe.send("GET", "/api/v1/no_such_path"), 404))
]

/** A call that only has to be understood. */
const understood = <Request, Response>(
  name: string,
  endpoint: Endpoint.Endpoint<Request, Response>,
  request: Request
) => option(name, (probe) => Effect.asVoid(probe.call(endpoint, request)))

const rest: ReadonlyArray<Check> = [
  option("list runs", (probe, known) =>
    Effect.gen(function*() {
      const modelId = yield* need(known, "modelId")
      const { trainingRuns } = yield* probe.call(Api.listTrainingRuns, { ...page, ...owned })
      yield* listed(trainingRuns.map(({ trainingRunId }) => trainingRunId), modelId)
    })),
  option(
    "a run",
    (probe, known) =>
      Effect.flatMap(
        need(known, "modelId"),
        (trainingRunId) => Effect.asVoid(probe.call(Api.getTrainingRun, { trainingRunId, ...owned }))
      )
  ),
  option("list checkpoints of a run", (probe, known) =>
    Effect.gen(function*() {
      const path = yield* need(known, "statePath")
      const { checkpoints } = yield* probe.call(Api.listCheckpoints, { trainingRunId: parts(path).trainingRunId })
      yield* listed(checkpoints.map(({ tinkerPath }) => tinkerPath), path)
    })),
  option("list checkpoints", (probe, known) =>
    Effect.gen(function*() {
      const path = yield* need(known, "statePath")
      const { checkpoints } = yield* probe.call(Api.listUserCheckpoints, page)
      yield* listed(checkpoints.map(({ tinkerPath }) => tinkerPath), path)
    })),
  option("about a checkpoint", (probe, known) =>
    Effect.gen(function*() {
      const tinkerPath = yield* need(known, "statePath")
      const info = yield* probe.call(Api.weightsInfo, new Weights.WeightsInfoRequest({ tinkerPath }))
      if (info.baseModel !== known.model) return yield* no(`its base model is said to be ${info.baseModel}`)
    })),
  option("archive of a checkpoint", (probe, known) =>
    Effect.gen(function*() {
      const path = parts(yield* need(known, "samplerPath"))
      const bare = { ...path, checkpointId: CheckpointId.make(path.checkpointId.replace(/^.*\//, "")) }
      const ask = (checkpoint: Api.CheckpointRequest) => probe.ask(Api.checkpointArchive, checkpoint)
      const found = (answer: Answer) => answer.status < 400
      const first = yield* ask(path)
      if (found(first)) return
      if (found(yield* ask(bare))) return "under its bare name"
      return yield* no(complaint(first))
    })),
  option("list sessions", (probe, known) =>
    Effect.gen(function*() {
      const sessionId = yield* need(known, "sessionId")
      const { sessions } = yield* probe.call(Api.listSessions, { ...page, ...owned })
      yield* listed(sessions, sessionId)
    })),
  option(
    "a session",
    (probe, known) =>
      Effect.flatMap(
        need(known, "sessionId"),
        (sessionId) => Effect.asVoid(probe.call(Api.getSession, { sessionId, ...owned }))
      )
  ),
  option(
    "a sampler",
    (probe, known) =>
      Effect.flatMap(
        need(known, "samplingSessionId"),
        (samplerId) => Effect.asVoid(probe.call(Api.getSampler, { samplerId }))
      )
  ),
  option("publish and unpublish", (probe, known) =>
    Effect.gen(function*() {
      const checkpoint = parts(yield* need(known, "samplerPath"))
      yield* probe.call(Api.publishCheckpoint, checkpoint)
      yield* probe.call(Api.unpublishCheckpoint, checkpoint)
    })),
  option("expiry of a checkpoint", (probe, known) =>
    Effect.gen(function*() {
      const checkpoint = parts(yield* need(known, "statePath"))
      yield* probe.call(Api.setCheckpointTtl, { ...checkpoint, ttlSeconds: 7200 })
    })),
  understood("audit log", Api.audit, { eventType: "all", day: undefined }),
  understood("storage in use", Api.checkpointStorage, { projectId: undefined })
]

const ending: ReadonlyArray<Check> = [
  option("delete checkpoints", (probe, known) =>
    Effect.gen(function*() {
      for (const path of [known.statePath, known.samplerPath]) {
        if (path !== undefined) yield* probe.call(Api.deleteCheckpoint, parts(path))
      }
    })),
  option("finish the session", (probe, known) =>
    Effect.gen(function*() {
      const sessionId = yield* need(known, "sessionId")
      yield* probe.call(Api.finishSession, { sessionId, reason: { type: "success" }, detail: "conformance" })
      const beat = yield* probe.ask(Api.heartbeat, new Session.SessionHeartbeatRequest({ sessionId }))
      if (beat.status !== 410) {
        return yield* no(`a heartbeat after the end: expected status 410, got ${complaint(beat)}`)
      }
    }))
]

/** @internal */
export const checks: ReadonlyArray<Check> = [
  ...startup,
  ...training,
  ...checkpoints,
  ...sampling,
  ...errors,
  ...rest,
  ...ending
]

/**
 * Loading and copying weights.
 */
import { AdamOptimizerConfig } from "effect-tinker/Optimizer"
import * as Api from "effect-tinker/wire/Api"
import { ModelId } from "effect-tinker/wire/Id"
import * as Weights from "effect-tinker/wire/Weights"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Engine } from "../../../Engine.js"
import { accepted, result } from "../accept.js"
import { Accounts } from "../accounts.js"
import { AuditLog } from "../auditLog.js"
import { Checkpoints, pathOf } from "../checkpoints.js"
import { badRequest, conflict } from "../failure.js"
import { fingerprint, randomId, stringMetadata } from "../identity.js"
import { Models } from "../models.js"
import { submitted } from "../operations.js"
import type { Call } from "../route.js"
import { route } from "../route.js"
import { Runs } from "../runs.js"
import { Sessions } from "../sessions.js"
import { checkTtl } from "./saveWeights.js"

/** The checkpoint to read, in the name of the caller or of whoever issued the token that came along. */
const source = Effect.fnUntraced(function*(path: string, token: string | undefined, call: Call) {
  const accounts = yield* Accounts
  const checkpoints = yield* Checkpoints
  const reader = token === undefined ? call.caller : yield* accounts.authenticate(token)
  const record = yield* checkpoints.readable(path, reader.urn)
  const audit = yield* AuditLog
  yield* audit.note(reader, { resource: "checkpoint", action: "read", path, modelId: record.runId })
  return record
})

const checkOptimizer = (type: string | undefined) =>
  type === undefined || type === "adamw" ? Effect.void : badRequest(`Optimizer ${type} is not supported; use adamw`)

/** A new model from a checkpoint, in one request. */
const createFromWeights = Effect.fnUntraced(
  function*(request: Weights.LoadWeightsRequest, sessionId: string, modelSeqId: number, call: Call) {
    const checkpoints = yield* Checkpoints
    const engine = yield* Engine
    const models = yield* Models
    const runs = yield* Runs
    const sessions = yield* Sessions
    const session = yield* sessions.requireAlive(sessionId, call.caller.urn)
    yield* checkOptimizer(request.optimizerConfig?.type)
    const record = yield* source(request.path, request.weightsAccessToken, call)
    if (request.baseModel !== undefined && request.baseModel !== record.baseModel) {
      return yield* badRequest(`${request.path} was trained from ${record.baseModel}, not from ${request.baseModel}`)
    }
    const id = `${session.id}:train:${modelSeqId}`
    const future = yield* models.create({
      id,
      sessionId: session.id,
      owner: call.caller.urn,
      fingerprint: fingerprint(call.body),
      make: Effect.gen(function*() {
        const snapshot = yield* checkpoints.load(record)
        const adapter = yield* engine.restoreAdapter(snapshot, { optimizer: request.optimizer })
        const { baseModel, rank, trainAttn, trainMlp, trainUnembed } = adapter
        yield* runs.create({
          id,
          sessionId: session.id,
          owner: call.caller.urn,
          projectId: session.projectId,
          baseModel,
          rank,
          trainAttn,
          trainMlp,
          trainUnembed,
          userMetadata: stringMetadata(request.userMetadata)
        })
        const answer = new Weights.LoadWeightsResponse({ path: request.path, modelId: ModelId.make(id) })
        return { adapter, outcome: result(Weights.LoadWeightsResponse, answer) }
      })
    })
    return accepted(future, { modelId: id })
  }
)

const loadWeights = Effect.fnUntraced(function*(request: Weights.LoadWeightsRequest, call: Call) {
  const { modelId, modelSeqId, seqId, sessionId } = request
  if (modelId === undefined) {
    return sessionId === undefined || modelSeqId === undefined
      ? yield* badRequest("load_weights needs model_id, or session_id and model_seq_id")
      : yield* createFromWeights(request, sessionId, modelSeqId, call)
  }
  return yield* submitted(
    call,
    "load_weights",
    { modelId, seqId },
    Effect.fnUntraced(function*() {
      if (seqId !== undefined && seqId > 1) {
        return yield* badRequest(`load_weights is not permitted with seq_id ${seqId}`)
      }
      yield* checkOptimizer(request.optimizerConfig?.type)
      const record = yield* source(request.path, request.weightsAccessToken, call)
      const checkpoints = yield* Checkpoints
      return Effect.fnUntraced(function*(adapter) {
        yield* adapter.load(yield* checkpoints.load(record), { optimizer: request.optimizer })
        return result(Weights.LoadWeightsResponse, new Weights.LoadWeightsResponse({ path: request.path, modelId }))
      })
    })
  )
})

const copyWeights = Effect.fnUntraced(function*(request: Weights.CopyWeightsRequest, call: Call) {
  const audit = yield* AuditLog
  const checkpoints = yield* Checkpoints
  const runs = yield* Runs
  const sessions = yield* Sessions
  yield* checkTtl(request.ttlSeconds)
  const record = yield* source(request.sourcePath, request.weightsAccessToken, call)
  const { modelSeqId, sessionId } = request
  const inSession = sessionId !== undefined && modelSeqId !== undefined
  if (!inSession && request.destinationProjectId === undefined) {
    return yield* badRequest("copy_weights needs destination_project_id, or session_id and model_seq_id")
  }
  const session = inSession ? yield* sessions.requireAlive(sessionId, call.caller.urn) : undefined
  const id = session === undefined ? yield* randomId : `${session.id}:train:${modelSeqId}`
  const path = pathOf(id, record.kind, record.name)
  // repeated because its answer was lost
  if (Option.isSome(yield* checkpoints.get(path))) return new Weights.CopyWeightsResponse({ tinkerPath: path })
  if (runs.get(id) !== undefined) return yield* conflict(`Training run ${id} exists already`)
  const { baseModel, kind, name, rank, trainAttn, trainMlp, trainUnembed } = record
  yield* runs.create({
    id,
    sessionId: session?.id,
    owner: call.caller.urn,
    projectId: session?.projectId ?? request.destinationProjectId,
    baseModel,
    rank,
    trainAttn,
    trainMlp,
    trainUnembed,
    userMetadata: { copied_from_path: record.path }
  })
  yield* checkpoints.copy(record, {
    runId: id,
    kind,
    name,
    owner: call.caller.urn,
    sessionId: session?.id,
    ttlSeconds: request.ttlSeconds,
    userMetadata: record.userMetadata
  })
  yield* audit.note(call.caller, { resource: "checkpoint", action: "copy", path, modelId: id })
  return new Weights.CopyWeightsResponse({ tinkerPath: path })
})

/** @internal */
export const loadRoutes = [
  route(Api.loadWeights, loadWeights),
  route(Api.copyWeights, copyWeights),
  route(Api.weightsInfo, (request, call) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const record = yield* checkpoints.readable(request.tinkerPath, call.caller.urn)
      return new Weights.WeightsInfoResponse({
        baseModel: record.baseModel,
        isLora: true,
        loraRank: record.rank,
        trainUnembed: record.trainUnembed,
        trainMlp: record.trainMlp,
        trainAttn: record.trainAttn,
        optimizerConfig: new AdamOptimizerConfig()
      })
    }))
]

/**
 * Saving, loading and copying weights.
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import { AdamOptimizerConfig } from "effect-tinker/Optimizer"
import * as Api from "effect-tinker/wire/Api"
import { ModelId, SamplingSessionId } from "effect-tinker/wire/Id"
import * as Weights from "effect-tinker/wire/Weights"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Engine } from "../../../Engine.js"
import type { Adapter } from "../../../LocalAdapter.js"
import { Accounts } from "../accounts.js"
import { AuditLog } from "../auditLog.js"
import type { Kind } from "../checkpoints.js"
import { Checkpoints, pathOf } from "../checkpoints.js"
import { accepted, result } from "../futures.js"
import { fingerprint, stringMetadata } from "../identity.js"
import { Ledger } from "../ledger.js"
import { badRequest, conflict } from "../message.js"
import { Models } from "../models.js"
import type { Call } from "../router.js"
import { route } from "../router.js"
import { Runs } from "../runs.js"
import { Samplers } from "../samplers.js"
import { Sessions } from "../sessions.js"
import type { Target } from "../submission.js"
import { releaseTurn, submitted } from "../submission.js"
import { checkWeights } from "../weightCheck.js"

/** File systems take 255 bytes, of which replacing a directory needs some for itself. @internal */
export const checkpointName = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/

const tenYears = 10 * 365 * 24 * 3600

/** @internal */
export const checkTtl = (seconds: number | undefined) =>
  seconds === undefined || (seconds >= 3600 && seconds <= tenYears)
    ? Effect.void
    : badRequest(`ttl_seconds must be between 3600 and ${tenYears}, got ${seconds}`)

interface Save {
  readonly kind: Kind
  readonly name: string | undefined
  readonly ttlSeconds?: number | undefined
  readonly userMetadata?: Readonly<Record<string, string>> | undefined
  readonly overwrite?: boolean | undefined
  readonly optimizer: boolean
}

/** Everything that can be wrong with a save is checked before it is accepted, and its name again when its turn comes. */
const prepareSave = Effect.fnUntraced(function*(target: Target, call: Call, seqId: number | undefined, save: Save) {
  const audit = yield* AuditLog
  const checkpoints = yield* Checkpoints
  const ledger = yield* Ledger
  const runs = yield* Runs
  const name = save.name ?? String(seqId ?? 0).padStart(6, "0")
  if (!checkpointName.test(name)) {
    return yield* badRequest(
      `Invalid checkpoint name ${JSON.stringify(name)}: letters, digits, "_", "-" and "." only (not first), at most 200`
    )
  }
  yield* checkTtl(save.ttlSeconds)
  const userMetadata = yield* stringMetadata(save.userMetadata)
  const path = pathOf(target.id, save.kind, name)
  const taken = Effect.gen(function*() {
    if (save.overwrite === true) return
    // Not a 409: the official client retries that for five minutes, and only a 400 at once.
    if (Option.isSome(yield* checkpoints.get(path))) {
      return yield* badRequest(`Checkpoint ${path} already exists; use another name, or overwrite`)
    }
  })
  yield* taken
  return (adapter: Adapter) =>
    Effect.gen(function*() {
      yield* taken
      const snapshot = yield* adapter.snapshot({ optimizer: save.optimizer })
      // whatever is saved under this name already is better than a state that has diverged
      yield* checkWeights(snapshot)
      const record = yield* checkpoints.save(snapshot, {
        runId: target.id,
        kind: save.kind,
        name,
        owner: call.caller.urn,
        sessionId: target.sessionId,
        ttlSeconds: save.ttlSeconds,
        userMetadata
      })
      yield* runs.flush(target.id)
      yield* audit.note(call.caller, { resource: "checkpoint", action: "create", path, modelId: target.id })
      yield* ledger.charge({ ...target.usage, kind: "checkpoint", count: 1 })
      yield* ledger.flush
      return record
    })
})

const saveWeights = (request: Weights.SaveWeightsRequest, call: Call) =>
  submitted(
    call,
    "save_weights",
    request,
    Effect.fnUntraced(function*(target) {
      const save = yield* prepareSave(target, call, request.seqId, {
        kind: "weights",
        name: request.path,
        ttlSeconds: request.ttlSeconds,
        userMetadata: request.userMetadata,
        overwrite: request.overwrite,
        optimizer: true
      })
      return (adapter) =>
        Effect.map(
          save(adapter),
          ({ path }) => result(Weights.SaveWeightsResponse, new Weights.SaveWeightsResponse({ path }))
        )
    })
  )

const saveWeightsForSampler = (request: Weights.SaveWeightsForSamplerRequest, call: Call) =>
  submitted(
    call,
    "save_weights_for_sampler",
    request,
    Effect.fnUntraced(function*(target) {
      const { samplingSessionSeqId } = request
      const inflight = request.kind === "inflight"
      if (inflight && (request.path !== undefined || samplingSessionSeqId === undefined)) {
        return yield* badRequest("Weights of kind inflight have no path; send sampling_session_seq_id instead")
      }
      const answer = (fields: ConstructorParameters<typeof Weights.SaveWeightsForSamplerResult>[0]) =>
        result(Weights.SaveWeightsForSamplerResult, new Weights.SaveWeightsForSamplerResult(fields))
      if (request.path === undefined && samplingSessionSeqId !== undefined) {
        const samplers = yield* Samplers
        const id = `${target.sessionId}:sample:${samplingSessionSeqId}`
        if (samplers.get(id) !== undefined) return yield* conflict(`Sampler ${id} already exists`)
        return Effect.fnUntraced(function*(adapter) {
          const weights = yield* adapter.snapshot({ optimizer: false })
          yield* checkWeights(weights)
          const sampler = { id, sessionId: target.sessionId, owner: call.caller.urn, baseModel: weights.baseModel }
          yield* inflight
            ? samplers.publish({ ...sampler, follows: target.id }, weights)
            : samplers.create(sampler, weights)
          return answer({ samplingSessionId: SamplingSessionId.make(id) })
        })
      }
      const save = yield* prepareSave(target, call, request.seqId, {
        kind: "sampler_weights",
        name: request.path,
        ttlSeconds: request.ttlSeconds,
        userMetadata: request.userMetadata,
        optimizer: false
      })
      return (adapter) => Effect.map(save(adapter), ({ path }) => answer({ path }))
    })
  )

const saveWeightsExternal = (request: Weights.SaveWeightsExternalRequest, call: Call) =>
  submitted(
    call,
    "save_weights_external",
    request,
    Effect.fnUntraced(function*(target) {
      if (request.ageEncryptionRecipients !== undefined) {
        return yield* badRequest("This backend cannot encrypt external weights")
      }
      const save = yield* prepareSave(target, call, request.seqId, {
        kind: "external_weights",
        name: request.path,
        ttlSeconds: request.ttlSeconds,
        optimizer: false
      })
      return (adapter) =>
        Effect.map(
          save(adapter),
          ({ path, sizeBytes }) =>
            result(Weights.SaveWeightsExternalResult, new Weights.SaveWeightsExternalResult({ path, sizeBytes }))
        )
    })
  )

/** The checkpoint to read, for the caller or for the user whose token the request carries. */
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
    const audit = yield* AuditLog
    const userMetadata = yield* stringMetadata(request.userMetadata)
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
          userMetadata
        })
        yield* audit.note(call.caller, {
          resource: "training_run",
          action: "create",
          modelId: id,
          sessionId: session.id
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
  const id = session === undefined ? yield* Entropy.uuid : `${session.id}:train:${modelSeqId}`
  const path = pathOf(id, record.kind, record.name)
  // repeated because its response was lost
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
export const weightRoutes = [
  route(Api.saveWeights, saveWeights, releaseTurn),
  route(Api.saveWeightsForSampler, saveWeightsForSampler, releaseTurn),
  route(Api.saveWeightsExternal, saveWeightsExternal, releaseTurn),
  route(Api.loadWeights, loadWeights, releaseTurn),
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

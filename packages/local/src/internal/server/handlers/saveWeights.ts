/**
 * Saving weights.
 */
import * as Api from "effect-tinker/wire/Api"
import { SamplingSessionId } from "effect-tinker/wire/Id"
import * as Weights from "effect-tinker/wire/Weights"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Adapter } from "../../../LocalAdapter.js"
import { result } from "../accept.js"
import { AuditLog } from "../auditLog.js"
import type { Kind } from "../checkpoints.js"
import { Checkpoints, pathOf } from "../checkpoints.js"
import { badRequest, conflict } from "../failure.js"
import { Ledger } from "../ledger.js"
import type { Target } from "../operations.js"
import { submitted } from "../operations.js"
import type { Call } from "../route.js"
import { route } from "../route.js"
import { Runs } from "../runs.js"
import { Samplers } from "../samplers.js"

const namePattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}$/

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

/** Everything that can be wrong with a save is said before it is accepted, except that another save came first. */
const prepareSave = Effect.fnUntraced(function*(target: Target, call: Call, seqId: number | undefined, save: Save) {
  const audit = yield* AuditLog
  const checkpoints = yield* Checkpoints
  const ledger = yield* Ledger
  const runs = yield* Runs
  const name = save.name ?? String(seqId ?? 0).padStart(6, "0")
  if (!namePattern.test(name)) {
    return yield* badRequest(
      `Invalid checkpoint name ${JSON.stringify(name)}: letters, digits, "_", "-" and "." only, at most 255 of them`
    )
  }
  yield* checkTtl(save.ttlSeconds)
  const path = pathOf(target.id, save.kind, name)
  const taken = Effect.gen(function*() {
    if (save.overwrite === true) return
    if (Option.isSome(yield* checkpoints.get(path))) return yield* conflict(`Checkpoint ${path} already exists`)
  })
  yield* taken
  return (adapter: Adapter) =>
    Effect.gen(function*() {
      yield* taken
      const record = yield* checkpoints.save(yield* adapter.snapshot({ optimizer: save.optimizer }), {
        runId: target.id,
        kind: save.kind,
        name,
        owner: call.caller.urn,
        sessionId: target.sessionId,
        ttlSeconds: save.ttlSeconds,
        userMetadata: save.userMetadata
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
      const answer = (fields: ConstructorParameters<typeof Weights.SaveWeightsForSamplerResult>[0]) =>
        result(Weights.SaveWeightsForSamplerResult, new Weights.SaveWeightsForSamplerResult(fields))
      if (request.path === undefined && samplingSessionSeqId !== undefined) {
        const samplers = yield* Samplers
        const id = `${target.sessionId}:sample:${samplingSessionSeqId}`
        if (samplers.get(id) !== undefined) return yield* conflict(`Sampler ${id} already exists`)
        return Effect.fnUntraced(function*(adapter) {
          const weights = yield* adapter.snapshot({ optimizer: false })
          yield* samplers.create(
            { id, sessionId: target.sessionId, owner: call.caller.urn, baseModel: weights.baseModel },
            weights
          )
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

/** @internal */
export const saveRoutes = [
  route(Api.saveWeights, saveWeights),
  route(Api.saveWeightsForSampler, saveWeightsForSampler),
  route(Api.saveWeightsExternal, saveWeightsExternal)
]

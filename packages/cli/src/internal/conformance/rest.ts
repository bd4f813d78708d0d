/**
 * What the service knows, and how a session ends.
 *
 * @since 0.1.0
 */
import * as Api from "effect-tinker/Api"
import type * as Endpoint from "effect-tinker/Endpoint"
import * as Session from "effect-tinker/Session"
import * as Weights from "effect-tinker/Weights"
import * as Effect from "effect/Effect"
import { complaint } from "./probe.js"
import type { Check } from "./support.js"
import { listed, need, no, option, owned, page, parts } from "./support.js"

/** A call that only has to be understood. */
const understood = <Request, Response>(
  name: string,
  endpoint: Endpoint.Endpoint<Request, Response>,
  request: Request
) => option(name, (probe) => Effect.asVoid(probe.call(endpoint, request)))

/** @internal */
export const rest: ReadonlyArray<Check> = [
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

/** @internal */
export const ending: ReadonlyArray<Check> = [
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

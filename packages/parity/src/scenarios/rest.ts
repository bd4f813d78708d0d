/**
 * What the service knows of runs, checkpoints, sessions and usage; its twin is `python/scenarios/rest.py`.
 */
import { DateTime, Effect, Redacted } from "effect"
import { RestClient, ServiceClient } from "effect-tinker"
import { SessionSearch } from "effect-tinker/wire"
import { drop, few, first, prompt, sampling, scenario, training as client, waited } from "./common.js"
import type { Scenario } from "./Scenario.js"

const run = "00000000-0000-4000-a000-000000000000:train:0"
const path = `tinker://${run}/weights/one`

const saved = Effect.map(waited((training) => training.saveState("one")), ({ path }) => path)

const sessionId = Effect.flatMap(ServiceClient.ServiceClient, (service) => service.sessionId)

const getRun = Effect.flatMap(RestClient.RestClient, (rest) => rest.getTrainingRun(run))

const publish = Effect.flatMap(RestClient.RestClient, (rest) => rest.publishCheckpoint(path))

export const rest: ReadonlyArray<Scenario> = [
  scenario(
    "rest_runs",
    Effect.gen(function*() {
      const { modelId } = yield* client
      const rest = yield* RestClient.RestClient
      yield* rest.listTrainingRuns()
      yield* rest.listTrainingRuns({ limit: 5, offset: 1, accessScope: "accessible", projectId: "project-1" })
      yield* rest.getTrainingRun(modelId)
      yield* rest.getTrainingRun(modelId, { accessScope: "accessible" })
      yield* rest.getTrainingRunByPath(`tinker://${modelId}/weights/one`)
    })
  ),
  scenario(
    "rest_checkpoints",
    Effect.gen(function*() {
      const training = yield* client
      const { path } = yield* Effect.flatten(training.saveState("one"))
      const rest = yield* RestClient.RestClient
      yield* rest.listCheckpoints(training.modelId)
      yield* rest.listUserCheckpoints()
      yield* rest.listUserCheckpoints({ limit: 5, offset: 2 })
      yield* rest.getWeightsInfo(path)
    })
  ),
  scenario(
    "rest_checkpoint_changes",
    Effect.gen(function*() {
      const path = yield* saved
      const rest = yield* RestClient.RestClient
      yield* rest.publishCheckpoint(path)
      yield* rest.unpublishCheckpoint(path)
      yield* rest.setCheckpointTtl(path, "2 hours")
      yield* rest.setCheckpointTtl(path, null)
      yield* rest.deleteCheckpoint(path)
    })
  ),
  scenario(
    "rest_copy",
    Effect.gen(function*() {
      const path = yield* saved
      const rest = yield* RestClient.RestClient
      yield* rest.copyWeights(path, { projectId: "project-1", ttl: "1 hour" })
    })
  ),
  scenario(
    "rest_copy_with_token",
    Effect.gen(function*() {
      const path = yield* saved
      const rest = yield* RestClient.RestClient
      yield* rest.copyWeights(path, { projectId: "project-1", weightsAccessToken: Redacted.make("tml-reader") })
    })
  ),
  scenario(
    "rest_external_urls",
    Effect.gen(function*() {
      const { path } = yield* waited((training) => training.saveWeightsExternal("one"))
      const rest = yield* RestClient.RestClient
      yield* rest.getExternalWeightsUrls(path)
    })
  ),
  scenario(
    "rest_external_urls_of_another_kind",
    Effect.flatMap(RestClient.RestClient, (rest) => rest.getExternalWeightsUrls(path))
  ),
  scenario(
    "rest_sessions",
    Effect.gen(function*() {
      yield* sampling
      const session = yield* sessionId
      const rest = yield* RestClient.RestClient
      yield* rest.listSessions()
      yield* rest.listSessions({ limit: 3, offset: 1, accessScope: "accessible" })
      yield* rest.getSession(session)
      yield* rest.getSession(session, { accessScope: "accessible" })
      yield* rest.assignSessionProject(session, "project-1")
    })
  ),
  scenario(
    "rest_search",
    Effect.gen(function*() {
      const rest = yield* RestClient.RestClient
      yield* rest.searchSessions(new SessionSearch.SessionSearchRequest({}))
      yield* rest.searchSessions(
        new SessionSearch.SessionSearchRequest({
          displayName: "name",
          projectIds: ["project-1"],
          userMetadata: { a: "b" },
          limit: 10,
          owner: new SessionSearch.AccessibleSearchOwner(),
          statuses: [new SessionSearch.ActiveSessionStatusQuery(), new SessionSearch.FailedSessionStatusQuery()]
        })
      )
    })
  ),
  scenario(
    "rest_trace",
    Effect.gen(function*() {
      yield* sampling
      const rest = yield* RestClient.RestClient
      yield* rest.exportSessionTrace(yield* sessionId)
    })
  ),
  scenario(
    "rest_sampler",
    Effect.gen(function*() {
      const sampler = yield* sampling
      yield* sampler.sample({ prompt: prompt(), ...few })
      const rest = yield* RestClient.RestClient
      const session = yield* rest.getSession(yield* sessionId)
      yield* rest.getSampler(session.samplerIds[0] ?? "")
    })
  ),
  scenario(
    "rest_audit",
    Effect.gen(function*() {
      const rest = yield* RestClient.RestClient
      yield* rest.getAuditLog()
      yield* rest.getAuditLog({ eventType: "checkpoints", day: DateTime.unsafeMake("2026-01-02") })
    })
  ),
  scenario(
    "rest_billing",
    Effect.gen(function*() {
      const rest = yield* RestClient.RestClient
      const startingOn = DateTime.unsafeMake("2026-01-02T03:00:00Z")
      yield* rest.getBillingUsage({ startingOn, endingBefore: DateTime.add(startingOn, { hours: 2 }) })
      yield* rest.getCheckpointStorageUsage()
      yield* rest.getCheckpointStorageUsage({ projectId: "project-1" })
    })
  ),
  scenario(
    "rest_malformed_path",
    Effect.flatMap(RestClient.RestClient, (rest) => rest.deleteCheckpoint("tinker://run/weights/one/two"))
  ),
  scenario(
    "rest_path_without_kind",
    Effect.flatMap(RestClient.RestClient, (rest) => rest.deleteCheckpoint("tinker://run/one"))
  ),
  scenario("rest_404", getRun),
  scenario("rest_401", getRun, { faults: [first(1, "getTrainingRun", 401)] }),
  scenario("rest_403", getRun, { faults: [first(1, "getTrainingRun", 403)] }),
  scenario("rest_429", getRun, { faults: [first(1, "getTrainingRun", 429)] }),
  scenario("rest_500", getRun, { faults: [first(2, "getTrainingRun", 500)] }),
  scenario("rest_dropped", getRun, { faults: [drop(1, "getTrainingRun")] }),
  scenario("rest_publish_409", publish, { faults: [first(1, "publishCheckpoint", 409)] }),
  scenario("rest_publish_500", publish, { faults: [first(1, "publishCheckpoint", 500)] })
]

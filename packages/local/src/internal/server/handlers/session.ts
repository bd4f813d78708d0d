/**
 * Sessions, samplers and what a client asks before it has either.
 */
import { ApiKeyDetails, ApiKeyResponse, AuthTokenResponse } from "effect-tinker/wire/Account"
import * as Api from "effect-tinker/wire/Api"
import { GetServerCapabilitiesResponse, HealthResponse, SupportedModel } from "effect-tinker/wire/Capabilities"
import { SamplingSessionId, SessionId } from "effect-tinker/wire/Id"
import { CreateSamplingSessionResponse, JoinSamplingSessionResponse } from "effect-tinker/wire/Sampler"
import { CreateSessionResponse, SessionHeartbeatResponse } from "effect-tinker/wire/Session"
import { TelemetryResponse } from "effect-tinker/wire/TelemetryEvent"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Engine } from "../../../Engine.js"
import { Accounts } from "../accounts.js"
import { AuditLog } from "../auditLog.js"
import { Checkpoints } from "../checkpoints.js"
import { stringMetadata } from "../identity.js"
import { badRequest } from "../message.js"
import { route } from "../router.js"
import { Samplers } from "../samplers.js"
import { Sessions } from "../sessions.js"
import { limits, ServerInfo } from "../settings.js"

const checkBaseModel = Effect.fnUntraced(function*(name: string) {
  const { models } = yield* Engine
  return models.some((model) => model.name === name) ? name : yield* badRequest(
    `Base model ${name} is not supported; supported models: ${models.map((model) => model.name).join(", ")}`
  )
})

/** @internal */
export const sessionRoutes = [
  route(Api.clientConfig, () => Effect.map(ServerInfo, (info) => info.config())),
  route(Api.dynamicConfig, () => Effect.map(ServerInfo, (info) => info.dynamic())),
  // for whatever watches over the server, which has no key
  route({ ...Api.healthz, auth: "none" }, () => Effect.succeed(new HealthResponse({ status: "ok" }))),
  route(Api.telemetry, () => Effect.succeed(new TelemetryResponse({ status: "accepted" }))),
  route(Api.authToken, (_, { caller }) =>
    Effect.gen(function*() {
      const accounts = yield* Accounts
      return new AuthTokenResponse({ jwt: Redacted.make(yield* accounts.issue(caller)) })
    })),
  route(Api.apiKeyInfo, (_, { caller }) =>
    Effect.succeed(
      new ApiKeyResponse({
        keyId: caller.keyId,
        name: caller.keyName,
        note: "",
        details: new ApiKeyDetails({ orgDetails: { name: caller.orgId }, userDetails: { email: caller.email } })
      })
    )),
  route(Api.deleteApiKey, (_, { caller }) => Effect.flatMap(Accounts, (accounts) => accounts.deleteKey(caller))),
  route(Api.capabilities, () =>
    Effect.map(Engine, ({ models }) =>
      new GetServerCapabilitiesResponse({
        supportedModels: models.map((model) =>
          new SupportedModel({
            modelName: model.name,
            maxContextLength: model.contextLength,
            trainable: true,
            sampleable: true
          })
        )
      }))),
  route(Api.createSession, (request, { caller }) =>
    Effect.gen(function*() {
      const audit = yield* AuditLog
      const sessions = yield* Sessions
      const userMetadata = yield* stringMetadata(request.userMetadata)
      const texts = [...request.tags, request.sdkVersion, request.projectId ?? "", request.displayName ?? ""]
      if (texts.reduce((sum, text) => sum + text.length, 0) > limits.metadataBytes) {
        return yield* badRequest(`tags, project_id and display_name may have ${limits.metadataBytes} characters in all`)
      }
      const session = yield* sessions.create({
        owner: caller.urn,
        tags: request.tags,
        sdkVersion: request.sdkVersion,
        userMetadata,
        projectId: request.projectId,
        displayName: request.displayName
      })
      yield* audit.note(caller, { resource: "session", action: "create", sessionId: session.id })
      return new CreateSessionResponse({ sessionId: SessionId.make(session.id) })
    })),
  route(Api.heartbeat, (request, { caller }) =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      yield* sessions.requireAlive(request.sessionId, caller.urn)
      return new SessionHeartbeatResponse()
    })),
  route(Api.finishSession, (request, { caller }) =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      const session = yield* sessions.require(request.sessionId, caller.urn)
      yield* sessions.end(session.id, request.reason.type, request.detail ?? undefined)
    })),
  route(Api.createSamplingSession, (request, { caller }) =>
    Effect.gen(function*() {
      const sessions = yield* Sessions
      const samplers = yield* Samplers
      const session = yield* sessions.requireAlive(request.sessionId, caller.urn)
      const id = `${session.id}:sample:${request.samplingSessionSeqId}`
      const { baseModel, modelPath } = request
      if (baseModel === undefined && modelPath === undefined) {
        return yield* badRequest("One of base_model and model_path is required")
      }
      const checkpoint = modelPath === undefined
        ? undefined
        : yield* Effect.flatMap(Checkpoints, ({ readable }) => readable(modelPath, caller.urn))
      // repeated because its response was lost: the sampler exists
      if (samplers.get(id) === undefined) {
        yield* samplers.create({
          id,
          sessionId: session.id,
          owner: caller.urn,
          baseModel: checkpoint?.baseModel ?? (yield* checkBaseModel(baseModel ?? "")),
          modelPath
        })
      }
      return new CreateSamplingSessionResponse({ samplingSessionId: SamplingSessionId.make(id) })
    })),
  route(Api.joinSamplingSession, (request, { caller }) =>
    Effect.gen(function*() {
      const samplers = yield* Samplers
      const sampler = yield* samplers.require(request.samplingSessionId, caller.urn)
      return new JoinSamplingSessionResponse({ clientCounter: samplers.join(sampler.id) })
    }))
]

/**
 * How a client begins.
 *
 * @since 0.1.0
 */
import * as Api from "effect-tinker/Api"
import { ClientConfigRequest } from "effect-tinker/ClientConfig"
import * as Session from "effect-tinker/Session"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Effect from "effect/Effect"
import type { Check } from "./support.js"
import { check, need, no, option } from "./support.js"

/** @internal */
export const startup: ReadonlyArray<Check> = [
  option("health", (probe) => Effect.asVoid(probe.call(Api.healthz, {}))),
  check("client configuration", (probe) =>
    Effect.gen(function*() {
      const request = new ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion })
      const config = yield* probe.call(Api.clientConfig, request)
      if (!config.pjwtAuthEnabled) return
      probe.present((yield* probe.call(Api.authToken, {})).jwt)
      return "with tokens"
    })),
  option("dynamic configuration", (probe) =>
    Effect.asVoid(
      probe.call(Api.dynamicConfig, new ClientConfigRequest({ sdkVersion: TinkerConfig.wireVersion }))
    )),
  option("token exchange", (probe) => Effect.asVoid(probe.call(Api.authToken, {}))),
  check("capabilities", (probe, known) =>
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
  check(
    "heartbeat",
    (probe, known) =>
      Effect.flatMap(
        need(known, "sessionId"),
        (sessionId) => Effect.asVoid(probe.call(Api.heartbeat, new Session.SessionHeartbeatRequest({ sessionId })))
      )
  )
]

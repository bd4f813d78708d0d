/**
 * How clients begin and end; its twin is `python/scenarios/startup.py`.
 */
import { Effect, Redacted } from "effect"
import { RestClient, ServiceClient } from "effect-tinker"
import { first, sampling, scenario } from "./common.js"
import type { Scenario } from "./Scenario.js"

const exchange = { clientConfig: { pjwtAuthEnabled: true } } as const

const enforced = { clientConfig: { pjwtAuthEnabled: true, credentialDefaultSource: "credential_cmd" } } as const

const close = (reason: "success" | "errored" | "interrupted", detail?: string) =>
  Effect.zipRight(sampling, Effect.flatMap(ServiceClient.ServiceClient, (service) => service.finish(reason, detail)))

const resting = Effect.zipRight(sampling, Effect.sleep("22 seconds"))

export const startup: ReadonlyArray<Scenario> = [
  scenario("startup_key_argument", sampling),
  scenario("startup_key_environment", sampling, { credential: "environment" }),
  scenario("startup_key_stored", sampling, { credential: "stored" }),
  scenario("startup_key_exchanged", sampling, { server: exchange }),
  scenario("startup_key_unknown", sampling, { server: { apiKeys: [{ key: Redacted.make("tml-other") }] } }),
  scenario("startup_key_malformed", sampling, { credential: "malformed" }),
  scenario("startup_key_missing", sampling, { credential: "none" }),
  scenario("startup_command", sampling, { credential: "command" }),
  scenario("startup_command_exchanged", sampling, { credential: "command", server: exchange }),
  scenario("startup_command_enforced", sampling, {
    server: enforced,
    environment: { TINKER_CREDENTIAL_CMD: "echo tml-command" }
  }),
  scenario("startup_token", sampling, { credential: "token" }),
  scenario("startup_token_enforced", sampling, {
    credential: "token",
    server: enforced,
    environment: { TINKER_CREDENTIAL_CMD: "echo tml-command" }
  }),
  scenario("startup_session_options", sampling, {
    session: { userMetadata: { purpose: "parity", run: "1" }, displayName: "A name" },
    config: { projectId: "project-1" }
  }),
  scenario("startup_session_from_environment", sampling, {
    environment: { TINKER_PROJECT_ID: "project-2", TINKER_TAGS: "one" }
  }),
  scenario("startup_access_headers", sampling, {
    environment: { CLOUDFLARE_ACCESS_CLIENT_ID: "id", CLOUDFLARE_ACCESS_CLIENT_SECRET: "secret" }
  }),
  scenario("startup_no_dynamic_config", sampling, { faults: [first(1, "dynamicConfig", 404)] }),
  scenario("startup_config_500", sampling, { faults: [first(2, "clientConfig", 500)] }),
  scenario("startup_session_500", sampling, { faults: [first(1, "createSession", 503)] }),
  scenario("capabilities", Effect.flatMap(ServiceClient.ServiceClient, (service) => service.serverCapabilities)),
  scenario("whoami", Effect.flatMap(RestClient.RestClient, (rest) => rest.whoami), { server: exchange }),
  scenario("close_success", close("success", "all done")),
  scenario("close_errored", close("errored", "out of memory")),
  scenario("close_interrupted", close("interrupted")),
  scenario(
    "close_without_session",
    Effect.flatMap(ServiceClient.ServiceClient, (service) => service.finish("success"))
  ),
  scenario("close_500", sampling, { faults: [first(1, "finishSession", 500)] }),
  scenario("heartbeats", resting, { heartbeats: true }),
  scenario("heartbeat_410", resting, { heartbeats: true, faults: [first(1, "heartbeat", 410)] })
]

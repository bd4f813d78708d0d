/**
 * Configuration, sessions and what keeps them: everything a client begins with.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Nothing, startup } from "../../internal/wire/api.js"
import { required } from "../../internal/wire/json.js"
import { AuthTokenResponse } from "../Account.js"
import { GetServerCapabilitiesResponse, HealthResponse } from "../Capabilities.js"
import { ClientConfig, ClientConfigRequest, ClientDynamicConfig } from "../ClientConfig.js"
import * as Endpoint from "../Endpoint.js"
import { SessionId } from "../Id.js"
import * as Sampler from "../Sampler.js"
import * as Session from "../Session.js"
import { TelemetryResponse, TelemetrySendRequest } from "../TelemetryEvent.js"

/**
 * The flags of the service for this version of the wire.
 *
 * @since 0.1.0
 * @category models
 */
export const clientConfig: Endpoint.Endpoint<ClientConfigRequest, ClientConfig> = Endpoint.make(
  "clientConfig",
  "POST",
  "/api/v1/client/config",
  { ...startup, request: ClientConfigRequest, response: Endpoint.json(ClientConfig) }
)

/**
 * The flags that may change while a client lives.
 *
 * @since 0.1.0
 * @category models
 */
export const dynamicConfig: Endpoint.Endpoint<ClientConfigRequest, ClientDynamicConfig> = Endpoint.make(
  "dynamicConfig",
  "POST",
  "/api/v1/client/dynamic_config",
  { ...startup, timeout: "10 seconds", request: ClientConfigRequest, response: Endpoint.json(ClientDynamicConfig) }
)

/**
 * Exchanges the credential for a short-lived token.
 *
 * @since 0.1.0
 * @category models
 */
export const authToken: Endpoint.Endpoint<{}, AuthTokenResponse> = Endpoint.make(
  "authToken",
  "POST",
  "/api/v1/auth/token",
  { ...startup, request: Nothing, response: Endpoint.json(AuthTokenResponse) }
)

/**
 * Begins a session.
 *
 * @since 0.1.0
 * @category models
 */
export const createSession: Endpoint.Endpoint<Session.CreateSessionRequest, Session.CreateSessionResponse> = Endpoint
  .make("createSession", "POST", "/api/v1/create_session", {
    ...startup,
    request: Session.CreateSessionRequest,
    response: Endpoint.json(Session.CreateSessionResponse)
  })

/**
 * Keeps a session alive. `NotFound` with status 410: it has ended.
 *
 * @since 0.1.0
 * @category models
 */
export const heartbeat: Endpoint.Endpoint<Session.SessionHeartbeatRequest, Session.SessionHeartbeatResponse> = Endpoint
  .make("heartbeat", "POST", "/api/v1/session_heartbeat", {
    pool: "session",
    retry: "heartbeat",
    timeout: "10 seconds",
    request: Session.SessionHeartbeatRequest,
    response: Endpoint.json(Session.SessionHeartbeatResponse)
  })

/**
 * Ends a session, saying how it went.
 *
 * @since 0.1.0
 * @category models
 */
export const finishSession: Endpoint.Endpoint<Session.FinishSessionRequest & { readonly sessionId: SessionId }, void> =
  Endpoint.make("finishSession", "POST", "/api/v1/sessions/{session_id}/finish", {
    pool: "session",
    retry: "restWrite",
    request: Schema.Struct({ sessionId: required(SessionId, "session_id"), ...Session.FinishSessionRequest.fields }),
    response: Endpoint.none
  })

/**
 * Begins sampling from a model or checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const createSamplingSession: Endpoint.Endpoint<
  Sampler.CreateSamplingSessionRequest,
  Sampler.CreateSamplingSessionResponse
> = Endpoint.make("createSamplingSession", "POST", "/api/v1/create_sampling_session", {
  ...startup,
  request: Sampler.CreateSamplingSessionRequest,
  response: Endpoint.json(Sampler.CreateSamplingSessionResponse)
})

/**
 * A client number for one more client of a sampler.
 *
 * @since 0.1.0
 * @category models
 */
export const joinSamplingSession: Endpoint.Endpoint<
  Sampler.JoinSamplingSessionRequest,
  Sampler.JoinSamplingSessionResponse
> = Endpoint.make("joinSamplingSession", "POST", "/api/v1/join_sampling_session", {
  ...startup,
  request: Sampler.JoinSamplingSessionRequest,
  response: Endpoint.json(Sampler.JoinSamplingSessionResponse)
})

/**
 * The models the service offers.
 *
 * @since 0.1.0
 * @category models
 */
export const capabilities: Endpoint.Endpoint<{}, GetServerCapabilitiesResponse> = Endpoint.make(
  "capabilities",
  "GET",
  "/api/v1/get_server_capabilities",
  { pool: "rest", retry: "restRead", request: Nothing, response: Endpoint.json(GetServerCapabilitiesResponse) }
)

/**
 * Whether the service is up.
 *
 * @since 0.1.0
 * @category models
 */
export const healthz: Endpoint.Endpoint<{}, HealthResponse> = Endpoint.make("healthz", "GET", "/api/v1/healthz", {
  pool: "rest",
  retry: "restRead",
  request: Nothing,
  response: Endpoint.json(HealthResponse)
})

/**
 * Reports what the SDK experienced.
 *
 * @since 0.1.0
 * @category models
 */
export const telemetry: Endpoint.Endpoint<TelemetrySendRequest, TelemetryResponse> = Endpoint.make(
  "telemetry",
  "POST",
  "/api/v1/telemetry",
  {
    pool: "telemetry",
    retry: "telemetry",
    timeout: "5 seconds",
    request: TelemetrySendRequest,
    response: Endpoint.json(TelemetryResponse)
  }
)

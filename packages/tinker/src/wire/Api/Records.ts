/**
 * Records that the service keeps: sessions, samplers, the audit log, bills and keys.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Nothing, Page, read, Scope, write } from "../../internal/wire/api.js"
import { Instant, optional, required } from "../../internal/wire/json.js"
import { ApiKeyResponse } from "../Account.js"
import { AuditEventType, AuditLogResponse } from "../Audit.js"
import * as Billing from "../Billing.js"
import * as Endpoint from "../Endpoint.js"
import { SamplingSessionId, SessionId } from "../Id.js"
import * as Sampler from "../Sampler.js"
import * as Session from "../Session.js"
import { SessionSearchRequest, SessionSearchResponse } from "../SessionSearch.js"
import type { PageRequest, ScopedRequest } from "./Checkpoints.js"

const BillingUsageQuery = Schema.Struct({
  startingOn: required(Instant, "starting_on"),
  endingBefore: required(Instant, "ending_before")
})

/**
 * Source of a sampler.
 *
 * @since 0.1.0
 * @category models
 */
export const getSampler: Endpoint.Endpoint<{ readonly samplerId: SamplingSessionId }, Sampler.GetSamplerResponse> =
  Endpoint.make("getSampler", "GET", "/api/v1/samplers/{sampler_id}", {
    ...read("RestClient.get_sampler"),
    request: Schema.Struct({ samplerId: required(SamplingSessionId, "sampler_id") }),
    response: Endpoint.json(Sampler.GetSamplerResponse)
  })

/**
 * Ids of sessions, newest first.
 *
 * @since 0.1.0
 * @category models
 */
export const listSessions: Endpoint.Endpoint<PageRequest & ScopedRequest, Session.ListSessionsResponse> = Endpoint.make(
  "listSessions",
  "GET",
  "/api/v1/sessions",
  {
    ...read("RestClient.list_sessions"),
    request: Schema.Struct({ ...Page, accessScope: Scope }),
    response: Endpoint.json(Session.ListSessionsResponse)
  }
)

/**
 * The runs and samplers of a session.
 *
 * @since 0.1.0
 * @category models
 */
export const getSession: Endpoint.Endpoint<
  ScopedRequest & { readonly sessionId: SessionId },
  Session.GetSessionResponse
> = Endpoint.make("getSession", "GET", "/api/v1/sessions/{session_id}", {
  ...read("RestClient.get_session"),
  request: Schema.Struct({ sessionId: required(SessionId, "session_id"), accessScope: Scope }),
  response: Endpoint.json(Session.GetSessionResponse)
})

/**
 * Finds sessions.
 *
 * @since 0.1.0
 * @category models
 */
export const searchSessions: Endpoint.Endpoint<SessionSearchRequest, SessionSearchResponse> = Endpoint.make(
  "searchSessions",
  "POST",
  "/api/v1/sessions/search",
  {
    ...read("RestClient.search_sessions"),
    request: SessionSearchRequest,
    response: Endpoint.json(SessionSearchResponse)
  }
)

/**
 * Moves a session into a project.
 *
 * @since 0.1.0
 * @category models
 */
export const assignProject: Endpoint.Endpoint<Session.AssignProjectRequest & { readonly sessionId: SessionId }, void> =
  Endpoint.make("assignProject", "PUT", "/api/v1/sessions/{session_id}/project", {
    ...write("RestClient.assign_session_project"),
    request: Schema.Struct({ sessionId: required(SessionId, "session_id"), ...Session.AssignProjectRequest.fields }),
    response: Endpoint.none
  })

/**
 * State of a session's trace, and where to download it.
 *
 * @since 0.1.0
 * @category models
 */
export const traceExport: Endpoint.Endpoint<{ readonly sessionId: SessionId }, Session.TraceExportResponse> = Endpoint
  .make("traceExport", "GET", "/api/v1/sessions/{session_id}/trace_export", {
    ...read("RestClient.export_session_trace"),
    request: Schema.Struct({ sessionId: required(SessionId, "session_id") }),
    response: Endpoint.json(Session.TraceExportResponse)
  })

/**
 * The audit log of a UTC day.
 *
 * @since 0.1.0
 * @category models
 */
export const audit: Endpoint.Endpoint<
  { readonly eventType: AuditEventType; readonly day?: string | undefined },
  AuditLogResponse
> = Endpoint.make("audit", "GET", "/api/v1/audit", {
  ...read("AdminClient.get_audit_log"),
  redirects: "follow",
  request: Schema.Struct({ eventType: required(AuditEventType, "event_type"), day: optional(Schema.String, "day") }),
  response: Endpoint.json(AuditLogResponse)
})

/**
 * Usage by the hour.
 *
 * @since 0.1.0
 * @category models
 */
export const billingUsage: Endpoint.Endpoint<typeof BillingUsageQuery.Type, Billing.BillingUsageResponse> = Endpoint
  .make("billingUsage", "GET", "/api/v1/billing/usage/events", {
    ...read("AdminClient.get_billing_usage"),
    request: BillingUsageQuery,
    response: Endpoint.json(Billing.BillingUsageResponse)
  })

/**
 * Costs of stored checkpoints.
 *
 * @since 0.1.0
 * @category models
 */
export const checkpointStorage: Endpoint.Endpoint<
  { readonly projectId?: string | undefined },
  Billing.CurrentCheckpointStorageUsageResponse
> = Endpoint.make("checkpointStorage", "GET", "/api/v1/billing/usage/checkpoints/current", {
  ...read("AdminClient.get_current_checkpoint_storage_usage"),
  request: Schema.Struct({ projectId: optional(Schema.String, "project_id") }),
  response: Endpoint.json(Billing.CurrentCheckpointStorageUsageResponse)
})

/**
 * Whose key this is.
 *
 * @since 0.1.0
 * @category models
 */
export const apiKeyInfo: Endpoint.Endpoint<{}, ApiKeyResponse> = Endpoint.make(
  "apiKeyInfo",
  "GET",
  "/api/v1/auth/apikey/me",
  { pool: "rest", retry: "restRead", timeout: "30 seconds", request: Nothing, response: Endpoint.json(ApiKeyResponse) }
)

/**
 * Deletes the key that is presented.
 *
 * @since 0.1.0
 * @category models
 */
export const deleteApiKey: Endpoint.Endpoint<{}, void> = Endpoint.make(
  "deleteApiKey",
  "DELETE",
  "/api/v1/auth/apikey/me",
  { pool: "rest", retry: "restWrite", timeout: "30 seconds", request: Nothing, response: Endpoint.none }
)

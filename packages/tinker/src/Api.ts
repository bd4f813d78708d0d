/**
 * Every endpoint of the service, once, as data. Clients call through it and a compatible server routes from it.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { ApiKeyResponse, AuthTokenResponse } from "./Account.js"
import { AuditEventType, AuditLogResponse } from "./Audit.js"
import * as Billing from "./Billing.js"
import { GetServerCapabilitiesResponse, HealthResponse } from "./Capabilities.js"
import * as Checkpoint from "./Checkpoint.js"
import { ClientConfig, ClientConfigRequest, ClientDynamicConfig } from "./ClientConfig.js"
import { CreateCustomLossRequest } from "./CustomLossGraph.js"
import * as Endpoint from "./Endpoint.js"
import * as ForwardBackward from "./ForwardBackward.js"
import * as Future from "./Future.js"
import { CheckpointId, ModelId, SamplingSessionId, SessionId } from "./Id.js"
import * as sampleJson from "./internal/sampleJson.js"
import { Instant, optional, required } from "./internal/wire.js"
import * as Model from "./Model.js"
import { OptimStepRequest } from "./Optimizer.js"
import type { SampleRequest } from "./Sample.js"
import * as Sampler from "./Sampler.js"
import * as Session from "./Session.js"
import { SessionSearchRequest, SessionSearchResponse } from "./SessionSearch.js"
import { TelemetryResponse, TelemetrySendRequest } from "./TelemetryEvent.js"
import { wireVersion } from "./TinkerConfig.js"
import { AccessScope, TrainingRun, TrainingRunsResponse } from "./TrainingRun.js"
import * as Weights from "./Weights.js"

const startup = { pool: "session", retry: "startup" } as const
const training = { pool: "training", retry: "submit" } as const

/** The service counts who still calls what before it retires an endpoint: it asks for our version and method. */
const sdk = (method: string) => ({ "x-sdk-version": wireVersion, "x-sdk-method": method })

const read = (method: string) => ({ pool: "rest", retry: "restRead", headers: sdk(method) }) as const
const write = (method: string) => ({ pool: "rest", retry: "restWrite", headers: sdk(method) }) as const

const Nothing = Schema.Struct({})

const Page = {
  limit: Schema.NumberFromString,
  offset: Schema.NumberFromString
}

const Scope = required(AccessScope, "access_scope")

const RunParam = Schema.Struct({ trainingRunId: required(ModelId, "training_run_id") })

const CheckpointFields = {
  trainingRunId: required(ModelId, "training_run_id"),
  checkpointId: required(CheckpointId, "checkpoint_id")
}

const CheckpointParams = Schema.Struct(CheckpointFields)

const checkpointPath = "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_id}"

/**
 * Which run, whose.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunRequest {
  readonly trainingRunId: ModelId
}

/**
 * Which checkpoint of which run.
 *
 * @since 0.1.0
 * @category models
 */
export interface CheckpointRequest extends RunRequest {
  /** `weights/NAME`, `sampler_weights/NAME` or `external_weights/NAME`. */
  readonly checkpointId: CheckpointId
}

/**
 * Which page of a list.
 *
 * @since 0.1.0
 * @category models
 */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
}

/**
 * Whose objects: one's own, or all one may see.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScopedRequest {
  readonly accessScope: AccessScope
}

/**
 * A poll for the result of one operation.
 *
 * @since 0.1.0
 * @category models
 */
export interface PollRequest {
  readonly requestId: string
  readonly allowMetadataOnly: boolean
}

/** Polls are the most frequent request of all: written by hand, where a schema would cost more than the sending. */
const PollJson: Endpoint.Codec<PollRequest> = {
  contentType: "application/json",
  encode: (poll) =>
    Either.right(
      `{"request_id":${JSON.stringify(poll.requestId)},"allow_metadata_only":${
        poll.allowMetadataOnly ? "true" : "false"
      }}`
    ),
  decode: Endpoint.json(Future.FutureRetrieveRequest).decode
}

/** Protobuf out; a server also reads the JSON of older clients. */
const PassBody: Endpoint.Codec<ForwardBackward.Request> = {
  contentType: "application/x-protobuf",
  encode: (request) => Either.mapLeft(ForwardBackward.encodeRequest(request), (error) => error.description ?? ""),
  decode: (body, contentType) =>
    contentType?.includes("application/x-protobuf") === true
      ? Either.mapLeft(ForwardBackward.decodeRequest(body), (error) => error.description ?? "")
      : Endpoint.json(ForwardBackward.RequestFromJson).decode(body, contentType)
}

const BillingUsageQuery = Schema.Struct({
  startingOn: required(Instant, "starting_on"),
  endingBefore: required(Instant, "ending_before")
})

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
 * A number of its own for one more client of a sampler.
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

/**
 * Creates a model to train.
 *
 * @since 0.1.0
 * @category models
 */
export const createModel: Endpoint.Endpoint<Model.CreateModelRequest, Future.UntypedFuture> = Endpoint.make(
  "createModel",
  "POST",
  "/api/v1/create_model",
  { ...training, request: Model.CreateModelRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Frees a model. Not every server has it.
 *
 * @since 0.1.0
 * @category models
 */
export const unloadModel: Endpoint.Endpoint<Model.UnloadModelRequest, Future.UntypedFuture> = Endpoint.make(
  "unloadModel",
  "POST",
  "/api/v1/unload_model",
  { ...training, request: Model.UnloadModelRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * A pass over training data, with or without gradients.
 *
 * @since 0.1.0
 * @category models
 */
export const forwardBackward: Endpoint.Endpoint<ForwardBackward.Request, Future.UntypedFuture> = Endpoint.makeBody(
  "forwardBackward",
  "POST",
  "/api/v1/forward_backward",
  { ...training, compress: true, request: PassBody, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Applies the accumulated gradients.
 *
 * @since 0.1.0
 * @category models
 */
export const optimStep: Endpoint.Endpoint<OptimStepRequest, Future.UntypedFuture> = Endpoint.make(
  "optimStep",
  "POST",
  "/api/v1/optim_step",
  { ...training, request: OptimStepRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Saves a checkpoint to continue from.
 *
 * @since 0.1.0
 * @category models
 */
export const saveWeights: Endpoint.Endpoint<Weights.SaveWeightsRequest, Future.UntypedFuture> = Endpoint.make(
  "saveWeights",
  "POST",
  "/api/v1/save_weights",
  { ...training, request: Weights.SaveWeightsRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Loads a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const loadWeights: Endpoint.Endpoint<Weights.LoadWeightsRequest, Future.UntypedFuture> = Endpoint.make(
  "loadWeights",
  "POST",
  "/api/v1/load_weights",
  { ...training, request: Weights.LoadWeightsRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * Saves a checkpoint to sample from.
 *
 * @since 0.1.0
 * @category models
 */
export const saveWeightsForSampler: Endpoint.Endpoint<Weights.SaveWeightsForSamplerRequest, Future.UntypedFuture> =
  Endpoint.make("saveWeightsForSampler", "POST", "/api/v1/save_weights_for_sampler", {
    ...training,
    request: Weights.SaveWeightsForSamplerRequest,
    response: Endpoint.json(Future.UntypedFuture)
  })

/**
 * Saves a checkpoint in a format of others.
 *
 * @since 0.1.0
 * @category models
 */
export const saveWeightsExternal: Endpoint.Endpoint<Weights.SaveWeightsExternalRequest, Future.UntypedFuture> = Endpoint
  .make("saveWeightsExternal", "POST", "/api/v1/save_weights_external", {
    ...training,
    request: Weights.SaveWeightsExternalRequest,
    response: Endpoint.json(Future.UntypedFuture)
  })

/**
 * Registers a traced loss.
 *
 * @since 0.1.0
 * @category models
 */
export const createCustomLoss: Endpoint.Endpoint<CreateCustomLossRequest, Future.UntypedFuture> = Endpoint.make(
  "createCustomLoss",
  "POST",
  "/api/v1/create_custom_loss",
  { ...training, request: CreateCustomLossRequest, response: Endpoint.json(Future.UntypedFuture) }
)

/**
 * What a model is.
 *
 * @since 0.1.0
 * @category models
 */
export const getInfo: Endpoint.Endpoint<Model.GetInfoRequest, Model.GetInfoResponse> = Endpoint.make(
  "getInfo",
  "POST",
  "/api/v1/get_info",
  { pool: "training", retry: "restRead", request: Model.GetInfoRequest, response: Endpoint.json(Model.GetInfoResponse) }
)

/**
 * Draws samples. A 429 is left to the caller, whose dispatcher slows everyone down.
 *
 * @since 0.1.0
 * @category models
 */
export const asample: Endpoint.Endpoint<SampleRequest, Future.UntypedFuture> = Endpoint.makeBody(
  "asample",
  "POST",
  "/api/v1/asample",
  {
    pool: "sampling",
    retry: "sample",
    headers: { "x-tinker-sampling-backpressure": "1" },
    request: sampleJson.request,
    response: sampleJson.receipt
  }
)

/**
 * Waits for one result. The answer's shape depends on the operation.
 *
 * @since 0.1.0
 * @category models
 */
export const retrieveFuture: Endpoint.Endpoint<PollRequest, unknown> = Endpoint.makeBody(
  "retrieveFuture",
  "POST",
  "/api/v1/retrieve_future",
  { pool: "futures", retry: "poll", timeout: "45 seconds", request: PollJson, response: Endpoint.json(Schema.Unknown) }
)

/**
 * Waits for any result of a sampler.
 *
 * @since 0.1.0
 * @category models
 */
export const retrieveFutures: Endpoint.Endpoint<Future.FuturesRetrieveRequest, Future.FuturesRetrieveResponse> =
  Endpoint.make("retrieveFutures", "POST", "/api/v1/retrieve_futures", {
    pool: "completions",
    retry: "poll",
    timeout: "45 seconds",
    request: Future.FuturesRetrieveRequest,
    response: Endpoint.json(Future.FuturesRetrieveResponse)
  })

/**
 * Says that nobody waits for a result any more.
 *
 * @since 0.1.0
 * @category models
 */
export const cancelFuture: Endpoint.Endpoint<Future.CancelFutureRequest, void> = Endpoint.make(
  "cancelFuture",
  "POST",
  "/api/v1/cancel_future",
  {
    pool: "futures",
    retry: "restWrite",
    timeout: "30 seconds",
    request: Future.CancelFutureRequest,
    response: Endpoint.none
  }
)

/**
 * What a sampler samples from.
 *
 * @since 0.1.0
 * @category models
 */
export const getSampler: Endpoint.Endpoint<{ readonly samplerId: SamplingSessionId }, Sampler.GetSamplerResponse> =
  Endpoint.make("getSampler", "GET", "/api/v1/samplers/{sampler_id}", {
    ...read("get_sampler"),
    request: Schema.Struct({ samplerId: required(SamplingSessionId, "sampler_id") }),
    response: Endpoint.json(Sampler.GetSamplerResponse)
  })

/**
 * What a checkpoint holds.
 *
 * @since 0.1.0
 * @category models
 */
export const weightsInfo: Endpoint.Endpoint<Weights.WeightsInfoRequest, Weights.WeightsInfoResponse> = Endpoint.make(
  "weightsInfo",
  "POST",
  "/api/v1/weights_info",
  {
    ...read("get_weights_info_by_tinker_path"),
    request: Weights.WeightsInfoRequest,
    response: Endpoint.json(Weights.WeightsInfoResponse)
  }
)

/**
 * Copies a checkpoint into a project.
 *
 * @since 0.1.0
 * @category models
 */
export const copyWeights: Endpoint.Endpoint<Weights.CopyWeightsRequest, Weights.CopyWeightsResponse> = Endpoint.make(
  "copyWeights",
  "POST",
  "/api/v1/copy_weights",
  {
    ...write("copy_weights"),
    request: Weights.CopyWeightsRequest,
    response: Endpoint.json(Weights.CopyWeightsResponse)
  }
)

/**
 * Where to download the files of an external checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const externalWeightsUrls: Endpoint.Endpoint<CheckpointRequest, Weights.ExternalWeightsUrlsResponse> = Endpoint
  .make("externalWeightsUrls", "GET", `${checkpointPath}/external_weights_urls`, {
    ...read("get_external_weights_urls"),
    request: CheckpointParams,
    response: Endpoint.json(Weights.ExternalWeightsUrlsResponse)
  })

/**
 * Training runs, newest first.
 *
 * @since 0.1.0
 * @category models
 */
export const listTrainingRuns: Endpoint.Endpoint<
  PageRequest & ScopedRequest & { readonly projectId?: string | undefined },
  TrainingRunsResponse
> = Endpoint.make("listTrainingRuns", "GET", "/api/v1/training_runs", {
  ...read("list_training_runs"),
  request: Schema.Struct({ ...Page, accessScope: Scope, projectId: optional(Schema.String, "project_id") }),
  response: Endpoint.json(TrainingRunsResponse)
})

/**
 * One training run.
 *
 * @since 0.1.0
 * @category models
 */
export const getTrainingRun: Endpoint.Endpoint<RunRequest & ScopedRequest, TrainingRun> = Endpoint.make(
  "getTrainingRun",
  "GET",
  "/api/v1/training_runs/{training_run_id}",
  {
    ...read("get_training_run"),
    request: Schema.Struct({ ...RunParam.fields, accessScope: Scope }),
    response: Endpoint.json(TrainingRun)
  }
)

/**
 * All checkpoints of a run.
 *
 * @since 0.1.0
 * @category models
 */
export const listCheckpoints: Endpoint.Endpoint<RunRequest, Checkpoint.CheckpointsListResponse> = Endpoint.make(
  "listCheckpoints",
  "GET",
  "/api/v1/training_runs/{training_run_id}/checkpoints",
  { ...read("list_checkpoints"), request: RunParam, response: Endpoint.json(Checkpoint.CheckpointsListResponse) }
)

/**
 * Checkpoints of all one's runs, newest first.
 *
 * @since 0.1.0
 * @category models
 */
export const listUserCheckpoints: Endpoint.Endpoint<PageRequest, Checkpoint.CheckpointsListResponse> = Endpoint.make(
  "listUserCheckpoints",
  "GET",
  "/api/v1/checkpoints",
  {
    ...read("list_user_checkpoints"),
    request: Schema.Struct(Page),
    response: Endpoint.json(Checkpoint.CheckpointsListResponse)
  }
)

/**
 * Deletes a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const deleteCheckpoint: Endpoint.Endpoint<CheckpointRequest, void> = Endpoint.make(
  "deleteCheckpoint",
  "DELETE",
  checkpointPath,
  { ...write("delete_checkpoint_from_tinker_path"), request: CheckpointParams, response: Endpoint.none }
)

/**
 * Where to download a checkpoint: a 200 that says so, or a redirect, which is returned and not followed.
 *
 * @since 0.1.0
 * @category models
 */
export const checkpointArchive: Endpoint.Endpoint<CheckpointRequest, Checkpoint.CheckpointArchiveUrlResponse> = Endpoint
  .make("checkpointArchive", "GET", `${checkpointPath}/archive`, {
    ...read("get_checkpoint_archive_url"),
    redirects: "return",
    request: CheckpointParams,
    response: Endpoint.json(Checkpoint.CheckpointArchiveUrlResponse)
  })

/**
 * Lets everyone read a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const publishCheckpoint: Endpoint.Endpoint<CheckpointRequest, void> = Endpoint.make(
  "publishCheckpoint",
  "POST",
  `${checkpointPath}/publish`,
  { ...write("publish_checkpoint_from_tinker_path"), body: false, request: CheckpointParams, response: Endpoint.none }
)

/**
 * Takes a checkpoint back.
 *
 * @since 0.1.0
 * @category models
 */
export const unpublishCheckpoint: Endpoint.Endpoint<CheckpointRequest, void> = Endpoint.make(
  "unpublishCheckpoint",
  "DELETE",
  `${checkpointPath}/publish`,
  { ...write("unpublish_checkpoint_from_tinker_path"), request: CheckpointParams, response: Endpoint.none }
)

/**
 * Changes when a checkpoint expires; `null`: never.
 *
 * @since 0.1.0
 * @category models
 */
export const setCheckpointTtl: Endpoint.Endpoint<CheckpointRequest & { readonly ttlSeconds: number | null }, void> =
  Endpoint.make("setCheckpointTtl", "PUT", `${checkpointPath}/ttl`, {
    ...write("set_checkpoint_ttl_from_tinker_path"),
    request: Schema.Struct({ ...CheckpointFields, ...Checkpoint.SetTtlRequest.fields }),
    response: Endpoint.none
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
    ...read("list_sessions"),
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
  ...read("get_session"),
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
  { ...read("search_sessions"), request: SessionSearchRequest, response: Endpoint.json(SessionSearchResponse) }
)

/**
 * Moves a session into a project.
 *
 * @since 0.1.0
 * @category models
 */
export const assignProject: Endpoint.Endpoint<Session.AssignProjectRequest & { readonly sessionId: SessionId }, void> =
  Endpoint.make("assignProject", "PUT", "/api/v1/sessions/{session_id}/project", {
    ...write("assign_session_project"),
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
    ...read("export_session_trace"),
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
  ...read("get_audit_log"),
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
    ...read("get_billing_usage"),
    request: BillingUsageQuery,
    response: Endpoint.json(Billing.BillingUsageResponse)
  })

/**
 * What stored checkpoints cost.
 *
 * @since 0.1.0
 * @category models
 */
export const checkpointStorage: Endpoint.Endpoint<
  { readonly projectId?: string | undefined },
  Billing.CurrentCheckpointStorageUsageResponse
> = Endpoint.make("checkpointStorage", "GET", "/api/v1/billing/usage/checkpoints/current", {
  ...read("get_current_checkpoint_storage_usage"),
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

/**
 * All of them, for routing.
 *
 * @since 0.1.0
 * @category models
 */
export const all: ReadonlyArray<Endpoint.Plain> = [
  clientConfig,
  dynamicConfig,
  authToken,
  createSession,
  heartbeat,
  finishSession,
  createSamplingSession,
  joinSamplingSession,
  capabilities,
  healthz,
  telemetry,
  createModel,
  unloadModel,
  forwardBackward,
  optimStep,
  saveWeights,
  loadWeights,
  saveWeightsForSampler,
  saveWeightsExternal,
  createCustomLoss,
  getInfo,
  asample,
  retrieveFuture,
  retrieveFutures,
  cancelFuture,
  getSampler,
  weightsInfo,
  copyWeights,
  externalWeightsUrls,
  listTrainingRuns,
  getTrainingRun,
  listCheckpoints,
  listUserCheckpoints,
  deleteCheckpoint,
  checkpointArchive,
  publishCheckpoint,
  unpublishCheckpoint,
  setCheckpointTtl,
  listSessions,
  getSession,
  searchSessions,
  assignProject,
  traceExport,
  audit,
  billingUsage,
  checkpointStorage,
  apiKeyInfo,
  deleteApiKey
]

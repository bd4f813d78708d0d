/**
 * Every JSON type of the official SDK beside the Schema that speaks for it here.
 */
import type { Schema } from "effect"
import { Checkpoint, Datum, LoraConfig, ModelInput, Optimizer, TensorData } from "effect-tinker"
import {
  Account,
  Audit,
  Billing,
  Capabilities,
  ClientConfig,
  Cursor,
  CustomLossGraph,
  ForwardBackward,
  Future,
  Model,
  Sample,
  Sampler,
  SamplingParams,
  Session,
  SessionSearch,
  TelemetryEvent,
  TrainingRun,
  Weights
} from "effect-tinker/wire"

export interface Row {
  readonly schema: Schema.Schema.AnyNoContext
  /** Keys newer than the oldest servers we serve: written only when they were set. */
  readonly onlyWhenSet?: ReadonlyArray<string>
  /** Keys that servers insist on but the Python class leaves out when they are null, with what we send then. */
  readonly always?: Readonly<Record<string, unknown>>
  /** From the shape the Python class is built from to the shape that travels. */
  readonly toWire?: (input: unknown) => unknown
  readonly fromWire?: (output: unknown) => unknown
}

const row = (schema: Schema.Schema.AnyNoContext, rest: Omit<Row, "schema"> = {}): Row => ({ schema, ...rest })

const isRecord = (u: unknown): u is Record<string, unknown> => typeof u === "object" && u !== null && !Array.isArray(u)

/** The Python class has one field for all optimizers, the wire one key for AdamW and one for the others. */
const optimizerKey = (input: unknown): unknown => {
  if (!isRecord(input) || !("optim_params" in input)) return input
  const { optim_params: params, ...rest } = input
  return { ...rest, [isRecord(params) && "type" in params ? "optimizer_params" : "adam_params"]: params }
}

const forwardBackward = row(ForwardBackward.RequestFromJson, {
  toWire: (input) => ({ forward_backward_input: input, model_id: "m" }),
  fromWire: (output) => isRecord(output) ? output.forward_backward_input ?? output.forward_input : output
})

/** What clients send, by the name of the Python class. */
export const requests: Readonly<Record<string, Row>> = {
  AccessibleSearchOwner: row(SessionSearch.AccessibleSearchOwner),
  ActiveSessionStatusQuery: row(SessionSearch.ActiveSessionStatusQuery),
  AdamOptimizerConfig: row(Optimizer.AdamOptimizerConfig),
  AdamParams: row(Optimizer.AdamParams),
  CancelledSessionStatusQuery: row(SessionSearch.CancelledSessionStatusQuery),
  ClientConfigRequest: row(ClientConfig.ClientConfigRequest),
  ClientFinishedSessionStatusQuery: row(SessionSearch.ClientFinishedSessionStatusQuery),
  CopyWeightsRequest: row(Weights.CopyWeightsRequest),
  CreateCustomLossRequest: row(CustomLossGraph.CreateCustomLossRequest),
  CreateModelRequest: row(Model.CreateModelRequest, { onlyWhenSet: ["optimizer_config"] }),
  CreateSamplingSessionRequest: row(Sampler.CreateSamplingSessionRequest),
  CreateSessionRequest: row(Session.CreateSessionRequest, { always: { user_metadata: {} } }),
  CustomLossGraph: row(CustomLossGraph.CustomLossGraph),
  CustomLossInput: row(CustomLossGraph.CustomLossInput),
  CustomLossNode: row(CustomLossGraph.CustomLossNode),
  DimuonOptimizerConfig: row(Optimizer.DimuonOptimizerConfig),
  DimuonParams: row(Optimizer.DimuonParams),
  DmelChunk: row(ModelInput.Dmel),
  EncodedTextChunk: row(ModelInput.EncodedText),
  FailedSessionStatusQuery: row(SessionSearch.FailedSessionStatusQuery),
  FutureRetrieveRequest: row(Future.FutureRetrieveRequest),
  FuturesRetrieveRequest: row(Future.FuturesRetrieveRequest, { onlyWhenSet: ["retrieved_request_ids"] }),
  GetBillingUsageRequest: row(Billing.GetBillingUsageRequest),
  GetCurrentCheckpointStorageUsageRequest: row(Billing.GetCurrentCheckpointStorageUsageRequest),
  GetInfoRequest: row(Model.GetInfoRequest),
  ImageAssetPointerChunk: row(ModelInput.ImageAssetPointer),
  ImageChunk: row(ModelInput.Image),
  JoinSamplingSessionRequest: row(Sampler.JoinSamplingSessionRequest),
  JsonDatum: row(Datum.FromJson),
  JsonForwardBackwardInput: forwardBackward,
  JsonTensorData: row(TensorData.FromJson),
  LoadWeightsRequest: row(Weights.LoadWeightsRequest),
  LoraConfig: row(LoraConfig.LoraConfig),
  ModelInput: row(ModelInput.ModelInput),
  OptimStepRequest: row(Optimizer.OptimStepRequest, { toWire: optimizerKey }),
  OwnSearchOwner: row(SessionSearch.OwnSearchOwner),
  SampleRequest: row(Sample.SampleRequest, { onlyWhenSet: ["topk_sample_logprobs", "prompt_alt_tokens_k"] }),
  SamplingParams: row(SamplingParams.SamplingParams),
  SamplingSessionFuturesTarget: row(Future.SamplingSessionTarget),
  SaveWeightsExternalRequest: row(Weights.SaveWeightsExternalRequest),
  SaveWeightsForSamplerRequest: row(Weights.SaveWeightsForSamplerRequest, { onlyWhenSet: ["kind"] }),
  SaveWeightsRequest: row(Weights.SaveWeightsRequest),
  SessionHeartbeatRequest: row(Session.SessionHeartbeatRequest),
  SessionSearchRequest: row(SessionSearch.SessionSearchRequest),
  TelemetrySendRequest: row(TelemetryEvent.TelemetrySendRequest),
  UnloadModelRequest: row(Model.UnloadModelRequest),
  UserSearchOwner: row(SessionSearch.UserSearchOwner)
}

/** What servers answer, by the name of the Python class. */
export const responses: Readonly<Record<string, Row>> = {
  ApiKeyDetails: row(Account.ApiKeyDetails),
  AuditLogEntry: row(Audit.AuditLogEntry),
  AuditLogResponse: row(Audit.AuditLogResponse),
  AuthTokenResponse: row(Account.AuthTokenResponse),
  BillingUsageEvent: row(Billing.BillingUsageEvent),
  BillingUsageResponse: row(Billing.BillingUsageResponse),
  BillingUsageSession: row(Billing.BillingUsageSession),
  Checkpoint: row(Checkpoint.Checkpoint),
  CheckpointBillingEvent: row(Billing.CheckpointBillingEvent),
  CheckpointsListResponse: row(Checkpoint.CheckpointsListResponse),
  ClientConfigResponse: row(ClientConfig.ClientConfig),
  ClientDynamicConfigResponse: row(ClientConfig.ClientDynamicConfig),
  ClientSessionFinishErrored: row(SessionSearch.ClientSessionFinishReason),
  ClientSessionFinishInterrupted: row(SessionSearch.ClientSessionFinishReason),
  ClientSessionFinishSuccess: row(SessionSearch.ClientSessionFinishReason),
  ClientSessionFinished: row(SessionSearch.ClientSessionFinished),
  CopyWeightsResponse: row(Weights.CopyWeightsResponse),
  CreateCustomLossResponse: row(CustomLossGraph.CreateCustomLossResponse),
  CreateModelResponse: row(Model.CreateModelResponse),
  CreateSamplingSessionResponse: row(Sampler.CreateSamplingSessionResponse),
  CreateSessionResponse: row(Session.CreateSessionResponse),
  CurrentCheckpointStorageUsageItem: row(Billing.CurrentCheckpointStorageUsageItem),
  CurrentCheckpointStorageUsageResponse: row(Billing.CurrentCheckpointStorageUsageResponse),
  Cursor: row(Cursor.Cursor),
  ExternalWeightsUrlsResponse: row(Weights.ExternalWeightsUrlsResponse),
  FutureFailed: row(Future.FutureCompletion),
  FutureFinished: row(Future.FutureCompletion),
  FuturesRetrieveResponse: row(Future.FuturesRetrieveResponse),
  GenericEvent: row(TelemetryEvent.GenericEvent),
  GetInfoResponse: row(Model.GetInfoResponse),
  GetSamplerResponse: row(Sampler.GetSamplerResponse),
  GetServerCapabilitiesResponse: row(Capabilities.GetServerCapabilitiesResponse),
  GetSessionResponse: row(Session.GetSessionResponse),
  HealthResponse: row(Capabilities.HealthResponse),
  JoinSamplingSessionResponse: row(Sampler.JoinSamplingSessionResponse),
  ListSessionsResponse: row(Session.ListSessionsResponse),
  LoadWeightsResponse: row(Weights.LoadWeightsResponse),
  ModelData: row(Model.ModelData),
  OptimStepResponse: row(Optimizer.OptimStepResponse),
  ParsedCheckpointTinkerPath: row(Checkpoint.ParsedPath),
  RequestFailedResponse: row(Future.RequestFailed),
  SamplingPrefillBillingEvent: row(Billing.SamplingPrefillBillingEvent),
  SamplingSampleBillingEvent: row(Billing.SamplingSampleBillingEvent),
  SaveWeightsExternalResponse: row(Weights.SaveWeightsExternalResponse),
  SaveWeightsExternalResponseInternal: row(Weights.SaveWeightsExternalResult),
  SaveWeightsForSamplerResponse: row(Weights.SaveWeightsForSamplerResponse),
  SaveWeightsForSamplerResponseInternal: row(Weights.SaveWeightsForSamplerResult),
  SaveWeightsResponse: row(Weights.SaveWeightsResponse),
  SelfApiKeyResponse: row(Account.ApiKeyResponse),
  SessionActive: row(SessionSearch.SessionActive),
  SessionCancelled: row(SessionSearch.SessionCancelled),
  SessionEndEvent: row(TelemetryEvent.SessionEndEvent),
  SessionFailed: row(SessionSearch.SessionFailed),
  SessionFailedRequestReason: row(SessionSearch.SessionFailedRequestReason),
  SessionFailedSamplingSessionReason: row(SessionSearch.SessionFailedSamplingSessionReason),
  SessionFailedTrainingRunReason: row(SessionSearch.SessionFailedTrainingRunReason),
  SessionHeartbeatResponse: row(Session.SessionHeartbeatResponse),
  SessionSearchCursor: row(SessionSearch.SessionSearchCursor),
  SessionSearchResponse: row(SessionSearch.SessionSearchResponse),
  SessionStartEvent: row(TelemetryEvent.SessionStartEvent),
  SessionSummary: row(SessionSearch.SessionSummary),
  SessionTraceExport: row(Session.TraceExportResponse),
  StorageBillingEvent: row(Billing.StorageBillingEvent),
  SupportedModel: row(Capabilities.SupportedModel),
  TelemetryResponse: row(TelemetryEvent.TelemetryResponse),
  TrainingBillingEvent: row(Billing.TrainingBillingEvent),
  TrainingRun: row(TrainingRun.TrainingRun),
  TrainingRunsResponse: row(TrainingRun.TrainingRunsResponse),
  TryAgainResponse: row(Future.TryAgain),
  UnhandledExceptionEvent: row(TelemetryEvent.UnhandledExceptionEvent),
  UnloadModelResponse: row(Model.UnloadModelResponse),
  UntypedAPIFuture: row(Future.UntypedFuture),
  WeightsInfoResponse: row(Weights.WeightsInfoResponse),
  WhoamiResponse: row(Account.WhoamiResponse)
}

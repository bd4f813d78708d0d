/**
 * What the service knows, for plain async code.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Account from "../Account.js"
import type * as Audit from "../Audit.js"
import type * as Billing from "../Billing.js"
import type { GetServerCapabilitiesResponse } from "../Capabilities.js"
import type * as Checkpoint from "../Checkpoint.js"
import type { SessionId } from "../Id.js"
import type * as RestClient from "../RestClient.js"
import type { GetSamplerResponse } from "../Sampler.js"
import type * as Session from "../Session.js"
import type * as SessionSearch from "../SessionSearch.js"
import type * as TrainingRun from "../TrainingRun.js"
import type * as Weights from "../Weights.js"
import type { CallOptions } from "./Call.js"

type Pages = Omit<RestClient.Paging, "onTotal"> & CallOptions

type OnPath<A> = (tinkerPath: string, options?: CallOptions) => Promise<A>

/**
 * What the service knows. See `RestClient` for what each call does; lists are one page, or async iterators over all.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rest {
  readonly getTrainingRun: (
    trainingRunId: string,
    options?: RestClient.Scoped & CallOptions
  ) => Promise<TrainingRun.TrainingRun>
  readonly getTrainingRunByPath: (
    tinkerPath: string,
    options?: RestClient.Scoped & CallOptions
  ) => Promise<TrainingRun.TrainingRun>
  readonly listTrainingRuns: (
    options?: RestClient.Page & RestClient.Scoped & { readonly projectId?: string | undefined } & CallOptions
  ) => Promise<TrainingRun.TrainingRunsResponse>
  readonly trainingRuns: (
    options?: Pages & RestClient.Scoped & { readonly projectId?: string | undefined }
  ) => AsyncIterable<TrainingRun.TrainingRun>
  readonly getWeightsInfo: OnPath<Weights.WeightsInfoResponse>
  readonly listCheckpoints: (
    trainingRunId: string,
    options?: CallOptions
  ) => Promise<Checkpoint.CheckpointsListResponse>
  readonly getCheckpoint: OnPath<Checkpoint.Checkpoint>
  readonly listUserCheckpoints: (options?: RestClient.Page & CallOptions) => Promise<Checkpoint.CheckpointsListResponse>
  readonly userCheckpoints: (options?: Pages) => AsyncIterable<Checkpoint.Checkpoint>
  readonly getCheckpointArchiveUrl: OnPath<Checkpoint.CheckpointArchiveUrlResponse>
  readonly getExternalWeightsUrls: OnPath<Weights.ExternalWeightsUrlsResponse>
  readonly deleteCheckpoint: OnPath<void>
  readonly publishCheckpoint: OnPath<void>
  readonly unpublishCheckpoint: OnPath<void>
  readonly setCheckpointTtl: (
    tinkerPath: string,
    ttl: Duration.DurationInput | null,
    options?: CallOptions
  ) => Promise<void>
  readonly copyWeights: (
    tinkerPath: string,
    options?: NonNullable<Parameters<RestClient.Service["copyWeights"]>[1]> & CallOptions
  ) => Promise<string>
  readonly getSession: (
    sessionId: string,
    options?: RestClient.Scoped & CallOptions
  ) => Promise<Session.GetSessionResponse>
  readonly listSessions: (
    options?: RestClient.Page & RestClient.Scoped & CallOptions
  ) => Promise<Session.ListSessionsResponse>
  readonly sessions: (options?: Pages & RestClient.Scoped) => AsyncIterable<SessionId>
  readonly sessionSearch: (
    request: SessionSearch.SessionSearchRequest,
    options?: CallOptions
  ) => AsyncIterable<SessionSearch.SessionSummary>
  readonly assignSessionProject: (sessionId: string, projectId: string, options?: CallOptions) => Promise<void>
  readonly exportSessionTrace: (
    sessionId: string,
    options?: Omit<NonNullable<Parameters<RestClient.Service["exportSessionTrace"]>[1]>, "onPending"> & CallOptions
  ) => Promise<string>
  readonly getSampler: (samplerId: string, options?: CallOptions) => Promise<GetSamplerResponse>
  readonly getAuditLog: (
    options?: {
      readonly eventType?: Audit.AuditEventType | undefined
      readonly day?: Date | undefined
    } & CallOptions
  ) => Promise<Audit.AuditLogResponse>
  readonly getBillingUsage: (
    window: { readonly startingOn: Date; readonly endingBefore: Date },
    options?: CallOptions
  ) => Promise<Billing.BillingUsageResponse>
  readonly getCheckpointStorageUsage: (
    options?: { readonly projectId?: string | undefined } & CallOptions
  ) => Promise<Billing.CurrentCheckpointStorageUsageResponse>
  readonly whoami: (options?: CallOptions) => Promise<Account.WhoamiResponse>
  readonly getApiKey: (options?: CallOptions) => Promise<Account.ApiKeyResponse>
  readonly deleteApiKey: (options?: CallOptions) => Promise<void>
  readonly getServerCapabilities: (options?: CallOptions) => Promise<GetServerCapabilitiesResponse>
}

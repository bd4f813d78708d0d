/**
 * Records of the service: runs, checkpoints, sessions, samplers, billing and the audit log. Needs no session.
 *
 * @since 0.1.0
 */
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as Checkpoint from "./Checkpoint.js"
import type * as Credentials from "./Credentials.js"
import * as Telemetry from "./internal/observability/telemetry.js"
import * as RestClientImpl from "./internal/rest/client.js"
import * as ApiClient from "./internal/transport/apiClient.js"
import * as TinkerConfig from "./TinkerConfig.js"
import type * as TinkerError from "./TinkerError.js"
import type * as TinkerTransport from "./TinkerTransport.js"
import type * as Account from "./wire/Account.js"
import type * as Audit from "./wire/Audit.js"
import type * as Billing from "./wire/Billing.js"
import type * as Capabilities from "./wire/Capabilities.js"
import type * as Id from "./wire/Id.js"
import type * as Sampler from "./wire/Sampler.js"
import type * as Session from "./wire/Session.js"
import type * as SessionSearch from "./wire/SessionSearch.js"
import type * as TrainingRun from "./wire/TrainingRun.js"
import type * as Weights from "./wire/Weights.js"

type Call<A> = RestClientImpl.Call<A>
type Pages<A> = Stream.Stream<A, TinkerError.RestError>

/**
 * Which page of a list.
 *
 * @since 0.1.0
 * @category models
 */
export interface Page {
  readonly limit?: number | undefined
  /** Defaults to 0. */
  readonly offset?: number | undefined
}

/**
 * Whose things to look at.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scoped {
  /** Defaults to `owned`. */
  readonly accessScope?: TrainingRun.AccessScope | undefined
}

/**
 * How a list is read page by page.
 *
 * @since 0.1.0
 * @category models
 */
export interface Paging {
  /** Items asked for at once. Defaults to 100, for checkpoints to 1000. */
  readonly pageSize?: number | undefined
  /** Where in the list to begin. Defaults to 0. */
  readonly offset?: number | undefined
  /** Called after each page with the total number of items, if the server reports it. */
  readonly onTotal?: ((total: number) => Effect.Effect<void>) | undefined
}

/**
 * The operations that need no session.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly getTrainingRun: (trainingRunId: string, options?: Scoped) => Call<TrainingRun.TrainingRun>
  /** The run a `tinker://` path belongs to. */
  readonly getTrainingRunByPath: (tinkerPath: string, options?: Scoped) => Call<TrainingRun.TrainingRun>
  /** One page, 20 runs by default. */
  readonly listTrainingRuns: (
    options?: Page & Scoped & { readonly projectId?: string | undefined }
  ) => Call<TrainingRun.TrainingRunsResponse>
  /** All runs, newest first; a page is fetched when it is needed. */
  readonly streamTrainingRuns: (
    options?: Paging & Scoped & { readonly projectId?: string | undefined }
  ) => Pages<TrainingRun.TrainingRun>
  /** Works for anyone's public checkpoint too. */
  readonly getWeightsInfo: (tinkerPath: string) => Call<Weights.WeightsInfoResponse>
  /** All checkpoints of a run. */
  readonly listCheckpoints: (trainingRunId: string) => Call<Checkpoint.CheckpointsListResponse>
  /** The record of one checkpoint. */
  readonly getCheckpoint: (tinkerPath: string) => Call<Checkpoint.Checkpoint>
  /** One page of the checkpoints of all runs, 100 by default. */
  readonly listUserCheckpoints: (options?: Page) => Call<Checkpoint.CheckpointsListResponse>
  /** The checkpoints of all runs, newest first; a page is fetched when it is needed. */
  readonly streamUserCheckpoints: (options?: Paging) => Pages<Checkpoint.Checkpoint>
  /**
   * A signed address of the checkpoint's archive; fetch it without any credential. While the server builds the
   * archive, it is asked again every half minute, six times in all.
   */
  readonly getCheckpointArchiveUrl: (tinkerPath: string) => Call<Checkpoint.CheckpointArchiveUrlResponse>
  /** Signed addresses of the files of an external checkpoint. */
  readonly getExternalWeightsUrls: (tinkerPath: string) => Call<Weights.ExternalWeightsUrlsResponse>
  readonly deleteCheckpoint: (tinkerPath: string) => Call<void>
  /** `Conflict` when it is public already. */
  readonly publishCheckpoint: (tinkerPath: string) => Call<void>
  /** `Conflict` when it is private already. */
  readonly unpublishCheckpoint: (tinkerPath: string) => Call<void>
  /** Counted from now; `null` removes the expiry. */
  readonly setCheckpointTtl: (tinkerPath: string, ttl: Duration.DurationInput | null) => Call<void>
  /** Copies a checkpoint into a project and yields the path of the copy. */
  readonly copyWeights: (tinkerPath: string, options?: {
    /** Defaults to the configured project. */
    readonly projectId?: string | undefined
    /** The copy never expires unless given. */
    readonly ttl?: Duration.DurationInput | undefined
    /** Who may read the source, when that is not the caller. */
    readonly weightsAccessToken?: Redacted.Redacted | string | undefined
  }) => Call<string>
  readonly getSession: (sessionId: string, options?: Scoped) => Call<Session.GetSessionResponse>
  /** One page, 20 sessions by default. */
  readonly listSessions: (options?: Page & Scoped) => Call<Session.ListSessionsResponse>
  readonly streamSessions: (options?: Omit<Paging, "onTotal"> & Scoped) => Pages<Id.SessionId>
  /** One page of a search; experimental on the service's side. */
  readonly searchSessions: (
    request: SessionSearch.SessionSearchRequest
  ) => Call<SessionSearch.SessionSearchResponse>
  /** All sessions a search finds. */
  readonly streamSessionSearch: (request: SessionSearch.SessionSearchRequest) => Pages<SessionSearch.SessionSummary>
  /** Moves a session, its runs and its samplers. It cannot be undone, only moved on. */
  readonly assignSessionProject: (sessionId: string, projectId: string) => Call<void>
  /** Waits until the trace is built and yields its signed address. */
  readonly exportSessionTrace: (sessionId: string, options?: {
    /** Between two looks. Defaults to 5 seconds. */
    readonly interval?: Duration.DurationInput | undefined
    /** Defaults to 30 minutes. */
    readonly timeout?: Duration.DurationInput | undefined
    readonly onPending?: ((elapsed: Duration.Duration) => Effect.Effect<void>) | undefined
  }) => Effect.Effect<string, TinkerError.RestError | TinkerError.RequestFailed>
  readonly getSampler: (samplerId: string) => Call<Sampler.GetSamplerResponse>
  /** One UTC day, today by default. */
  readonly getAuditLog: (options?: {
    readonly eventType?: Audit.AuditEventType | undefined
    readonly day?: DateTime.Utc | undefined
  }) => Call<Audit.AuditLogResponse>
  /** Usage by the hour; both ends on full UTC hours, at most 14 days apart. */
  readonly getBillingUsage: (window: {
    readonly startingOn: DateTime.Utc
    readonly endingBefore: DateTime.Utc
  }) => Call<Billing.BillingUsageResponse>
  readonly getCheckpointStorageUsage: (options?: {
    readonly projectId?: string | undefined
  }) => Call<Billing.CurrentCheckpointStorageUsageResponse>
  /** Who the credential belongs to, read from the token the server gives for it. */
  readonly whoami: Call<Account.WhoamiResponse>
  /** The API key that is presented: its name and owner. */
  readonly getApiKey: Call<Account.ApiKeyResponse>
  /** Deletes the API key that is presented, for good. */
  readonly deleteApiKey: Call<void>
  readonly getServerCapabilities: Call<Capabilities.GetServerCapabilitiesResponse>
}

/**
 * The client as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class RestClient extends Context.Tag("effect-tinker/RestClient")<RestClient, Service>() {}

/**
 * A client with the configuration and credential in the context.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<
  Service,
  never,
  TinkerConfig.TinkerConfig | Credentials.Credentials | TinkerTransport.TinkerTransport | Scope.Scope
> = Effect.suspend(() => Effect.flatMap(ApiClient.make, fromApi))

const fromApi = (api: ApiClient.Service) => Effect.as(Telemetry.make(api), RestClientImpl.make(api))

const withConfig = <E, R>(
  config: Effect.Effect<TinkerConfig.Service, E, R>
): Layer.Layer<RestClient, E | TinkerError.ConfigurationError, R | TinkerTransport.TinkerTransport> =>
  Layer.scoped(RestClient, Effect.flatMap(ApiClient.connect(config), ({ api }) => fromApi(api)))

/**
 * A client with the given configuration; the environment is not looked at.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: TinkerConfig.Options
): Layer.Layer<RestClient, TinkerError.ConfigurationError, TinkerTransport.TinkerTransport> =>
  withConfig(Effect.suspend(() => TinkerConfig.make(options)))

/**
 * A client whose configuration is described by `Config`s.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Config.Config.Wrap<TinkerConfig.Options>
): Layer.Layer<RestClient, TinkerError.ConfigurationError | ConfigError.ConfigError, TinkerTransport.TinkerTransport> =>
  withConfig(TinkerConfig.fromConfig(options))

/**
 * A client configured from the environment (`TINKER_API_KEY`, `TINKER_BASE_URL`, …), with what is given on top.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromEnv = (
  options: TinkerConfig.Options = {}
): Layer.Layer<RestClient, TinkerError.ConfigurationError | ConfigError.ConfigError, TinkerTransport.TinkerTransport> =>
  withConfig(TinkerConfig.fromEnv(options))

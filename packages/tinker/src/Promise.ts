/**
 * Tinker for plain async code: the same clients, each call a Promise.
 *
 * - Calls start when they are made: what is called first reaches the server first. Leave a Promise unawaited and the
 *   next call is queued right behind it; that is all there is to pipelining.
 * - Failures reject with the `TinkerError` itself: `error._tag`, or `instanceof`. A rejection that nobody looks at does
 *   not end the process.
 * - Every call takes an `AbortSignal`. Lists and many samples are async iterators.
 * - `close()`, or `await using`, finishes the session and rejects what is still in flight as `Closed`.
 *
 * @since 0.1.0
 */
/// <reference lib="esnext.disposable" preserve="true" />
import "./requiresEffect3.js"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as MetricState from "effect/MetricState"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Checkpoint from "./Checkpoint.js"
import * as CheckpointDownload from "./CheckpointDownload.js"
import type * as CustomLoss from "./CustomLoss.js"
import * as Datum from "./Datum.js"
import * as Clients from "./internal/promise/clients.js"
import * as Runner from "./internal/promise/runner.js"
import type * as Loss from "./Loss.js"
import type * as ModelInput from "./ModelInput.js"
import type * as Optimizer from "./Optimizer.js"
import type * as QueueState from "./QueueState.js"
import * as RestClient from "./RestClient.js"
import type { SamplerHandle } from "./SamplerHandle.js"
import type * as SamplingClient from "./SamplingClient.js"
import * as ServiceClient from "./ServiceClient.js"
import * as TinkerLayer from "./Tinker.js"
import type * as TinkerError from "./TinkerError.js"
import * as TinkerTransport from "./TinkerTransport.js"
import type * as TrainingClient from "./TrainingClient.js"
import type * as Account from "./wire/Account.js"
import type * as Audit from "./wire/Audit.js"
import type * as Billing from "./wire/Billing.js"
import type { GetServerCapabilitiesResponse } from "./wire/Capabilities.js"
import type * as ForwardBackward from "./wire/ForwardBackward.js"
import type { ModelId, SamplingSessionId, SessionId } from "./wire/Id.js"
import type { GetInfoResponse } from "./wire/Model.js"
import type * as Sample from "./wire/Sample.js"
import type { GetSamplerResponse } from "./wire/Sampler.js"
import type * as Session from "./wire/Session.js"
import type * as SessionSearch from "./wire/SessionSearch.js"
import type * as TrainingRun from "./wire/TrainingRun.js"
import type * as Weights from "./wire/Weights.js"

// -----------------------------------------------------------------------------
// What calls have in common: their options, what they accept, how their clients end.
// -----------------------------------------------------------------------------

/**
 * Options of every call.
 *
 * @since 0.1.0
 * @category models
 */
export type CallOptions = Runner.CallOptions

/**
 * Options of every operation of a model.
 *
 * @since 0.1.0
 * @category models
 */
export type OperationOptions = Runner.OperationOptions

/**
 * A client to be closed, by hand or by `await using`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Closing extends AsyncDisposable {
  readonly close: () => Promise<void>
}

/**
 * A datum, or what one is made from.
 *
 * @since 0.1.0
 * @category models
 */
export type DatumInput<Inputs extends string = string> = Datum.With<Inputs> | {
  readonly modelInput: ModelInput.ModelInput | ModelInput.Tokens
  readonly lossFnInputs: Readonly<Record<Inputs, Datum.LossFnInput>>
  /** A datum that says which inputs it has is held to it. */
  readonly "~inputs"?: never
}

/**
 * A prompt, or its tokens.
 *
 * @since 0.1.0
 * @category models
 */
export type PromptInput = SamplingClient.Prompt

// -----------------------------------------------------------------------------
// A model in training, for plain async code.
// -----------------------------------------------------------------------------

/**
 * A custom loss: as `CustomLoss`, or asynchronous.
 *
 * @since 0.1.0
 * @category models
 */
export type OwnLoss = (
  ...args: Parameters<CustomLoss.CustomLoss>
) => CustomLoss.Outcome | Promise<CustomLoss.Outcome>

/**
 * Options of a pass: those of its loss, and those of every operation.
 *
 * @since 0.1.0
 * @category models
 */
export interface PassOptions<L extends Loss.Any = Loss.Any> extends OperationOptions {
  readonly lossFnConfig?: Loss.Config<L> | undefined
}

/**
 * A model in training. See `TrainingClient` for what each operation does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Training extends Closing {
  readonly modelId: ModelId
  readonly forward: <L extends Loss.Any>(
    data: ReadonlyArray<DatumInput<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    options?: PassOptions<NoInfer<L>>
  ) => Promise<ForwardBackward.Output>
  readonly forwardBackward: <L extends Loss.Any>(
    data: ReadonlyArray<DatumInput<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    options?: PassOptions<NoInfer<L>>
  ) => Promise<ForwardBackward.Output>
  /** A forward pass, your loss, and a backward pass; what is called after it waits for all three to be sent. */
  readonly forwardBackwardCustom: (
    data: ReadonlyArray<DatumInput>,
    loss: OwnLoss,
    options?: OperationOptions
  ) => Promise<ForwardBackward.Output>
  readonly optimStep: (
    params?: TrainingClient.OptimizerInput,
    options?: OperationOptions
  ) => Promise<Optimizer.OptimStepResponse>
  readonly trainStep: <L extends Loss.Any>(
    data: ReadonlyArray<DatumInput<Loss.Inputs<NoInfer<L>>>>,
    loss: L | Loss.Configured<L>,
    params?: TrainingClient.OptimizerInput,
    options?: OperationOptions
  ) => Promise<TrainingClient.TrainStep>
  readonly saveState: (
    name: string,
    options?: TrainingClient.SaveOptions & OperationOptions & { readonly overwrite?: boolean | undefined }
  ) => Promise<Weights.SaveWeightsResponse>
  readonly loadState: (
    path: string,
    options?: Pick<TrainingClient.StateOptions, "weightsAccessToken" | "withOptimizer"> & OperationOptions
  ) => Promise<Weights.LoadWeightsResponse>
  readonly saveWeightsForSampler: (
    name: string,
    options?: TrainingClient.SaveOptions & OperationOptions
  ) => Promise<Weights.SaveWeightsForSamplerResponse>
  readonly saveWeightsExternal: (
    name: string,
    options?: NonNullable<Parameters<TrainingClient.Service["saveWeightsExternal"]>[1]> & OperationOptions
  ) => Promise<Weights.SaveWeightsExternalResponse>
  readonly saveWeightsAndGetSamplingClient: (options?: TrainingClient.SamplerSettings & CallOptions) => Promise<Sampler>
  readonly createSamplingClient: (
    modelPath: string,
    options?: SamplingClient.Settings & CallOptions
  ) => Promise<Sampler>
  readonly getInfo: (options?: CallOptions) => Promise<GetInfoResponse>
  readonly tokenizerId: (options?: CallOptions) => Promise<string>
}

// -----------------------------------------------------------------------------
// A sampler, for plain async code.
// -----------------------------------------------------------------------------

/**
 * Prompt and settings of sampling.
 *
 * @since 0.1.0
 * @category models
 */
export type SampleOptions = SamplingClient.SampleOptions

/**
 * One of many samples: a response or an error.
 *
 * @since 0.1.0
 * @category models
 */
export interface SampleResult {
  /** Position among the requests. */
  readonly index: number
  readonly request: SamplingClient.SampleOptions
  readonly response: Sample.SampleResponse | undefined
  readonly error: TinkerError.SamplingError | undefined
}

/**
 * See `SamplingClient` for what each call does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler extends Closing {
  readonly samplingSessionId: SamplingSessionId
  readonly handle: SamplerHandle
  readonly sample: (options: SampleOptions & CallOptions) => Promise<Sample.SampleResponse>
  readonly computeLogprobs: (
    prompt: PromptInput,
    options?: { readonly lastN?: number | undefined } & CallOptions
  ) => Promise<Float32Array>
  /** In the order in which they end; requests are pulled as places get free. */
  readonly sampleMany: (
    requests: Iterable<SampleOptions> | AsyncIterable<SampleOptions>,
    options?: { readonly concurrency?: number | undefined } & CallOptions
  ) => AsyncIterable<SampleResult>
  /** Reasons for which samples wait, from now on. */
  readonly events: (options?: CallOptions) => AsyncIterable<QueueState.Event>
  readonly baseModel: (options?: CallOptions) => Promise<string>
}

// -----------------------------------------------------------------------------
// What the service knows, for plain async code.
// -----------------------------------------------------------------------------

type Pages = Omit<RestClient.Paging, "onTotal"> & CallOptions

type OnPath<A> = (tinkerPath: string, options?: CallOptions) => Promise<A>

/**
 * Records of the service. See `RestClient` for what each call does; lists are one page, or async iterators over all.
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

// -----------------------------------------------------------------------------
// Entry points.
// -----------------------------------------------------------------------------

/**
 * A connection to a Tinker service: one session, and the clients made from it. `R` is what its layer provides beside the
 * transport.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tinker<in R = never> extends Closing {
  readonly rest: Rest
  readonly createLoraTrainingClient: (options: TrainingClient.LoraOptions & CallOptions) => Promise<Training>
  readonly createTrainingClientFromState: (options: TrainingClient.StateOptions & CallOptions) => Promise<Training>
  readonly createSamplingClient: (options: SamplingClient.Options & CallOptions) => Promise<Sampler>
  /** A client of a sampler opened elsewhere. */
  readonly samplingClientFromHandle: (
    handle: SamplerHandle,
    options?: SamplingClient.Settings & CallOptions
  ) => Promise<Sampler>
  readonly serverCapabilities: (options?: CallOptions) => Promise<GetServerCapabilitiesResponse>
  readonly sessionId: (options?: CallOptions) => Promise<SessionId>
  /** Runs an Effect with this connection and what its layer provides: for everything that has no Promise here. */
  readonly run: <A, E>(
    effect: Effect.Effect<A, E, TinkerLayer.Tinker | TinkerTransport.TinkerTransport | R>,
    options?: CallOptions
  ) => Promise<A>
  /** Runs a Stream as {@link Tinker.run} runs an Effect. It starts with the first `next`, and leaving the loop ends it. */
  readonly iterate: <A, E>(
    stream: Stream.Stream<A, E, TinkerLayer.Tinker | TinkerTransport.TinkerTransport | R>,
    options?: CallOptions
  ) => AsyncIterable<A>
}

/**
 * Which service, and over what.
 *
 * @since 0.1.0
 * @category models
 */
export interface ConnectOptions<R = never> extends ServiceClient.Options, CallOptions {
  /**
   * The transport, with whatever else the runtime needs: loggers, tracers, tokenizers, a file system. For example
   * `NodeTinker.layerFromEnv()`, `TinkerLocal.layer()`. Defaults to `fetch`.
   */
  readonly layer?: Layer.Layer<TinkerTransport.TinkerTransport | R, unknown> | undefined
}

const open = async <R>(
  layer: Layer.Layer<TinkerTransport.TinkerTransport | R, unknown>,
  { layer: _, signal, ...service }: ConnectOptions<R>
): Promise<Tinker<R>> => {
  signal?.throwIfAborted()
  const scope = Effect.runSync(Scope.make())
  const exit = await Effect.runPromiseExit(
    Effect.onExit(
      Scope.extend(Layer.toRuntime(TinkerLayer.layerFromEnv(service).pipe(Layer.provideMerge(layer))), scope),
      (exit) => Exit.isSuccess(exit) ? Effect.void : Scope.close(scope, exit)
    ),
    signal === undefined ? undefined : { signal }
  )
  if (Exit.isFailure(exit)) {
    signal?.throwIfAborted()
    throw Runner.errorOf(exit.cause)
  }
  const runtime = exit.value
  const client = Context.get(runtime.context, ServiceClient.ServiceClient)
  const runner = Runner.make(runtime, scope)
  const scoped: Clients.Scoped = { runner, scope, unobserved: new Set() }
  let closing: Promise<void> | undefined
  const closeOnce = async () => {
    const models = Array.from(scoped.unobserved)
    const pending = models.map((model) => model.settle()).filter((settled) => settled !== undefined)
    if (pending.length > 0) await Promise.all(pending)
    await runner.settled()
    runner.stop()
    await runner.release(Scope.close(scope, Exit.void))
    for (const model of models) model.raise("close")
  }
  const close = () => closing ??= closeOnce()
  return {
    close,
    [Symbol.asyncDispose]: close,
    rest: Clients.rest(runner, Context.get(runtime.context, RestClient.RestClient)),
    createLoraTrainingClient: ({ signal, ...options }) =>
      Clients.open(scoped, client.createLoraTrainingClient(options), Clients.training(scoped), { signal }),
    createTrainingClientFromState: ({ signal, ...options }) =>
      Clients.open(scoped, client.createTrainingClientFromState(options), Clients.training(scoped), { signal }),
    createSamplingClient: ({ signal, ...options }) =>
      Clients.open(scoped, client.createSamplingClient(options), Clients.sampler(scoped), { signal }),
    samplingClientFromHandle: (handle, { signal, ...settings } = {}) =>
      Clients.open(scoped, client.samplingClientFromHandle(handle, settings), Clients.sampler(scoped), { signal }),
    serverCapabilities: (options) => runner.run(client.serverCapabilities, options),
    sessionId: (options) => runner.run(client.sessionId, options),
    run: runner.run,
    iterate: runner.iterate
  }
}

function connect<R>(
  options: ConnectOptions<R> & { readonly layer: Layer.Layer<TinkerTransport.TinkerTransport | R, unknown> }
): Promise<Tinker<R>>
function connect(options?: ConnectOptions): Promise<Tinker>
function connect(options: ConnectOptions = {}): Promise<Tinker> {
  return open(options.layer ?? TinkerTransport.layerFetch, options)
}

/**
 * Connects; nothing is sent until something is asked for. What is not given comes from the environment
 * (`TINKER_API_KEY`, `TINKER_BASE_URL`, …) where there is one.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Tinker: { readonly connect: typeof connect } = { connect }

// -----------------------------------------------------------------------------
// Beside the clients.
// -----------------------------------------------------------------------------

/**
 * Downloads a checkpoint to a directory: resumed where an earlier download ended, and there only when it is complete. The
 * connection's layer must provide an `HttpClient`, a file system and paths, such as `NodeContext.layer` and
 * `FetchHttpClient.layer`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const downloadCheckpoint = (
  tinker: Tinker<HttpClient.HttpClient | FileSystem.FileSystem | Path.Path>,
  options: Omit<CheckpointDownload.Options, "exportExternal"> & CallOptions & {
    /** Called as the download goes on. */
    readonly onEvent?: ((event: CheckpointDownload.Event) => void) | undefined
  }
): Promise<CheckpointDownload.Summary> => {
  const { onEvent, signal, ...download } = options
  if (onEvent === undefined) return tinker.run(CheckpointDownload.run(download), { signal })
  const watched = Stream.runFold(
    CheckpointDownload.stream(download),
    Option.none<CheckpointDownload.Summary>(),
    (last, event) => {
      onEvent(event)
      return event._tag === "Completed" ? Option.some(event) : last
    }
  )
  return tinker.run(Effect.map(watched, Option.getOrThrow), { signal })
}

/**
 * One of the SDK's metrics: what it counts, for whom, and how much of it there is.
 *
 * @since 0.1.0
 * @category models
 */
export interface MetricValue {
  /** Such as `tinker_requests_total`: see `Metrics`. */
  readonly name: string
  readonly description: string
  readonly tags: Readonly<Record<string, string>>
  /** A count, or the level of a gauge; of a histogram, the sum of what was measured. */
  readonly value: number
  /** How often a histogram measured; `undefined` for all others. */
  readonly count: number | undefined
}

const valueOf = (state: MetricState.MetricState<unknown>): Pick<MetricValue, "value" | "count"> | undefined => {
  if (MetricState.isCounterState(state)) return { value: Number(state.count), count: undefined }
  if (MetricState.isGaugeState(state)) return { value: Number(state.value), count: undefined }
  if (MetricState.isHistogramState(state)) return { value: state.sum, count: state.count }
}

/**
 * Counters of the SDK in this process so far, all connections together.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics = (): ReadonlyArray<MetricValue> =>
  Metric.unsafeSnapshot().flatMap(({ metricKey, metricState }) => {
    const value = metricKey.name.startsWith("tinker_") ? valueOf(metricState) : undefined
    return value === undefined ? [] : [{
      name: metricKey.name,
      description: Option.getOrElse(metricKey.description, () => ""),
      tags: Object.fromEntries(metricKey.tags.map(({ key, value }) => [key, value])),
      ...value
    }]
  })

/**
 * An example of next-token prediction, as `Datum.fromTokens`.
 *
 * @throws `InvalidInput` when the tokens or weights cannot be used
 * @since 0.1.0
 * @category constructors
 */
export const fromTokens = (...args: Parameters<typeof Datum.fromTokens>): Datum.Datum =>
  Either.getOrThrowWith(Datum.fromTokens(...args), (error) => error)

/**
 * {@link fromTokens} of many, such as what a chat makes of conversations.
 *
 * @throws `InvalidInput` when the tokens or weights cannot be used
 * @since 0.1.0
 * @category constructors
 */
export const fromExamples = (
  ...args: Parameters<typeof Datum.fromExamples>
): ReadonlyArray<Datum.With<"target_tokens" | "weights">> =>
  Either.getOrThrowWith(Datum.fromExamples(...args), (error) => error)

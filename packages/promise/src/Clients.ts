/**
 * The clients: each call a Promise.
 *
 * - Calls start when they are made: what is called first reaches the server first. A Promise that is not awaited yet is
 *   pipelining.
 * - Failures reject with a `TinkerError`.
 * - Every call takes an `AbortSignal`. Lists and many samples are async iterators.
 * - `close()`, or `await using`, finishes the session.
 *
 * @since 0.1.0
 */
/// <reference lib="esnext.disposable" preserve="true" />
import type * as Data from "./Data.js"
import type * as Errors from "./Errors.js"
import type * as Service from "./Service.js"

/**
 * Options of every call.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallOptions {
  /** Stops waiting when it is aborted: the call rejects with the signal's reason, and what was not sent never is. */
  readonly signal?: AbortSignal | undefined
}

/**
 * A length of time: milliseconds, or a number with its unit.
 *
 * @since 0.1.0
 * @category models
 */
export type Duration =
  | number
  | `${number} ${"millis" | "seconds" | "minutes" | "hours" | "days" | "weeks"}`

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
 * Options of a pass.
 *
 * @since 0.1.0
 * @category models
 */
export interface PassOptions extends CallOptions {
  /** Settings of the loss, such as `clip_low_threshold`. */
  readonly lossFnConfig?: Readonly<Record<string, number | string>> | undefined
}

/**
 * Options of what saves weights.
 *
 * @since 0.1.0
 * @category models
 */
export interface SaveOptions extends CallOptions {
  /** Seconds until it expires. Defaults to never. */
  readonly ttlSeconds?: number | undefined
}

/**
 * A model in training.
 *
 * @since 0.1.0
 * @category models
 */
export interface Training extends Closing {
  readonly modelId: string
  readonly forward: (
    data: ReadonlyArray<Data.Datum>,
    loss: Data.LossName,
    options?: PassOptions
  ) => Promise<Data.Output>
  readonly forwardBackward: (
    data: ReadonlyArray<Data.Datum>,
    loss: Data.LossName,
    options?: PassOptions
  ) => Promise<Data.Output>
  /** A forward pass, your loss, and a backward pass; what is called after it waits for all three to be sent. */
  readonly forwardBackwardCustom: (
    data: ReadonlyArray<Data.Datum>,
    loss: Data.CustomLoss,
    options?: CallOptions
  ) => Promise<Data.Output>
  readonly optimStep: (params?: Data.Adam, options?: CallOptions) => Promise<Data.OptimStep>
  /** A pass with its gradients, and an optimizer step right behind it. */
  readonly trainStep: (
    data: ReadonlyArray<Data.Datum>,
    loss: Data.LossName,
    params?: Data.Adam,
    options?: CallOptions
  ) => Promise<Data.TrainStep>
  /** Saves weights and optimizer state, to go on from. */
  readonly saveState: (
    name: string,
    options?: SaveOptions & { readonly overwrite?: boolean | undefined }
  ) => Promise<{ readonly path: string }>
  readonly loadState: (
    path: string,
    options?: CallOptions & {
      /** Load the optimizer's state too, to go on exactly where it stopped. Defaults to false. */
      readonly withOptimizer?: boolean | undefined
    }
  ) => Promise<void>
  readonly saveWeightsForSampler: (name: string, options?: SaveOptions) => Promise<{ readonly path: string }>
  readonly saveWeightsAndGetSamplingClient: (options?: CallOptions) => Promise<Sampler>
  readonly getInfo: (options?: CallOptions) => Promise<Service.ModelInfo>
}

/**
 * One of many samples: a response or an error.
 *
 * @since 0.1.0
 * @category models
 */
export interface SampleResult {
  /** Position among the requests. */
  readonly index: number
  readonly response: Data.Sample | undefined
  readonly error: Errors.TinkerError | undefined
}

/**
 * A sampler.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler extends Closing {
  readonly sample: (options: Data.SampleOptions & CallOptions) => Promise<Data.Sample>
  /** Log probability of each token of a prompt; NaN for the first. */
  readonly computeLogprobs: (prompt: Data.Tokens, options?: CallOptions) => Promise<Float32Array>
  /** In the order in which they end; requests are pulled as places get free. */
  readonly sampleMany: (
    requests: Iterable<Data.SampleOptions> | AsyncIterable<Data.SampleOptions>,
    options?: CallOptions & { readonly concurrency?: number | undefined }
  ) => AsyncIterable<SampleResult>
  readonly baseModel: (options?: CallOptions) => Promise<string>
}

/**
 * A page of a list.
 *
 * @since 0.1.0
 * @category models
 */
export interface Page extends CallOptions {
  readonly limit?: number | undefined
  /** Defaults to 0. */
  readonly offset?: number | undefined
}

type OnPath<A> = (tinkerPath: string, options?: CallOptions) => Promise<A>

/**
 * Training runs, checkpoints and sessions of the service. Lists are one page, or async iterators over all.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rest {
  readonly getTrainingRun: (trainingRunId: string, options?: CallOptions) => Promise<Service.TrainingRun>
  readonly getTrainingRunByPath: OnPath<Service.TrainingRun>
  readonly listTrainingRuns: (
    options?: Page
  ) => Promise<{ readonly cursor: Service.Cursor; readonly trainingRuns: ReadonlyArray<Service.TrainingRun> }>
  readonly trainingRuns: (options?: CallOptions) => AsyncIterable<Service.TrainingRun>
  readonly getWeightsInfo: OnPath<Service.WeightsInfo>
  readonly listCheckpoints: (
    trainingRunId: string,
    options?: CallOptions
  ) => Promise<{ readonly checkpoints: ReadonlyArray<Service.Checkpoint> }>
  readonly getCheckpoint: OnPath<Service.Checkpoint>
  readonly userCheckpoints: (options?: CallOptions) => AsyncIterable<Service.Checkpoint>
  readonly getCheckpointArchiveUrl: OnPath<{ readonly url: string; readonly expires: Date }>
  readonly deleteCheckpoint: OnPath<void>
  readonly publishCheckpoint: OnPath<void>
  readonly unpublishCheckpoint: OnPath<void>
  /** `null` keeps it without limit. */
  readonly setCheckpointTtl: (tinkerPath: string, ttl: Duration | null, options?: CallOptions) => Promise<void>
  readonly getSession: (sessionId: string, options?: CallOptions) => Promise<Service.Session>
  readonly sessions: (options?: CallOptions) => AsyncIterable<string>
  readonly whoami: (options?: CallOptions) => Promise<Service.Account>
  readonly getServerCapabilities: (
    options?: CallOptions
  ) => Promise<{ readonly supportedModels: ReadonlyArray<Service.SupportedModel> }>
}

/**
 * Parts of a connection that are not everywhere: tokenizers of models, and files, which trainers and downloads use.
 *
 * @since 0.1.0
 * @category models
 */
export type Part = "files" | "tokenizers"

/**
 * A new LoRA adapter.
 *
 * @since 0.1.0
 * @category models
 */
export interface LoraOptions extends CallOptions {
  readonly baseModel: string
  /** Rank of the adapter. Defaults to 32. */
  readonly rank?: number | undefined
  /** Seed of the adapter's first weights. */
  readonly seed?: number | undefined
}

/**
 * A connection to a Tinker service: one session, and the clients made from it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tinker<Has extends Part = never> extends Closing {
  /** Parts that this connection has. */
  readonly has: { readonly [K in Has]: true }
  readonly rest: Rest
  readonly createLoraTrainingClient: (options: LoraOptions) => Promise<Training>
  /** Goes on from a `tinker://` path. */
  readonly createTrainingClientFromState: (
    options: CallOptions & { readonly path: string; readonly withOptimizer?: boolean | undefined }
  ) => Promise<Training>
  /** Of a model as it is (`baseModel`), or of saved weights (`modelPath`, a `tinker://` path). */
  readonly createSamplingClient: (
    options: CallOptions & ({ readonly baseModel: string } | { readonly modelPath: string })
  ) => Promise<Sampler>
  readonly sessionId: (options?: CallOptions) => Promise<string>
}

/**
 * Which service, and how to talk to it. What is not given comes from the environment (`TINKER_API_KEY`,
 * `TINKER_BASE_URL`, …) where there is one.
 *
 * @since 0.1.0
 * @category models
 */
export interface ConnectOptions extends CallOptions {
  /** Defaults to the hosted service. */
  readonly baseUrl?: string | undefined
  /** `tml-…`, or a token `eyJ…`. */
  readonly apiKey?: string | undefined
  /** Project of the sessions. */
  readonly projectId?: string | undefined
  /** Tags of the sessions. */
  readonly tags?: ReadonlyArray<string> | undefined
  /** Defaults to true. */
  readonly telemetry?: boolean | undefined
  readonly log?: "debug" | "info" | undefined
  /** Extra headers of every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Time limit of a request. Defaults to 60 seconds. */
  readonly timeout?: Duration | undefined
  /** Allow plain `http:` beyond loopback addresses. Defaults to false. */
  readonly allowInsecure?: boolean | undefined
}

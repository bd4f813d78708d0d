/**
 * The clients as an Effect 4 service.
 *
 * - An operation starts when its Effect does: what starts first reaches the server first.
 * - Interruption aborts the call; what was not sent never is.
 * - Clients are closed with their scope.
 *
 * @since 0.1.0
 */
import * as Client from "@effect-tinker/promise"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { call, stream } from "./internal/call.js"
import type { TinkerError } from "./TinkerError.js"

/**
 * A sampler.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler {
  readonly sample: (options: Client.SampleOptions) => Effect.Effect<Client.Sample, TinkerError>
  /** Log probability of each token of a prompt; NaN for the first. */
  readonly computeLogprobs: (prompt: Client.Tokens) => Effect.Effect<Float32Array, TinkerError>
  /** In the order in which they end; a sample that failed is an item of the stream, with its error. */
  readonly sampleMany: (
    requests: Iterable<Client.SampleOptions>,
    options?: { readonly concurrency?: number | undefined }
  ) => Stream.Stream<Client.SampleResult, TinkerError>
  readonly baseModel: Effect.Effect<string, TinkerError>
  /** The client underneath, for what has no Effect here. */
  readonly client: Client.Sampler
}

/**
 * Options of a pass.
 *
 * @since 0.1.0
 * @category models
 */
export type PassOptions = Omit<Client.PassOptions, "signal">

/**
 * Options of what saves weights.
 *
 * @since 0.1.0
 * @category models
 */
export type SaveOptions = Omit<Client.SaveOptions, "signal">

/**
 * A model in training.
 *
 * @since 0.1.0
 * @category models
 */
export interface Training {
  readonly modelId: string
  readonly forward: (
    data: ReadonlyArray<Client.Datum>,
    loss: Client.LossName,
    options?: PassOptions
  ) => Effect.Effect<Client.Output, TinkerError>
  readonly forwardBackward: (
    data: ReadonlyArray<Client.Datum>,
    loss: Client.LossName,
    options?: PassOptions
  ) => Effect.Effect<Client.Output, TinkerError>
  readonly forwardBackwardCustom: (
    data: ReadonlyArray<Client.Datum>,
    loss: Client.CustomLoss
  ) => Effect.Effect<Client.Output, TinkerError>
  readonly optimStep: (params?: Client.Adam) => Effect.Effect<Client.OptimStep, TinkerError>
  /** A pass with its gradients, and an optimizer step right behind it. */
  readonly trainStep: (
    data: ReadonlyArray<Client.Datum>,
    loss: Client.LossName,
    params?: Client.Adam
  ) => Effect.Effect<Client.TrainStep, TinkerError>
  /** Saves weights and optimizer state, to go on from. */
  readonly saveState: (
    name: string,
    options?: SaveOptions & { readonly overwrite?: boolean | undefined }
  ) => Effect.Effect<string, TinkerError>
  readonly loadState: (
    path: string,
    options?: { readonly withOptimizer?: boolean | undefined }
  ) => Effect.Effect<void, TinkerError>
  readonly saveWeightsForSampler: (name: string, options?: SaveOptions) => Effect.Effect<string, TinkerError>
  readonly saveWeightsAndGetSampler: Effect.Effect<Sampler, TinkerError, Scope.Scope>
  readonly getInfo: Effect.Effect<Client.ModelInfo, TinkerError>
  /** The client underneath, for what has no Effect here. */
  readonly client: Client.Training
}

/**
 * A connection to a Tinker service.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service<Has extends Client.Part = never> {
  readonly training: (options: Omit<Client.LoraOptions, "signal">) => Effect.Effect<Training, TinkerError, Scope.Scope>
  /** Goes on from a `tinker://` path. */
  readonly trainingFromState: (options: {
    readonly path: string
    readonly withOptimizer?: boolean | undefined
  }) => Effect.Effect<Training, TinkerError, Scope.Scope>
  /** Of a model as it is (`baseModel`), or of saved weights (`modelPath`, a `tinker://` path). */
  readonly sampler: (
    source: { readonly baseModel: string } | { readonly modelPath: string }
  ) => Effect.Effect<Sampler, TinkerError, Scope.Scope>
  /** A call of the service's records: `rest((client, options) => client.getTrainingRun(id, options))`. */
  readonly rest: <A>(
    f: (client: Client.Rest, options: Client.CallOptions) => Promise<A>
  ) => Effect.Effect<A, TinkerError>
  /** A list of the service's records: `list((client, options) => client.trainingRuns(options))`. */
  readonly list: <A>(
    f: (client: Client.Rest, options: Client.CallOptions) => AsyncIterable<A>
  ) => Stream.Stream<A, TinkerError>
  /** The client underneath. */
  readonly client: Client.Tinker<Has>
}

/**
 * A connection to a Tinker service.
 *
 * @since 0.1.0
 * @category services
 */
export class Tinker extends Context.Service<Tinker, Service>()("@effect-tinker/effect4/Tinker") {}

/**
 * A connection with tokenizers: what chats need.
 *
 * @since 0.1.0
 * @category services
 */
export class Tokenizing
  extends Context.Service<Tokenizing, Service<"tokenizers">>()("@effect-tinker/effect4/Tinker/Tokenizing")
{}

/**
 * A connection with tokenizers and files: what trainers need.
 *
 * @since 0.1.0
 * @category services
 */
export class Complete
  extends Context.Service<Complete, Service<"files" | "tokenizers">>()("@effect-tinker/effect4/Tinker/Complete")
{}

/** A client that is closed with its scope. */
const scoped = <A extends Client.Closing>(
  make: (options: { readonly signal: AbortSignal }) => Promise<A>
): Effect.Effect<A, TinkerError, Scope.Scope> =>
  Effect.acquireRelease(call(make), (client) => Effect.promise(() => client.close().catch(() => undefined)))

const samplerOf = (client: Client.Sampler): Sampler => ({
  client,
  sample: (request) => call((options) => client.sample({ ...request, ...options })),
  computeLogprobs: (prompt) => call((options) => client.computeLogprobs(prompt, options)),
  sampleMany: (requests, settings) => stream((options) => client.sampleMany(requests, { ...settings, ...options })),
  baseModel: call((options) => client.baseModel(options))
})

const trainingOf = (client: Client.Training): Training => ({
  client,
  modelId: client.modelId,
  forward: (data, loss, pass) => call((options) => client.forward(data, loss, { ...pass, ...options })),
  forwardBackward: (data, loss, pass) => call((options) => client.forwardBackward(data, loss, { ...pass, ...options })),
  forwardBackwardCustom: (data, loss) => call((options) => client.forwardBackwardCustom(data, loss, options)),
  optimStep: (params) => call((options) => client.optimStep(params, options)),
  trainStep: (data, loss, params) => call((options) => client.trainStep(data, loss, params, options)),
  saveState: (name, settings) =>
    Effect.map(call((options) => client.saveState(name, { ...settings, ...options })), ({ path }) => path),
  loadState: (path, settings) => call((options) => client.loadState(path, { ...settings, ...options })),
  saveWeightsForSampler: (name, settings) =>
    Effect.map(call((options) => client.saveWeightsForSampler(name, { ...settings, ...options })), ({ path }) => path),
  saveWeightsAndGetSampler: Effect.map(
    scoped((options) => client.saveWeightsAndGetSamplingClient(options)),
    samplerOf
  ),
  getInfo: call((options) => client.getInfo(options))
})

/**
 * A service over a connection that is there already.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromClient = <Has extends Client.Part>(client: Client.Tinker<Has>): Service<Has> => ({
  client,
  training: (options) =>
    Effect.map(scoped(({ signal }) => client.createLoraTrainingClient({ ...options, signal })), trainingOf),
  trainingFromState: (options) =>
    Effect.map(scoped(({ signal }) => client.createTrainingClientFromState({ ...options, signal })), trainingOf),
  sampler: (source) =>
    Effect.map(scoped(({ signal }) => client.createSamplingClient({ ...source, signal })), samplerOf),
  rest: (f) => call((options) => f(client.rest, options)),
  list: (f) => stream((options) => f(client.rest, options))
})

/** The service of a connection that is closed with its scope. */
const connected = <Has extends Client.Part>(make: (options: Client.CallOptions) => Promise<Client.Tinker<Has>>) =>
  Effect.map(scoped(make), fromClient)

/**
 * A layer of a connection without tokenizers and files.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerOf = (
  make: (options: Client.CallOptions) => Promise<Client.Tinker>
): Layer.Layer<Tinker, TinkerError> => Layer.effect(Tinker, connected(make))

/**
 * A layer of a connection with tokenizers.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerTokenizing = (
  make: (options: Client.CallOptions) => Promise<Client.Tinker<"tokenizers">>
): Layer.Layer<Tinker | Tokenizing, TinkerError> =>
  Layer.effectContext(
    Effect.map(connected(make), (service) => Context.make(Tokenizing, service).pipe(Context.add(Tinker, service)))
  )

/**
 * A layer of a connection with tokenizers and files.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerComplete = (
  make: (options: Client.CallOptions) => Promise<Client.Tinker<"files" | "tokenizers">>
): Layer.Layer<Complete | Tinker | Tokenizing, TinkerError> =>
  Layer.effectContext(
    Effect.map(
      connected(make),
      (service) => Context.make(Complete, service).pipe(Context.add(Tokenizing, service), Context.add(Tinker, service))
    )
  )

/**
 * A connection over `fetch`, for every runtime. What is not given comes from the environment (`TINKER_API_KEY`,
 * `TINKER_BASE_URL`, …) where there is one.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Omit<Client.ConnectOptions, "signal">): Layer.Layer<Tinker, TinkerError> =>
  layerOf(({ signal }) => Client.connect({ ...options, signal }))

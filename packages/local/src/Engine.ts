/**
 * The engine of the embedded backend: transformers that train and sample on the CPU. It knows nothing of HTTP, files or
 * Node. By default it computes in the calling thread, in short slices so that everything else on the event loop stays
 * responsive; `layerThreads` computes on worker threads, with the same results.
 *
 * @since 0.1.0
 */
import type * as Worker from "@effect/platform/Worker"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as EngineError from "./EngineError.js"
import { createAdapter, restoreAdapter } from "./internal/engine/adapters.js"
import type { Executor, LoadedModel } from "./internal/engine/executor.js"
import { makeInProcess, makeThreads } from "./internal/engine/executor.js"
import { NativeKernels } from "./internal/engine/native.js"
import { makeSampler, makeTarget } from "./internal/engine/samplers.js"
import { makeSlices } from "./internal/engine/slices.js"
import { defaultLayout } from "./internal/engine/space.js"
import type * as LocalAdapter from "./LocalAdapter.js"
import * as LocalModel from "./LocalModel.js"
import type * as LocalSampler from "./LocalSampler.js"

/**
 * Operations of the engine.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** The models that adapters and samplers can be made of. */
  readonly models: ReadonlyArray<LocalModel.LocalModel>
  /** Which kernels run here: those in machine code, WebAssembly's, or the slower JavaScript ones. */
  readonly mode: "native" | "wasm" | "js"
  /** How many threads compute; 1 without worker threads. */
  readonly threads: number
  /** A new adapter; it changes nothing until it is trained. */
  readonly createAdapter: (
    config: LocalAdapter.Config
  ) => Effect.Effect<LocalAdapter.Adapter, EngineError.EngineError>
  /** An adapter as it was when the snapshot was taken; with a fresh optimizer unless `optimizer` is set. */
  readonly restoreAdapter: (
    snapshot: LocalAdapter.Snapshot,
    options?: { readonly optimizer?: boolean | undefined }
  ) => Effect.Effect<LocalAdapter.Adapter, EngineError.EngineError>
  /** Samples from a snapshot, or from the untrained model when given its name. */
  readonly sampler: (
    source: LocalAdapter.Snapshot | string
  ) => Effect.Effect<LocalSampler.Sampler, EngineError.EngineError>
  /** Weights of a snapshot that later snapshots replace, also while they are sampled from. */
  readonly target: (
    snapshot: LocalAdapter.Snapshot
  ) => Effect.Effect<LocalSampler.Target, EngineError.EngineError>
  /** Loads a model's weights now instead of with its first use. */
  readonly load: (name: string) => Effect.Effect<void, EngineError.EngineError>
  /** Prompt tokens of a model that did not have to be computed because an earlier sequence began with them. */
  readonly reusedTokens: (name: string) => Effect.Effect<number, EngineError.EngineError>
  /** Yields to the event loop if a slice is over, as the engine itself does: for other work on the same thread. */
  readonly yieldIfDue: Effect.Effect<void>
}

/**
 * The engine as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class Engine extends Context.Tag("@effect-tinker/local/Engine")<Engine, Service>() {}

/**
 * How an engine computes; all of it may be left out.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /**
   * The fastest kernels to use: `native` where the runtime provides them (`NodeEngine` on Linux, x64 with AVX2), else
   * WebAssembly's, else those in JavaScript. Where they round differently, results differ in the last bits.
   * Defaults to `native`.
   */
  readonly mode?: "native" | "wasm" | "js" | undefined
  /** How long to compute before letting other work in, in milliseconds. Defaults to 10. */
  readonly sliceMillis?: number | undefined
  /** How to let other work in. Defaults to yielding to other fibers and then to the event loop. */
  readonly pause?: Effect.Effect<void> | undefined
  /** The models to offer. Defaults to the random ones. */
  readonly models?: ReadonlyArray<LocalModel.LocalModel> | undefined
  /** Bytes of activations per thread that a pass keeps; what is beyond is computed again. Defaults to 512 MiB. */
  readonly activationBytes?: number | undefined
  /** Tokens of one part of a batch; parts are computed one by one on each thread. Defaults to 512. */
  readonly partTokens?: number | undefined
  /** The most memory one model may need, in bytes; larger ones are refused. Defaults to 4 GiB, the most there can be. */
  readonly memoryBytes?: number | undefined
}

/**
 * How an engine computes on worker threads.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface ThreadsOptions extends Options {
  /** As for an engine in the calling thread, but threads need WebAssembly. */
  readonly mode?: "native" | "wasm" | undefined
  /** How many threads. */
  readonly threads: number
}

const defaultPause = Effect.zipRight(Effect.yieldNow(), Effect.sleep(0))

const slicesOf = (options: Options | undefined) =>
  makeSlices({ sliceMillis: options?.sliceMillis ?? 10, pause: options?.pause ?? defaultPause })

const executorOptions = (options: Options | undefined) =>
  Effect.map(NativeKernels, (native) => ({
    activationBytes: options?.activationBytes ?? defaultLayout.activationBytes,
    partTokens: options?.partTokens ?? defaultLayout.partTokens,
    memoryBytes: options?.memoryBytes ?? Infinity,
    native: (options?.mode ?? "native") === "native" ? native : undefined
  }))

const fromExecutor = Effect.fnUntraced(function*(
  executor: Executor,
  models: ReadonlyArray<LocalModel.LocalModel>
): Effect.fn.Return<Service> {
  const loadedModels = new Map<string, Effect.Effect<LoadedModel, EngineError.ModelUnavailable>>()
  for (const model of models) {
    // a load that fails may succeed the next time
    const [cached, forget] = yield* Effect.cachedInvalidateWithTTL(executor.open(model), Duration.infinity)
    loadedModels.set(model.name, Effect.tapErrorCause(cached, () => forget))
  }
  const loaded = (name: string): Effect.Effect<LoadedModel, EngineError.EngineError> =>
    loadedModels.get(name) ?? new EngineError.UnknownModel({ name, known: Array.from(loadedModels.keys()) })
  return Engine.of({
    models,
    mode: executor.mode,
    threads: executor.threads,
    createAdapter: (config) =>
      Effect.flatMap(loaded(config.baseModel), (loaded) => createAdapter(executor, loaded, config)),
    restoreAdapter: (snapshot, options) =>
      Effect.flatMap(
        loaded(snapshot.baseModel),
        (loaded) => restoreAdapter(executor, loaded, snapshot, options?.optimizer ?? false)
      ),
    sampler: (source) =>
      Effect.flatMap(
        loaded(typeof source === "string" ? source : source.baseModel),
        (loaded) => makeSampler(executor, loaded, typeof source === "string" ? undefined : source)
      ),
    target: (snapshot) =>
      Effect.flatMap(loaded(snapshot.baseModel), (loaded) => makeTarget(executor, loaded, snapshot)),
    load: (name) => Effect.asVoid(loaded(name)),
    reusedTokens: (name) => Effect.flatMap(loaded(name), ({ reused }) => reused),
    yieldIfDue: executor.slices.yieldIfDue
  })
})

/**
 * An engine in the calling thread; memory for a model is taken when the model is first used.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options?: Options) => Effect.Effect<Service> = Effect.fnUntraced(function*(options) {
  const executor = makeInProcess(yield* slicesOf(options), options?.mode ?? "native", yield* executorOptions(options))
  return yield* fromExecutor(executor, options?.models ?? LocalModel.all)
})

/**
 * An engine on worker threads that run the engine's worker program; `NodeEngine` knows how to start them on Node.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeThreaded: (
  options: ThreadsOptions
) => Effect.Effect<Service, never, Worker.WorkerManager | Worker.Spawner | Scope.Scope> = Effect.fnUntraced(
  function*(options) {
    const executor = yield* makeThreads(yield* slicesOf(options), options.threads, yield* executorOptions(options))
    return yield* fromExecutor(executor, options.models ?? LocalModel.all)
  }
)

/**
 * An engine in the calling thread for everything that is provided with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Options): Layer.Layer<Engine> => Layer.effect(Engine, make(options))

/**
 * An engine on worker threads, which start with the first model and end with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerThreads = (
  options: ThreadsOptions
): Layer.Layer<Engine, never, Worker.WorkerManager | Worker.Spawner> => Layer.scoped(Engine, makeThreaded(options))

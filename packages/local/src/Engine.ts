/**
 * The engine of the embedded backend: small transformers that train and sample on the CPU. It knows nothing of HTTP,
 * files or Node; it computes in short slices so that whatever shares the event loop with it stays responsive.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as EngineError from "./EngineError.js"
import { makeAdapters } from "./internal/engine/adapters.js"
import { makeMachines } from "./internal/engine/machine.js"
import { makeSamplers } from "./internal/engine/samplers.js"
import type * as LocalAdapter from "./LocalAdapter.js"
import * as LocalModel from "./LocalModel.js"
import type * as LocalSampler from "./LocalSampler.js"

/**
 * What the engine offers.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** The models that adapters and samplers can be made of. */
  readonly models: ReadonlyArray<LocalModel.LocalModel>
  /** Whether the SIMD kernels run here, or the slower JavaScript ones. */
  readonly mode: "wasm" | "js"
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
  /** Lets other work in if it is due, as the engine does between its own slices: for what shares the thread with it. */
  readonly breathe: Effect.Effect<void>
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
  /** `js` uses the JavaScript kernels even where SIMD is available. Defaults to `wasm`. */
  readonly mode?: "wasm" | "js" | undefined
  /** How long to compute before letting other work in, in milliseconds. Defaults to 10. */
  readonly sliceMillis?: number | undefined
  /** How to let other work in. Defaults to yielding to other fibers and then to the event loop. */
  readonly pause?: Effect.Effect<void> | undefined
  /** The models to offer. Defaults to all. */
  readonly models?: ReadonlyArray<LocalModel.LocalModel> | undefined
}

/**
 * An engine of its own; memory for a model is taken when the model is first used.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options?: Options) => Effect.Effect<Service> = Effect.fnUntraced(function*(options) {
  const models = options?.models ?? LocalModel.all
  const machines = yield* makeMachines({
    models,
    mode: options?.mode ?? "wasm",
    sliceMillis: options?.sliceMillis ?? 10,
    pause: options?.pause ?? Effect.zipRight(Effect.yieldNow(), Effect.sleep(0))
  })
  const adapters = makeAdapters(machines)
  const samplers = makeSamplers(machines)
  return Engine.of({
    models,
    mode: machines.mode,
    createAdapter: adapters.create,
    restoreAdapter: adapters.restore,
    sampler: samplers.make,
    breathe: machines.breathe
  })
})

/**
 * An engine for everything that is provided with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Options): Layer.Layer<Engine> => Layer.effect(Engine, make(options))

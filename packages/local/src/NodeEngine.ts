/**
 * The engine on Node: on worker threads, with the models whose files are on this machine.
 *
 * @since 0.1.0
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeWorker from "@effect/platform-node/NodeWorker"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { existsSync } from "node:fs"
import { availableParallelism, freemem } from "node:os"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import * as Engine from "./Engine.js"
import type { ModelUnavailable } from "./EngineError.js"
import * as executor from "./internal/engine/executor.js"
import { NativeKernels } from "./internal/engine/native.js"
import { findNative } from "./internal/engine/NodeNative.js"
import { defaultLayout } from "./internal/engine/space.js"
import { sliceMillis, turn } from "./internal/eventLoop.js"
import * as LocalCheckpoint from "./LocalCheckpoint.js"
import * as LocalModel from "./LocalModel.js"
import * as NodeModels from "./NodeModels.js"

/**
 * How the engine computes, and what it serves; all of it may be left out.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends Omit<Engine.Options, "models"> {
  /**
   * Models to serve: values, or references as `NodeModels.resolve` takes them (names on the hub, directories, GGUF files),
   * which are also the names that clients ask for. Defaults to the models that come with the package.
   */
  readonly models?: ReadonlyArray<LocalModel.LocalModel | string> | undefined
  /** Keep the frozen matrices of models given by reference in eight bits. Defaults to the precision of their files. */
  readonly quantize?: "int8" | undefined
  /** The kernels; threads have none in JavaScript. Defaults to `native`. */
  readonly mode?: "native" | "wasm" | undefined
  /** How many threads. Defaults to one for each core. */
  readonly threads?: number | undefined
}

/** How the engine yields on Node, where a turn of the event loop costs microseconds. */
const onNode = { sliceMillis, pause: turn }

/** Native kernels of all platforms, in the sources. @internal */
export const nativeDirectory = fileURLToPath(new URL("../native/", import.meta.url))

/**
 * The file of the native kernels of this machine, or why there is none: then everything is computed in WebAssembly, which takes
 * about twice the time.
 *
 * @since 0.2.0
 * @category combinators
 */
export const nativeKernels: Effect.Effect<Either.Either<string, string>> = Effect.sync(() =>
  Either.map(findNative(nativeDirectory), ({ path }) => path)
)

// Loaded when an engine is made: a client of another server needs none.
const native = Layer.effect(
  NativeKernels,
  Effect.suspend(() =>
    Either.match(findNative(nativeDirectory), {
      onLeft: (reason) => Effect.as(Effect.logDebug(`Computing in WebAssembly: ${reason}`), undefined),
      onRight: (kernels) => Effect.succeed(kernels)
    })
  )
)

// A part of the memory is left to everything else.
const usable = 0.9

/**
 * The models that come with the package: the random ones, and `local/chat` where its files are installed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const bundledModels: Effect.Effect<ReadonlyArray<LocalModel.LocalModel>, ModelUnavailable> = Effect.gen(
  function*() {
    const chat = yield* LocalCheckpoint.bundledChat
    return [...LocalModel.all, ...chat]
  }
).pipe(Effect.provide(NodeContext.layer))

// Node runs no TypeScript: where the sources themselves are used, the loader that runs them is started in the thread too.
const isSource = import.meta.url.endsWith(".ts")
const program = new URL(`./internal/engine/NodeEngineWorker.${isSource ? "ts" : "js"}`, import.meta.url)

/**
 * Whether the program of the worker threads is installed: a bundle of one file may have left it behind.
 *
 * @since 0.1.0
 * @category guards
 */
export const hasThreads: boolean = existsSync(program)

const spawn = (): Worker =>
  isSource
    ? new Worker(
      `import("tsx/esm/api").then(({ register }) => { register(); return import(${JSON.stringify(program.href)}) })`,
      { eval: true, execArgv: ["--conditions=@effect-tinker/source"] }
    )
    : new Worker(program)

const modelsOf = ({ models, quantize }: Pick<Options, "models" | "quantize">) =>
  models === undefined
    ? bundledModels
    : Effect.forEach(models, (model) =>
      typeof model === "string" ? NodeModels.resolve(model, { name: model, quantize }) : Effect.succeed(model))

const availableMemory = (options: Pick<Options, "memoryBytes">) =>
  Effect.sync(() => options.memoryBytes ?? Math.floor(freemem() * usable))

/**
 * An engine on this machine's cores, which computes what the in-process engine computes, bit for bit. The threads start
 * with the first model and end with the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options = {}): Layer.Layer<Engine.Engine, ModelUnavailable> =>
  Layer.unwrapEffect(Effect.gen(function*() {
    return Engine.layerThreads({
      ...onNode,
      ...options,
      models: yield* modelsOf(options),
      threads: options.threads ?? availableParallelism(),
      memoryBytes: yield* availableMemory(options)
    })
  })).pipe(Layer.provide([NodeWorker.layer(spawn), native]))

/**
 * The same models on worker threads if a number of them is given, and in the calling thread if not. Threads have no
 * kernels in JavaScript: there, `js` is the default.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFor = (
  { mode, ...options }: Omit<Options, "mode"> & Pick<Engine.Options, "mode">
): Layer.Layer<Engine.Engine, ModelUnavailable> =>
  options.threads !== undefined ?
    layer({ ...options, mode: mode === "js" ? undefined : mode }) :
    Layer.unwrapEffect(Effect.gen(function*() {
      return Engine.layer({
        ...onNode,
        ...options,
        mode,
        models: yield* modelsOf(options),
        memoryBytes: yield* availableMemory(options)
      })
    })).pipe(Layer.provide(native))

/**
 * Memory that a model needs on this machine.
 *
 * @since 0.2.0
 * @category models
 */
export interface Memory {
  /** Bytes of the weights alone. */
  readonly weights: number
  /** Bytes in all, with activations that are kept where there is room. */
  readonly preferred: number
  /** Bytes in all, when activations are computed again. */
  readonly least: number
  /** Bytes that are free. */
  readonly free: number
  /** Whether the model can be loaded. */
  readonly fits: boolean
}

/**
 * Memory that a model needs with this number of threads, and whether this machine has it.
 *
 * @since 0.2.0
 * @category combinators
 */
export const memoryOf = (
  model: LocalModel.LocalModel,
  options: Pick<Options, "threads" | "memoryBytes"> = {}
): Effect.Effect<Memory> =>
  Effect.map(availableMemory(options), (free) => {
    const { fits, least, preferred, weights } = executor.memoryOf(model, {
      ...defaultLayout,
      threads: options.threads ?? availableParallelism(),
      readsOutside: Either.isRight(findNative(nativeDirectory))
    })
    return { weights, preferred, least, free, fits: fits && least <= free }
  })

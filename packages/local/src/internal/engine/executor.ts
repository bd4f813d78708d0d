/**
 * Where the engine computes: in this thread, in slices between which the event loop turns, or on worker threads that
 * share the memory of the models.
 */
import type * as PlatformWorker from "@effect/platform/Worker"
import { WorkerManager } from "@effect/platform/Worker"
import { WorkerError } from "@effect/platform/WorkerError"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as EngineError from "../../EngineError.js"
import type { LocalModel } from "../../LocalModel.js"
import type { Slice } from "../../LocalSampler.js"
import type { Architecture } from "./architecture.js"
import { makeArchitecture } from "./architecture.js"
import type { Precision, Store } from "./frozen.js"
import { makeStore, storeBytes } from "./frozen.js"
import type { KernelMode, Kernels } from "./kernels.js"
import { kernelsOver, makeKernels, maxFloats, sharedMemory, wasmModule } from "./kernels.js"
import type { Native } from "./native.js"
import { partCount } from "./parts.js"
import type { TokenBytes } from "./sampling.js"
import type { Slices } from "./slices.js"
import type { Layout, LayoutOptions } from "./space.js"
import { makeLayout, makeSpace } from "./space.js"
import type { AdapterJob, ModelThread, PassJob, SampleJob } from "./thread.js"
import { makeModelThread } from "./thread.js"
import { tokenBytesOf, writeWeights } from "./weights.js"

/** A model that is ready to compute. @internal */
export interface LoadedModel extends ModelThread<EngineError.ThreadLost> {
  readonly architecture: Architecture
  readonly layout: Layout
}

/** Floats to be used again: what a pass needs lives only until its end. @internal */
export interface Pool {
  /** With whatever was in it before. */
  readonly take: (length: number) => Float32Array
  readonly give: (floats: Float32Array) => void
}

const makePool = (make: (length: number) => Float32Array, most: number): Pool => {
  let free: ReadonlyArray<Float32Array> = []
  return {
    take: (length) => {
      const found = free.find((floats) => floats.length === length)
      if (found === undefined) return make(length)
      free = free.filter((floats) => floats !== found)
      return found
    },
    give: (floats) => {
      free = [...free.slice(-most), floats]
    }
  }
}

/** @internal */
export interface Executor {
  readonly mode: KernelMode
  /** Kernels in machine code, in the mode `native`. */
  readonly native: Native | undefined
  readonly threads: number
  /** Gradients of parts that may wait until those of earlier parts are added, so that no thread waits for a slower one. */
  readonly waitingGradients: number
  readonly slices: Slices
  /** Floats that every thread can read and write. */
  readonly floats: (length: number) => Float32Array
  /** The same for a short time. */
  readonly pool: Pool
  /** Loads a model's weights; to be done once. */
  readonly open: (model: LocalModel) => Effect.Effect<LoadedModel, EngineError.ModelUnavailable>
}

/** @internal */
export interface ExecutorOptions extends Omit<LayoutOptions, "threads" | "readsOutside"> {
  /** The most memory of one model, in bytes. */
  readonly memoryBytes: number
  /** Kernels in machine code; without them, everything is computed in WebAssembly. */
  readonly native: Native | undefined
}

const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`

/**
 * Bytes that a model needs: its weights, everything when activations are kept, and the least it computes with.
 *
 * @internal
 */
export const memoryOf = (
  model: LocalModel,
  options: LayoutOptions
): { readonly weights: number; readonly preferred: number; readonly least: number; readonly fits: boolean } => {
  const architecture = makeArchitecture(model)
  const preferred = makeLayout(architecture, options)
  const least = makeLayout(architecture, { ...options, activationBytes: 0 })
  const outside = preferred.outside ? storeBytes(architecture, precisionOf(model)) : 0
  return {
    weights: outside === 0 ? architecture.size * 4 : outside,
    preferred: preferred.floats * 4 + outside,
    least: least.floats * 4 + outside,
    fits: least.floats <= maxFloats
  }
}

/** The layout of a model, or by how much it does not fit. @internal */
export const checkedLayout = (
  model: LocalModel,
  options: ExecutorOptions & LayoutOptions
): Effect.Effect<{ readonly architecture: Architecture; readonly layout: Layout }, EngineError.ModelUnavailable> => {
  const architecture = makeArchitecture(model)
  const preferred = makeLayout(architecture, options)
  const outside = preferred.outside ? storeBytes(architecture, precisionOf(model)) : 0
  const fits = ({ floats }: Layout): boolean => floats <= maxFloats && floats * 4 + outside <= options.memoryBytes
  // what does not fit beside the weights can be computed again
  const layout = fits(preferred) ? preferred : makeLayout(architecture, { ...options, activationBytes: 0 })
  if (fits(layout)) return Effect.succeed({ architecture, layout })
  const weights = outside === 0 ? architecture.size * 4 : outside
  return new EngineError.ModelUnavailable({
    model: model.name,
    description: `needs ${gigabytes(layout.floats * 4 + outside)} of memory (${
      gigabytes(weights)
    } of it for the weights) with ${options.threads} thread(s) and ${model.contextLength} tokens of context; ${
      layout.floats > maxFloats
        ? `${gigabytes(maxFloats * 4)} beside the weights are the most that can be used: choose a shorter context`
        : `${gigabytes(options.memoryBytes)} are available`
    }`
  })
}

/** Computes in this thread. @internal */
export const makeInProcess = (slices: Slices, wanted: KernelMode, options: ExecutorOptions): Executor => {
  const hasWasm = wanted !== "js" && wasmModule(false) !== undefined
  const native = hasWasm && wanted === "native" ? options.native : undefined
  const mode = native !== undefined ? "native" : hasWasm ? "wasm" : "js"
  const floats = (length: number): Float32Array => new Float32Array(length)
  return {
    mode,
    native,
    threads: 1,
    waitingGradients: 1,
    slices,
    floats,
    pool: makePool(floats, 3),
    open: Effect.fnUntraced(function*(model) {
      const { architecture, layout } = yield* checkedLayout(model, {
        ...options,
        threads: 1,
        readsOutside: native !== undefined
      })
      const kernels = yield* allocate(model, () => makeKernels(layout.floats, mode, native))
      const store = yield* allocate(model, () => storeOf(architecture, layout, false))
      yield* writeWeights(architecture, layout, kernels.memory, store, native, slices.run)
      const space = makeSpace(architecture, layout, kernels, store, 0)
      if (space === undefined) return yield* Effect.dieMessage("a layout without threads")
      return { architecture, layout, ...makeModelThread(slices, space, tokenBytesOf(model), native) }
    })
  }
}

/** Room for matrices outside of the memory, where the layout has them there. */
const storeOf = (architecture: Architecture, layout: Layout, shared: boolean): Store | undefined =>
  layout.outside ? makeStore(architecture, precisionOf(architecture.model), shared) : undefined

const precisionOf = ({ weights }: LocalModel): Precision => weights?.precision ?? "f32"

const allocate = <A>(model: LocalModel, make: () => A): Effect.Effect<A, EngineError.ModelUnavailable> =>
  Effect.try({
    try: make,
    catch: (cause) => new EngineError.ModelUnavailable({ model: model.name, description: `no memory: ${cause}` })
  })

/** Requests to a worker thread. @internal */
export type Message =
  | { readonly _tag: "Hello" }
  | {
    readonly _tag: "Model"
    /** Which of the threads it is. */
    readonly thread: number
    /** Without what cannot be sent: the tokenizer and where the weights are from. */
    readonly model: LocalModel
    readonly layout: Layout
    readonly memory: WebAssembly.Memory
    /** Matrices outside of the memory, where the layout has them there. */
    readonly store: Store | undefined
    /** The file of the native kernels and its hash, if they are used. */
    readonly native: Pick<Native, "path" | "hash"> | undefined
    readonly tokenBytes: TokenBytes
  }
  | { readonly _tag: "Pass"; readonly model: string; readonly job: PassJob }
  | { readonly _tag: "Sample"; readonly model: string; readonly job: SampleJob }
  | { readonly _tag: "Stream"; readonly model: string; readonly job: SampleJob }
  | { readonly _tag: "Publish"; readonly model: string; readonly target: number; readonly adapter: AdapterJob }
  | { readonly _tag: "Reused"; readonly model: string }

/** Answer of a worker thread: one of these, but to a stream any number of slices. @internal */
export type Answer =
  | { readonly _tag: "Ready" }
  /** The thread is a new one: it has to be given the model first. */
  | { readonly _tag: "Unprepared" }
  | { readonly _tag: "Passed" }
  | { readonly _tag: "Sampled"; readonly result: Effect.Effect.Success<ReturnType<ModelThread["sample"]>> }
  | { readonly _tag: "Drawn"; readonly slice: Slice }
  | { readonly _tag: "Published" }
  | { readonly _tag: "Reused"; readonly tokens: number }

/** The worker's side of it. @internal */
export const makeWorkerHandler = (
  slices: Slices,
  loadNative: (path: string, hash: string) => Either.Either<Native, string>
): (message: Message) => Effect.Effect<Answer> | Stream.Stream<Answer> => {
  const models = new Map<string, ModelThread>()
  const unprepared: Answer = { _tag: "Unprepared" }
  const ready: Answer = { _tag: "Ready" }
  const on = (name: string, use: (model: ModelThread) => Effect.Effect<Answer>): Effect.Effect<Answer> => {
    const model = models.get(name)
    return model === undefined ? Effect.succeed(unprepared) : use(model)
  }
  return (message) => {
    switch (message._tag) {
      case "Hello":
        return Effect.succeed(ready)
      case "Model": {
        const { layout, memory, model, native, store, thread, tokenBytes } = message
        const found = native === undefined ? undefined : loadNative(native.path, native.hash)
        // without them its sums would differ from those of the other threads
        if (found !== undefined && Either.isLeft(found)) return Effect.dieMessage(found.left)
        const loaded = found?.right
        const kernels: Kernels | undefined = kernelsOver(memory, loaded)
        const space = kernels === undefined
          ? undefined
          : makeSpace(makeArchitecture(model), layout, kernels, store, thread)
        if (space === undefined) return Effect.dieMessage("the thread cannot use the memory of the models")
        models.set(model.name, makeModelThread(slices, space, tokenBytes, loaded))
        return Effect.succeed(ready)
      }
      case "Pass":
        return on(
          message.model,
          (model) => Effect.as(model.pass(message.job), { _tag: "Passed" })
        )
      case "Sample":
        return on(
          message.model,
          (model) => Effect.map(model.sample(message.job), (result) => ({ _tag: "Sampled", result }))
        )
      case "Stream": {
        const model = models.get(message.model)
        return model === undefined
          ? Stream.succeed(unprepared)
          : Stream.map(model.stream(message.job), (slice) => ({ _tag: "Drawn", slice }))
      }
      case "Publish":
        return on(
          message.model,
          (model) => Effect.as(model.publish(message.target, message.adapter), { _tag: "Published" })
        )
      case "Reused":
        return on(message.model, (model) => Effect.map(model.reused, (tokens) => ({ _tag: "Reused", tokens })))
    }
  }
}

// Loading the modules takes a second; much longer on a busy machine.
const startTimeout = "60 seconds"

interface Thread {
  readonly index: number
  readonly worker: PlatformWorker.Worker<Message, Answer>
  passes: number
  samples: number
}

/**
 * Computes on `threads` workers for as long as the scope is open. A worker that ends fails what it was doing; the
 * manager starts another in its place, which says that it is unprepared when it is first asked for something.
 *
 * @internal
 */
export const makeThreads: (
  slices: Slices,
  threads: number,
  options: ExecutorOptions
) => Effect.Effect<
  Executor,
  never,
  PlatformWorker.WorkerManager | PlatformWorker.Spawner | Scope.Scope
> = Effect.fnUntraced(function*(slices, threads, options) {
  const manager = yield* WorkerManager
  const scope = yield* Effect.scope
  const context = yield* Effect.context<PlatformWorker.Spawner>()
  const startThread = Effect.fnUntraced(function*(index: number): Effect.fn.Return<
    Thread,
    WorkerError,
    PlatformWorker.Spawner | Scope.Scope
  > {
    const worker = yield* manager.spawn<Message, Answer, never>({})
    yield* worker.executeEffect({ _tag: "Hello" })
    return { index, worker, passes: 0, samples: 0 }
  })
  // started with the first model: a server without requests has no threads
  const start = yield* Effect.cached(
    Effect.forEach(Array.from({ length: threads }, (_, index) => index), startThread, { concurrency: "unbounded" })
      .pipe(
        // a thread whose program cannot start is restarted endlessly, so the first answer has to come in time
        Effect.timeoutFail({
          duration: startTimeout,
          onTimeout: () => new WorkerError({ reason: "spawn", cause: "the engine's threads did not start in time" })
        }),
        Scope.extend(scope),
        Effect.provide(context)
      )
  )
  const floats = (length: number): Float32Array => new Float32Array(new SharedArrayBuffer(length * 4))
  const { native } = options
  return {
    mode: native === undefined ? "wasm" : "native",
    native,
    threads,
    waitingGradients: 2 * threads,
    slices,
    floats,
    pool: makePool(floats, 2 * threads + 2),
    open: Effect.fnUntraced(function*(model) {
      const { architecture, layout } = yield* checkedLayout(model, {
        ...options,
        threads,
        readsOutside: native !== undefined
      })
      const workers = yield* Effect.mapError(
        start,
        (error) => new EngineError.ModelUnavailable({ model: model.name, description: `no threads: ${error.message}` })
      )
      const memory = yield* allocate(model, () => sharedMemory(layout.floats))
      const store = yield* allocate(model, () => storeOf(architecture, layout, true))
      yield* writeWeights(architecture, layout, new Float32Array(memory.buffer), store, native, slices.run)
      const { tokenizer: _, weights: __, ...plain } = model
      const tokenBytes = tokenBytesOf(model)
      const lost = (cause: unknown) => new EngineError.ThreadLost({ model: model.name, cause })
      const send = ({ worker }: Thread, message: Message): Effect.Effect<Answer, EngineError.ThreadLost> =>
        Effect.catchAllCause(worker.executeEffect(message), (cause) =>
          Cause.isInterruptedOnly(cause)
            // the thread was interrupted, not this fiber: it is shutting down
            ? lost("it ended without an answer")
            : Effect.failCause(Cause.map(cause, (error) => lost(error.cause))))
      const prepare = (thread: Thread): Effect.Effect<void, EngineError.ThreadLost> =>
        Effect.asVoid(send(thread, {
          _tag: "Model",
          thread: thread.index,
          model: plain,
          layout,
          memory,
          store,
          native: native === undefined ? undefined : { path: native.path, hash: native.hash },
          tokenBytes
        }))
      /** Sends a message again if the thread had to be prepared first. */
      const ask = <A>(
        thread: Thread,
        message: Message,
        select: (answer: Answer) => Option.Option<A>
      ): Effect.Effect<A, EngineError.ThreadLost> =>
        send(thread, message).pipe(
          Effect.flatMap((answer) =>
            answer._tag === "Unprepared"
              ? Effect.zipRight(prepare(thread), send(thread, message))
              : Effect.succeed(answer)
          ),
          Effect.flatMap((answer) =>
            Option.match(select(answer), {
              onNone: () => Effect.dieMessage(`a thread answered ${message._tag} with ${answer._tag}`),
              onSome: Effect.succeed
            })
          )
        )
      const follow = (thread: Thread, message: Message): Stream.Stream<Slice, EngineError.ThreadLost> => {
        const answers = Stream.mapError(thread.worker.execute(message), ({ cause }) => lost(cause))
        return answers.pipe(
          Stream.flatMap((answer) =>
            answer._tag === "Unprepared"
              ? Stream.concat(Stream.drain(Stream.fromEffect(prepare(thread))), answers)
              : Stream.succeed(answer)
          ),
          Stream.filterMap((answer) => answer._tag === "Drawn" ? Option.some(answer.slice) : Option.none())
        )
      }
      /** The thread with the fewest samples. */
      const takeSampler = Effect.sync(() => {
        const chosen = workers.reduce((best, thread) => thread.samples < best.samples ? thread : best)
        chosen.samples++
        return chosen
      })
      const giveSampler = (thread: Thread) => Effect.sync(() => thread.samples--)
      /** Those with the fewest passes: not all, where a pass has fewer parts. */
      const takeTrainers = (parts: number) =>
        Effect.sync(() => {
          const chosen = workers.slice().sort((a, b) => a.passes - b.passes).slice(0, parts)
          for (const thread of chosen) thread.passes++
          return chosen
        })
      const giveTrainers = (chosen: ReadonlyArray<Thread>) =>
        Effect.sync(() => {
          for (const thread of chosen) thread.passes--
        })
      yield* Effect.forEach(workers, prepare, { concurrency: "unbounded", discard: true }).pipe(
        Effect.mapError(({ message }) => new EngineError.ModelUnavailable({ model: model.name, description: message }))
      )
      return {
        architecture,
        layout,
        pass: (job) =>
          Effect.acquireUseRelease(
            takeTrainers(partCount(job.shared)),
            Effect.forEach((thread) =>
              ask(
                thread,
                { _tag: "Pass", model: model.name, job },
                (answer) => answer._tag === "Passed" ? Option.some(undefined) : Option.none()
              ), { concurrency: "unbounded", discard: true }),
            giveTrainers
          ),
        sample: (job) =>
          Effect.acquireUseRelease(
            takeSampler,
            (thread) =>
              ask(
                thread,
                { _tag: "Sample", model: model.name, job },
                (answer) => answer._tag === "Sampled" ? Option.some(answer.result) : Option.none()
              ),
            giveSampler
          ),
        stream: (job) =>
          Stream.unwrapScoped(Effect.map(
            Effect.acquireRelease(takeSampler, giveSampler),
            (thread) => follow(thread, { _tag: "Stream", model: model.name, job })
          )),
        // A thread reads it between two slices of its work. One that is new has no samples that could follow.
        publish: (target, adapter) =>
          Effect.forEach(
            workers,
            (thread) =>
              send(thread, { _tag: "Publish", model: model.name, target, adapter }).pipe(
                Effect.ignore,
                Effect.forkIn(scope)
              ),
            { discard: true }
          ),
        reused: Effect.map(
          Effect.forEach(workers, (thread) =>
            ask(
              thread,
              { _tag: "Reused", model: model.name },
              (answer) => answer._tag === "Reused" ? Option.some(answer.tokens) : Option.none()
            )),
          (counts) => counts.reduce((sum, tokens) => sum + tokens, 0)
        )
      }
    })
  }
})

/**
 * Where the engine computes: in this thread, in slices between which the event loop turns, or on worker threads that
 * share the memory of the models.
 */
import type * as PlatformWorker from "@effect/platform/Worker"
import { WorkerManager } from "@effect/platform/Worker"
import { WorkerError } from "@effect/platform/WorkerError"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as EngineError from "../../EngineError.js"
import type { LocalModel } from "../../LocalModel.js"
import type { Architecture } from "./architecture.js"
import { makeArchitecture } from "./architecture.js"
import type { Core } from "./core.js"
import type { KernelMode, Kernels } from "./kernels.js"
import { kernelsOver, makeKernels, maxFloats, sharedMemory, wasmModule } from "./kernels.js"
import type { TokenBytes } from "./sampling.js"
import type { Layout, LayoutOptions } from "./space.js"
import { makeLayout, makeSpace } from "./space.js"
import type { ModelThread, PassJob, SampleEvent, SampleJob } from "./thread.js"
import { makeModelThread } from "./thread.js"
import { tokenBytesOf, writeWeights } from "./weights.js"

/** A model that is ready to compute. @internal */
export interface Machine extends ModelThread {
  readonly architecture: Architecture
  readonly layout: Layout
}

/** @internal */
export interface Executor {
  readonly mode: KernelMode
  readonly threads: number
  readonly core: Core
  /** Floats that every thread can read and write. */
  readonly floats: (length: number) => Float32Array
  /** Puts a model's weights in place; to be done once. */
  readonly open: (model: LocalModel) => Effect.Effect<Machine, EngineError.ModelUnavailable>
}

/** @internal */
export interface ExecutorOptions extends Omit<LayoutOptions, "threads"> {
  /** The most memory of one model, in bytes. */
  readonly memoryBytes: number
}

const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`

/** The layout of a model, or by how much it does not fit. @internal */
export const checkedLayout = (
  model: LocalModel,
  options: ExecutorOptions & LayoutOptions
): Effect.Effect<{ readonly architecture: Architecture; readonly layout: Layout }, EngineError.ModelUnavailable> => {
  const architecture = makeArchitecture(model)
  const layout = makeLayout(architecture, options)
  const limit = Math.min(maxFloats * 4, options.memoryBytes)
  if (layout.floats * 4 <= limit) return Effect.succeed({ architecture, layout })
  return new EngineError.ModelUnavailable({
    model: model.name,
    description: `needs ${gigabytes(layout.floats * 4)} of memory (${
      gigabytes(architecture.size * 4)
    } of it for the weights) with ${options.threads} thread(s) and ${model.contextLength} tokens of context; ${
      gigabytes(limit)
    } are available`
  })
}

/** Computes in this thread. @internal */
export const makeInProcess = (core: Core, wanted: KernelMode, options: ExecutorOptions): Executor => {
  const mode = wanted === "wasm" && wasmModule(false) !== undefined ? "wasm" : "js"
  return {
    mode,
    threads: 1,
    core,
    floats: (length) => new Float32Array(length),
    open: Effect.fnUntraced(function*(model) {
      const { architecture, layout } = yield* checkedLayout(model, { ...options, threads: 1 })
      const kernels = yield* allocate(model, () => makeKernels(layout.floats, mode))
      yield* writeWeights(architecture, layout, kernels.memory, core.drive)
      const space = makeSpace(architecture, layout, kernels, 0)
      if (space === undefined) return yield* Effect.dieMessage("a layout without threads")
      return { architecture, layout, ...makeModelThread(core, space, tokenBytesOf(model)) }
    })
  }
}

const allocate = <A>(model: LocalModel, make: () => A): Effect.Effect<A, EngineError.ModelUnavailable> =>
  Effect.try({
    try: make,
    catch: (cause) => new EngineError.ModelUnavailable({ model: model.name, description: `no memory: ${cause}` })
  })

/** Requests to a worker thread. @internal */
export type Message =
  /** Which of the threads it is. */
  | { readonly _tag: "Thread"; readonly thread: number }
  | {
    readonly _tag: "Model"
    /** Without what cannot be sent: the tokenizer and where the weights are from. */
    readonly model: LocalModel
    readonly layout: Layout
    readonly memory: WebAssembly.Memory
    readonly tokenBytes: TokenBytes
  }
  | { readonly _tag: "Pass"; readonly model: string; readonly job: PassJob }
  | { readonly _tag: "Sample"; readonly model: string; readonly job: SampleJob }
  | { readonly _tag: "Reused"; readonly model: string }

/** What a worker thread answers, by the tag of the message. @internal */
export type Answer =
  | { readonly _tag: "Ready" }
  | { readonly _tag: "Passed"; readonly results: Effect.Effect.Success<ReturnType<ModelThread["pass"]>> }
  | { readonly _tag: "Reused"; readonly tokens: number }
  | SampleEvent

type Worker = PlatformWorker.Worker<Message, Answer>

/** The worker's side of it. @internal */
export const makeWorkerHandler = (core: Core): (message: Message) => Stream.Stream<Answer> => {
  const models = new Map<string, ModelThread>()
  let thread = 0
  const on = <A extends Answer>(name: string, use: (model: ModelThread) => Stream.Stream<A>): Stream.Stream<A> => {
    const model = models.get(name)
    return model === undefined ? Stream.dieMessage(`the thread does not know ${name}`) : use(model)
  }
  const ready: Answer = { _tag: "Ready" }
  return (message) => {
    switch (message._tag) {
      case "Thread":
        thread = message.thread
        return Stream.succeed(ready)
      case "Model": {
        const { layout, memory, model, tokenBytes } = message
        const kernels: Kernels | undefined = kernelsOver(memory)
        const space = kernels === undefined
          ? undefined
          : makeSpace(makeArchitecture(model), layout, kernels, thread)
        if (space === undefined) return Stream.dieMessage("the thread cannot use the memory of the models")
        models.set(model.name, makeModelThread(core, space, tokenBytes))
        return Stream.succeed(ready)
      }
      case "Pass":
        return on(
          message.model,
          (model) =>
            Stream.fromEffect(Effect.map(model.pass(message.job), (results): Answer => ({ _tag: "Passed", results })))
        )
      case "Sample":
        return on(message.model, (model) => model.sample(message.job))
      case "Reused":
        return on(
          message.model,
          (model) => Stream.fromEffect(Effect.map(model.reused, (tokens): Answer => ({ _tag: "Reused", tokens })))
        )
    }
  }
}

// Loading the modules takes a second; much longer on a busy machine.
const startTimeout = "60 seconds"

/** Computes on `threads` workers for as long as the scope is open. @internal */
export const makeThreads: (
  core: Core,
  threads: number,
  options: ExecutorOptions
) => Effect.Effect<
  Executor,
  never,
  PlatformWorker.WorkerManager | PlatformWorker.Spawner | Scope.Scope
> = Effect.fnUntraced(function*(core, threads, options) {
  const manager = yield* WorkerManager
  const scope = yield* Effect.scope
  const context = yield* Effect.context<PlatformWorker.Spawner>()
  // started with the first model: a server that nobody uses has no threads
  const start = yield* Effect.cached(
    Effect.forEach(
      Array.from({ length: threads }, (_, thread) => thread),
      (thread) =>
        Effect.gen(function*() {
          const worker = yield* manager.spawn<Message, Answer, never>({})
          // a thread whose program cannot start is restarted endlessly, so the first answer has to come in time
          yield* worker.executeEffect({ _tag: "Thread", thread }).pipe(
            Effect.timeoutFail({
              duration: startTimeout,
              onTimeout: () => new WorkerError({ reason: "spawn", cause: "the engine's thread did not start in time" })
            })
          )
          return { worker, passes: 0, samples: 0 }
        }),
      { concurrency: "unbounded" }
    ).pipe(Scope.extend(scope), Effect.provide(context))
  )
  type Workers = Effect.Effect.Success<typeof start>
  type Load = "passes" | "samples"
  /** The thread with the least to do: passes weigh on passes, and samples on samples. */
  const idlest = (workers: Workers, load: Load) =>
    workers.reduce((best, worker) => worker[load] < best[load] ? worker : best)
  /** Counts what a thread is busy with while the stream is read. */
  const dispatch = (workers: Workers, load: Load, message: Message): Stream.Stream<Answer> =>
    Stream.unwrapScoped(
      Effect.map(
        Effect.acquireRelease(
          Effect.sync(() => {
            const chosen = idlest(workers, load)
            chosen[load]++
            return chosen
          }),
          (chosen) => Effect.sync(() => chosen[load]--)
        ),
        ({ worker }) => Stream.orDie(worker.execute(message))
      )
    )
  const ask = (worker: Worker, message: Message) => Effect.orDie(worker.executeEffect(message))
  return {
    mode: "wasm",
    threads,
    core,
    floats: (length) => new Float32Array(new SharedArrayBuffer(length * 4)),
    open: Effect.fnUntraced(function*(model) {
      const { architecture, layout } = yield* checkedLayout(model, { ...options, threads })
      const workers = yield* Effect.mapError(
        start,
        (error) => new EngineError.ModelUnavailable({ model: model.name, description: `no threads: ${error.message}` })
      )
      const memory = yield* allocate(model, () => sharedMemory(layout.floats))
      yield* writeWeights(architecture, layout, new Float32Array(memory.buffer), core.drive)
      const { tokenizer: _, weights: __, ...plain } = model
      const tokenBytes = tokenBytesOf(model)
      yield* Effect.forEach(
        workers,
        ({ worker }) => ask(worker, { _tag: "Model", model: plain, layout, memory, tokenBytes }),
        { concurrency: "unbounded", discard: true }
      )
      return {
        architecture,
        layout,
        pass: (job) =>
          Stream.runLast(dispatch(workers, "passes", { _tag: "Pass", model: model.name, job })).pipe(
            Effect.flatMap((answer) =>
              answer._tag === "Some" && answer.value._tag === "Passed"
                ? Effect.succeed(answer.value.results)
                : Effect.dieMessage("a thread ended without an answer")
            )
          ),
        sample: (job) =>
          Stream.mapEffect(
            dispatch(workers, "samples", { _tag: "Sample", model: model.name, job }),
            (answer): Effect.Effect<SampleEvent> =>
              answer._tag === "Ready" || answer._tag === "Passed" || answer._tag === "Reused"
                ? Effect.dieMessage("a thread gave an answer to something else")
                : Effect.succeed(answer)
          ),
        reused: Effect.map(
          Effect.forEach(workers, ({ worker }) => ask(worker, { _tag: "Reused", model: model.name })),
          (answers) => answers.reduce((sum, answer) => sum + (answer._tag === "Reused" ? answer.tokens : 0), 0)
        )
      }
    })
  }
})

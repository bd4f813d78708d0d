/**
 * Programs a model wrote, run on worker threads with limits of time and memory.
 *
 * A program sees the language and its arguments, and nothing else: no modules, no network, no files, no clock of ours. That
 * keeps mistakes away from the rest of the process; it is no defence against somebody who looks for a way out of it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Pool from "effect/Pool"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { Worker } from "node:worker_threads"

/**
 * Why a program gave no results.
 *
 * - `Timeout`, `OutOfMemory`: it reached a limit.
 * - `Thrown`: it failed, or is not a program.
 * - `Unserializable`: its results cannot be written as JSON, or are larger than allowed.
 *
 * @since 0.1.0
 * @category errors
 */
export class SandboxFailed
  extends Schema.TaggedError<SandboxFailed>("@effect-tinker/cookbook/NodeSandbox/SandboxFailed")(
    "SandboxFailed",
    { reason: Schema.Literal("Timeout", "OutOfMemory", "Thrown", "Unserializable"), description: Schema.String }
  )
{
  override get message(): string {
    return `${this.reason}: ${this.description}`
  }
}

/**
 * The limits of a sandbox.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Time a program may run, beside the start of its thread. Defaults to one second. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Memory of a thread in MiB. Defaults to 64. */
  readonly memory?: number | undefined
  /** Characters the results may have as JSON. Defaults to 1,000,000. */
  readonly maxOutput?: number | undefined
  /** Threads, and so programs at once. Defaults to 2. */
  readonly threads?: number | undefined
}

/**
 * Runs programs.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /**
   * Evaluates the source of a function in JavaScript and calls it with each list of arguments: what it returns, as JSON
   * has it.
   */
  readonly call: (
    source: string,
    calls: ReadonlyArray<ReadonlyArray<unknown>>
  ) => Effect.Effect<ReadonlyArray<unknown>, SandboxFailed>
}

/**
 * Runs programs.
 *
 * @since 0.1.0
 * @category services
 */
export class NodeSandbox extends Context.Tag("@effect-tinker/cookbook/NodeSandbox")<NodeSandbox, Service>() {}

/**
 * What a thread runs. Only strings go into a program's world and come out of it, so that it never holds an object of ours
 * whose constructors lead back here.
 */
const program = `
const { parentPort } = require("node:worker_threads")
const vm = require("node:vm")
parentPort.on("message", ({ source, calls, timeout }) => {
  let answer
  try {
    const world = vm.createContext(Object.create(null), { codeGeneration: { strings: false, wasm: false } })
    const script = "JSON.stringify(JSON.parse(" + JSON.stringify(calls) + ").map((args) => { const value = (" + source +
      "\\n)(...args); return value === undefined ? null : value }))"
    const output = vm.runInContext(script, world, { timeout })
    answer = typeof output === "string" ? { output } : { reason: "Unserializable", description: "no JSON" }
  } catch (error) {
    let description = "unknown"
    try { description = String(error && error.message || error) } catch {}
    const timedOut = error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
    answer = { reason: timedOut ? "Timeout" : "Thrown", description }
  }
  parentPort.postMessage(answer)
})
`

/** What a thread says. */
const Answer = Schema.Union(
  Schema.Struct({ output: Schema.String }),
  Schema.Struct({ reason: Schema.Literal("Timeout", "Thrown", "Unserializable"), description: Schema.String })
)

const decodeAnswer = Schema.decodeUnknownSync(Answer)
const decodeOutput = Schema.decodeUnknownSync(Schema.parseJson(Schema.Array(Schema.Unknown)))

/** How long a thread may take beyond the time of its program before it is given up. */
const grace = Duration.seconds(10)

const spawn = (memory: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const worker = new Worker(program, {
        eval: true,
        env: {},
        execArgv: [],
        stdout: true,
        stderr: true,
        resourceLimits: {
          maxOldGenerationSizeMb: memory,
          maxYoungGenerationSizeMb: Math.max(1, memory / 4),
          stackSizeMb: 4
        }
      })
      // A thread that waits for work keeps no process alive.
      worker.unref()
      worker.on("error", () => undefined)
      return worker
    }),
    (worker) => Effect.promise(() => worker.terminate())
  )

const ask = (worker: Worker, request: unknown): Effect.Effect<typeof Answer.Type, SandboxFailed> =>
  Effect.async((resume) => {
    const settle = (result: Effect.Effect<typeof Answer.Type, SandboxFailed>) => {
      detach()
      resume(result)
    }
    const answered = (answer: unknown) => settle(Effect.sync(() => decodeAnswer(answer)))
    const failed = (error: Error & { readonly code?: string }) =>
      settle(
        new SandboxFailed({
          reason: error.code === "ERR_WORKER_OUT_OF_MEMORY" ? "OutOfMemory" : "Thrown",
          description: error.message
        })
      )
    const ended = () => failed(new Error("its thread ended"))
    const detach = () => {
      worker.off("message", answered)
      worker.off("error", failed)
      worker.off("exit", ended)
    }
    worker.on("message", answered)
    worker.on("error", failed)
    worker.on("exit", ended)
    worker.postMessage(request)
    return Effect.sync(detach)
  })

/**
 * A sandbox with its own threads, until the scope closes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options?: Options) => Effect.Effect<Service, never, Scope.Scope> = Effect.fnUntraced(
  function*(options) {
    const timeout = Duration.decode(options?.timeout ?? "1 second")
    const maxOutput = options?.maxOutput ?? 1_000_000
    const pool = yield* Pool.make({ acquire: spawn(options?.memory ?? 64), size: options?.threads ?? 2 })
    return {
      call: Effect.fnUntraced(function*(source, calls) {
        const worker = yield* pool.get
        const request = { source, calls: JSON.stringify(calls), timeout: Math.max(1, Duration.toMillis(timeout)) }
        const answer = yield* ask(worker, request).pipe(
          Effect.timeoutFail({
            duration: Duration.sum(timeout, grace),
            onTimeout: () => new SandboxFailed({ reason: "Timeout", description: "its thread did not answer in time" })
          }),
          // Whatever state the thread is in, the next program gets another one.
          Effect.onExit((exit) => exit._tag === "Success" ? Effect.void : pool.invalidate(worker))
        )
        if ("reason" in answer) return yield* new SandboxFailed(answer)
        if (answer.output.length > maxOutput) {
          const description = `${answer.output.length} characters, of ${maxOutput} allowed`
          return yield* new SandboxFailed({ reason: "Unserializable", description })
        }
        return decodeOutput(answer.output)
      }, Effect.scoped)
    }
  }
)

/**
 * A sandbox.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Options): Layer.Layer<NodeSandbox> => Layer.scoped(NodeSandbox, make(options))

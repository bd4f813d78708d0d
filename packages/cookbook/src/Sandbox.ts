/**
 * Programs a model wrote, run where they can do no harm: files in, a command or a function, files out, within limits.
 *
 * This module is the interface. `NodeSandbox` has the layers: QuickJS in WebAssembly, bubblewrap on Linux, and any command
 * that puts another one into a container. `make` adapts a sandbox of another kind, such as a hosted one.
 *
 * A program may claim anything as its own result. Whether a result is right is decided outside, by comparing it with values
 * the program has never seen: tests that pass within the sandbox, or an exit code of 0, prove nothing.
 *
 * @since 0.2.0
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import { decodeResults } from "./internal/sandbox/answer.js"
import { isPath } from "./internal/sandbox/path.js"
import { call as callFiles } from "./internal/sandbox/program.js"

/**
 * Why a program gave no results. The program is at fault, so that it may be scored: a reward of 0, for example.
 *
 * - `Timeout`: it did not end in time, or waits for something that never happens.
 * - `OutOfMemory`, `OutputTooLarge`: it reached a limit.
 * - `Thrown`: it failed, or is no program.
 * - `Unserializable`: its results are no JSON.
 * - `Crashed`: it ended without a result.
 *
 * @since 0.2.0
 * @category errors
 */
export class SandboxFailed extends Schema.TaggedError<SandboxFailed>("@effect-tinker/cookbook/Sandbox/SandboxFailed")(
  "SandboxFailed",
  {
    reason: Schema.Literal("Timeout", "OutOfMemory", "OutputTooLarge", "Thrown", "Unserializable", "Crashed"),
    description: Schema.String
  }
) {
  override get message(): string {
    return `${this.reason}: ${this.description}`
  }
}

/**
 * The sandbox cannot run the program, which says nothing about the program: never a reward.
 *
 * @since 0.2.0
 * @category errors
 */
export class SandboxUnavailable
  extends Schema.TaggedError<SandboxUnavailable>("@effect-tinker/cookbook/Sandbox/SandboxUnavailable")(
    "SandboxUnavailable",
    { sandbox: Schema.String, description: Schema.String }
  )
{
  override get message(): string {
    return `The sandbox "${this.sandbox}" is not available: ${this.description}`
  }
}

/**
 * The limits of one program. Those that are left out are the layer's.
 *
 * @since 0.2.0
 * @category models
 */
export interface Limits {
  /** Time by the clock, beside the start of the sandbox. Defaults to 10 seconds. */
  readonly time?: Duration.DurationInput | undefined
  /** CPU time of each process, in whole seconds. Defaults to `time`. */
  readonly cpu?: Duration.DurationInput | undefined
  /** Bytes of memory. Defaults to 64 MiB for QuickJS and 512 MiB for processes. */
  readonly memory?: number | undefined
  /** Processes and threads at once. Defaults to 64. */
  readonly processes?: number | undefined
  /** Bytes of the results of a function; of standard output, and of standard error. Defaults to 1,000,000. */
  readonly output?: number | undefined
  /** Bytes of files. Defaults to 64 MiB. */
  readonly disk?: number | undefined
}

/**
 * Every limit, as an adapter receives them.
 *
 * @since 0.2.0
 * @category models
 */
export interface ResolvedLimits {
  readonly time: Duration.Duration
  readonly cpu: Duration.Duration
  readonly memory: number
  readonly processes: number
  readonly output: number
  readonly disk: number
}

/**
 * The files of a working directory as they were, links and permissions included. It only means something to the sandbox
 * that made it, which unpacks it inside.
 *
 * @since 0.2.0
 * @category models
 */
export interface Snapshot {
  readonly bytes: Uint8Array
}

/**
 * A command to run. It starts in an empty working directory, with an empty environment.
 *
 * @since 0.2.0
 * @category models
 */
export interface Command {
  /** The program and its arguments. No shell is in between. */
  readonly command: readonly [string, ...ReadonlyArray<string>]
  /** Files by their path in the working directory. */
  readonly files?: Readonly<Record<string, string | Uint8Array>> | undefined
  /** The working directory to start from, before `files` are written. */
  readonly from?: Snapshot | undefined
  /** Standard input. */
  readonly stdin?: string | Uint8Array | undefined
  /** Paths of the files and directories to hand back. Those that are missing are left out. */
  readonly outputs?: ReadonlyArray<string> | undefined
  /** Whether to hand back the whole working directory as a `Snapshot`. */
  readonly snapshot?: boolean | undefined
  readonly limits?: Limits | undefined
}

/**
 * A command with nothing left out, as an adapter receives it. Paths have been checked: relative, and within.
 *
 * @since 0.2.0
 * @category models
 */
export interface Request {
  readonly command: readonly [string, ...ReadonlyArray<string>]
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly from: Snapshot | undefined
  readonly stdin: Uint8Array
  readonly outputs: ReadonlyArray<string>
  readonly snapshot: boolean
  readonly limits: ResolvedLimits
}

/**
 * The results of a command that ended within its limits, whatever its exit code.
 *
 * @since 0.2.0
 * @category models
 */
export interface Result {
  /** 128 and the number of the signal, where one ended it. */
  readonly exitCode: number
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
  /** The files of `outputs` by their path in the working directory; regular files only. */
  readonly files: ReadonlyMap<string, Uint8Array>
  /** Present where it was asked for. */
  readonly snapshot?: Snapshot | undefined
}

/**
 * Runs programs, each from the beginning: none finds anything of the one before it.
 *
 * @since 0.2.0
 * @category models
 */
export interface Service {
  /** The kind of sandbox: `quickjs`, `bubblewrap`, or what its adapter says. */
  readonly name: string
  /**
   * Evaluates the source of a function in JavaScript and calls it with each list of arguments: what it returns, or the
   * promise it returns comes to, as JSON has it.
   */
  readonly call: (
    source: string,
    calls: ReadonlyArray<ReadonlyArray<unknown>>,
    limits?: Limits
  ) => Effect.Effect<ReadonlyArray<unknown>, SandboxFailed | SandboxUnavailable>
  /** Runs a command. A sandbox for functions only fails with `SandboxUnavailable`. */
  readonly run: (command: Command) => Effect.Effect<Result, SandboxFailed | SandboxUnavailable>
}

/**
 * Runs programs.
 *
 * @since 0.2.0
 * @category services
 */
export class Sandbox extends Context.Tag("@effect-tinker/cookbook/Sandbox")<Sandbox, Service>() {}

const mebibyte = 1024 * 1024

/**
 * Limits with nothing left out: those given first, then those of the layer, then the defaults.
 *
 * @since 0.2.0
 * @category constructors
 */
export const resolve = (...given: ReadonlyArray<Limits | undefined>): ResolvedLimits => {
  const first = <K extends keyof Limits>(name: K) => given.find((limits) => limits?.[name] !== undefined)?.[name]
  const time = Duration.decode(first("time") ?? "10 seconds")
  return {
    time,
    cpu: Duration.decode(first("cpu") ?? time),
    memory: first("memory") ?? 512 * mebibyte,
    processes: first("processes") ?? 64,
    output: first("output") ?? 1_000_000,
    disk: first("disk") ?? 64 * mebibyte
  }
}

/**
 * An adapter: how commands are run somewhere.
 *
 * @since 0.2.0
 * @category models
 */
export interface Adapter {
  readonly name: string
  /** Runs one command from the beginning, with the environment empty and nothing left of the commands before. */
  readonly run: (request: Request) => Effect.Effect<Result, SandboxFailed | SandboxUnavailable>
  readonly limits?: Limits | undefined
  /** Programs at once. Defaults to 2. */
  readonly concurrency?: number | undefined
  /** Node.js in the sandbox, which runs the functions of `call`. Defaults to `node`. */
  readonly node?: string | undefined
}

/** Time an adapter may take beyond that of its program, to start and to end. */
const grace = Duration.seconds(90)

const encoder = new TextEncoder()
const bytesOf = (data: string | Uint8Array): Uint8Array => typeof data === "string" ? encoder.encode(data) : data

/**
 * A sandbox of an adapter. What the adapter returns is checked against the limits again, and an adapter that does not
 * return is given up.
 *
 * @since 0.2.0
 * @category constructors
 */
export const make = (adapter: Adapter): Service => {
  const turns = Permits.unsafeMake(adapter.concurrency ?? 2)
  const run: Service["run"] = Effect.fnUntraced(function*(command) {
    const limits = resolve(command.limits, adapter.limits)
    const refuse = (description: string) => new SandboxUnavailable({ sandbox: adapter.name, description })
    const files = new Map<string, Uint8Array>()
    for (const [path, data] of Object.entries(command.files ?? {})) {
      if (!isPath(path)) return yield* refuse(`${JSON.stringify(path)} is no path in the working directory`)
      files.set(path, bytesOf(data))
    }
    for (const path of command.outputs ?? []) {
      if (!isPath(path)) return yield* refuse(`${JSON.stringify(path)} is no path in the working directory`)
    }
    const result = yield* adapter.run({
      command: command.command,
      files,
      from: command.from,
      stdin: bytesOf(command.stdin ?? ""),
      outputs: command.outputs ?? [],
      snapshot: command.snapshot ?? false,
      limits
    }).pipe(
      Effect.timeoutFail({
        duration: Duration.sum(limits.time, grace),
        onTimeout: () => refuse("it did not answer in time")
      }),
      turns.withPermits(1)
    )
    let size = result.snapshot?.bytes.length ?? 0
    for (const file of result.files.values()) size += file.length
    const tooLarge = (description: string) => new SandboxFailed({ reason: "OutputTooLarge", description })
    if (size > 2 * limits.disk) return yield* tooLarge(`files of ${size} bytes`)
    for (const stream of ["stdout", "stderr"] as const) {
      const { length } = result[stream]
      if (length > limits.output) return yield* tooLarge(`${length} bytes of ${stream}, of ${limits.output} allowed`)
    }
    return result
  })
  return {
    name: adapter.name,
    run,
    call: Effect.fnUntraced(function*(source, calls, given) {
      const limits = resolve(given, adapter.limits)
      const { files, flags, main, output } = callFiles(source, calls, limits)
      const result = yield* run({
        command: [adapter.node ?? "node", ...flags, main],
        files,
        outputs: [output],
        limits: { ...limits, output: limits.output + overhead }
      })
      const answer = result.files.get(output)
      if (answer === undefined) {
        const said = new TextDecoder().decode(result.stderr.subarray(-20_000))
        return yield* result.exitCode === 127
          ? new SandboxUnavailable({ sandbox: adapter.name, description: "it has no Node.js" })
          : /out of memory|Allocation failed/i.test(said)
          ? new SandboxFailed({ reason: "OutOfMemory", description: "Node.js ran out of memory" })
          : new SandboxFailed({ reason: "Crashed", description: `exit code ${result.exitCode} without a result` })
      }
      return yield* Either.mapLeft(
        decodeResults(answer, calls.length, limits.output),
        (failure) => new SandboxFailed(failure)
      )
    })
  }
}

/** Bytes of an answer around its results. */
const overhead = 10_000

/**
 * A working directory that commands share, one after another.
 *
 * @since 0.2.0
 * @category models
 */
export interface Workspace {
  /** Runs a command on the files as the one before left them. One that fails leaves them as they were before it. */
  readonly run: (command: Omit<Command, "from">) => Effect.Effect<Result, SandboxFailed | SandboxUnavailable>
  /** The files as they are; none before the first command. */
  readonly snapshot: Effect.Effect<Snapshot | undefined>
  /** Puts back the files of a snapshot; without one, empties the directory. */
  readonly reset: (snapshot?: Snapshot) => Effect.Effect<void>
}

/**
 * A working directory that commands share, one after another. Between commands it is a value here and no process is left,
 * so that a reset is exact and two workspaces may start from one snapshot.
 *
 * @since 0.2.0
 * @category constructors
 */
export const workspace: (from?: Snapshot) => Effect.Effect<Workspace, never, Sandbox> = Effect.fnUntraced(
  function*(from) {
    const sandbox = yield* Sandbox
    const state = yield* Ref.make(from)
    const turn = yield* Permits.make(1)
    return {
      run: (command) =>
        Effect.gen(function*() {
          const result = yield* sandbox.run({ ...command, from: yield* Ref.get(state), snapshot: true })
          yield* Ref.set(state, result.snapshot)
          return result
        }).pipe(turn.withPermits(1)),
      snapshot: Ref.get(state),
      reset: (snapshot) => Ref.set(state, snapshot).pipe(turn.withPermits(1))
    }
  }
)

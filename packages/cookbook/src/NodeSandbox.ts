/**
 * Sandboxes on Node.js: QuickJS in WebAssembly for functions in JavaScript, wherever Node.js runs; bubblewrap on Linux for
 * commands; and any command that puts another one into a container.
 *
 * No layer becomes a weaker one by itself: where it cannot run, it fails with `SandboxUnavailable`.
 *
 * @since 0.1.0
 */
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Pool from "effect/Pool"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import * as NodeFs from "node:fs"
import { createRequire } from "node:module"
import { Writable } from "node:stream"
import { pathToFileURL } from "node:url"
import { Worker } from "node:worker_threads"
import { clean, decodeResults } from "./internal/sandbox/answer.js"
import { isPath } from "./internal/sandbox/path.js"
import { filter } from "./internal/sandbox/seccomp.js"
import * as Tar from "./internal/sandbox/tar.js"
import { thread } from "./internal/sandbox/thread.js"
import { limitMemory } from "./internal/sandbox/wasm.js"
import * as Sandbox from "./Sandbox.js"

const unavailable = (sandbox: string) => (description: string) =>
  new Sandbox.SandboxUnavailable({ sandbox, description: clean(description) })

const failed = (reason: Sandbox.SandboxFailed["reason"], description: string) =>
  new Sandbox.SandboxFailed({ reason, description: clean(description) })

// =====================================================================================================================
// QuickJS
// =====================================================================================================================

/**
 * Options of a sandbox in WebAssembly.
 *
 * @since 0.2.0
 * @category models
 */
export interface QuickJsOptions {
  /** Of these, `time`, `memory` and `output` apply: a program has no files and no processes. */
  readonly limits?: Sandbox.Limits | undefined
  /** Threads, and so programs at once. Defaults to 2. */
  readonly threads?: number | undefined
}

/** Time a thread may take beyond that of its program before it is ended: the engine looks at the clock by itself. */
const patience = Duration.seconds(5)

const Said = Schema.Union(
  Schema.Struct({ text: Schema.String }),
  Schema.Struct({ broken: Schema.String }),
  Schema.Struct({
    reason: Schema.Literal("Timeout", "OutOfMemory", "OutputTooLarge", "Unserializable", "Crashed"),
    description: Schema.String
  })
)
const decodeSaid = Schema.decodeUnknown(Said)

interface Thread {
  readonly worker: Worker
  /** Sends a program and gives what the thread says, or why it says nothing. */
  readonly ask: (request: unknown) => Effect.Effect<unknown, Error>
}

const startThread = (data: unknown): Effect.Effect<Thread, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const worker = new Worker(thread, {
        eval: true,
        env: {},
        execArgv: [],
        stdout: true,
        stderr: true,
        workerData: data,
        resourceLimits: { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 }
      })
      // A thread that waits for work keeps no process alive.
      worker.unref()
      let ended: Error | undefined
      worker.on("error", (error) => ended ??= error)
      worker.on("exit", () => ended ??= new Error("its thread ended"))
      const ask: Thread["ask"] = (request) =>
        Effect.async((resume) => {
          const answered = (answer: unknown) => settle(Effect.succeed(answer))
          const failed = () => settle(Effect.fail(ended ?? new Error("its thread ended")))
          const detach = () => {
            worker.off("message", answered)
            worker.off("exit", failed)
          }
          const settle = (result: Effect.Effect<unknown, Error>) => {
            detach()
            resume(result)
          }
          if (ended !== undefined) return failed()
          worker.on("message", answered)
          worker.on("exit", failed)
          worker.postMessage(request)
          return Effect.sync(detach)
        })
      return { worker, ask }
    }),
    ({ worker }) => Effect.promise(() => worker.terminate())
  )

/**
 * A sandbox for functions in JavaScript: QuickJS in WebAssembly, on threads of its own, until the scope closes. Needs the
 * package `quickjs-wasi`.
 *
 * A program has the language and nothing else: no modules, files, network, timers, or clock that goes by itself. Each one has
 * an instance of the module of its own, whose memory cannot grow beyond the limit.
 *
 * @since 0.2.0
 * @category constructors
 */
export const makeQuickJs: (
  options?: QuickJsOptions
) => Effect.Effect<Sandbox.Service, Sandbox.SandboxUnavailable, Scope.Scope> = Effect.fnUntraced(function*(options) {
  const refuse = unavailable("quickjs")
  const defaults = Sandbox.resolve(options?.limits, { memory: 64 * 1024 * 1024 })
  const { quickjs, source } = yield* Effect.try({
    try: () => {
      const require = createRequire(import.meta.url)
      return {
        quickjs: pathToFileURL(require.resolve("quickjs-wasi")).href,
        source: NodeFs.readFileSync(require.resolve("quickjs-wasi/quickjs.wasm"))
      }
    },
    catch: () => refuse("it needs the package quickjs-wasi: npm install quickjs-wasi")
  })
  const pages = Math.floor(defaults.memory / 65_536)
  const limited = limitMemory(source, pages)
  if (limited === undefined || limited.initial >= pages) {
    return yield* refuse(`it needs more than ${(limited?.initial ?? 0) * 65_536} bytes of memory`)
  }
  const module = yield* Effect.tryPromise({
    try: () => WebAssembly.compile(limited.bytes),
    catch: (error) => refuse(String(error))
  })
  const pool = yield* Pool.make({
    acquire: startThread({ module, quickjs, memory: defaults.memory }),
    size: options?.threads ?? 2
  })
  return {
    name: "quickjs",
    run: () => refuse("it runs functions in JavaScript, no commands"),
    call: Effect.fnUntraced(function*(source, calls, given) {
      const { memory, output, time } = Sandbox.resolve(given, defaults)
      if (memory !== defaults.memory) return yield* refuse("its memory is that of the layer")
      const lists = JSON.stringify(calls)
      if (source.length + lists.length > memory / 8) return yield* failed("OutOfMemory", "the program is too long")
      const slot = yield* pool.get
      const said = yield* slot.ask({ source, calls: lists, allowed: output, time: Duration.toMillis(time) }).pipe(
        Effect.mapError((error) => failed("Crashed", error.message)),
        Effect.timeoutFail({
          duration: Duration.sum(time, patience),
          onTimeout: () => failed("Timeout", "its thread did not answer in time")
        }),
        Effect.flatMap((said) => Effect.orDie(decodeSaid(said))),
        // A thread whose program did anything but answer is not used again.
        Effect.tap((said) => "text" in said ? Effect.void : pool.invalidate(slot)),
        Effect.onExit((exit) => exit._tag === "Success" ? Effect.void : pool.invalidate(slot))
      )
      if ("broken" in said) return yield* refuse(said.broken)
      if ("reason" in said) return yield* failed(said.reason, said.description)
      return yield* Effect.mapError(
        decodeResults(new TextEncoder().encode(said.text), calls.length, output),
        (failure) => new Sandbox.SandboxFailed(failure)
      )
    }, Effect.scoped)
  }
})

/**
 * A sandbox for functions in JavaScript: QuickJS in WebAssembly, on threads of its own.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerQuickJs = (
  options?: QuickJsOptions
): Layer.Layer<Sandbox.Sandbox, Sandbox.SandboxUnavailable> => Layer.scoped(Sandbox.Sandbox, makeQuickJs(options))

// =====================================================================================================================
// Commands
// =====================================================================================================================

/**
 * A command that puts another one into a container.
 *
 * @since 0.2.0
 * @category models
 */
export interface CommandOptions {
  /** The kind of sandbox, for errors. */
  readonly name: string
  /**
   * The command that runs another one in a new container, with its standard streams attached: `docker run --rm -i …`. The
   * limits are the container's to hold; time and output are also held from outside. `id` is new every time: a name for the
   * container, for example.
   */
  readonly wrap: (
    command: readonly [string, ...ReadonlyArray<string>],
    options: { readonly limits: Sandbox.ResolvedLimits; readonly id: string }
  ) => readonly [string, ...ReadonlyArray<string>]
  /** The command that ends a container whose command was killed, where that does not end it: `docker kill ID`. */
  readonly stop?: ((id: string) => readonly [string, ...ReadonlyArray<string>]) | undefined
  /** A directory in the container in which files can be written. Defaults to `/tmp`. */
  readonly directory?: string | undefined
  /** Environment of the command itself, not of the program. Defaults to an empty one. */
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly limits?: Sandbox.Limits | undefined
  /** Programs at once. Defaults to 2. */
  readonly concurrency?: number | undefined
  /** Node.js in the container. Defaults to `node`. */
  readonly node?: string | undefined
}

/** Options of bubblewrap on top of those of a command that wraps another. */
interface Extras {
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  /** Bytes that the command reads from its fourth file descriptor. */
  readonly extra?: Uint8Array | undefined
  /** Called while the program runs; what it returns is why the program is ended. */
  readonly watch?: ((pid: number, limits: Sandbox.ResolvedLimits) => Sandbox.SandboxFailed | undefined) | undefined
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/**
 * The shell script around a program: it unpacks the files from its standard input, says that it is ready, runs the program,
 * and writes what came of it to its standard output, as one archive or two. All of it happens inside, so that links among
 * the files lead nowhere else.
 */
const script = ({ outputs, snapshot }: Sandbox.Request): string =>
  [
    `cd "$0" && mkdir work control && echo 000 >control/exit && tar -xf - && cd work || exit 125`,
    "echo ready",
    `env -i "$@" <../control/stdin >../control/stdout 2>../control/stderr`,
    // In place: there may be no room left.
    `printf '%03d\\n' $? 1<>../control/exit`,
    "cd ..",
    "set -- control/exit control/stdout control/stderr",
    ...outputs.map((path) => {
      const file = quoted(`work/${path}`)
      return `if [ -e ${file} ]; then set -- "$@" ${file}; fi`
    }),
    `tar -cf - "$@"`,
    ...snapshot ? ["tar -cf - work"] : []
  ].join("\n")

const ready = "ready\n"

/** Time in which a container has to start. */
const startTime = Duration.seconds(60)

/** Time between looks at the memory of all processes. */
const watchEvery = Duration.millis(25)

/** The exit code of a process that had too much CPU time. */
const outOfTime = 128 + 24

type Ended = Effect.Effect<Uint8Array, Sandbox.SandboxFailed | Sandbox.SandboxUnavailable>

/** Sends a signal to a process or, where negative, a group that may have ended meanwhile. */
const signal = (pid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}

/** The processes that a process has started, where the system tells. */
const childrenOf = (pid: number): ReadonlyArray<number> => {
  try {
    return NodeFs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter((id) => id !== "").map(
      Number
    )
  } catch {
    return []
  }
}

/** Starts a command; it is killed when the scope closes, if it has not ended. */
const start = (options: CommandOptions & Extras, request: Sandbox.Request, id: string) =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      const { limits } = request
      const refuse = unavailable(options.name)
      const started = yield* Deferred.make<void>()
      const ended = yield* Deferred.make<Uint8Array, Sandbox.SandboxFailed | Sandbox.SandboxUnavailable>()
      const env = options.env ?? {}
      const inner = ["sh", "-c", script(request), options.directory ?? "/tmp", ...request.command] as const
      const [file, ...args] = options.wrap(inner, { limits, id })
      const child = spawn(file, args, {
        cwd: "/",
        env,
        stdio: ["pipe", "pipe", "pipe", ...options.extra === undefined ? [] : ["pipe" as const]],
        // A group of its own, which is killed as one.
        detached: true,
        ...options.user
      })
      let over = false
      const settle = (result: Ended) => {
        over = true
        Deferred.unsafeDone(ended, result)
        Deferred.unsafeDone(started, Effect.void)
      }
      const chunks: Array<Buffer> = []
      let size = 0
      let said = ""
      const most = ready.length + 2 * limits.output + (request.outputs.length > 0 ? limits.disk : 0) +
        (request.snapshot ? 2 * limits.disk : 0) + 256 * 1024
      child.stdout.on("data", (chunk: Buffer) => {
        size += chunk.length
        // A stream that goes on does so into nothing, until the process is killed.
        if (size > most) return settle(failed("OutputTooLarge", `more than ${most} bytes of output and files`))
        chunks.push(chunk)
        if (size >= ready.length) Deferred.unsafeDone(started, Effect.void)
      })
      child.stderr.on("data", (chunk: Buffer) => {
        if (said.length < 4000) said += chunk.toString("latin1")
      })
      child.on("error", (error) => settle(refuse(error.message)))
      child.on("close", (code) => {
        const all = Buffer.concat(chunks)
        settle(
          all.toString("latin1", 0, ready.length) === ready
            ? Effect.succeed(all.subarray(ready.length))
            : refuse(said.trim() || `it ended with exit code ${code}`)
        )
      })
      // A program that ends early does not read everything.
      for (const stream of [child.stdin, child.stdio[3]]) stream?.on("error", () => undefined)
      const fourth = child.stdio[3]
      if (options.extra !== undefined && fourth instanceof Writable) fourth.end(options.extra)
      const files = Array.from(request.files, ([path, data]) => [`work/${path}`, data] as const)
      child.stdin.end(Tar.write([["control/stdin", request.stdin], ...files], request.from?.bytes))
      const kill = Effect.sync(() => {
        if (over || child.pid === undefined) return
        // bubblewrap's child does not end with it while the sandbox is still being set up. Stopped, it makes no other one.
        signal(child.pid, "SIGSTOP")
        for (const pid of childrenOf(child.pid)) signal(pid, "SIGKILL")
        signal(-child.pid, "SIGKILL")
        if (options.stop === undefined) return
        const [stop, ...stopArgs] = options.stop(id)
        spawn(stop, stopArgs, { env, stdio: "ignore" }).on("error", () => undefined).unref()
      })
      return { ended: Deferred.await(ended), kill, pid: child.pid, started: Deferred.await(started) }
    }),
    ({ kill }) => kill
  )

const execute = Effect.fnUntraced(function*(options: CommandOptions & Extras, request: Sandbox.Request) {
  const { limits } = request
  const number = yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)
  const { ended, pid, started } = yield* start(options, request, `sandbox-${number.toString(36)}`)
  yield* Effect.timeoutFail(started, {
    duration: startTime,
    onTimeout: () => unavailable(options.name)("it did not start in time")
  })
  const watching = Effect.suspend(() =>
    (pid === undefined ? undefined : options.watch?.(pid, limits)) ?? Effect.sleep(watchEvery)
  ).pipe(Effect.forever)
  const output = yield* ended.pipe(
    Effect.timeoutFail({
      duration: limits.time,
      onTimeout: () => failed("Timeout", `it took more than ${Duration.format(limits.time)}`)
    }),
    options.watch === undefined ? identity : Effect.raceFirst(watching)
  )
  return yield* toResult(output, request)
}, Effect.scoped)

const toResult = (output: Uint8Array, request: Sandbox.Request) => {
  const crashed = failed("Crashed", "the sandbox ended without results")
  const archive = Tar.read(output)
  if (archive === undefined) return crashed
  const code = archive.files.get("control/exit")
  const stdout = archive.files.get("control/stdout")
  const stderr = archive.files.get("control/stderr")
  if (code === undefined || stdout === undefined || stderr === undefined) return crashed
  const exitCode = Number(new TextDecoder().decode(code.subarray(0, 10)))
  if (!Number.isInteger(exitCode)) return crashed
  if (exitCode === outOfTime) {
    return failed("Timeout", `it took more than ${Duration.format(request.limits.cpu)} of CPU`)
  }
  const files = new Map<string, Uint8Array>()
  for (const [path, data] of archive.files) {
    if (path.startsWith("work/")) files.set(path.slice(5), data.slice())
  }
  if (request.snapshot && Tar.read(archive.rest) === undefined) return crashed
  return Effect.succeed<Sandbox.Result>({
    exitCode,
    stdout: stdout.slice(),
    stderr: stderr.slice(),
    files,
    snapshot: request.snapshot ? { bytes: archive.rest.slice() } : undefined
  })
}

const fromCommand = (options: CommandOptions & Extras): Sandbox.Service =>
  Sandbox.make({
    name: options.name,
    limits: options.limits,
    concurrency: options.concurrency,
    node: options.node,
    run: (request) => execute(options, request)
  })

/** Fails unless a program that does nothing runs. */
const proved = (sandbox: Sandbox.Service): Effect.Effect<Sandbox.Service, Sandbox.SandboxUnavailable> =>
  sandbox.run({ command: ["true"] }).pipe(
    Effect.catchTag("SandboxFailed", ({ message }) => unavailable(sandbox.name)(message)),
    Effect.filterOrFail(
      ({ exitCode }) => exitCode === 0,
      ({ exitCode }) => unavailable(sandbox.name)(`\`true\` ended with exit code ${exitCode}`)
    ),
    Effect.as(sandbox)
  )

/**
 * A sandbox of a command that puts another one into a container: Docker, Podman, nsjail, `kubectl exec`. The container needs
 * `sh`, `env` and `tar`. What a program cannot do is up to the container.
 *
 * @since 0.2.0
 * @category constructors
 */
export const makeCommand = (
  options: CommandOptions
): Effect.Effect<Sandbox.Service, Sandbox.SandboxUnavailable> => proved(fromCommand(options))

/**
 * A sandbox of a command that puts another one into a container.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerCommand = (
  options: CommandOptions
): Layer.Layer<Sandbox.Sandbox, Sandbox.SandboxUnavailable> => Layer.effect(Sandbox.Sandbox, makeCommand(options))

// =====================================================================================================================
// bubblewrap
// =====================================================================================================================

/**
 * Options of a sandbox of Linux namespaces.
 *
 * @since 0.2.0
 * @category models
 */
export interface BubblewrapOptions {
  readonly limits?: Sandbox.Limits | undefined
  /** Programs at once. Defaults to 2. */
  readonly concurrency?: number | undefined
  /** Files and directories of the machine that programs may read, in place of the system's `/usr`, `/bin` and `/lib`. */
  readonly readable?: ReadonlyArray<string> | undefined
  /** Files and directories that programs may read on top of those. */
  readonly alsoReadable?: ReadonlyArray<string> | undefined
  /**
   * Absolute paths that lead to a path in the working directory: `{ "/app": "app" }` for programs that expect their files at
   * `/app`. The target need not exist before a command makes it.
   */
  readonly links?: Readonly<Record<string, string>> | undefined
  /** The user that programs are on the machine, where this process is root. Never root. Defaults to 65534, nobody. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  /** The command. Defaults to `bwrap`. */
  readonly bwrap?: string | undefined
}

/** The system as far as programs need it; what a machine does not have is left out. */
const system = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/etc/alternatives",
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d"
]

/** Arguments that show a path of the machine, a link as a link. */
const shown = (path: string): ReadonlyArray<string> => {
  const info = NodeFs.lstatSync(path, { throwIfNoEntry: false })
  return info === undefined ? [] : info.isSymbolicLink()
    ? ["--symlink", NodeFs.readlinkSync(path), path]
    : ["--ro-bind", path, path]
}

/** Whether everybody may run the file at a path. */
const isPublic = (path: string): boolean => {
  const parts = path.split("/")
  return parts.every((_, i) => (NodeFs.statSync(parts.slice(0, i + 1).join("/") || "/").mode & 0o1) !== 0)
}

const nodeInside = "/run/node"

/** The processes below one, from `/proc`. */
const below = (pid: number): ReadonlyArray<number> => {
  const found: Array<number> = []
  const queue = [pid]
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    try {
      for (const task of NodeFs.readdirSync(`/proc/${next}/task`)) {
        for (const child of NodeFs.readFileSync(`/proc/${next}/task/${task}/children`, "latin1").split(" ")) {
          if (child !== "") {
            found.push(Number(child))
            queue.push(Number(child))
          }
        }
      }
    } catch {
      // It has ended since.
    }
  }
  return found
}

/** Bytes of memory of a process that are no file's: its own, and shared. */
const memoryOf = (pid: number): number => {
  try {
    let kib = 0
    for (
      const match of NodeFs.readFileSync(`/proc/${pid}/status`, "latin1").matchAll(/^Rss(?:Anon|Shmem):\s+(\d+)/gm)
    ) {
      kib += Number(match[1])
    }
    return kib * 1024
  } catch {
    return 0
  }
}

/** Files of which the kernel keeps track whatever their size. */
const maxFiles = 100_000

/** The limits that no single process has: of all their memory, and of the number of files. */
const watch = (pid: number, limits: Sandbox.ResolvedLimits): Sandbox.SandboxFailed | undefined => {
  const pids = below(pid)
  const memory = pids.reduce((sum, each) => sum + memoryOf(each), 0)
  if (memory > limits.memory) {
    return failed("OutOfMemory", `${memory} bytes in all processes, of ${limits.memory} allowed`)
  }
  try {
    const { ffree, files } = NodeFs.statfsSync(`/proc/${pids[0]}/root/tmp`)
    if (files - ffree > maxFiles) return failed("OutputTooLarge", `more than ${maxFiles} files`)
  } catch {
    // Not ready, or ended since.
  }
  return undefined
}

/**
 * A sandbox for commands: bubblewrap, version 0.8 or later, on Linux. Fails with `SandboxUnavailable` where that is missing or
 * the machine does not allow unprivileged user namespaces.
 *
 * Every program is in namespaces of its own: no network, no process but its own, no file but the system's, which cannot be
 * changed, and a working directory in memory. It has no privileges and cannot get any, also where this process is root: then
 * it is another user. Memory, processes, CPU time, files and output are limited, and the system calls that would get around
 * that are refused.
 *
 * @since 0.2.0
 * @category constructors
 */
export const makeBubblewrap: (
  options?: BubblewrapOptions
) => Effect.Effect<Sandbox.Service, Sandbox.SandboxUnavailable> = Effect.fnUntraced(function*(options) {
  const refuse = unavailable("bubblewrap")
  if (process.platform !== "linux") return yield* refuse("it is for Linux")
  const calls = filter(process.arch)
  if (calls === undefined) return yield* refuse(`its system calls on ${process.arch} are not known`)
  if (!NodeFs.existsSync(`/proc/${process.pid}/task/${process.pid}/children`)) {
    return yield* refuse("the kernel does not list the children of a process in /proc")
  }
  const user = process.getuid?.() === 0 ? options?.user ?? { uid: 65_534, gid: 65_534 } : undefined
  // A program that is root on the machine could write to /proc/sys, capabilities or not, and would have no limit of processes.
  if (user !== undefined && (user.uid <= 0 || user.gid <= 0)) return yield* refuse("programs cannot be root")
  const paths = [...options?.readable ?? system, ...options?.alsoReadable ?? []]
  const links = Object.entries(options?.links ?? {})
  for (const [path, target] of links) {
    if (!path.startsWith("/") || !isPath(path.slice(1)) || /^\/(?:tmp|proc|dev)(?:\/|$)/.test(path)) {
      return yield* refuse(`${JSON.stringify(path)} cannot be a link`)
    }
    if (!isPath(target)) return yield* refuse(`${JSON.stringify(target)} is no path in the working directory`)
  }
  const { node, visible } = yield* Effect.try({
    try: () => {
      const binary = NodeFs.realpathSync(process.execPath)
      const inside = paths.some((path) => binary.startsWith(`${path}/`))
      // Another user may not reach it, in a home directory for example: then the system's serves, or none.
      const bound = !inside && (user === undefined || isPublic(binary))
      return {
        node: inside ? binary : bound ? nodeInside : "node",
        visible: [...paths.flatMap(shown), ...bound ? ["--ro-bind", binary, nodeInside] : []]
      }
    },
    catch: (error) => refuse(String(error))
  })
  return yield* proved(fromCommand({
    name: "bubblewrap",
    limits: options?.limits,
    concurrency: options?.concurrency,
    node,
    user,
    extra: calls,
    watch,
    wrap: (command, { limits }) => {
      const seconds = Math.max(1, Math.ceil(Duration.toSeconds(limits.cpu)))
      return [
        options?.bwrap ?? "bwrap",
        ...[
          "--unshare-user",
          "--unshare-ipc",
          "--unshare-pid",
          "--unshare-net",
          "--unshare-uts",
          "--unshare-cgroup-try"
        ],
        ...["--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--clearenv"],
        ...["--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--seccomp", "3"],
        ...visible,
        ...["--proc", "/proc", "--dev", "/dev", "--size", String(limits.disk), "--tmpfs", "/tmp"],
        ...links.flatMap(([path, target]) => ["--symlink", `/tmp/work/${target}`, path]),
        // Both are in memory, without a limit of their own.
        ...["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--"],
        ...["prlimit", `--data=${limits.memory}`, `--nproc=${limits.processes}`, `--cpu=${seconds}:${seconds + 1}`],
        ...[`--fsize=${limits.disk}`, "--nofile=256", "--core=0", "--memlock=0", "--msgqueue=0", "--"],
        ...command
      ] as const
    }
  }))
})

/**
 * A sandbox for commands: bubblewrap on Linux.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerBubblewrap = (
  options?: BubblewrapOptions
): Layer.Layer<Sandbox.Sandbox, Sandbox.SandboxUnavailable> => Layer.effect(Sandbox.Sandbox, makeBubblewrap(options))

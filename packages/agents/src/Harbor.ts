/**
 * Task directories of Harbor as environments: `task.toml`, `instruction.md`, `environment/`, `tests/` and `solution/`. The
 * policy works with a shell in a workspace of the cookbook's `Sandbox`; then the task's tests run on the files it left, and
 * what they write to `/logs/verifier/reward.txt` or `reward.json` is the reward.
 *
 * No image is built. Of a Dockerfile the working directory, the variables and the copied files are followed; a task whose
 * Dockerfile says more needs a sandbox that already has the rest, and `prepared: true`. Tasks name their files by absolute
 * paths: give `NodeSandbox.layerBubblewrap` the {@link links} that lead them to the working directory.
 *
 * Needs `smol-toml`, a `FileSystem` and a `Path`.
 *
 * @since 0.2.0
 */
import * as Environment from "@effect-tinker/cookbook/Environment"
import * as Sandbox from "@effect-tinker/cookbook/Sandbox"
import * as Tool from "@effect-tinker/cookbook/Tool"
import * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { parse } from "smol-toml"
import { placed, readDockerfile } from "./internal/dockerfile.js"

// =============================================================================
// models
// =============================================================================

/**
 * A task directory cannot be read or run, which says nothing about the policy: never a reward.
 *
 * - `Unreadable`: a file is missing, or the directory is too large.
 * - `Malformed`: `task.toml` is no TOML, or has fields that do not fit.
 * - `Unsupported`: the task asks for what is not followed here, such as several steps or a GPU.
 *
 * @since 0.2.0
 * @category errors
 */
export class HarborError extends Schema.TaggedError<HarborError>("@effect-tinker/agents/Harbor/HarborError")(
  "HarborError",
  {
    task: Schema.String,
    reason: Schema.Literal("Unreadable", "Malformed", "Unsupported"),
    description: Schema.String
  }
) {
  override get message(): string {
    return `Task ${this.task}: ${this.description}`
  }
}

/**
 * A task as its directory describes it.
 *
 * @since 0.2.0
 * @category models
 */
export interface Task {
  /** `name` of the section `[task]`, or that of the directory. */
  readonly name: string
  readonly instruction: string
  /** The section `[metadata]`: category, difficulty, tags, or anything else. */
  readonly metadata: Readonly<Record<string, unknown>>
  /** Absolute path in which commands start, `/app` unless the Dockerfile says otherwise. */
  readonly directory: string
  /** Files at the beginning, by their path in the workspace. */
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly tests: ReadonlyMap<string, Uint8Array>
  /** Empty where the task has no reference solution. */
  readonly solution: ReadonlyMap<string, Uint8Array>
  /** Variables of all commands, of the tests and of the solution. `${NAME}` is put in when they run. */
  readonly env: Readonly<Record<"environment" | "verifier" | "solution", Readonly<Record<string, string>>>>
  /** Time the policy may take for the whole task; none is set by default. */
  readonly agentTimeout: Duration.Duration | undefined
  readonly verifierTimeout: Duration.Duration
  /** Bytes. */
  readonly memory: number
  /** Bytes. */
  readonly storage: number
  /** Instructions of the Dockerfile that only a build can follow. */
  readonly unfollowed: ReadonlyArray<string>
}

/**
 * Options of running tasks.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options {
  /** The sandbox already has what the instructions of the Dockerfile would install. Defaults to false. */
  readonly prepared?: boolean | undefined
  /** Values for `${NAME}` in the variables of a task. A task never sees the variables of this process. Defaults to none. */
  readonly variables?: Readonly<Record<string, string>> | undefined
  /**
   * Upper bounds of what a task may ask for. `time` is that of one command of the policy. Defaults to 1 minute, 2 GiB of memory
   * and 256 MiB of files, which are held here between commands.
   */
  readonly limits?: Sandbox.Limits | undefined
  /** Longest time of the tests, whatever the task says. Defaults to 10 minutes. */
  readonly maxVerifierTimeout?: Duration.DurationInput | undefined
  /** Maximum length of a command's output as the policy sees it, in characters. Defaults to 20,000. */
  readonly maxLength?: number | undefined
}

/**
 * Verdict of the tests.
 *
 * @since 0.2.0
 * @category models
 */
export interface Verdict {
  readonly reward: number
  /** All numbers of `reward.json`, or the one of `reward.txt`. */
  readonly rewards: Readonly<Record<string, number>>
  /** Why there is no reward from the tests, in which case it is 0: they did not end in time, or wrote none. */
  readonly failure?: string | undefined
  /** End of what the tests printed. */
  readonly output: string
}

/**
 * A task in a workspace of its own.
 *
 * @since 0.2.0
 * @category models
 */
export interface Session {
  readonly workspace: Sandbox.Workspace
  /** Runs a command of bash in the task's directory, within the limits. */
  readonly run: (command: string, options?: {
    readonly files?: Readonly<Record<string, string | Uint8Array>> | undefined
    /** Defaults to the time of one command. */
    readonly time?: Duration.DurationInput | undefined
  }) => Effect.Effect<Sandbox.Result, Sandbox.SandboxFailed | Sandbox.SandboxUnavailable>
  /** The same as a tool of the policy: one command at a time, while the time for the task is not over. */
  readonly bash: Tool.Tool
  /** Runs the tests on the files as they are. */
  readonly verify: Effect.Effect<Verdict, Sandbox.SandboxUnavailable>
}

// =============================================================================
// reading
// =============================================================================

/**
 * Links for `NodeSandbox.layerBubblewrap`, so that tasks find their files at the paths that Harbor has, and those that their
 * Dockerfiles add.
 *
 * @since 0.2.0
 * @category configuration
 */
export const links = (tasks: ReadonlyArray<Task> = []): Readonly<Record<string, string>> => {
  const tops = tasks.flatMap(({ directory, files }) => [directory.slice(1), ...files.keys()])
    .map((path) => path.split("/", 1)[0] ?? "").filter((top) => top !== "")
  return Object.fromEntries(["app", "tests", "solution", "logs", ...tops].map((top) => [`/${top}`, top]))
}

const maxFiles = 10_000
const maxBytes = 256 * 1024 * 1024
const mebibyte = 1024 * 1024

const Variables = Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.String }), {
  default: () => ({})
})
const Size = Schema.String.pipe(Schema.pattern(/^\d+(?:\.\d+)?[KMG]$/i))
const section = <Fields extends Schema.Struct.Fields>(fields: Fields) => Schema.optional(Schema.Struct(fields))
const PositiveNumber = Schema.Number.pipe(Schema.positive())

const Config = Schema.Struct({
  task: section({ name: Schema.optional(Schema.String) }),
  metadata: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Unknown })),
  steps: Schema.optional(Schema.Unknown),
  agent: section({ timeout_sec: Schema.optional(PositiveNumber) }),
  verifier: section({
    timeout_sec: Schema.optional(PositiveNumber),
    env: Variables,
    environment_mode: Schema.optional(Schema.String)
  }),
  solution: section({ env: Variables }),
  environment: section({
    memory_mb: Schema.optional(PositiveNumber),
    memory: Schema.optional(Size),
    storage_mb: Schema.optional(PositiveNumber),
    storage: Schema.optional(Size),
    gpus: Schema.optional(Schema.Number),
    mcp_servers: Schema.optional(Schema.Array(Schema.Unknown)),
    env: Variables
  })
})
const decodeConfig = Schema.decodeUnknown(Config)

const bytesOf = (megabytes: number | undefined, size: string | undefined, otherwise: number): number => {
  if (megabytes !== undefined) return megabytes * mebibyte
  if (size === undefined) return otherwise * mebibyte
  return Number(size.slice(0, -1)) * { K: 1024, M: mebibyte, G: 1024 * mebibyte }[size.slice(-1).toUpperCase() as "K"]
}

/** Files below a directory, none where there is no such directory. */
const filesBelow = (task: string, directory: string, budget: { files: number; bytes: number }) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const found = new Map<string, Uint8Array>()
    if (!(yield* fs.exists(directory))) return found
    const within = yield* fs.realPath(directory)
    for (const name of (yield* fs.readDirectory(directory, { recursive: true })).sort()) {
      const place = path.join(directory, name)
      const real = yield* fs.realPath(place)
      if (!real.startsWith(within + path.sep)) {
        return yield* new HarborError({
          task,
          reason: "Unreadable",
          description: `${place} leads out of the directory`
        })
      }
      const info = yield* fs.stat(place)
      if (info.type !== "File") continue
      budget.files--
      budget.bytes -= Number(info.size)
      if (budget.files < 0 || budget.bytes < 0) {
        const description = `it has more than ${maxFiles} files, or more than ${maxBytes / mebibyte} MiB`
        return yield* new HarborError({ task, reason: "Unreadable", description })
      }
      found.set(name.split(path.sep).join("/"), yield* fs.readFile(place))
    }
    return found
  })

/**
 * Reads a task directory.
 *
 * @since 0.2.0
 * @category constructors
 */
export const load = (directory: string): Effect.Effect<Task, HarborError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const fallback = path.basename(path.resolve(directory))
    const failed = (reason: HarborError["reason"], description: string) =>
      new HarborError({ task: fallback, reason, description })
    const toml = yield* fs.readFileString(path.join(directory, "task.toml"))
    const table = yield* Effect.try({ try: () => parse(toml), catch: (cause) => failed("Malformed", String(cause)) })
    const config = yield* Effect.mapError(decodeConfig(table), ({ message }) => failed("Malformed", message))
    const { agent, environment, metadata, solution, task, verifier } = config
    const unsupported = config.steps !== undefined
      ? "it has several steps"
      : (environment?.gpus ?? 0) > 0
      ? "it asks for a GPU"
      : (environment?.mcp_servers ?? []).length > 0
      ? "it asks for MCP servers; connect them with the module Mcp"
      : verifier?.environment_mode === "separate"
      ? "its tests ask for an environment of their own"
      : undefined
    if (unsupported !== undefined) return yield* failed("Unsupported", unsupported)

    const budget = { files: maxFiles, bytes: maxBytes }
    const read = (name: string) => filesBelow(fallback, path.join(directory, name), budget)
    const context = yield* read("environment")
    if ([...context.keys()].some((name) => /^(?:docker-)?compose\.ya?ml$/.test(name))) {
      return yield* failed("Unsupported", "its environment is several containers")
    }
    const tests = yield* read("tests")
    if (!tests.has("test.sh")) return yield* failed("Unreadable", "there is no tests/test.sh")
    const dockerfile = readDockerfile(new TextDecoder().decode(context.get("Dockerfile")))
    const files = new Map<string, Uint8Array>()
    for (const [place, data] of placed(dockerfile, context)) files.set(place.slice(1), data)
    return {
      name: task?.name ?? fallback,
      instruction: (yield* fs.readFileString(path.join(directory, "instruction.md"))).trim(),
      metadata: metadata ?? {},
      directory: dockerfile.directory,
      files,
      tests,
      solution: yield* read("solution"),
      env: {
        environment: { ...dockerfile.env, ...environment?.env },
        verifier: verifier?.env ?? {},
        solution: solution?.env ?? {}
      },
      agentTimeout: agent?.timeout_sec === undefined ? undefined : Duration.seconds(agent.timeout_sec),
      verifierTimeout: Duration.seconds(verifier?.timeout_sec ?? 600),
      memory: bytesOf(environment?.memory_mb, environment?.memory, 2048),
      storage: bytesOf(environment?.storage_mb, environment?.storage, 10_240),
      unfollowed: dockerfile.unfollowed
    }
  }).pipe(Effect.catchTags({
    BadArgument: ({ message }) => new HarborError({ task: directory, reason: "Unreadable", description: message }),
    SystemError: ({ message }) => new HarborError({ task: directory, reason: "Unreadable", description: message })
  }))

/**
 * Reads all task directories of a directory, in the order of their names.
 *
 * @since 0.2.0
 * @category constructors
 */
export const loadAll = (
  directory: string
): Effect.Effect<ReadonlyArray<Task>, HarborError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const names = yield* Effect.mapError(
      fs.readDirectory(directory),
      ({ message }) => new HarborError({ task: directory, reason: "Unreadable", description: message })
    )
    const places = names.sort().map((name) => path.join(directory, name))
    const isTask = (place: string) => Effect.orElseSucceed(fs.exists(path.join(place, "task.toml")), () => false)
    return yield* Effect.forEach(yield* Effect.filter(places, isTask), load)
  })

// =============================================================================
// running
// =============================================================================

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

const shortened = (given: string, length: number): string =>
  given.length <= length ? given : `${given.slice(0, length)}\n[${given.length - length} more characters]`

const Rewards = Schema.decodeUnknownEither(
  Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.JsonNumber }))
)

/** The rewards of what the tests wrote. */
const rewardsOf = (files: ReadonlyMap<string, Uint8Array>): Readonly<Record<string, number>> | undefined => {
  const json = files.get("logs/verifier/reward.json")
  if (json !== undefined) {
    const read = Rewards(text(json))
    return read._tag === "Right" ? read.right : undefined
  }
  const plain = text(files.get("logs/verifier/reward.txt") ?? new Uint8Array()).trim()
  return plain !== "" && Number.isFinite(Number(plain)) ? { reward: Number(plain) } : undefined
}

/** `reward`, or the only one. */
const oneOf = (rewards: Readonly<Record<string, number>>): number | undefined => {
  const values = Object.values(rewards)
  return rewards["reward"] ?? (values.length === 1 ? values[0] : undefined)
}

const least = (a: Duration.Duration, b: Duration.DurationInput | undefined): Duration.Duration =>
  b === undefined ? a : Duration.min(a, b)

/**
 * Starts a task in a workspace of its own, where its files are.
 *
 * @since 0.2.0
 * @category constructors
 */
export const open = (
  task: Task,
  options: Options = {}
): Effect.Effect<Session, HarborError | Sandbox.SandboxUnavailable, Sandbox.Sandbox> =>
  Effect.gen(function*() {
    const refused = (description: string) => new HarborError({ task: task.name, reason: "Unsupported", description })
    if (task.unfollowed.length > 0 && options.prepared !== true) {
      return yield* refused(
        `no image is built, and its Dockerfile has ${task.unfollowed.length} instructions that only a build follows, such as ` +
          `"${task.unfollowed[0]}"; use a sandbox that has what they install, and say so with "prepared: true"`
      )
    }
    const variables = new Map<string, string>()
    const fill = (given: Readonly<Record<string, string>>) =>
      Effect.forEach(Object.entries(given), ([name, value]) =>
        Effect.gen(function*() {
          for (const [, wanted = "", otherwise] of value.matchAll(/\$\{(\w+)(?::-([^}]*))?\}/g)) {
            const known = options.variables?.[wanted] ?? otherwise
            if (known === undefined) {
              return yield* refused(`it needs the variable ${wanted}; give it with "variables"`)
            }
            variables.set(wanted, known)
          }
          return `${name}=${
            value.replace(/\$\{(\w+)(?::-[^}]*)?\}/g, (_, wanted: string) => variables.get(wanted) ?? "")
          }`
        }))
    const base = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LANG=C.UTF-8"]
    const env = [...base, ...(yield* fill(task.env.environment))]
    const verifierEnv = [...env, ...(yield* fill(task.env.verifier))]
    const bounds = options.limits ?? {}
    const limits = {
      ...bounds,
      memory: Math.min(task.memory, bounds.memory ?? 2048 * mebibyte),
      disk: Math.min(task.storage, bounds.disk ?? 256 * mebibyte)
    }
    const perCommand = Duration.decode(bounds.time ?? "1 minute")
    const home = task.directory.slice(1) || "."
    /** A command in the task's directory, whose files are below the working directory. */
    const shell = (variables: ReadonlyArray<string>, command: string) =>
      ["env", ...variables, "sh", "-c", `mkdir -p "$1" && cd "$1" && exec bash -c "$2"`, "sh", home, command] as const

    const workspace = yield* Sandbox.workspace()
    const files = Object.fromEntries(task.files)
    yield* workspace.run({ command: shell(env, "true"), files, limits: { ...limits, time: "1 minute" } }).pipe(
      Effect.catchTag("SandboxFailed", ({ message }) => refused(`its files do not fit into the sandbox: ${message}`))
    )
    const run: Session["run"] = (command, options) =>
      workspace.run({
        command: shell(env, command),
        files: options?.files,
        limits: { ...limits, time: options?.time ?? perCommand }
      })
    const began = yield* Clock.currentTimeMillis
    /** Time that the policy has left. */
    const left = Effect.map(
      Clock.currentTimeMillis,
      (now) => task.agentTimeout && Duration.millis(Duration.toMillis(task.agentTimeout) - (now - began))
    )

    /** A command that could not be run says nothing about the policy: the episode ends, and fails. */
    let unavailable: Sandbox.SandboxUnavailable | undefined
    const bash = Tool.make("bash", {
      description:
        `Runs a command of bash in ${task.directory} and returns what it prints. Files stay, processes do not.`,
      input: Schema.Struct({ command: Schema.String }),
      parallel: false,
      run: ({ command }) =>
        Effect.gen(function*() {
          const remaining = yield* left
          if (remaining !== undefined && Duration.toMillis(remaining) <= 0) {
            return { text: "The time for this task is over.", stop: true }
          }
          const time = least(perCommand, remaining)
          const result = yield* run(command, { time }).pipe(
            Effect.map(({ exitCode, stderr, stdout }) =>
              `${text(stdout)}${text(stderr)}${exitCode === 0 ? "" : `\n[exit code ${exitCode}]`}`.trim()
            ),
            Effect.catchTag(
              "SandboxFailed",
              ({ description, reason }) => Effect.succeed(`[${reason}: ${description}]`)
            ),
            // no answer of a tool: nothing the policy did
            Effect.orDie
          )
          return { text: shortened(result, options.maxLength ?? 20_000), stop: false }
        })
    })

    const verify = Effect.gen(function*() {
      if (unavailable !== undefined) return yield* unavailable
      // what the policy has put where the tests and their verdict belong is taken away
      yield* workspace.run({ command: ["rm", "-rf", "tests", "logs/verifier"], limits })
      const tests = Object.fromEntries(Array.from(task.tests, ([path, data]) => [`tests/${path}`, data]))
      const { files, stderr, stdout } = yield* workspace.run({
        command: shell(verifierEnv, `mkdir -p ${up(home)}logs/verifier && exec bash ${up(home)}tests/test.sh`),
        files: tests,
        outputs: ["logs/verifier/reward.txt", "logs/verifier/reward.json"],
        limits: { ...limits, time: least(task.verifierTimeout, options.maxVerifierTimeout ?? "10 minutes") }
      })
      const rewards = rewardsOf(files) ?? {}
      const reward = oneOf(rewards)
      const output = `${text(stdout)}${text(stderr)}`.slice(-20_000)
      const verdict: Verdict = reward !== undefined
        ? { reward, rewards, output }
        : { reward: 0, rewards, output, failure: "the tests wrote no reward" }
      return verdict
    }).pipe(
      Effect.catchTag(
        "SandboxFailed",
        ({ message }) => Effect.succeed<Verdict>({ reward: 0, rewards: {}, output: "", failure: message })
      )
    )
    return { workspace, run, bash, verify }
  })

/** The way from a directory of the workspace to its root. */
const up = (path: string): string => "../".repeat(path.split("/").filter((part) => part !== "" && part !== ".").length)

const report = ({ failure, reward, rewards }: Verdict) =>
  Environment.done(reward, {
    metrics: {
      ...rewards,
      reward,
      verifier_failed: failure === undefined ? 0 : 1
    }
  })

type Failure = HarborError | Sandbox.SandboxUnavailable | RenderFailed | ChatTemplateFailed

/**
 * A task as a problem: every episode has a workspace of its own, a shell as its tool, and ends with the first message that
 * calls no tool, when the tests run. They also run where the time for the task is over.
 *
 * @example
 * ```ts
 * import { Environment } from "@effect-tinker/cookbook"
 * import * as Harbor from "@effect-tinker/agents/Harbor"
 * import { Effect } from "effect"
 *
 * const problems = Effect.map(Harbor.loadAll("tasks"), (tasks) => tasks.map((task) => Harbor.group(task)))
 * ```
 *
 * @since 0.2.0
 * @category constructors
 */
export const group = (
  task: Task,
  options: Options & {
    /** Message before the instruction. Defaults to one that explains the shell. */
    readonly system?: string | undefined
  } = {}
): Environment.Group<Failure, Sandbox.Sandbox> =>
  Environment.group<Failure, Sandbox.Sandbox>(
    (settings) =>
      Effect.map(open(task, options), ({ bash, verify }) =>
        Environment.messages({
          start: [
            Message.system(
              options.system ?? "Solve the task with the tool bash. Answer without a tool call when it is done."
            ),
            Message.user(task.instruction)
          ],
          tools: [bash],
          onMessage: () => Effect.map(verify, report),
          reward: () => Effect.map(verify, ({ reward }) => reward)
        }, settings)),
    { tags: [task.name] }
  )

/**
 * Runs the reference solution of a task and then its tests: a task that can be solved has a reward of 1, as a rule.
 *
 * @since 0.2.0
 * @category operations
 */
export const solve = (
  task: Task,
  options: Options = {}
): Effect.Effect<Verdict, HarborError | Sandbox.SandboxUnavailable, Sandbox.Sandbox> =>
  Effect.gen(function*() {
    if (!task.solution.has("solve.sh")) {
      const description = "there is no solution/solve.sh"
      return yield* new HarborError({ task: task.name, reason: "Unreadable", description })
    }
    const env = { ...task.env.environment, ...task.env.solution }
    const { run, verify } = yield* open({ ...task, env: { ...task.env, environment: env } }, options)
    const files = Object.fromEntries(Array.from(task.solution, ([path, data]) => [`solution/${path}`, data]))
    const failed = yield* run(`bash ${up(task.directory)}solution/solve.sh`, { files, time: task.agentTimeout }).pipe(
      Effect.as(undefined),
      Effect.catchTag("SandboxFailed", ({ message }) => Effect.succeed(message))
    )
    const verdict = yield* verify
    return failed === undefined ? verdict : { ...verdict, failure: `the solution: ${failed}` }
  })

/**
 * The official SDK in an environment of its own, pinned by `python/requirements.txt`.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Array as Arr, Chunk, Config, Console, Effect, Option, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { against, PythonFailed, PythonMissing } from "./Suite.js"

/** Directory of this package. */
export const root = fileURLToPath(new URL("..", import.meta.url))

export interface Python {
  /** Version of the official SDK. */
  readonly sdk: string
  /** Runs a module of `python/`, and gives what it printed. */
  readonly run: (
    module: string,
    ...args: ReadonlyArray<string>
  ) => Effect.Effect<string, PythonFailed, NodeContext.NodeContext>
  /** The same in an environment with these variables. */
  readonly runIn: (
    environment: Readonly<Record<string, string>>,
    module: string,
    ...args: ReadonlyArray<string>
  ) => Effect.Effect<string, PythonFailed, NodeContext.NodeContext>
}

const missing = (reason: string) => new PythonMissing({ reason })

const text = <E, R>(stream: Stream.Stream<Uint8Array, E, R>) =>
  stream.pipe(Stream.decodeText(), Stream.runCollect, Effect.map(Chunk.join("")))

/** Output of a command that succeeds, or the end of what it complained about. */
export const output = (command: Command.Command) =>
  Effect.scoped(
    Effect.gen(function*() {
      const process = yield* Command.start(command)
      const [stdout, stderr, code] = yield* Effect.all([text(process.stdout), text(process.stderr), process.exitCode], {
        concurrency: "unbounded"
      })
      return code === 0 ? stdout : yield* missing(stderr.trim().split("\n").slice(-6).join("\n") || `exit code ${code}`)
    })
  ).pipe(Effect.catchTags({
    BadArgument: (error) => missing(error.message),
    SystemError: (error) => missing(error.message)
  }))

const directory = "python"

/** `PYTHON` if it says so, or else the first on the path that is new enough. */
export const findInterpreter = Effect.fnUntraced(function*(oldest: number) {
  const stated = yield* Config.string("PYTHON").pipe(Config.option, Effect.orDie)
  const candidates = Option.match(stated, {
    onNone: () => ["python3", "python3.14", "python3.13", "python3.12"],
    onSome: (name) => [name]
  })
  for (const name of candidates) {
    const version = yield* output(
      Command.make(name, "-c", `import sys; print(sys.version_info >= (3, ${oldest}))`)
    ).pipe(Effect.option)
    if (Option.exists(version, (text) => text.trim() === "True")) return name
  }
  return yield* missing(`none of ${candidates.join(", ")} is Python 3.${oldest} or newer; PYTHON names another`)
})

const comparedPin =
  /^(tinker-cookbook|lm-eval|bfcl-eval|renderers|torch|transformers|peft|gguf|tensorboard|mlflow|skyrl|openenv|openenv-core|rllm-model-gateway|inspect-ai)==(\S+)/gm

/** Pinned packages whose behaviour suites are held against, as they are named in the summary. */
const compared = (pins: string): ReadonlyArray<string> =>
  Array.from(pins.matchAll(comparedPin), ([, name, version]) => `${name} ${version}`)

/**
 * An environment, made at the first use and again when what it needs changes. `PYTHON` names the interpreter to make it
 * with, which must be 3.11 or newer.
 */
const environment = Effect.fnUntraced(
  function*(options: {
    readonly venv: string
    readonly wanted: string
    /** An interpreter that has everything already. */
    readonly given: Option.Option<string>
    /** The oldest version that will do. Defaults to 3.11. */
    readonly oldest?: number | undefined
    /** Packages to install without what they ask for. */
    readonly alone?: ReadonlyArray<string> | undefined
  }) {
    const { alone = [], given, oldest = 11, wanted } = options
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const venv = path.join(root, options.venv)
    const python = Option.getOrElse(given, () => path.join(venv, "bin", "python"))
    const installed = path.join(venv, "installed.txt")
    const present = yield* fs.readFileString(installed).pipe(Effect.option)
    const everything = `${wanted}${alone.map((name) => `${name}\n`).join("")}`

    if (Option.isNone(given) && !Option.contains(present, everything)) {
      const interpreter = yield* findInterpreter(oldest)
      const packages = wanted.trim().split("\n")
      yield* Console.log(`installing ${[...packages, ...alone].join(", ")} into ${path.relative(process.cwd(), venv)}`)
      yield* output(Command.make(interpreter, "-m", "venv", "--clear", venv))
      // what is imported is compiled then: all of it would take as long as the rest of the installation
      const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
      yield* output(Command.make(python, ...pip, ...packages))
      if (alone.length > 0) yield* output(Command.make(python, ...pip, "--no-deps", ...alone))
      yield* fs.writeFileString(installed, everything)
    }
    const runIn: Python["runIn"] = (variables, module, ...args) =>
      output(
        Command.make(python, "-m", module, ...args).pipe(
          Command.workingDirectory(path.join(root, directory)),
          Command.env({ PYTHONDONTWRITEBYTECODE: "1", TINKER_TELEMETRY: "0", ...variables })
        )
      ).pipe(Effect.mapError(({ reason }) => new PythonFailed({ program: module, reason })))
    const sdk = (yield* output(Command.make(python, "-c", "import tinker; print(tinker.__version__)"))).trim()
    if (!wanted.includes(`tinker==${sdk}`)) {
      return yield* missing(`${python} has tinker ${sdk}, not ${wanted.trim()}`)
    }
    yield* Console.log(`official SDK: tinker ${sdk}`)
    yield* against(`tinker ${sdk}`, ...compared(everything))
    const run: Python["run"] = (module, ...args) => runIn({}, module, ...args)
    return { interpreter: python, sdk, run, runIn } satisfies Python & { readonly interpreter: string }
  },
  Effect.catchTags({
    BadArgument: (error) => missing(error.message),
    SystemError: (error) => missing(error.message)
  })
)

const pinned = Effect.fnUntraced(function*(
  requirements: string,
  venv: string,
  variable: string,
  more: {
    readonly oldest?: number
    readonly alone?: ReadonlyArray<string>
    /** Names of requirements to install without what they ask for. */
    readonly apart?: ReadonlyArray<string>
  } = {}
) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { alone = [], apart = [], ...rest } = more
  const lines = yield* fs.readFileString(path.join(root, directory, requirements)).pipe(
    Effect.mapBoth({ onFailure: (error) => missing(error.message), onSuccess: (text) => text.trim().split("\n") })
  )
  const [others, unaccompanied] = Arr.partition(lines, (line) => apart.includes(line.split("==")[0] ?? line))
  const given = yield* Config.string(variable).pipe(Config.option, Effect.orDie)
  const wanted = `${others.join("\n")}\n`
  return yield* environment({ venv, wanted, given, ...rest, alone: [...alone, ...unaccompanied] })
})

/** The pinned SDK. `TINKER_PYTHON` names an interpreter that has it already. */
export const make: Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> = pinned(
  "requirements.txt",
  ".venv",
  "TINKER_PYTHON"
)

/**
 * The SDK with everything the heavier suites are held against: the cookbook (alone: it asks for a release of tml-renderers
 * that the index does not have), torch, transformers, peft, the renderer
 * packages, gguf. `COOKBOOK_PYTHON` names an interpreter that has it already.
 */
export const makeCookbook: Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> = pinned(
  "requirements-cookbook.txt",
  ".venv-cookbook",
  "COOKBOOK_PYTHON",
  { apart: ["tinker-cookbook"] }
)

/**
 * The cookbook (alone, too), TensorBoard and MLflow. `STUDIO_PYTHON` names an interpreter that has them already.
 */
export const makeStudio: Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> = pinned(
  "requirements-studio.txt",
  ".venv-studio",
  "STUDIO_PYTHON",
  { apart: ["tinker-cookbook"] }
)

/**
 * What agents meet besides the SDK: OpenEnv's servers, and rLLM's gateway client. `AGENTS_PYTHON` names an interpreter that
 * has both already.
 */
export const makeAgents: Effect.Effect<
  Python & { readonly interpreter: string },
  PythonMissing,
  NodeContext.NodeContext
> = pinned("requirements-agents.txt", ".venv-agents", "AGENTS_PYTHON")

/** Inspect (`inspect_ai`). `INSPECT_PYTHON` names an interpreter that has it already. */
export const makeInspect: Effect.Effect<
  Python & { readonly interpreter: string },
  PythonMissing,
  NodeContext.NodeContext
> = pinned("requirements-inspect.txt", ".venv-inspect", "INSPECT_PYTHON")

/**
 * Graders of other projects: the cookbook's, lm-eval's and those of the Berkeley Function Calling Leaderboard, without what the
 * packages ask for besides (torch, and the clients of twenty services). `EVALS_PYTHON` names an interpreter that has them already.
 */
export const makeEvals: Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> = pinned(
  "requirements-evals.txt",
  ".venv-evals",
  "EVALS_PYTHON",
  { apart: ["tinker-cookbook", "lm-eval", "bfcl-eval"] }
)

/** Another version of the SDK, with the library its tokenizers come from. */
export const makeVersion = (version: string): Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> =>
  environment({ venv: `.venv-${version}`, wanted: `tinker==${version}\nnumpy\ntransformers\n`, given: Option.none() })

/**
 * A release of SkyRL with its JAX backend, and the client it pins. The package asks for torch, Ray and more, of which
 * that backend uses nothing, so it is installed without what it asks for. `SKYRL_PYTHON` names an interpreter that has
 * everything already.
 */
export const makeSkyrl = (
  release: string
): Effect.Effect<Python & { readonly interpreter: string }, PythonMissing, NodeContext.NodeContext> =>
  pinned("requirements-skyrl.txt", ".venv-skyrl", "SKYRL_PYTHON", { oldest: 12, alone: [`skyrl==${release}`] })

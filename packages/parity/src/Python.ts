/**
 * The official SDK in an environment of its own, pinned by `python/requirements.txt`.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Chunk, Config, Console, Effect, Option, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { PythonFailed, PythonMissing } from "./Suite.js"

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
const output = (command: Command.Command) =>
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

/**
 * An environment with the packages of a requirements file, made at the first use and again when the pins change. `PYTHON`
 * names the interpreter to make it with, which must be 3.11 or newer; `TINKER_PYTHON` one that has the packages already.
 */
export const makeFrom: (
  file: string,
  folder: string
) => Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> = Effect.fnUntraced(
  function*(file, folder) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const interpreter = yield* Config.string("PYTHON").pipe(Config.withDefault("python3"), Effect.orDie)
    const given = yield* Config.string("TINKER_PYTHON").pipe(Config.option, Effect.orDie)
    const venv = path.join(root, folder)
    const python = Option.getOrElse(given, () => path.join(venv, "bin", "python"))
    const requirements = path.join(root, directory, file)
    const wanted = yield* fs.readFileString(requirements)
    const installed = path.join(venv, "installed.txt")
    const present = yield* fs.readFileString(installed).pipe(Effect.option)

    if (Option.isNone(given) && !Option.contains(present, wanted)) {
      const version = yield* output(Command.make(interpreter, "-c", "import sys; print(sys.version_info >= (3, 11))"))
      if (version.trim() !== "True") return yield* missing(`${interpreter} is older than Python 3.11`)
      yield* Console.log(`installing ${wanted.trim()} into ${path.relative(process.cwd(), venv)}`)
      yield* output(Command.make(interpreter, "-m", "venv", "--clear", venv))
      const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
      yield* output(Command.make(python, ...pip))
      yield* fs.writeFileString(installed, wanted)
    }
    const runIn: Python["runIn"] = (environment, module, ...args) =>
      output(
        Command.make(python, "-m", module, ...args).pipe(
          Command.workingDirectory(path.join(root, directory)),
          Command.env({ PYTHONDONTWRITEBYTECODE: "1", TINKER_TELEMETRY: "0", ...environment })
        )
      ).pipe(Effect.mapError(({ reason }) => new PythonFailed({ program: module, reason })))
    const sdk = (yield* output(Command.make(python, "-c", "import tinker; print(tinker.__version__)"))).trim()
    if (!wanted.includes(`==${sdk}`)) {
      return yield* missing(`${python} has tinker ${sdk}, not ${wanted.trim()}`)
    }
    yield* Console.log(`official SDK: tinker ${sdk}`)
    const run: Python["run"] = (module, ...args) => runIn({}, module, ...args)
    return { sdk, run, runIn }
  },
  Effect.catchTags({
    BadArgument: (error) => missing(error.message),
    SystemError: (error) => missing(error.message)
  })
)

/** The official SDK alone. */
export const make: Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> = makeFrom("requirements.txt", ".venv")

/** The official SDK with its cookbook, which needs torch. */
export const makeCookbook: Effect.Effect<Python, PythonMissing, NodeContext.NodeContext> = makeFrom(
  "requirements-cookbook.txt",
  ".venv-cookbook"
)

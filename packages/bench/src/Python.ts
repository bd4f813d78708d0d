/**
 * The official Python SDK as a variant: a program of `python/` that works on command and tells how long it took.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { Config, Effect, Option } from "effect"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "./Bench.js"
import * as Program from "./Program.js"

const root = fileURLToPath(new URL("..", import.meta.url))

/** What an environment has, and where: the names the parity suite uses. */
interface Environment {
  readonly variable: string
  readonly venv: string
  readonly requirements: string
}

const sdk: Environment = { variable: "TINKER_PYTHON", venv: ".venv", requirements: "requirements.txt" }

/** The SDK with the cookbook, torch and transformers. */
const cookbook: Environment = {
  variable: "COOKBOOK_PYTHON",
  venv: ".venv-cookbook",
  requirements: "requirements-cookbook.txt"
}

/**
 * The interpreter of an environment: the one its variable names, the parity suite's, or one of our own with the versions
 * that suite pins.
 */
const find = Effect.fnUntraced(
  function*(environment: Environment) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const given = yield* Config.string(environment.variable).pipe(Config.option, Effect.orDie)
    if (Option.isSome(given)) return given.value
    const parity = path.join(root, "..", "parity")
    const pythonOf = (owner: string) => path.join(owner, environment.venv, "bin", "python")
    for (const owner of [parity, root]) if (yield* fs.exists(pythonOf(owner))) return pythonOf(owner)
    const requirements = path.join(parity, "python", environment.requirements)
    const venv = path.join(root, environment.venv)
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    for (const command of [Command.make("python3", "-m", "venv", venv), Command.make(pythonOf(root), ...pip)]) {
      const code = yield* Command.exitCode(command.pipe(Command.stdout("inherit"), Command.stderr("inherit")))
      if (code !== 0) {
        yield* fs.remove(venv, { recursive: true, force: true })
        return yield* new BenchFailed({ reason: `${environment.requirements} could not be installed` })
      }
    }
    return pythonOf(root)
  },
  Effect.catchTags({
    BadArgument: (error) => new BenchFailed({ reason: error.message }),
    SystemError: (error) => new BenchFailed({ reason: error.message })
  })
)

/** An interpreter that has the SDK. */
export const interpreter = find(sdk)

const program = (script: string) => fileURLToPath(new URL(`../python/${script}`, import.meta.url))

/** A program of `python/` that needs the cookbook, until the scope closes. */
export const startCookbook = Effect.fnUntraced(function*(script: string, ...args: ReadonlyArray<string>) {
  return yield* Program.start(yield* find(cookbook), program(script), ...args)
})

/** A program of `python/`, until the scope closes. */
export const start = Effect.fnUntraced(function*(script: string, ...args: ReadonlyArray<string>) {
  return yield* Program.start(yield* interpreter, program(script), ...args)
})

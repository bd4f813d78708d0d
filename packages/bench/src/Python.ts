/**
 * The official Python SDK as a variant: a program of `python/` that works on command and tells how long it took.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { Config, Effect, Option } from "effect"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "./Bench.js"
import * as Program from "./Program.js"

const root = fileURLToPath(new URL("..", import.meta.url))

/**
 * An interpreter that has the SDK: `TINKER_PYTHON`, the parity suite's environment, or one of our own with the version
 * that suite pins.
 */
export const interpreter = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const given = yield* Config.string("TINKER_PYTHON").pipe(Config.option, Effect.orDie)
  if (Option.isSome(given)) return given.value
  const parity = path.join(root, "..", "parity")
  const [theirs, ours] = [parity, root].map((owner) => path.join(owner, ".venv", "bin", "python"))
  if (theirs === undefined || ours === undefined) return "python3"
  if (yield* fs.exists(theirs)) return theirs
  if (yield* fs.exists(ours)) return ours
  const requirements = path.join(parity, "python", "requirements.txt")
  const venv = path.join(root, ".venv")
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
  for (const command of [Command.make("python3", "-m", "venv", venv), Command.make(ours, ...pip)]) {
    const code = yield* Command.exitCode(command.pipe(Command.stdout("inherit"), Command.stderr("inherit")))
    if (code !== 0) {
      yield* fs.remove(venv, { recursive: true, force: true })
      return yield* new BenchFailed({ reason: "the Python SDK could not be installed" })
    }
  }
  return ours
}).pipe(Effect.catchTags({
  BadArgument: (error) => new BenchFailed({ reason: error.message }),
  SystemError: (error) => new BenchFailed({ reason: error.message })
}))

/** A program of `python/`, until the scope closes. */
export const start = Effect.fnUntraced(function*(script: string, ...args: ReadonlyArray<string>) {
  const python = yield* interpreter
  return yield* Program.start(python, fileURLToPath(new URL(`../python/${script}`, import.meta.url)), ...args)
})

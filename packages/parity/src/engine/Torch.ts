/**
 * PyTorch, transformers and peft in an environment of their own, pinned by `python/engine_requirements.txt`.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Config, Console, Effect, Option } from "effect"
import { output, root } from "../Python.js"
import { PythonFailed, PythonMissing } from "../Suite.js"

/** Runs a module of `python/`, and gives what it printed. */
export type Torch = (
  module: string,
  ...args: ReadonlyArray<string>
) => Effect.Effect<string, PythonFailed, NodeContext.NodeContext>

const missing = (reason: string) => new PythonMissing({ reason })

/**
 * The environment, made at the first use and again when the pins change. `TORCH_PYTHON` names an interpreter that has
 * the packages already; `PYTHON` the one to make the environment with.
 */
export const make: Effect.Effect<Torch, PythonMissing, NodeContext.NodeContext> = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const interpreter = yield* Config.string("PYTHON").pipe(Config.withDefault("python3"), Effect.orDie)
  const given = yield* Config.string("TORCH_PYTHON").pipe(Config.option, Effect.orDie)
  const venv = path.join(root, ".venv-engine")
  const python = Option.getOrElse(given, () => path.join(venv, "bin", "python"))
  const requirements = path.join(root, "python", "engine_requirements.txt")
  const wanted = yield* fs.readFileString(requirements)
  const installed = path.join(venv, "installed.txt")
  const present = yield* fs.readFileString(installed).pipe(Effect.option)
  if (Option.isNone(given) && !Option.contains(present, wanted)) {
    yield* Console.log(`installing ${wanted.trim().split("\n").join(", ")} into ${path.relative(process.cwd(), venv)}`)
    yield* output(Command.make(interpreter, "-m", "venv", "--clear", venv))
    yield* output(
      Command.make(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
    )
    yield* fs.writeFileString(installed, wanted)
  }
  const versions = yield* output(
    Command.make(
      python,
      "-c",
      "import torch, transformers, peft; print('torch', torch.__version__, 'transformers', transformers.__version__, 'peft', peft.__version__)"
    )
  )
  yield* Console.log(versions.trim())
  return (module: string, ...args: ReadonlyArray<string>) =>
    output(
      Command.make(python, "-m", module, ...args).pipe(
        Command.workingDirectory(path.join(root, "python")),
        Command.env({ PYTHONDONTWRITEBYTECODE: "1", TRANSFORMERS_VERBOSITY: "error", HF_HUB_OFFLINE: "1" })
      )
    ).pipe(Effect.mapError(({ reason }) => new PythonFailed({ program: module, reason })))
}).pipe(Effect.catchTags({
  BadArgument: (error) => missing(error.message),
  SystemError: (error) => missing(error.message)
}))

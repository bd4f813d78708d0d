/**
 * The models of the embedded backend in PyTorch on the CPU, where an interpreter that has it is at hand: the parity
 * suite's, or one named by the environment. It is too large to be installed for a bench.
 */
import type { LocalModel } from "@effect-tinker/local"
import { Command, FileSystem, Path } from "@effect/platform"
import { Config, Effect, Option } from "effect"
import { fileURLToPath } from "node:url"
import type { BenchFailed, Variant } from "./Bench.js"
import * as Program from "./Program.js"

const script = fileURLToPath(new URL("../python/engine.py", import.meta.url))
const installed = fileURLToPath(new URL("../../parity/.venv-cookbook/bin/python", import.meta.url))

/** What both sides compute. */
export interface Setup {
  readonly model: LocalModel.LocalModel
  readonly rank: number
  readonly batch: number
  readonly length: number
  readonly samples: number
  readonly sampled: number
}

/** The first interpreter that has torch, and the version it has. */
export const find = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const named = (variable: string) => Config.string(variable).pipe(Config.option, Effect.orDie)
  const candidates = [
    ...Option.toArray(yield* named("TINKER_PYTHON")),
    ...Option.toArray(yield* named("COOKBOOK_PYTHON")),
    installed
  ]
  for (const python of candidates) {
    const isPath = path.basename(python) !== python
    if (isPath && !(yield* Effect.orElseSucceed(fs.exists(python), () => false))) continue
    const version = yield* Command.make(python, "-c", "import torch; print(torch.__version__)").pipe(
      Command.string,
      Effect.option
    )
    const found = Option.getOrElse(version, () => "").trim()
    if (found !== "") return Option.some({ python, version: found })
  }
  return Option.none()
})

/** The model in a process of its own with a number of threads, until the scope closes. */
export const start = Effect.fnUntraced(function*(python: string, setup: Setup, threads: number) {
  const { batch, length, model, rank, sampled, samples } = setup
  const { hidden, layers, heads, vocabularySize: vocabulary, width } = model
  const { alpha } = model.lora
  const measures = { width, layers, heads, hidden, vocabulary, alpha, rank, batch, length, samples, sampled }
  const program = yield* Program.start(python, script, JSON.stringify(measures), String(threads))
  const variant = (command: "train" | "sample"): Variant<BenchFailed> => ({
    name: `torch ${threads}`,
    once: Effect.map(program.ask(command), Number)
  })
  return {
    train: variant("train"),
    sample: variant("sample"),
    /** GFLOP/s of a large product. */
    peak: Effect.map(program.ask("peak"), Number)
  }
})

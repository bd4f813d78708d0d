/**
 * Models in the shapes of those people use, with random weights in bfloat16: training beside PyTorch with peft, sampling
 * beside llama.cpp over the same weights, loading beside reading the file, each in a process of its own.
 */
import { Gguf } from "@effect-tinker/weights"
import { FileSystem, Path } from "@effect/platform"
import { Config, Effect, Option } from "effect"
import { fileURLToPath } from "node:url"
import type { Bench, Report, Variant } from "./Bench.js"
import { BenchFailed, interleaved, isSmoke, round } from "./Bench.js"
import * as Program from "./Program.js"
import * as Python from "./Python.js"

interface Shape {
  readonly name: string
  /** As `config.json` has it. */
  readonly config: Readonly<Record<string, unknown>>
  /** Sequences of a step, and their tokens. */
  readonly batch: number
  readonly length: number
  /** Threads to measure with. */
  readonly threads: ReadonlyArray<number>
}

const llama = (width: number, hidden: number, layers: number, heads: number, groups: number) => ({
  model_type: "llama",
  hidden_size: width,
  intermediate_size: hidden,
  num_hidden_layers: layers,
  num_attention_heads: heads,
  num_key_value_heads: groups,
  max_position_embeddings: 2048,
  tie_word_embeddings: true
})

const full: ReadonlyArray<Shape> = [
  {
    name: "SmolLM2-135M",
    config: { ...llama(576, 1536, 30, 9, 3), vocab_size: 49_152 },
    batch: 4,
    length: 256,
    threads: [1, 2]
  },
  {
    name: "SmolLM2-360M",
    config: { ...llama(960, 2560, 32, 15, 5), vocab_size: 49_152 },
    batch: 4,
    length: 128,
    threads: [2]
  },
  {
    name: "Qwen3-0.6B",
    config: { ...llama(1024, 3072, 28, 16, 8), model_type: "qwen3", head_dim: 128, vocab_size: 151_936 },
    batch: 2,
    length: 128,
    threads: [2]
  },
  {
    name: "Llama-3.2-1B",
    config: { ...llama(2048, 8192, 16, 32, 8), vocab_size: 128_256 },
    batch: 2,
    length: 128,
    threads: [2]
  }
]

const small: ReadonlyArray<Shape> = [
  {
    name: "nano",
    config: { ...llama(64, 128, 2, 4, 2), vocab_size: 1024 },
    batch: 1,
    length: 16,
    threads: [1]
  }
]

const rank = 16
const block = 64 * 2 ** 20
const rounds = isSmoke ? 1 : 3

const variant = (name: string, program: Program.Program, command: string): Variant<BenchFailed> => ({
  name,
  once: Effect.map(program.ask(command), Number)
})

/** The directory that has node-llama-cpp: the parity suite installs it. */
const llamaModules = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const given = yield* Config.string("LLAMA_MODULES").pipe(Config.option, Effect.orDie)
  const installed = fileURLToPath(new URL("../../parity/.venv-llama", import.meta.url))
  const directory = Option.getOrElse(given, () => installed)
  const found = yield* Effect.orElseSucceed(fs.exists(`${directory}/node_modules/node-llama-cpp`), () => false)
  return found ? Option.some(directory) : Option.none()
})

const measure = Effect.fnUntraced(function*(shape: Shape, threads: number, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const { batch, length } = shape
  const numbers = [threads, batch, length, rank].map(String)
  const ours = yield* Program.startModule("./models/ours.js", directory, ...numbers)
  const torch = (dtype: string) => Python.startCookbook("models.py", "run", directory, dtype, ...numbers)
  const single = yield* torch("float32")
  const half = yield* torch("bfloat16")
  const file = `${directory}/model.safetensors`
  const { size } = yield* Effect.orDie(fs.stat(file))
  // in the system's cache for everyone; in blocks, since Node reads no more than 2 GiB at once
  const reading = Effect.scoped(Effect.gen(function*() {
    const start = performance.now()
    const handle = yield* fs.open(file)
    while (Option.isSome(yield* handle.readAlloc(block)));
    return performance.now() - start
  })).pipe(Effect.orDie)
  yield* reading
  const read = yield* reading
  const loaded = Number(yield* ours.ask("load"))
  const resident = Number(yield* ours.ask("rss"))
  yield* single.ask("load")
  yield* half.ask("load")
  const training = yield* interleaved([
    variant("ours", ours, "train"),
    variant("torch f32", single, "train"),
    variant("torch bf16", half, "train")
  ], { rounds, warmup: 1 })
  const peak = { ours: Number(yield* ours.ask("peak")), torch: Number(yield* single.ask("peak")) }
  return { ours, training, peak, loaded, read, resident, bytes: Number(size) }
})

/** Tokens of a vocabulary whose logits take next to no time. */
const fewTokens = 512

/**
 * Share of a step that is spent on the logits: what is saved by the same model with few tokens. Its gradient of the hidden
 * state and its matrix of adapters shrink with it, as they are part of the same.
 */
const shareOfLogits = Effect.fnUntraced(function*(
  ours: Program.Program,
  { batch, length }: Shape,
  threads: number,
  directory: string
) {
  const few = yield* Program.startModule("./models/ours.js", directory, ...[threads, batch, length, rank].map(String))
  yield* few.ask("load")
  const results = yield* interleaved([variant("all tokens", ours, "train"), variant("few tokens", few, "train")], {
    rounds,
    warmup: 1
  })
  return 1 - (results.get("few tokens")?.relative ?? NaN)
}, Effect.scoped)

const sampling = Effect.fnUntraced(function*(ours: Program.Program, modules: string, gguf: string, threads: number) {
  const llama = yield* Program.start(
    process.execPath,
    fileURLToPath(new URL("../src/models/llama.mjs", import.meta.url)),
    modules,
    gguf,
    String(threads)
  )
  yield* llama.ask("load")
  const beside = (sequences: number) =>
    interleaved([
      variant("ours", ours, `sample ${sequences}`),
      variant("llama.cpp", llama, `sample ${sequences}`)
    ], { rounds, warmup: 1 })
  return { one: yield* beside(1), many: yield* beside(16) }
})

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`

const ofShape = Effect.fnUntraced(function*(shape: Shape, modules: Option.Option<string>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = yield* Effect.orDie(fs.makeTempDirectoryScoped({ prefix: "effect-tinker-bench-" }))
  const writer = yield* Python.startCookbook("models.py", "write", directory, JSON.stringify(shape.config))
  yield* writer.ask("")
  const few = path.join(directory, "few")
  const fewWriter = yield* Python.startCookbook(
    "models.py",
    "write",
    few,
    JSON.stringify({ ...shape.config, vocab_size: fewTokens })
  )
  yield* fewWriter.ask("")
  const gguf = path.join(directory, "model.gguf")
  if (Option.isSome(modules)) {
    yield* Gguf.writeModel({ base: directory, output: gguf, format: "bf16", preTokenizer: "gpt-2" }).pipe(
      Effect.mapError((error) => new BenchFailed({ reason: error.message }))
    )
  }
  const table: Array<ReadonlyArray<string>> = []
  const ratios: Record<string, number> = {}
  for (const threads of shape.threads) {
    yield* Effect.scoped(Effect.gen(function*() {
      const { bytes, loaded, ours, peak, read, resident, training } = yield* measure(shape, threads, directory)
      const key = (name: string): string => `${shape.name}_${name}_${threads}`
      for (const [name, { ms, relative }] of training) {
        const tokens = (shape.batch * shape.length / ms) * 1000
        table.push([
          shape.name,
          String(threads),
          `train: ${name}`,
          `${Math.round(ms)} ms`,
          `${tokens.toFixed(0)} tokens/s`
        ])
        if (name !== "ours") ratios[key(`train_to_${name.replace(" ", "_")}`)] = round(relative)
      }
      ratios[key("share_of_logits")] = round(yield* shareOfLogits(ours, shape, threads, few))
      ratios[key("peak_memory_to_torch")] = round(peak.ours / peak.torch)
      ratios[key("resident_to_file")] = round(resident / bytes)
      ratios[key("load_to_read")] = round(loaded / read)
      table.push([shape.name, String(threads), "peak memory: ours", mebibytes(peak.ours), ""])
      table.push([shape.name, String(threads), "peak memory: torch f32", mebibytes(peak.torch), ""])
      table.push([shape.name, String(threads), "loading", `${Math.round(loaded)} ms`, `reading ${Math.round(read)} ms`])
      table.push([shape.name, String(threads), "resident after loading", mebibytes(resident), mebibytes(bytes)])
      const tenants = yield* interleaved([
        variant("eight", ours, "tenants 8"),
        variant("one", ours, "tenants 1")
      ], { rounds, warmup: 1 })
      for (const [name, { ms, relative }] of tenants) {
        table.push([
          shape.name,
          String(threads),
          `16 requests, adapters: ${name}`,
          `${Math.round(ms)} ms`,
          `${((32 * 16) / ms * 1000).toFixed(0)} tokens/s`
        ])
        if (name === "one") ratios[key("eight_adapters_to_one")] = round(relative)
      }
      if (Option.isNone(modules)) return
      const samples = yield* sampling(ours, modules.value, gguf, threads)
      for (const [label, count, results] of [["one", 1, samples.one], ["sixteen", 16, samples.many]] as const) {
        for (const [name, { ms, relative }] of results) {
          table.push([
            shape.name,
            String(threads),
            `sample ${count}: ${name}`,
            `${Math.round(ms)} ms`,
            `${((32 * count) / ms * 1000).toFixed(0)} tokens/s`
          ])
          if (name !== "ours") ratios[key(`sample_${label}_to_llama`)] = round(relative)
        }
      }
    }))
  }
  return { table, ratios }
}, Effect.scoped)

export const bench: Bench = {
  summary: "training, sampling and memory of models people use, beside PyTorch with peft and llama.cpp",
  run: Effect.gen(function*() {
    const wanted = yield* Config.string("BENCH_MODELS").pipe(Config.withDefault(""), Effect.orDie)
    const modules = yield* llamaModules
    const chosen = (isSmoke ? small : full).filter(({ name }) => name.includes(wanted))
    const results = yield* Effect.forEach(chosen, (shape) => ofShape(shape, modules))
    const report: Report = {
      table: [["model", "threads", "what", "time", ""], ...results.flatMap(({ table }) => table)],
      ratios: Object.assign({}, ...results.map(({ ratios }) => ratios)),
      notes: [
        "More is better for ratios of time (…_to_torch, …_to_llama); less is better for memory and loading. BENCH_MODELS names a part of the models.",
        Option.isSome(modules)
          ? "llama.cpp has the same weights in bfloat16, as a GGUF file that we wrote."
          : "llama.cpp was not measured: `npm run parity -- --llama` installs it, or LLAMA_MODULES names a directory that has node-llama-cpp."
      ]
    }
    return report
  })
}

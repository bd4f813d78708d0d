/**
 * Merging an adapter into a model on disk, a tenth of whose bytes change: beside a plain copy of the same files, and
 * beside the Python cookbook.
 */
import { SafetensorsHeader } from "@effect-tinker/weights"
import { FileSystem, Path } from "@effect/platform"
import { Effect, Schema } from "effect"
import type { Bench } from "./Bench.js"
import { BenchFailed, isSmoke, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"
import * as Python from "./Python.js"

const Figures = Schema.parseJson(Schema.Struct({ seconds: Schema.Number, rss: Schema.Number }))

const width = sized(2048, 128)
const rank = 32
const rounds = sized(5, 1)
/** Weights of the model that is timed. */
const matrices = 60
/** Weights of the smaller model whose peak memory is compared with that of one ten times its size. */
const fewMatrices = 24

/** A model of square bfloat16 matrices, of which every tenth has an adapter. */
const model = Effect.fnUntraced(function*(directory: string, count: number) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const names = Array.from({ length: count }, (_, i) => `model.layers.${i}.mlp.up_proj.weight`)
  const tensors = names.map((name) => ({ name, dtype: "BF16", shape: [width, width] }))
  // Small numbers near 1/128, so that nothing overflows: the bits do not matter to the time it takes.
  const bytes = new Uint8Array(new Uint16Array(width * width).fill(0x3c00).buffer)
  const [base, adapter] = ["base", "adapter"].map((name) => path.join(directory, name))
  if (base === undefined || adapter === undefined) return yield* new BenchFailed({ reason: "no directory" })
  yield* fs.makeDirectory(base, { recursive: true })
  yield* fs.makeDirectory(adapter, { recursive: true })
  yield* fs.writeFileString(path.join(base, "config.json"), JSON.stringify({ model_type: "llama", architectures: [] }))
  yield* fs.writeFileString(path.join(base, "tokenizer.json"), "{}")
  const shard = path.join(base, "model.safetensors")
  yield* fs.writeFile(shard, SafetensorsHeader.encode(tensors, { format: "pt" }))
  for (const _ of names) yield* fs.writeFile(shard, bytes, { flag: "a" })
  const trained = names.filter((_, i) => i % 10 === 0).map((name) => name.replace(/\.weight$/, ""))
  const lora = trained.flatMap((name) => [
    { name: `base_model.model.${name}.lora_A.weight`, dtype: "F32", shape: [rank, width] },
    { name: `base_model.model.${name}.lora_B.weight`, dtype: "F32", shape: [width, rank] }
  ])
  const weights = path.join(adapter, "adapter_model.safetensors")
  yield* fs.writeFile(weights, SafetensorsHeader.encode(lora))
  const values = new Uint8Array(new Float32Array(rank * width).fill(1e-3).buffer)
  for (const _ of lora) yield* fs.writeFile(weights, values, { flag: "a" })
  yield* fs.writeFileString(path.join(adapter, "adapter_config.json"), JSON.stringify({ r: rank, lora_alpha: rank }))
  return { base, adapter }
})

const megabytes = (count: number): number => Math.round(count * width * width * 2 / 1e6)

export const bench: Bench = {
  summary: `${megabytes(matrices)} MB of bfloat16 weights, rank ${rank}, a tenth of them changed`,
  run: Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = yield* fs.makeTempDirectoryScoped()
    const large = yield* model(path.join(directory, "large"), matrices)
    const output = path.join(directory, "output")
    const ours = yield* Program.startModule("./weights/ours.js")
    const ask = (program: Program.Program, { adapter, base }: typeof large) =>
      program.ask([base, adapter, output].join("\t")).pipe(
        Effect.flatMap(Schema.decode(Figures)),
        Effect.zipLeft(fs.remove(output, { recursive: true }))
      )
    const copy = Effect.gen(function*() {
      const start = performance.now()
      yield* fs.copy(large.base, output)
      const seconds = (performance.now() - start) / 1000
      yield* fs.remove(output, { recursive: true })
      return { seconds, rss: 0 }
    })
    const variants = [
      { name: "ours", once: ask(ours, large) },
      { name: "plain copy", once: copy },
      ...(isSmoke ? [] : [{ name: "Python cookbook", once: ask(yield* Python.startCookbook("weights.py"), large) }])
    ]
    const results = variants.map((): Array<typeof Figures.Type> => [])
    for (let turn = -1; turn < rounds; turn++) {
      for (const [i, { once }] of variants.entries()) {
        const figures = yield* once
        if (turn >= 0) results[i]?.push(figures)
      }
    }
    const peak = Effect.fnUntraced(function*(count: number) {
      const fresh = yield* Program.startModule("./weights/ours.js")
      return (yield* ask(fresh, yield* model(path.join(directory, `${count}`), count))).rss
    }, Effect.scoped)
    const [few, many] = [yield* peak(fewMatrices), yield* peak(10 * fewMatrices)]
    const seconds = results.map((own) => median(own.map((figures) => figures.seconds)))
    const to = (other: number) =>
      median((results[0] ?? []).map((figures, i) => (results[other]?.[i]?.seconds ?? NaN) / figures.seconds))
    const gigabytes = matrices * width * width * 2 / 1e9
    return {
      table: [
        ["variant", "seconds", "GB/s"],
        ...variants.map((
          { name },
          i
        ) => [name, (seconds[i] ?? NaN).toFixed(2), (gigabytes / (seconds[i] ?? NaN)).toFixed(2)])
      ],
      ratios: { to_copy: round(to(1)), to_python: round(to(2)), memory_10x: round(many / few) },
      notes: [
        `Medians of ${rounds} rounds in turns. \`memory_10x\`: peak of a process that merges ${
          megabytes(10 * fewMatrices)
        } MB` +
        ` (${Math.round(many / 1e6)} MB) over one that merges ${megabytes(fewMatrices)} MB (${
          Math.round(few / 1e6)
        } MB).`
      ]
    }
  }).pipe(Effect.catchTags({
    ParseError: (error) => new BenchFailed({ reason: error.message }),
    BadArgument: (error) => new BenchFailed({ reason: error.message }),
    SystemError: (error) => new BenchFailed({ reason: error.message })
  }))
}

/**
 * `--engine`: transformers and peft beside the embedded engine on tiny random models of the families it loads, with native
 * kernels and with those of WebAssembly: log probabilities, losses of LoRA with AdamW, greedy tokens, and adapters saved by
 * one side and loaded by the other.
 * `--engine large` loads a directory of a hundred million parameters instead, trains a step and samples.
 */
import type { EngineError, LocalAdapter } from "@effect-tinker/local"
import { Engine, LocalCheckpoint, Safetensors } from "@effect-tinker/local"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import { FileSystem, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Console, Context, Effect, Either, Layer, Schema } from "effect"
import { largeModel } from "../engine/large.js"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import type { PythonMissing } from "../Suite.js"
import { Differs, PythonFailed } from "../Suite.js"

const name = "engine"

const tolerance = { logprobs: 1e-4, losses: 1e-3 } as const

const Rows = Schema.Array(Schema.Array(Schema.Number))

const Reference = Schema.parseJson(Schema.Array(Schema.Struct({
  name: Schema.String,
  prompt: Schema.Array(Schema.Int),
  logprobs: Rows,
  greedy: Schema.Array(Schema.Int),
  batches: Schema.Array(Schema.Array(Schema.Array(Schema.Int))),
  losses: Schema.Array(Schema.Number),
  norms: Schema.Array(Schema.Number),
  tuned: Rows
})))

type Case = typeof Reference.Type[number]

const Checked = Schema.parseJson(Schema.Record({ key: Schema.String, value: Rows }))

const AdapterConfig = Schema.parseJson(Schema.Struct({
  r: Schema.Int,
  lora_alpha: Schema.Number,
  use_rslora: Schema.optionalWith(Schema.Boolean, { default: () => false })
}))

const failed = (program: string) => (error: { readonly message: string }) =>
  new PythonFailed({ program, reason: error.message })

/** An adapter that peft saved. */
const readAdapter = Effect.fnUntraced(function*(directory: string, baseModel: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const config = yield* Schema.decode(AdapterConfig)(
    yield* fs.readFileString(path.join(directory, "adapter_config.json"))
  )
  const { tensors } = Either.getOrThrow(
    Safetensors.decode(yield* fs.readFile(path.join(directory, "adapter_model.safetensors")))
  )
  const snapshot: LocalAdapter.Snapshot = {
    baseModel,
    rank: config.r,
    scale: config.lora_alpha / (config.use_rslora ? Math.sqrt(config.r) : config.r),
    trainAttn: true,
    trainMlp: true,
    trainUnembed: true,
    weights: tensors
  }
  return snapshot
})

/** An adapter for peft to load. */
const writeAdapter = Effect.fnUntraced(function*(directory: string, snapshot: LocalAdapter.Snapshot) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  yield* fs.makeDirectory(directory, { recursive: true })
  yield* fs.writeFile(
    path.join(directory, "adapter_model.safetensors"),
    Safetensors.encode({ tensors: snapshot.weights, metadata: { format: "pt" } })
  )
  const modules = snapshot.weights.map((tensor) => tensor.name.replace(/\.lora_[AB]\.weight$/, "").replace(/^.*\./, ""))
  yield* fs.writeFileString(
    path.join(directory, "adapter_config.json"),
    JSON.stringify({
      peft_type: "LORA",
      task_type: "CAUSAL_LM",
      base_model_name_or_path: snapshot.baseModel,
      r: snapshot.rank,
      lora_alpha: snapshot.scale * snapshot.rank,
      lora_dropout: 0,
      bias: "none",
      target_modules: Array.from(new Set(modules))
    })
  )
})

const datum = (tokens: ReadonlyArray<number>): LocalAdapter.Datum => ({
  tokens: tokens.slice(0, -1),
  lossInputs: { target_tokens: { data: tokens.slice(1), shape: [tokens.length - 1] } }
})

/** Log probabilities of every token after every token of the prompt but the last. */
const scores = Effect.fnUntraced(function*(
  engine: Engine.Service,
  source: LocalAdapter.Snapshot | string,
  prompt: ReadonlyArray<number>,
  vocabulary: number
) {
  const sampler = yield* engine.sampler(source)
  const shape = [prompt.length - 1, vocabulary]
  const ids = Int32Array.from({ length: (prompt.length - 1) * vocabulary }, (_, i) => i % vocabulary)
  const { targetPromptLogprobs } = yield* sampler.sample({
    prompt,
    params: { maxTokens: 0 },
    targetPromptLogprobs: { data: ids, shape }
  })
  return targetPromptLogprobs?.data ?? new Float32Array(0)
})

/** The largest difference between ours and theirs. */
const apart = (ours: Float32Array, theirs: ReadonlyArray<ReadonlyArray<number>>): number => {
  const width = theirs[0]?.length ?? 0
  return ours.reduce((worst, value, i) => {
    const other = theirs[Math.floor(i / width)]?.[i % width] ?? NaN
    const difference = Math.abs(value - other)
    return difference <= worst ? worst : difference
  }, ours.length === 0 ? NaN : 0)
}

const relative = (ours: ReadonlyArray<number>, theirs: ReadonlyArray<number>): number =>
  theirs.reduce((worst, value, i) => Math.max(worst, Math.abs((ours[i] ?? NaN) - value) / Math.abs(value)), 0)

/** What differs, and the figures. Where there are no native kernels, `native` is WebAssembly too. */
const compare = Effect.fnUntraced(function*(root: string, reference: Case, mode: "native" | "wasm") {
  const path = yield* Path.Path
  const directory = path.join(root, reference.name)
  const model = yield* LocalCheckpoint.fromDirectory(directory)
  const engine = Context.get(yield* Layer.build(NodeEngine.layerFor({ models: [model], mode })), Engine.Engine)
  const differences: Array<string> = []
  const title = `${reference.name}, ${engine.mode}`
  const judge = (what: string, difference: number, limit: number): void => {
    if (!(difference <= limit)) differences.push(`${title}: ${what} differ by ${difference}, at most ${limit}`)
  }
  const base = yield* scores(engine, model.name, reference.prompt, model.vocabularySize)
  const logprobs = apart(base, reference.logprobs)
  judge("log probabilities", logprobs, tolerance.logprobs)

  const sampler = yield* engine.sampler(model.name)
  const { sequences } = yield* sampler.sample({
    prompt: reference.prompt.slice(0, 9),
    params: { temperature: 0, maxTokens: 24, stop: [] }
  })
  const greedy = Array.from(sequences[0]?.tokens ?? [])
  if (greedy.join(" ") !== reference.greedy.join(" ")) {
    differences.push(`${title}: greedy tokens: ours ${greedy.join(" ")}, theirs ${reference.greedy.join(" ")}`)
  }

  const adapter = yield* engine.restoreAdapter(
    yield* readAdapter(path.join(directory, "adapter-initial"), model.name)
  )
  const losses: Array<number> = []
  const norms: Array<number> = []
  for (const batch of reference.batches) {
    const pass = yield* adapter.forwardBackward({ data: batch.map(datum), loss: "cross_entropy" })
    losses.push(pass.metrics["loss:sum"] ?? NaN)
    const step = yield* adapter.optimStep({ learningRate: 1e-4, weightDecay: 0.01 })
    norms.push(step.metrics["grad_norm"] ?? NaN)
  }
  const loss = relative(losses, reference.losses)
  judge("losses", loss, tolerance.losses)
  const norm = relative(norms, reference.norms)
  judge("gradient norms", norm, 10 * tolerance.losses)

  const theirs = yield* scores(
    engine,
    yield* readAdapter(path.join(directory, "adapter-trained"), model.name),
    reference.prompt,
    model.vocabularySize
  )
  const loaded = apart(theirs, reference.tuned)
  judge("log probabilities with the adapter peft saved", loaded, tolerance.logprobs)

  const snapshot = yield* adapter.snapshot({ optimizer: false })
  yield* writeAdapter(path.join(directory, "adapter-ours"), snapshot)
  const ours = yield* scores(engine, snapshot, reference.prompt, model.vocabularySize)
  yield* Console.log(
    `${title}: log probabilities ${logprobs.toExponential(1)}, ${losses.length} losses ${
      loss.toExponential(1)
    }, gradient norms ${norm.toExponential(1)}, ${greedy.length} greedy tokens, peft's adapter ${
      loaded.toExponential(1)
    }`
  )
  return { name: reference.name, differences, ours }
})

const tiny = Effect.gen(function*() {
  const python = yield* Python.makeCookbook
  const torch = (...args: ReadonlyArray<string>) =>
    python.runIn({ TRANSFORMERS_VERBOSITY: "error", HF_HUB_OFFLINE: "1" }, "engine_reference", ...args)
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* fs.makeTempDirectoryScoped()
  yield* torch("make", root)
  const reference = yield* Schema.decode(Reference)(yield* fs.readFileString(path.join(root, "reference.json")))
  const results = yield* Effect.forEach(
    reference.flatMap((one) => (["native", "wasm"] as const).map((mode) => [one, mode] as const)),
    ([one, mode]) => compare(root, one, mode)
  )
  const checked = yield* Schema.decode(Checked)(yield* torch("check", root))
  const differences = results.flatMap(({ differences, name, ours }) => {
    const difference = apart(ours, checked[name] ?? [])
    return difference <= tolerance.logprobs
      ? differences
      : [...differences, `${name}: with the adapter we saved, peft differs by ${difference}`]
  })
  if (differences.length > 0) return yield* new Differs({ suite: name, differences })
  yield* Console.log(`${reference.length} models; the adapters we saved give the same in peft`)
}).pipe(
  Effect.scoped,
  Effect.catchTags({
    BadArgument: failed(name),
    SystemError: failed(name),
    ParseError: failed(name)
  })
)

const report = (error: EngineError.EngineError) => new Differs({ suite: name, differences: [error.message] })

const chosen = (args: ReadonlyArray<string>): Effect.Effect<
  void,
  Differs | PythonFailed | PythonMissing | EngineError.EngineError,
  NodeContext.NodeContext
> => args.includes("large") ? largeModel : tiny

export const engine: Suite = {
  name,
  summary: "transformers and peft beside the embedded engine: logits, LoRA training, greedy tokens, adapters",
  run: (args) =>
    Effect.catchTags(chosen(args), {
      InvalidRequest: report,
      UnknownModel: report,
      EngineUnsupported: report,
      ModelUnavailable: report,
      NotFinite: report,
      ThreadLost: report
    })
}

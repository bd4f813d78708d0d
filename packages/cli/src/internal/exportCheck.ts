/**
 * Whether an export computes what its checkpoint computes: logprobs of a few texts, from both. Imported on demand, because
 * it brings in the engine.
 *
 * @since 0.1.0
 */
import * as Engine from "@effect-tinker/local/Engine"
import type * as LocalAdapter from "@effect-tinker/local/LocalAdapter"
import * as LocalCheckpoint from "@effect-tinker/local/LocalCheckpoint"
import * as PeftAdapter from "@effect-tinker/local/PeftAdapter"
import type * as ServingKit from "@effect-tinker/weights/ServingKit"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as SamplingClient from "effect-tinker/SamplingClient"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { Output } from "../terminal/Output.js"
import { CliFailure } from "./CliFailure.js"
import * as live from "./connection.js"

/** The directory of `local/chat`. @internal */
export const chat = Effect.flatMap(Path.Path, (path) => Effect.orDie(path.fromFileUrl(LocalCheckpoint.chatDirectory)))

/** Result of a comparison. @internal */
export interface Verdict {
  readonly tokens: number
  /** Differences of logprobs, in absolute value. */
  readonly mean: number
  readonly max: number
  /** Largest mean that passes. */
  readonly limit: number
  /** Origin of the checkpoint's: the server, or this machine from the base model and the adapter. */
  readonly reference: "server" | "engine"
}

/** @internal */
export const sentence = ({ max, mean, reference, tokens }: Verdict): string =>
  `logprobs of ${tokens} tokens differ by ${mean.toFixed(4)} on average, ${max.toFixed(4)} at most, from those of ` +
  (reference === "server" ? "the server" : "the checkpoint on its base model")

const defaultPrompts = [
  "The capital of France is Paris, and the capital of Italy is Rome.",
  "def add(a, b):\n    return a + b\n",
  "Question: What is 12 + 30?\nAnswer: 42"
]

/** Rounding of weights to 16 or 8 bits moves logprobs by about this much, other weights by far more. */
const limits = { f32: 0.01, f16: 0.05, bf16: 0.05, q8_0: 0.2 }

const cannot = (reason: string, advice: string) =>
  new CliFailure({ what: `The export cannot be verified here: ${reason}`, advice })

/** Logprobs of each prompt's tokens after the first. */
type Scores = ReadonlyArray<ReadonlyArray<number>>
type Prompts = ReadonlyArray<ReadonlyArray<number>>

const loadModel = (place: string, name: string) =>
  Effect.mapError(
    Effect.if(
      Effect.flatMap(
        FileSystem.FileSystem,
        (fs) => Effect.orElseSucceed(fs.exists(`${place}/config.json`), () => false)
      ),
      {
        onTrue: () => LocalCheckpoint.fromDirectory(place, { name }),
        onFalse: () => LocalCheckpoint.fromGguf(place, { name })
      }
    ),
    (error) => cannot(error.message, "Leave out --verify, and compare where the server runs.")
  )

const score = Effect.fnUntraced(
  function*(engine: Engine.Service, source: LocalAdapter.Snapshot | string, prompts: Prompts) {
    const sampler = yield* engine.sampler(source)
    return yield* Effect.forEach(prompts, (prompt) =>
      Effect.map(
        sampler.sample({ prompt, promptLogprobs: true, params: { maxTokens: 1, temperature: 0 } }),
        ({ promptLogprobs }) => Array.from(promptLogprobs ?? []).slice(1)
      ))
  },
  Effect.mapError((error) => cannot(error.message, "Leave out --verify, or try shorter texts with --prompt."))
)

/** The part of node-llama-cpp that is used. */
interface Llama {
  readonly getLlama: (options: object) => Promise<{
    readonly loadModel: (options: object) => Promise<{
      readonly createContext: (options: object) => Promise<{
        readonly getSequence: () => {
          readonly clearHistory: () => Promise<void>
          readonly controlledEvaluate: (
            input: ReadonlyArray<readonly [token: number, options: object]>
          ) => Promise<ReadonlyArray<{ readonly next: { readonly probabilities?: ReadonlyMap<number, number> } }>>
        }
        readonly dispose: () => Promise<void>
      }>
      readonly dispose: () => Promise<void>
    }>
  }>
}

/** Modules whose node-llama-cpp is looked for: this program's before one of a directory. @internal */
export const importersOf = (directory: string): ReadonlyArray<string> => [import.meta.url, join(directory, "_.js")]

/** The file of node-llama-cpp that the first of these modules would import. @internal */
export const findLlama = (importers: ReadonlyArray<string>): Option.Option<string> =>
  Option.firstSomeOf(
    importers.map((importer) => Option.liftThrowable(() => createRequire(importer).resolve("node-llama-cpp"))())
  )

/** The node-llama-cpp that is installed beside this program, or else that of the current directory: which one is said. */
const loadLlama: Effect.Effect<Llama, CliFailure, Output> = Effect.gen(function*() {
  const { note } = yield* Output
  const missing = cannot(
    "GGUF files are run by node-llama-cpp",
    "Install it in this directory (npm install node-llama-cpp)."
  )
  const file = yield* Effect.mapError(findLlama(importersOf(process.cwd())), () => missing)
  yield* note(`The export is run with ${file}`)
  return yield* Effect.tryPromise({
    try: (): Promise<Llama> => import(pathToFileURL(file).href),
    catch: () => missing
  })
})

const scoreGguf = (llama: Llama, options: {
  readonly model: string
  readonly prompts: Prompts
}): Effect.Effect<Scores, CliFailure> =>
  Effect.tryPromise({
    try: async () => {
      const engine = await llama.getLlama({ gpu: false, build: "never", logLevel: "error", progressLogs: false })
      const model = await engine.loadModel({ modelPath: options.model })
      const longest = Math.max(...options.prompts.map(({ length }) => length))
      const context = await model.createContext({
        contextSize: Math.max(64, longest + 8),
        threads: 1,
        // Half precision, its default, would be a difference of llama.cpp's making.
        experimentalKvCacheKeyType: "F32",
        experimentalKvCacheValueType: "F32",
        flashAttention: false
      })
      const sequence = context.getSequence()
      const scores: Array<Array<number>> = []
      for (const prompt of options.prompts) {
        await sequence.clearHistory()
        const results = await sequence.controlledEvaluate(
          prompt.map((token) => [token, { generateNext: { probabilities: true } }] as const)
        )
        scores.push(
          prompt.slice(1).map((token, i) => Math.log(results[i]?.next.probabilities?.get(token) ?? Number.MIN_VALUE))
        )
      }
      await context.dispose()
      await model.dispose()
      return scores
    },
    catch: (cause) =>
      new CliFailure({
        what: `llama.cpp cannot run the export: ${cause instanceof Error ? cause.message : String(cause)}`,
        advice: "This is unexpected: report what it printed.",
        cause
      })
  })

/** The server's logprobs of a checkpoint it can sample from. */
const scoreRemote = (tinkerPath: string, prompts: Prompts) =>
  Effect.scoped(Effect.gen(function*() {
    const config = yield* TinkerConfig.TinkerConfig
    const service = yield* Layer.build(
      ServiceClient.layerFromEnv({
        baseUrl: config.baseUrl,
        apiKey: Option.getOrUndefined(config.apiKey),
        projectId: Option.getOrUndefined(config.projectId),
        // The URL was checked when the configuration was read.
        allowInsecure: true,
        tags: config.tags
      }).pipe(Layer.provide(NodeCredentials.layer))
    )
    const sampling = yield* Effect.provide(SamplingClient.make({ modelPath: tinkerPath }), service)
    return yield* Effect.forEach(
      prompts,
      (prompt) => Effect.map(sampling.computeLogprobs(prompt), (scores) => Array.from(scores).slice(1))
    )
  })).pipe(Effect.provide(live.rest))

const compare = (
  reference: Scores,
  exported: Scores,
  limit: number,
  by: Verdict["reference"]
): Effect.Effect<Verdict, CliFailure> => {
  const differences = reference.flatMap((scores, i) =>
    scores.map((score, j) => Math.abs(score - (exported[i]?.[j] ?? NaN)))
  )
    .filter((difference) => !Number.isNaN(difference))
  const verdict: Verdict = {
    tokens: differences.length,
    mean: differences.reduce((sum, difference) => sum + difference, 0) / Math.max(1, differences.length),
    max: Math.max(0, ...differences),
    limit,
    reference: by
  }
  if (verdict.tokens === 0) {
    return Effect.fail(cannot("there is nothing to compare", "Give longer texts with --prompt."))
  }
  return verdict.mean <= limit ? Effect.succeed(verdict) : Effect.fail(
    new CliFailure({
      what: `The export does not compute what the checkpoint computes: ${
        sentence(verdict)
      } (at most ${limit} expected)`,
      advice: "Do not serve it. Is the base model the one the adapter was trained on?"
    })
  )
}

/**
 * Looks whether an export can be verified here, before it is made; yields what verifies it.
 *
 * @internal
 */
export const prepare = Effect.fnUntraced(function*(options: {
  readonly target: ServingKit.Target
  readonly form: ServingKit.Form | undefined
  readonly base: string
  readonly adapter: string
  readonly sampler: string | undefined
  readonly prompts: ReadonlyArray<string>
}) {
  const path = yield* Path.Path
  const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const gguf = options.target === "llama.cpp" || options.target === "ollama"
  if (gguf && options.form === "adapter") {
    return yield* cannot("a GGUF adapter needs its base model as GGUF", "Verify the merged model instead.")
  }
  const llama = gguf ? yield* loadLlama : undefined
  const base = yield* loadModel(options.base, "base")
  const texts = options.prompts.length === 0 ? defaultPrompts : options.prompts
  const prompts = texts.map((text) => Array.from(base.tokenizer?.encode(text) ?? []).slice(0, 256))
  const read = (directory: string) =>
    Effect.mapError(PeftAdapter.read(directory, base), (error) => cannot(error.message, "Leave out --verify."))
  return Effect.fnUntraced(function*(
    output: string,
    form: ServingKit.Form,
    dtype: keyof typeof limits | undefined
  ) {
    const directory = path.resolve(output)
    const ownModel = form === "merged" && !gguf
    const engine = yield* Engine.make({ models: ownModel ? [base, yield* loadModel(directory, "exported")] : [base] })
    const reference = options.sampler === undefined
      ? yield* score(engine, yield* read(options.adapter), prompts)
      : yield* scoreRemote(options.sampler, prompts)
    const scores = llama !== undefined
      ? yield* scoreGguf(llama, { model: path.join(directory, "model.gguf"), prompts })
      : yield* score(engine, ownModel ? "exported" : yield* read(directory), prompts)
    const limit = limits[dtype ?? "f16"]
    return yield* compare(reference, scores, limit, options.sampler === undefined ? "engine" : "server")
  }, Effect.provide(context))
})

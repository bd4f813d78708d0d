/**
 * Training and sampling on the embedded backend's models: our kernels, the same model in a library, and our kernels
 * without WebAssembly.
 */
import { Engine, LocalModel } from "@effect-tinker/local"
import { Effect } from "effect"
import type { Bench, Result, Variant } from "./Bench.js"
import { BenchFailed, interleaved, round } from "./Bench.js"
import * as jax from "./engineJax.js"
import { longestWait } from "./engineLoop.js"

const BATCH = 8
const LENGTH = 128
const RANK = 32
const SAMPLES = 16
const SAMPLED = 64

const tokensPerPass = BATCH * LENGTH

const data = Array.from({ length: BATCH }, (_, index) => {
  const tokens = Array.from({ length: LENGTH + 1 }, (_, i) => (i * 37 + index * 91 + ((i * i) % 53)) % 256)
  return { tokens: tokens.slice(0, -1), lossInputs: { target_tokens: { data: tokens.slice(1), shape: [LENGTH] } } }
})

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

const timed = <E>(name: string, work: Effect.Effect<unknown, E>): Variant<BenchFailed> => ({
  name,
  once: Effect.suspend(() => {
    const start = cpu()
    return Effect.map(work, () => cpu() - start)
  }).pipe(Effect.mapError((error) => new BenchFailed({ reason: `${name}: ${String(error)}` })))
})

const library = (name: string, work: () => Promise<number>): Variant<BenchFailed> =>
  timed(name, Effect.tryPromise(work))

/** A whole step: passes in both directions, the optimizer, and the new weights brought into place. */
const ownTraining = Effect.fnUntraced(function*(mode: "wasm" | "js", model: LocalModel.LocalModel) {
  const engine = yield* Engine.make({ mode })
  const adapter = yield* engine.createAdapter({ baseModel: model.name, rank: RANK, seed: 1 })
  return timed(
    mode,
    Effect.zipRight(adapter.forwardBackward({ data, loss: "cross_entropy" }), adapter.optimStep())
  )
})

const ownSampling = Effect.fnUntraced(function*(mode: "wasm" | "js", model: LocalModel.LocalModel) {
  const engine = yield* Engine.make({ mode })
  const sampler = yield* engine.sampler(model.name)
  return timed(
    mode,
    sampler.sample({ prompt: [97], numSamples: SAMPLES, params: { maxTokens: SAMPLED, seed: 1, stop: [] } })
  )
})

const training = Effect.fnUntraced(function*(model: LocalModel.LocalModel) {
  return yield* interleaved([
    yield* ownTraining("wasm", model),
    library("jax-js", jax.trainer(model, BATCH, LENGTH, RANK)),
    yield* ownTraining("js", model)
  ], { rounds: 5, warmup: 2 })
})

const sampling = Effect.fnUntraced(function*(model: LocalModel.LocalModel) {
  return yield* interleaved([
    yield* ownSampling("wasm", model),
    library("jax-js", jax.sampler(model, SAMPLES, SAMPLED)),
    yield* ownSampling("js", model)
  ], { rounds: 3, warmup: 2 })
})

const rate = (tokens: number, result: Result | undefined): string =>
  result === undefined ? "-" : Math.round(tokens / result.ms * 1000).toLocaleString("en")

const row = (name: string, tokens: number, results: ReadonlyMap<string, Result>): ReadonlyArray<string> => [
  name,
  ...["wasm", "jax-js", "js"].map((variant) => rate(tokens, results.get(variant))),
  `${round(results.get("jax-js")?.relative ?? NaN)}`,
  `${round(results.get("js")?.relative ?? NaN)}`
]

export const bench: Bench = {
  summary:
    `tokens per CPU second, LoRA rank ${RANK}; a step over ${BATCH} x ${LENGTH} tokens, ${SAMPLES} samples at once`,
  run: Effect.gen(function*() {
    yield* Effect.promise(jax.start)
    const smallStep = yield* training(LocalModel.small)
    const tinyStep = yield* training(LocalModel.tiny)
    const smallSample = yield* sampling(LocalModel.small)
    const tinySample = yield* sampling(LocalModel.tiny)
    const wait = yield* longestWait
    const relative = (results: ReadonlyMap<string, Result>, name: string): number =>
      round(results.get(name)?.relative ?? NaN)
    return {
      table: [
        ["", "ours", "jax-js", "ours without wasm", "jax-js / ours", "without wasm / ours"],
        row("local/small train", tokensPerPass, smallStep),
        row("local/tiny train", tokensPerPass, tinyStep),
        row("local/small sample", SAMPLES * SAMPLED, smallSample),
        row("local/tiny sample", SAMPLES * SAMPLED, tinySample)
      ],
      ratios: {
        to_library: relative(smallStep, "jax-js"),
        to_library_tiny: relative(tinyStep, "jax-js"),
        to_library_sampling: relative(smallSample, "jax-js"),
        to_fallback: relative(smallStep, "js")
      },
      notes: [
        "Ours is a whole step with optimizer and merged weights; the library's is loss and gradient only, compiled" +
        " before and for this shape alone.",
        "The event loop while a program trains, saves and samples on the backend in its own process: a timer late by at" +
        ` most ${wait.toFixed(0)} ms.`
      ]
    }
  }).pipe(
    Effect.mapError((error) => error._tag === "BenchFailed" ? error : new BenchFailed({ reason: error.message }))
  )
}

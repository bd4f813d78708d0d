/**
 * Mistakes the compiler catches. Each `@ts-expect-error` fails the type check once the line below it compiles; nothing
 * here runs but the last test.
 */
import { assert, describe, it } from "@effect/vitest"
import { Data, Effect, Either } from "effect"
import {
  Datum,
  Loss,
  SamplingClient,
  type TextTokenizer,
  type TinkerError,
  TinkerFuture,
  type TrainingClient
} from "../src/index.js"
import type { Training } from "../src/Promise.js"
import { type Sample } from "../src/wire.js"

const lesson = Either.getOrThrow(Datum.fromTokens([1, 2, 3]))
const rollout = Either.getOrThrow(
  Datum.make({ modelInput: [1, 2], lossFnInputs: { target_tokens: [2, 3], logprobs: [0, 0], advantages: [1, 1] } })
)
const plain: Datum.Datum = lesson

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Same<A, B>): void => {}
type ErrorOf<T> = T extends Effect.Effect<infer _A, infer E, infer _R> ? E : never

class OwnError extends Data.TaggedError("OwnError")<{}> {}

export const losses = (training: TrainingClient.Service, run: Training) => [
  training.forwardBackward([lesson], "cross_entropy"),
  training.forwardBackward([rollout], "ppo", { clip_low_threshold: 0.8 }),
  training.forward([rollout], { name: "dro", config: { beta: 0.1 } }),
  training.trainStep([rollout], { name: "ppo", config: { clip_high_threshold: 2 } }, { learningRate: 1e-4 }),
  // Checked before it is sent instead.
  training.forwardBackward([plain], "ppo"),
  // The way out.
  training.forwardBackward([lesson], Loss.other("dppo", { delta_low: 0.2 })),
  run.forwardBackward([{ modelInput: [1], lossFnInputs: { target_tokens: [2], weights: [1] } }], "cross_entropy"),

  // @ts-expect-error: a misspelt loss
  training.forwardBackward([lesson], "cross_entropi"),
  // @ts-expect-error: a misspelt loss
  training.trainStep([lesson], "cross_entropi"),
  // @ts-expect-error: a misspelt setting
  training.forwardBackward([rollout], "ppo", { clip_low_treshold: 0.8 }),
  // @ts-expect-error: a misspelt setting
  training.forward([rollout], { name: "ppo", config: { clip_low_treshold: 0.8 } }),
  // @ts-expect-error: a setting of another loss
  training.forwardBackward([lesson], "cross_entropy", { beta: 0.1 }),
  // @ts-expect-error: no advantages
  training.forwardBackward([lesson], "ppo"),
  // @ts-expect-error: no weights
  training.trainStep([rollout], "cross_entropy"),
  // @ts-expect-error: no advantages
  run.trainStep([lesson], "importance_sampling"),
  // @ts-expect-error: no weights
  run.forward([{ modelInput: [1], lossFnInputs: { target_tokens: [2] } }], "cross_entropy")
]

export const samplers = (sampler: SamplingClient.Service) => {
  // @ts-expect-error: nothing to sample from
  SamplingClient.make({})
  // @ts-expect-error: two things to sample from
  SamplingClient.make({ baseModel: "m", modelPath: "tinker://run/sampler_weights/a" })
  const _ids = sampler.sample({ prompt: Int32Array.of(1, 2) })
  same<typeof _ids, Effect.Effect<Sample.SampleResponse, TinkerError.SamplingError>>(true)
  const _text = SamplingClient.sampleText(sampler, { prompt: "once" })
  same<Effect.Effect.Context<typeof _text>, TextTokenizer.TextTokenizer>(true)
  // @ts-expect-error: text needs a tokenizer
  return sampler.sample({ prompt: "once" })
}

export const channels = (training: TrainingClient.Service, sampler: SamplingClient.Service) => {
  same<Extract<ErrorOf<typeof training.getInfo>, { readonly _tag: "BudgetExceeded" | "UnobservedFailure" }>, never>(
    true
  )
  const _program = Effect.gen(function*() {
    yield* training.forwardBackward([lesson], "cross_entropy").pipe(TinkerFuture.await)
    yield* sampler.sample({ prompt: [1] })
    return yield* new OwnError()
  })
  same<ErrorOf<typeof _program>, TinkerError.TrainingError | TinkerError.SamplingError | OwnError>(true)
}

describe("types", () => {
  it("a datum known to have more inputs serves where fewer are needed, and a plain one everywhere", () => {
    const needsTargets = (datum: Datum.With<"target_tokens">) => Object.keys(datum.lossFnInputs)
    assert.deepStrictEqual(needsTargets(lesson), ["target_tokens", "weights"])
    assert.deepStrictEqual(needsTargets(rollout), ["target_tokens", "logprobs", "advantages"])
    assert.deepStrictEqual(needsTargets(plain), ["target_tokens", "weights"])
  })
})

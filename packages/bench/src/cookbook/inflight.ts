/**
 * Asynchronous training with weights that stay as they were when a rollout began, and with weights in flight, on the same
 * task: rollouts of several turns with a wait after each, in which the model is trained on.
 */
import { Dataset, Environment, Reinforce } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Chunk, Clock, Duration, Effect, Stream } from "effect"
import { BenchFailed, sized } from "../Bench.js"

const turns = 4
const groups = 2
const group = 6

/** Of the wait after a turn: some problems take four times as long as others. */
const wait = (problem: number): Duration.Duration => Duration.millis(10 * (1 + problem % 4))

/** Rewarded by how many of the sampled tokens are small: the untrained model has no preference. */
const small = (problem: number) =>
  Environment.group(() =>
    Effect.sync(() => {
      let prompt = Int32Array.of(65, 66 + problem % 8)
      let taken = 0
      return {
        initial: Effect.succeed({ _tag: "Continue", observation: { prompt, stop: [] } }),
        step: ({ tokens }) =>
          Effect.delay(
            Effect.sync(() => {
              prompt = Int32Array.from([...prompt, ...tokens])
              const reward = tokens.filter((token) => token < 64).length / tokens.length / turns
              return ++taken === turns
                ? { _tag: "Done", reason: "completed", reward }
                : { _tag: "Continue", observation: { prompt, stop: [] }, reward }
            }),
            wait(problem)
          )
      } satisfies Environment.Environment
    })
  )

/** How a run went. */
export interface Course {
  readonly seconds: number
  /** Sampled tokens. */
  readonly tokens: number
  /** Mean of all steps: the faster it learns, the higher. */
  readonly reward: number
  /** Of the last quarter of the steps. */
  readonly last: number
  /** Steps between the weights that drew a token and those it changed, on average, at most and at least. */
  readonly stale: number
  readonly staleLeast: number
}

const mean = (values: ReadonlyArray<number>): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** One run. */
export const run = (sampler: "snapshot" | "inflight", seed: number): Effect.Effect<Course, BenchFailed> =>
  Effect.gen(function*() {
    const renderer = yield* Effect.flatMap(
      Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
      Renderers.qwen3Instruct
    )
    const steps = sized(24, 3)
    const started = yield* Clock.currentTimeMillis
    const reports = yield* Reinforce.train({
      model: { baseModel: "local/tiny", rank: 8, seed },
      problems: Dataset.fromIterable(Array.from({ length: groups * steps }, (_, n) => small(n))),
      renderer,
      learningRate: 2e-3,
      maxTokens: 4,
      groupSize: group,
      groupsPerBatch: groups,
      seed,
      mode: Reinforce.async({ maxStepsOffPolicy: 3, sampler })
    }).pipe(Stream.runCollect, Effect.map(Chunk.toReadonlyArray))
    const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
    const rewards = reports.map(({ detail }) => detail.reward)
    const measured = (name: string) => mean(reports.map(({ metrics }) => metrics[name] ?? NaN))
    return {
      seconds,
      tokens: reports.length * groups * group * turns * 4,
      reward: mean(rewards),
      last: mean(rewards.slice(-Math.ceil(rewards.length / 4))),
      stale: measured("staleness_tokens"),
      staleLeast: measured("staleness_tokens_least")
    }
  }).pipe(
    Effect.provide(TinkerLocal.layer()),
    Effect.mapError((error) => new BenchFailed({ reason: error.message }))
  )

import { Judgement } from "@effect-tinker/cluster"
import { Dataset, Environment, Reinforce, RunLog } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import type { Duration } from "effect"
import { Effect, Layer, Option, Stream } from "effect"

export const renderer = Effect.flatMap(
  Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
  Renderers.qwen3Instruct
)

/** Rewarded by how many of the sampled tokens are small, after a while. */
export const small = (n: number, after: Duration.DurationInput = 0) =>
  Environment.group(() =>
    Effect.succeed(
      {
        initial: Effect.succeed({ _tag: "Continue", observation: { prompt: Int32Array.of(65, 66 + n), stop: [] } }),
        step: ({ tokens }) =>
          Effect.delay(
            Effect.succeed({
              _tag: "Done" as const,
              reason: "completed" as const,
              reward: tokens.filter((token) => token < 64).length / tokens.length
            }),
            after
          )
      } satisfies Environment.Environment
    )
  )

/** Rewarded by a person. */
export const graded = (n: number) =>
  Environment.group(() =>
    Effect.succeed(
      {
        initial: Effect.succeed({ _tag: "Continue", observation: { prompt: Int32Array.of(65, 66 + n), stop: [] } }),
        step: ({ tokens }) =>
          Effect.map(Judgement.ask({ question: `${n}?`, answer: Array.from(tokens).join(" ") }), (reward) => ({
            _tag: "Done" as const,
            reason: "completed" as const,
            reward
          }))
      } satisfies Environment.Environment<never, Judgement.Judgements>
    )
  )

/** A run of eight steps, saved after every second one. */
export const reinforce = <E, R>(
  problems: ReadonlyArray<Environment.Group<E, R>>,
  log: RunLog.Target<never> | ReturnType<typeof RunLog.directory>,
  more?: { readonly epochs?: number; readonly groupSize?: number; readonly saveEvery?: number }
) =>
  Stream.unwrap(Effect.map(Effect.orDie(renderer), (written) =>
    Reinforce.train({
      model: { baseModel: "local/tiny", rank: 4, seed: 1 },
      problems: Dataset.fromIterable(problems),
      renderer: written,
      learningRate: 1e-2,
      // the rate is high, so that every step changes many bits
      guard: false,
      maxTokens: 4,
      groupSize: more?.groupSize ?? 4,
      groupsPerBatch: 2,
      epochs: more?.epochs ?? 2,
      shuffle: 5,
      checkpoints: { periodic: { steps: more?.saveEvery ?? 2 } },
      log
    })))

/** The embedded backend over a directory, in process. */
export const backend = (directory: string) =>
  Layer.merge(NodeContext.layer, Layer.provide(TinkerLocal.layerDirectory(directory), NodeContext.layer))

/** What a run computed, and how often it was taken up again. */
export const series = (directory: string) =>
  Effect.map(RunLog.read(directory), (found) => {
    const { ended, resumes, steps } = Option.getOrThrow(found)
    return {
      resumes,
      complete: Option.exists(ended, ({ complete }) => complete),
      steps: steps.map(({ metrics, step }) => [step, metrics["loss"], metrics["env/all/reward"]] as const)
    }
  })

/**
 * The problem of runs that are killed, and that are spread over workers: something to learn for a model of any vocabulary.
 */
import { Environment } from "@effect-tinker/cookbook"
import type { Duration } from "effect"
import { Effect } from "effect"

/**
 * Rewarded by how many of the sampled tokens are small, after a wait. Two turns: one process draws the first turn of every other
 * problem's rollouts in one request, workers one by one; later turns are drawn one by one everywhere.
 */
export const smallTokens = (n: number, wait: Duration.Duration) =>
  Environment.group(
    () =>
      Effect.sync(() => {
        const prompt = [65, 66 + n % 64]
        let sampled: ReadonlyArray<number> = []
        let turns = 0
        return {
          initial: Effect.succeed({
            _tag: "Continue",
            observation: { prompt: Int32Array.from(prompt), stop: [] }
          }),
          step: ({ tokens }) =>
            Effect.suspend((): Effect.Effect<Environment.Step> => {
              const reward = tokens.filter((token) => token < 64).length / tokens.length
              sampled = [...sampled, ...tokens]
              if (++turns === 2) {
                return Effect.delay(Effect.succeed({ _tag: "Done", reason: "completed", reward }), wait)
              }
              const next = Int32Array.from([...prompt, ...sampled, 65])
              return Effect.succeed({ _tag: "Continue", reward, observation: { prompt: next, stop: [] } })
            })
        } satisfies Environment.Environment
      }),
    { samePrompt: n % 2 === 0 }
  )

/**
 * The problem of runs that are killed: something to learn for a model of any vocabulary.
 */
import { Environment } from "@effect-tinker/cookbook"
import type { Duration } from "effect"
import { Effect } from "effect"

/** Rewarded by how many of the sampled tokens are small, after a wait. */
export const smallTokens = (n: number, wait: Duration.Duration) =>
  Environment.group(() =>
    Effect.succeed(
      {
        initial: Effect.succeed({
          _tag: "Continue",
          observation: { prompt: Int32Array.of(65, 66 + n % 64), stop: [] }
        }),
        step: ({ tokens }) =>
          Effect.delay(
            Effect.succeed({
              _tag: "Done",
              reason: "completed",
              reward: tokens.filter((token) => token < 64).length / tokens.length
            }),
            wait
          )
      } satisfies Environment.Environment
    )
  )

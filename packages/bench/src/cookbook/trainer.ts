/**
 * `Reinforce.train` over HTTP.
 */
import { Dataset, Environment, Reinforce } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message } from "@effect-tinker/tokenizer"
import { Effect, Stream } from "effect"
import { measure } from "./client.js"
import { baseModel, learningRate, problems, question, rank, reward, shown } from "./rollouts.js"

/** One turn, graded as the official loop does: also an answer that was cut off. */
const problem = (renderer: Renderer.Renderer, prompt: Int32Array) =>
  Environment.group(() =>
    Effect.succeed(
      {
        initial: Effect.succeed({ _tag: "Continue", observation: { prompt, stop: renderer.stop } }),
        step: ({ tokens }) =>
          Effect.sync(() => ({
            _tag: "Done" as const,
            reason: "completed" as const,
            reward: reward(Message.text(renderer.parse(tokens).message))
          }))
      } satisfies Environment.Environment
    ), { samePrompt: true })

measure(({ group, maxTokens, renderer, steps }) =>
  Reinforce.train({
    model: { baseModel, rank, seed: 1 },
    problems: Dataset.mapEffect(
      Dataset.fromIterable(Array.from({ length: problems * steps }, (_, n) => n)),
      (n) =>
        Effect.map(
          renderer.generationPrompt([...shown, Message.user(question(n))]),
          (prompt) => problem(renderer, prompt)
        )
    ),
    renderer,
    learningRate,
    maxTokens,
    groupSize: group,
    groupsPerBatch: problems
  }).pipe(Stream.runFold(0, (sum, { detail }) =>
    sum + detail.groups.flatMap(({ trajectories }) => trajectories).reduce(
      (of, { turns }) => of + turns.reduce((all, { action }) => all + action.tokens.length, 0),
      0
    )))
)

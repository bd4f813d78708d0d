/**
 * Model against model: one knows a secret and answers, the other asks until it is told "Yes". Only the one who asks learns.
 */
import { Dataset, Environment, Evaluator, Example, Loss, Reinforce, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { answers, define, measured, say, trained } from "../shared/recipe.js"

const animals = ["cat", "dog", "cow", "hen"]
const ask = (animal: string) => `Is it a ${animal}?`
const start = Message.user("Ask me which animal it is.")

/** What each of the two is shown before the game: how to answer, and that one asks. */
const toAnswer = animals.flatMap((secret) =>
  animals.map((guess) =>
    Example.conversation([
      Message.user(`The animal is a ${secret}. ${ask(guess)}`),
      Message.assistant(secret === guess ? "Yes" : "No")
    ])
  )
)
const toAsk = animals.flatMap((one) =>
  animals.map((other) =>
    Example.conversation([start, Message.assistant(ask(one)), Message.user("No"), Message.assistant(ask(other))])
  )
)

export default define({
  measure: "games won within four questions",
  model: "local/chat",
  learningRate: 5e-4,
  passes: ({ after, before }) => after >= 0.85 && after >= before + 0.1,
  run: ({ learningRate, model, renderer, seed }) =>
    Effect.gen(function*() {
      const prepare = (data: ReadonlyArray<Example.Example>, epochs: number) =>
        trained(Supervised.train({
          model: { baseModel: model, rank: 16, seed },
          data: Dataset.fromIterable(data),
          renderer,
          learningRate: 2e-3,
          batchSize: 16,
          epochs
        }))
      yield* say("the one who answers")
      const answerer = yield* SamplingClient.make({ modelPath: (yield* prepare(toAnswer, 25)).samplerPath })
      yield* say("the one who asks")
      const { statePath } = yield* prepare(toAsk, 8)

      const games = Dataset.map(Dataset.fromIterable(animals), (secret) =>
        Environment.group((settings) =>
          Effect.succeed(Environment.messages({
            start: [start],
            onMessage: (message, history) =>
              Effect.gen(function*() {
                const turns = history.filter(({ role }) => role === "assistant").length + 1
                const asked = Message.user(`The animal is a ${secret}. ${Message.text(message)}`)
                const [said = ""] = yield* answers(answerer, renderer, [[asked]], { maxTokens: 4 })
                if (said === "Yes") return Environment.done(1 - 0.1 * (turns - 1), { metrics: { won: 1 } })
                return turns === 4 ? Environment.done(0, { metrics: { won: 0 } }) : Environment.reply("No")
              })
          }, settings))
        ))
      const sampling = { maxTokens: 10, seed }
      return yield* Reinforce.train({
        model: { baseModel: model, from: statePath },
        problems: games,
        renderer,
        learningRate,
        adam: { clip: 1 },
        groupSize: 16,
        groupsPerBatch: animals.length,
        epochs: 12,
        loss: Loss.ppo(),
        evaluate: [Evaluator.rollouts(games, { ...sampling, settings: { renderer }, groupSize: 12 })],
        evaluateEvery: 1000,
        ...sampling
      }).pipe(measured("rollouts", "env/all/won"))
    }).pipe(Effect.scoped)
})

/**
 * Several turns: the model looks for a number and gets the answer "Higher" or "Lower". Fewer guesses earn more.
 */
import { Dataset, Environment, Evaluator, Loss, Reinforce } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect } from "effect"
import { define, measured } from "../shared/recipe.js"

const top = 10
const attempts = 4

const games = Dataset.fromIterable(
  Array.range(1, top).map((secret) =>
    Environment.group((settings) =>
      Effect.sync(() => {
        let guesses = 0
        return Environment.messages({
          start: [Message.user(`Guess my number between 1 and ${top}.`)],
          onMessage: (message) =>
            Effect.sync(() => {
              const text = Message.text(message).trim()
              const guess = /^\d+$/.test(text) ? parseInt(text) : NaN
              guesses++
              if (guess === secret) return Environment.done(1 - 0.1 * (guesses - 1), { metrics: { found: 1 } })
              if (!(guess >= 1 && guess <= top)) return Environment.done(-0.5, { metrics: { found: 0 } })
              if (guesses === attempts) return Environment.done(0, { metrics: { found: 0 } })
              return Environment.reply(guess < secret ? "Higher" : "Lower")
            })
        }, settings)
      }), { samePrompt: true })
  )
)

export default define({
  measure: `games in which the number was found in ${attempts} guesses`,
  model: "local/chat",
  learningRate: 5e-4,
  passes: ({ after, before }) => after >= before + 0.1,
  run: ({ learningRate, model, renderer, seed }) =>
    Reinforce.train({
      model: { baseModel: model, rank: 16, seed },
      problems: games,
      renderer,
      learningRate,
      adam: { clip: 1 },
      maxTokens: 5,
      groupSize: 12,
      groupsPerBatch: top,
      epochs: 10,
      seed,
      loss: Loss.ppo(),
      evaluate: [Evaluator.rollouts(games, { settings: { renderer }, maxTokens: 5, groupSize: 20, seed })],
      evaluateEvery: 1000
    }).pipe(measured("rollouts", "env/all/found"))
})

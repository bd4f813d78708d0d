/**
 * An agent written with `@effect/ai` learns which of its tools to use. The agent itself is unchanged: `answer` needs a
 * `LanguageModel`, and training provides it.
 */
import { Agent } from "@effect-tinker/agents"
import * as EffectAi from "@effect-tinker/agents/EffectAi"
import { Chat, Tool, Toolkit } from "@effect/ai"
import { Effect, Schema } from "effect"
import { heldOut, isAnswered, lookUp, tickets } from "../shared/orders.js"
import { define, measured } from "../shared/recipe.js"

const options = {
  description: "Look up an order.",
  parameters: { order_id: Schema.String },
  success: Schema.String
}

const toolkit = Toolkit.make(Tool.make("find_order", options), Tool.make("find_orders", options))

const Tools = toolkit.toLayer({
  find_order: ({ order_id }) => Effect.succeed(lookUp("new", order_id)),
  find_orders: ({ order_id }) => Effect.succeed(lookUp("old", order_id))
})

const answer = Effect.fn(function*(question: string) {
  const chat = yield* Chat.fromPrompt(question)
  let response = yield* chat.generateText({ prompt: [], toolkit })
  for (let step = 1; step < 4 && response.toolCalls.length > 0; step++) {
    response = yield* chat.generateText({ prompt: [], toolkit })
  }
  return response.text
}, Effect.provide(Tools))

const agent = EffectAi.agent({
  tasks: tickets,
  test: heldOut,
  run: ({ question }) => answer(question),
  score: isAnswered
})

export default define({
  measure: "tickets answered right, of customers it was not trained on",
  model: "local/chat",
  learningRate: 2e-4,
  passes: ({ after, before }) => after >= 0.8 && after >= before + 0.1,
  run: ({ learningRate, model, renderer, seed }) =>
    Agent.train({
      agent,
      model: { baseModel: model, rank: 16, seed },
      renderer,
      learningRate,
      adam: { clip: 1 },
      maxTokens: 48,
      groupSize: 8,
      groupsPerBatch: 8,
      epochs: 1,
      seed,
      test: { seed },
      evaluateEvery: 1000
    }).pipe(measured("test", "env/all/reward"))
})

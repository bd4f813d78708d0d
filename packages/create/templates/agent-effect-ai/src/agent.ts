/**
 * The agent as it runs in production, and what training adds: tasks and a score. It needs a `LanguageModel`, and training
 * provides it.
 */
import * as EffectAi from "@effect-tinker/agents/EffectAi"
import { Chat, Tool, Toolkit } from "@effect/ai"
import { Effect, Schema } from "effect"
import { heldOut, lookUp, score, tickets } from "./orders.js"

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

export const answer = Effect.fn("answer")(function*(question: string) {
  const chat = yield* Chat.fromPrompt(question)
  let response = yield* chat.generateText({ prompt: [], toolkit })
  for (let step = 1; step < 4 && response.toolCalls.length > 0; step++) {
    response = yield* chat.generateText({ prompt: [], toolkit })
  }
  return response.text
}, Effect.provide(Tools))

export const agent = EffectAi.agent({
  tasks: tickets,
  test: heldOut,
  run: ({ question }) => answer(question),
  score
})

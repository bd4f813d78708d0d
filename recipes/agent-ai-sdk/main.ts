/**
 * An agent written with the AI SDK learns which of its tools to use. The agent itself is unchanged: `answer` takes a model
 * and a question, as in production.
 */
import { Agent } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import type { LanguageModel } from "ai"
import { stepCountIs, tool, ToolLoopAgent } from "ai"
import { z } from "zod"
import { heldOut, isAnswered, lookUp, tickets } from "../shared/orders.js"
import { define, measured } from "../shared/recipe.js"

const lookUpIn = (system: "new" | "old") =>
  tool({
    description: "Look up an order.",
    inputSchema: z.object({ order_id: z.string() }),
    execute: ({ order_id }) => lookUp(system, order_id)
  })

const tools = { find_order: lookUpIn("new"), find_orders: lookUpIn("old") }

const answer = (model: LanguageModel, question: string, abortSignal: AbortSignal) =>
  new ToolLoopAgent({ model, tools, stopWhen: stepCountIs(4) }).generate({ prompt: question, abortSignal })

const agent = AiSdk.agent({
  tasks: tickets,
  test: heldOut,
  run: ({ question }, { model, signal }) => answer(model, question, signal),
  score: (ticket, { text }) => isAnswered(ticket, text)
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

/**
 * The agent as it runs in production, and what training adds: tasks and a score.
 */
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import type { ModelProvider } from "@openai/agents"
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents"
import { z } from "zod"
import { heldOut, lookUp, score, tickets } from "./orders.js"

const lookUpIn = (name: string, system: "new" | "old") =>
  tool({
    name,
    description: "Look up an order.",
    parameters: z.object({ order_id: z.string() }),
    execute: async ({ order_id }) => lookUp(system, order_id)
  })

const tools = [lookUpIn("find_order", "new"), lookUpIn("find_orders", "old")]

export const answer = async (modelProvider: ModelProvider, question: string, signal?: AbortSignal) => {
  const support = new Agent({ name: "Support", tools, model: "tinker" })
  const runner = new Runner({ modelProvider, tracingDisabled: true })
  const { finalOutput } = await runner.run(support, question, { maxTurns: 4, ...(signal && { signal }) })
  return finalOutput ?? ""
}

export const agent = NodeGateway.agent({
  tasks: tickets,
  test: heldOut,
  run: ({ question }, { apiKey, baseURL, signal }) =>
    answer(new OpenAIProvider({ apiKey, baseURL, useResponses: true }), question, signal),
  score
})

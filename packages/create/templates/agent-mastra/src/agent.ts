/**
 * The agent as it runs in production, and what training adds: tasks and a score.
 */
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { z } from "zod"
import { heldOut, lookUp, score, tickets } from "./orders.js"

const lookUpIn = (id: string, system: "new" | "old") =>
  createTool({
    id,
    description: "Look up an order.",
    inputSchema: z.object({ order_id: z.string() }),
    execute: async ({ order_id }) => lookUp(system, order_id)
  })

const tools = { find_order: lookUpIn("find_order", "new"), find_orders: lookUpIn("find_orders", "old") }

export const answer = async (
  model: { readonly id: `${string}/${string}`; readonly url: string; readonly apiKey: string },
  question: string,
  abortSignal?: AbortSignal
) => {
  const support = new Agent({ id: "support", name: "Support", instructions: "", model, tools })
  const { steps } = await support.generate(question, { maxSteps: 4, ...(abortSignal && { abortSignal }) })
  return steps.at(-1)?.text ?? ""
}

export const agent = NodeGateway.agent({
  tasks: tickets,
  test: heldOut,
  run: ({ question }, { apiKey, baseURL, signal }) =>
    answer({ id: "tinker/trained", url: baseURL, apiKey }, question, signal),
  score
})

/**
 * The agent as it runs in production, and what training adds: tasks and a score.
 */
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import type { LanguageModel } from "ai"
import { stepCountIs, tool, ToolLoopAgent } from "ai"
import { z } from "zod"
import { heldOut, lookUp, score, tickets } from "./orders.js"

const lookUpIn = (system: "new" | "old") =>
  tool({
    description: "Look up an order.",
    inputSchema: z.object({ order_id: z.string() }),
    execute: ({ order_id }) => lookUp(system, order_id)
  })

const tools = { find_order: lookUpIn("new"), find_orders: lookUpIn("old") }

export const answer = async (model: LanguageModel, question: string, abortSignal?: AbortSignal) => {
  const support = new ToolLoopAgent({ model, tools, stopWhen: stepCountIs(4) })
  const { text } = await support.generate({ prompt: question, ...(abortSignal && { abortSignal }) })
  return text
}

export const agent = AiSdk.agent({
  tasks: tickets,
  test: heldOut,
  run: ({ question }, { model, signal }) => answer(model, question, signal),
  score
})

/**
 * A support agent as it runs in production, written with the AI SDK. Nothing in it knows of training.
 */
import type { LanguageModel } from "ai"
import { stepCountIs, tool, ToolLoopAgent } from "ai"
import { z } from "zod"

/** The orders were moved from an old system to a new one. */
const orders = new Map<string, string>()

export const remember = (id: string, status: string) => orders.set(id, status)

const lookUpIn = (system: "new" | "old") =>
  tool({
    description: "Look up an order.",
    inputSchema: z.object({ order_id: z.string() }),
    execute: ({ order_id }) => system === "new" ? orders.get(order_id) ?? "unknown" : "unknown"
  })

const tools = { find_order: lookUpIn("new"), find_orders: lookUpIn("old") }

export const answer = (model: LanguageModel, question: string, abortSignal: AbortSignal) =>
  new ToolLoopAgent({ model, tools, stopWhen: stepCountIs(4) }).generate({ prompt: question, abortSignal })

/**
 * A support agent as it runs in production, written with the AI SDK. Nothing in it knows of training.
 */
import type { LanguageModel } from "ai"
import { stepCountIs, tool, ToolLoopAgent } from "ai"
import { z } from "zod"

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

/** Orders are in two systems: `E…` are Europe's, `U…` those of the USA. The agent was never told. */
const lookUpIn = (region: "E" | "U") =>
  tool({
    description: "Look up an order.",
    inputSchema: z.object({ order_id: z.string() }),
    execute: ({ order_id }) => order_id.startsWith(region) ? statusOf(order_id) : "unknown"
  })

const tools = { find_order: lookUpIn("E"), get_order: lookUpIn("U") }

export const statusOf = (order: string) => statuses[7 * Number(order.slice(1)) % statuses.length] ?? "unknown"

export const answer = (model: LanguageModel, question: string, abortSignal?: AbortSignal) =>
  new ToolLoopAgent({ model, tools, stopWhen: stepCountIs(4) }).generate({
    prompt: question,
    ...(abortSignal === undefined ? {} : { abortSignal })
  })

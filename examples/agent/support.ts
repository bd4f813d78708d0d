/**
 * A support agent as it runs in production, written with the AI SDK. Nothing in it knows of training.
 */
import type { LanguageModel } from "ai"
import { stepCountIs, tool, ToolLoopAgent } from "ai"
import { z } from "zod"

/** An order is in the old or in the new system. */
const records = new Map<string, { readonly system: "new" | "old"; readonly status: string }>()

export const remember = (system: "new" | "old", id: string, status: string) => records.set(id, { system, status })

const lookUpIn = (system: "new" | "old") =>
  tool({
    description: "Look up an order.",
    inputSchema: z.object({ order_id: z.string() }),
    execute: ({ order_id }) => {
      const found = records.get(order_id)
      return found?.system === system ? found.status : "unknown"
    }
  })

const tools = { find_order: lookUpIn("old"), find_orders: lookUpIn("new") }

export const answer = (model: LanguageModel, question: string, abortSignal: AbortSignal) =>
  new ToolLoopAgent({ model, tools, stopWhen: stepCountIs(4) }).generate({ prompt: question, abortSignal })

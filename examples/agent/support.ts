/**
 * A support agent as it runs in production, written with the AI SDK. Nothing in it knows of training.
 */
import type { LanguageModel } from "ai"
import { stepCountIs, tool, ToolLoopAgent } from "ai"
import { z } from "zod"

/** Orders are in one system, packages in another. */
const records = new Map<string, { readonly kind: "order" | "package"; readonly status: string }>()

export const remember = (kind: "order" | "package", id: string, status: string) => records.set(id, { kind, status })

const lookUpIn = (system: "order" | "package") =>
  tool({
    description: "Look up an order.",
    inputSchema: z.object({ order_id: z.string() }),
    execute: ({ order_id }) => {
      const found = records.get(order_id)
      return found?.kind === system ? found.status : "unknown"
    }
  })

const tools = { find_order: lookUpIn("order"), get_order: lookUpIn("package") }

export const answer = (model: LanguageModel, question: string, abortSignal: AbortSignal) =>
  new ToolLoopAgent({ model, tools, stopWhen: stepCountIs(4) }).generate({ prompt: question, abortSignal })

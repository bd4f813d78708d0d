/**
 * The agent as it runs in production, and what training adds: tasks and a score.
 */
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { tool } from "@langchain/core/tools"
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph"
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt"
import { ChatOpenAI } from "@langchain/openai"
import { z } from "zod"
import { heldOut, lookUp, score, tickets } from "./orders.js"

const lookUpIn = (name: string, system: "new" | "old") =>
  tool(({ order_id }: { readonly order_id: string }) => lookUp(system, order_id), {
    name,
    description: "Look up an order.",
    schema: z.object({ order_id: z.string() })
  })

const tools = [lookUpIn("find_order", "new"), lookUpIn("find_orders", "old")]

export const answer = async (chat: ChatOpenAI, question: string, signal?: AbortSignal) => {
  const model = chat.bindTools(tools)
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("agent", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addNode("tools", new ToolNode(tools))
    .addEdge(START, "agent")
    .addConditionalEdges("agent", toolsCondition, ["tools", END])
    .addEdge("tools", "agent")
    .compile()
  const { messages } = await graph.invoke(
    { messages: [{ role: "user", content: question }] },
    { recursionLimit: 9, ...(signal && { signal }) }
  )
  return messages.at(-1)?.text ?? ""
}

export const agent = NodeGateway.agent({
  tasks: tickets,
  test: heldOut,
  run: ({ question }, { apiKey, baseURL, signal }) =>
    answer(new ChatOpenAI({ model: "tinker", apiKey, configuration: { baseURL } }), question, signal),
  score
})

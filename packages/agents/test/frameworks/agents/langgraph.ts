import { SystemMessage } from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { END, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph"
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt"
import { ChatOpenAI } from "@langchain/openai"
import { z } from "zod"
import type { Converse } from "./city.js"
import { descriptions, instructions, population, questions, weather } from "./city.js"

const schema = z.object({ city: z.string() })

const tools = [
  tool(({ city }) => JSON.stringify(weather(city)), { name: "weather", description: descriptions.weather, schema }),
  tool(({ city }) => JSON.stringify(population(city)), {
    name: "population",
    description: descriptions.population,
    schema
  })
]

/** A graph of a model and its tools, with the thread kept by a checkpointer. */
export const converse: Converse = async ({ apiKey, baseURL, stream }) => {
  const model = new ChatOpenAI({ model: "gpt-4o", apiKey, configuration: { baseURL } }).bindTools(tools)
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("agent", async ({ messages }) => ({
      messages: [await model.invoke([new SystemMessage(instructions), ...messages])]
    }))
    .addNode("tools", new ToolNode(tools))
    .addEdge(START, "agent")
    .addConditionalEdges("agent", toolsCondition, ["tools", END])
    .addEdge("tools", "agent")
    .compile({ checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: "1" } }
  const answers: Array<string> = []
  for (const content of questions) {
    const input = { messages: [{ role: "user", content }] }
    if (stream) {
      for await (const _ of await graph.stream(input, { ...config, streamMode: "messages" }));
    } else await graph.invoke(input, config)
    const { values } = await graph.getState(config)
    answers.push(values.messages.at(-1).text)
  }
  return answers
}

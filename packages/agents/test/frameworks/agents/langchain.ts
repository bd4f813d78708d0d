import { ChatAnthropic } from "@langchain/anthropic"
import type { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { MemorySaver } from "@langchain/langgraph"
import { ChatOpenAI } from "@langchain/openai"
import { createAgent, tool } from "langchain"
import { z } from "zod"
import type { Converse, Settings } from "./city.js"
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

const over = (modelOf: (settings: Settings) => BaseChatModel): Converse => async (settings) => {
  const agent = createAgent({
    model: modelOf(settings),
    tools,
    systemPrompt: instructions,
    checkpointer: new MemorySaver()
  })
  const config = { configurable: { thread_id: "1" } }
  const answers: Array<string> = []
  for (const content of questions) {
    const input = { messages: [{ role: "user" as const, content }] }
    if (settings.stream) {
      let text = ""
      for await (const [chunk] of await agent.stream(input, { ...config, streamMode: "messages" })) {
        if (chunk.getType() === "ai") text += chunk.text
        else text = ""
      }
      answers.push(text)
    } else {
      const { messages } = await agent.invoke(input, config)
      answers.push(messages.at(-1)?.text ?? "")
    }
  }
  return answers
}

export const chat = over(({ apiKey, baseURL }) =>
  new ChatOpenAI({ model: "gpt-4o", apiKey, configuration: { baseURL } })
)

export const responses = over(({ apiKey, baseURL }) =>
  new ChatOpenAI({ model: "gpt-4o", apiKey, configuration: { baseURL }, useResponsesApi: true })
)

export const anthropic = over(({ anthropicBaseURL, apiKey }) =>
  new ChatAnthropic({ model: "claude-sonnet-4-5", apiKey, anthropicApiUrl: anthropicBaseURL })
)

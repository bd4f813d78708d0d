import { Agent } from "@mastra/core/agent"
import type { MessageInput } from "@mastra/core/agent/message-list"
import { createTool } from "@mastra/core/tools"
import { z } from "zod"
import type { Converse } from "./city.js"
import { descriptions, instructions, population, questions, weather } from "./city.js"

const inputSchema = z.object({ city: z.string() })

const tools = {
  weather: createTool({
    id: "weather",
    description: descriptions.weather,
    inputSchema,
    execute: async ({ city }) => weather(city)
  }),
  population: createTool({
    id: "population",
    description: descriptions.population,
    inputSchema,
    execute: async ({ city }) => population(city)
  })
}

export const converse: Converse = async ({ apiKey, baseURL, stream }) => {
  const model = { id: "gateway/local-chat" as const, url: baseURL, apiKey }
  const agent = new Agent({ id: "cities", name: "Cities", instructions, model, tools })
  const messages: Array<MessageInput> = []
  const answers: Array<string> = []
  for (const content of questions) {
    messages.push({ role: "user", content })
    const result = stream ? await agent.stream(messages) : await agent.generate(messages)
    // its text is that of all steps
    answers.push((await result.steps).at(-1)?.text ?? "")
    const response = await result.response
    messages.push(...response.messages ?? [])
  }
  return answers
}

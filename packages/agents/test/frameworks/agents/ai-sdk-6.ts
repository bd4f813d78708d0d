import { createOpenAI } from "@ai-sdk/openai-6"
import { type LanguageModel, type ModelMessage, stepCountIs, tool, ToolLoopAgent } from "ai-6"
import { z } from "zod"
import type { Converse, Settings } from "./city.js"
import { descriptions, instructions, population, questions, weather } from "./city.js"

const inputSchema = z.object({ city: z.string() })

const tools = {
  weather: tool({ description: descriptions.weather, inputSchema, execute: ({ city }) => weather(city) }),
  population: tool({ description: descriptions.population, inputSchema, execute: ({ city }) => population(city) })
}

const over = (modelOf: (settings: Settings) => LanguageModel): Converse => async (settings) => {
  const agent = new ToolLoopAgent({ model: modelOf(settings), instructions, tools, stopWhen: stepCountIs(4) })
  const messages: Array<ModelMessage> = []
  const answers: Array<string> = []
  for (const content of questions) {
    messages.push({ role: "user", content })
    const result = settings.stream ? await agent.stream({ messages }) : await agent.generate({ messages })
    answers.push(await result.text)
    const { messages: said } = await result.response
    messages.push(...said)
  }
  return answers
}

export const responses = over(({ apiKey, baseURL }) => createOpenAI({ baseURL, apiKey })("gpt-5"))

export const chat = over(({ apiKey, baseURL }) => createOpenAI({ baseURL, apiKey }).chat("gpt-4o"))

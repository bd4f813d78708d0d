import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { type LanguageModel, type ModelMessage, stepCountIs, tool, ToolLoopAgent } from "ai"
import { z } from "zod"
import type { Converse, Settings } from "./city.js"
import { descriptions, instructions, population, questions, weather } from "./city.js"

const inputSchema = z.object({ city: z.string() })

const tools = {
  weather: tool({ description: descriptions.weather, inputSchema, execute: ({ city }) => weather(city) }),
  population: tool({ description: descriptions.population, inputSchema, execute: ({ city }) => population(city) })
}

type History = "all" | "last step"

const over = (
  modelOf: (settings: Settings) => LanguageModel,
  history: History = "all"
): Converse =>
async (settings) => {
  const agent = new ToolLoopAgent({ model: modelOf(settings), instructions, tools, stopWhen: stepCountIs(4) })
  const messages: Array<ModelMessage> = []
  const answers: Array<string> = []
  for (const content of questions) {
    messages.push({ role: "user", content })
    const result = settings.stream ? await agent.stream({ messages }) : await agent.generate({ messages })
    answers.push(await result.text)
    messages.push(...history === "all" ? await result.responseMessages : (await result.response).messages)
  }
  return answers
}

export const responses = over(({ apiKey, baseURL }) => createOpenAI({ baseURL, apiKey })("gpt-5"))

export const chat = over(({ apiKey, baseURL }) => createOpenAI({ baseURL, apiKey }).chat("gpt-4o"))

export const compatible = over(({ apiKey, baseURL }) =>
  createOpenAICompatible({ name: "gateway", baseURL, apiKey })("local/chat")
)

export const anthropic = over(({ apiKey, baseURL }) => createAnthropic({ baseURL, apiKey })("claude-sonnet-4-5"))

/** `response.messages` was the whole answer in ai 6; in ai 7 it has the last step alone, without calls and results. */
export const lastStep = over(
  ({ apiKey, baseURL }) => createOpenAICompatible({ name: "gateway", baseURL, apiKey })("local/chat"),
  "last step"
)

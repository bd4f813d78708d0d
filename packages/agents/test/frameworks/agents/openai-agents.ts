import { Agent, type AgentInputItem, OpenAIProvider, Runner, tool } from "@openai/agents"
import { z } from "zod"
import type { Converse } from "./city.js"
import { descriptions, instructions, population, questions, weather } from "./city.js"

const parameters = z.object({ city: z.string() })

const tools = [
  tool({ name: "weather", description: descriptions.weather, parameters, execute: async ({ city }) => weather(city) }),
  tool({
    name: "population",
    description: descriptions.population,
    parameters,
    execute: async ({ city }) => population(city)
  })
]

const over = (useResponses: boolean): Converse => async ({ apiKey, baseURL, stream }) => {
  const agent = new Agent({ name: "Cities", instructions, tools, model: "gpt-5" })
  const modelProvider = new OpenAIProvider({ baseURL, apiKey, useResponses })
  const runner = new Runner({ modelProvider, tracingDisabled: true })
  let thread: Array<AgentInputItem> = []
  const answers: Array<string> = []
  for (const content of questions) {
    thread.push({ role: "user", content })
    if (stream) {
      const result = await runner.run(agent, thread, { stream: true })
      for await (const _ of result.toTextStream());
      await result.completed
      answers.push(result.finalOutput ?? "")
      thread = result.history
    } else {
      const result = await runner.run(agent, thread)
      answers.push(result.finalOutput ?? "")
      thread = result.history
    }
  }
  return answers
}

export const responses = over(true)

export const chat = over(false)

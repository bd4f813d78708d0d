import Anthropic from "@anthropic-ai/sdk"
import type { Converse } from "./city.js"
import { descriptions, instructions, population, questions, weather } from "./city.js"

const parameters = { type: "object" as const, properties: { city: { type: "string" } }, required: ["city"] }

const tools: Array<Anthropic.Tool> = [
  { name: "weather", description: descriptions.weather, input_schema: parameters },
  { name: "population", description: descriptions.population, input_schema: parameters }
]

const use = ({ id, input, name }: Anthropic.ToolUseBlock): Anthropic.ToolResultBlockParam => {
  const { city } = input as { city: string }
  const result = name === "weather" ? weather(city) : population(city)
  return { type: "tool_result", tool_use_id: id, content: JSON.stringify(result) }
}

/** The loop over `stop_reason` that the guide of tool use has. */
export const converse: Converse = async ({ anthropicBaseURL, apiKey, stream }) => {
  const client = new Anthropic({ baseURL: anthropicBaseURL, apiKey })
  const messages: Array<Anthropic.MessageParam> = []
  const answers: Array<string> = []
  for (const question of questions) {
    messages.push({ role: "user", content: question })
    for (;;) {
      const request = { model: "claude-sonnet-4-5", max_tokens: 200, system: instructions, messages, tools }
      await client.messages.countTokens({ model: request.model, system: instructions, messages, tools })
      const message = stream
        ? await client.messages.stream(request).finalMessage()
        : await client.messages.create(request)
      messages.push({ role: "assistant", content: message.content })
      if (message.stop_reason !== "tool_use") {
        answers.push(message.content.flatMap((block) => block.type === "text" ? [block.text] : []).join(""))
        break
      }
      messages.push({
        role: "user",
        content: message.content.flatMap((block) => block.type === "tool_use" ? [use(block)] : [])
      })
    }
  }
  return answers
}

import { Chat, type LanguageModel, Tool, Toolkit } from "@effect/ai"
import { AnthropicClient, AnthropicLanguageModel } from "@effect/ai-anthropic"
import { OpenAiClient, OpenAiLanguageModel } from "@effect/ai-openai"
import { FetchHttpClient } from "@effect/platform"
import { Effect, Layer, Redacted, Schema, Stream } from "effect"
import type { Converse, Settings } from "./city.js"
import { descriptions, instructions, population, questions, weather } from "./city.js"

const parameters = { city: Schema.String }

const CityTools = Toolkit.make(
  Tool.make("weather", {
    description: descriptions.weather,
    parameters,
    success: Schema.Struct({ city: Schema.String, degrees: Schema.Number })
  }),
  Tool.make("population", {
    description: descriptions.population,
    parameters,
    success: Schema.Struct({ city: Schema.String, people: Schema.Number })
  })
)

const CityToolsLive = CityTools.toLayer({
  weather: ({ city }) => Effect.succeed(weather(city)),
  population: ({ city }) => Effect.succeed(population(city))
})

const conversation = (stream: boolean) =>
  Effect.gen(function*() {
    const chat = yield* Chat.fromPrompt([{ role: "system", content: instructions }])
    const answers: Array<string> = []
    for (const question of questions) {
      let prompt: string | [] = question
      let text = ""
      for (let calls = 1; calls > 0;) {
        text = ""
        calls = 0
        if (stream) {
          yield* chat.streamText({ prompt, toolkit: CityTools }).pipe(Stream.runForEach((part) =>
            Effect.sync(() => {
              if (part.type === "text-delta") text += part.delta
              if (part.type === "tool-call") calls++
            })
          ))
        } else {
          const response = yield* chat.generateText({ prompt, toolkit: CityTools })
          text = response.text
          calls = response.toolCalls.length
        }
        prompt = []
      }
      answers.push(text)
    }
    return answers
  })

const over = (modelOf: (settings: Settings) => Layer.Layer<LanguageModel.LanguageModel>): Converse => (settings) =>
  conversation(settings.stream).pipe(
    Effect.provide(CityToolsLive),
    Effect.provide(modelOf(settings)),
    Effect.runPromise
  )

export const responses = over(({ apiKey, baseURL }) =>
  OpenAiLanguageModel.layer({ model: "gpt-5" }).pipe(
    Layer.provide(OpenAiClient.layer({ apiUrl: baseURL, apiKey: Redacted.make(apiKey) })),
    Layer.provide(FetchHttpClient.layer)
  )
)

export const anthropic = over(({ anthropicBaseURL, apiKey }) =>
  AnthropicLanguageModel.layer({ model: "claude-sonnet-4-5" }).pipe(
    Layer.provide(AnthropicClient.layer({ apiUrl: anthropicBaseURL, apiKey: Redacted.make(apiKey) })),
    Layer.provide(FetchHttpClient.layer)
  )
)

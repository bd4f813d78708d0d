/**
 * A checkpoint asked by programs that know nothing of Tinker: OpenAI's own client, and the AI SDK.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { LocalServer, TinkerLocal } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { streamText } from "ai"
import { Console, Effect, Layer, Redacted, Stream } from "effect"
import { Datum, TinkerFuture, TrainingClient } from "effect-tinker"
import OpenAI from "openai"

/** Teaches one answer, and yields the path of the weights. */
const train = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 16, seed: 1 })
  const chat = yield* Chat.forModel(training)
  const batch = yield* Datum.fromExamples(yield* chat.supervised([{ user: "Who are you?", assistant: "A pirate." }]))
  for (let step = 1; step <= 20; step++) yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 })
  const { path } = yield* training.saveWeightsForSampler("pirate").pipe(TinkerFuture.await)
  return path
}).pipe(Effect.scoped)

/** OpenAI's client: the whole answer. */
const askOpenAi = async (baseURL: string, apiKey: string, model: string) => {
  const client = new OpenAI({ baseURL, apiKey })
  const { choices } = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "Who are you?" }],
    max_tokens: 20,
    temperature: 0
  })
  return choices[0]?.message.content ?? ""
}

/** The AI SDK: the answer as it is sampled. */
const askAiSdk = (baseURL: string, apiKey: string, model: string) => {
  const provider = createOpenAICompatible({ name: "tinker", baseURL, apiKey })
  const { textStream } = streamText({
    model: provider(model),
    prompt: "Mira lives in Oslo. Where does Mira live?",
    maxOutputTokens: 20,
    temperature: 0
  })
  return Stream.fromAsyncIterable(textStream, (cause) => new Error("the stream broke off", { cause }))
}

const program = Effect.gen(function*() {
  const { apiKey, baseUrl, server } = yield* NodeTinkerLocal.serve()
  const Clients = Layer.provide(TinkerLocal.layerClients({ apiKey }), Layer.succeed(LocalServer.LocalServer, server))
  const path = yield* Effect.provide(train, Clients)

  const url = `${baseUrl}/oai/api/v1`
  const key = Redacted.value(apiKey)
  yield* Console.log(`openai, base model: ${yield* Effect.promise(() => askOpenAi(url, key, "local/chat"))}`)
  yield* Console.log(`openai, checkpoint: ${yield* Effect.promise(() => askOpenAi(url, key, path))}`)
  yield* Console.log(`AI SDK, checkpoint: ${yield* Stream.mkString(askAiSdk(url, key, path))}`)
}).pipe(Effect.scoped)

NodeRuntime.runMain(program)

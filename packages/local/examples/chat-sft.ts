/**
 * Fine-tunes a small model on chats, on this machine: conversations become tokens and weights, and sampled tokens become
 * messages again.
 *
 *     node --conditions=@effect-tinker/source --import tsx packages/local/examples/chat-sft.ts
 *
 * For a model of the hosted service, the files come from `HuggingFaceHub.layerConfig()` and the renderer from
 * `Renderers.forModel(model, tokenizer)`; the rest stays.
 */
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message, Renderers, TokenizerFiles, Tokenizers } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer } from "effect"
import type { SamplingClient } from "effect-tinker"
import { Datum, ModelInput, ServiceClient, TrainingClient } from "effect-tinker"

const model = "local/small"

const system = Message.system("Answer like a pirate.")

const chats: ReadonlyArray<readonly [question: string, answer: string]> = [
  ["Hello!", "Ahoy, matey!"],
  ["Who are you?", "A salty sea dog."],
  ["Where is the gold?", "Under the old palm."],
  ["Goodbye.", "Fair winds to ye!"]
]

const ask = Effect.fnUntraced(
  function*(sampler: SamplingClient.Service, renderer: Renderer.Renderer, question: string) {
    const prompt = yield* renderer.generationPrompt([system, Message.user(question)])
    const { sequences } = yield* sampler.sample({
      prompt: ModelInput.fromInts(prompt),
      maxTokens: 40,
      temperature: 0,
      stop: renderer.stop
    })
    return renderer.parse(sequences[0]?.tokens ?? [])
  }
)

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 32, seed: 1 })
  const tokenizers = yield* Tokenizers.Tokenizers
  const tokenizer = yield* tokenizers.forModel(model, { tokenizerId: yield* training.tokenizerId })
  const renderer = yield* Renderers.qwen3Instruct(tokenizer)

  const examples = yield* Effect.forEach(
    chats,
    ([question, answer]) => renderer.supervised([system, Message.user(question), Message.assistant(answer)])
  )
  const data = yield* Effect.forEach(examples, ({ tokens, weights }) => Datum.fromTokens(tokens, { weights }))
  const trained = examples.reduce((sum, { weights }) => sum + weights.filter((weight) => weight > 0).length, 0)
  yield* Console.log(`${data.length} chats, ${trained} tokens to learn with ${tokenizer.id}`)

  for (let step = 1; step <= 40; step++) {
    const pass = yield* training.forwardBackward(data, "cross_entropy")
    yield* training.optimStep({ learningRate: 4e-4 })
    const { metrics } = yield* pass
    if (step % 10 === 0) {
      yield* Console.log(`step ${step}: loss per token ${((metrics["loss:sum"] ?? NaN) / trained).toFixed(3)}`)
    }
  }

  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  let right = 0
  for (const [question, answer] of chats) {
    const { message, termination } = yield* ask(sampler, renderer, question)
    if (Message.text(message) === answer && termination === "stop_sequence") right++
    yield* Console.log(`${question} → ${JSON.stringify(Message.text(message))} (${termination})`)
  }
  yield* Console.log(`${right} of ${chats.length} answered as taught`)
})

/** The local model's tokenizer, as the files any model has. */
const files = TokenizerFiles.layerMemory({
  [LocalTokenizer.tokenizerId]: {
    "tokenizer.json": JSON.stringify(LocalTokenizer.huggingFaceFiles.tokenizerJson),
    "tokenizer_config.json": JSON.stringify(LocalTokenizer.huggingFaceFiles.tokenizerConfig)
  }
})

const backend = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
  Layer.provide(TinkerLocal.layer())
)

NodeRuntime.runMain(
  program.pipe(Effect.scoped, Effect.provide([backend, Tokenizers.layer().pipe(Layer.provide(files))]))
)

/**
 * Fine-tunes a model on chats: conversations become tokens and weights, and sampled tokens become messages again.
 */
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import type { SamplingClient } from "effect-tinker"
import { Datum, ModelInput, TrainingClient } from "effect-tinker"
import { Backend, learningRate, model, rendererOf } from "./shared/backend.js"

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
  const training = yield* TrainingClient.makeLora({ baseModel: yield* model, rank: 32, seed: 1 })
  const renderer = yield* rendererOf(training)

  const examples = yield* Effect.forEach(
    chats,
    ([question, answer]) => renderer.supervised([system, Message.user(question), Message.assistant(answer)])
  )
  const data = yield* Effect.forEach(examples, ({ tokens, weights }) => Datum.fromTokens(tokens, { weights }))
  const trained = examples.reduce((sum, { weights }) => sum + weights.filter((weight) => weight > 0).length, 0)
  yield* Console.log(`${data.length} chats, ${trained} tokens to learn with ${renderer.tokenizer.id}`)

  const step = { learningRate: yield* learningRate }
  for (let n = 1; n <= 40; n++) {
    const pass = yield* training.forwardBackward(data, "cross_entropy") // accepted, in order
    const update = yield* training.optimStep(step) // queued right behind it
    const { metrics } = yield* pass
    yield* update
    const loss = (metrics["loss:sum"] ?? NaN) / trained
    if (n % 10 === 0) yield* Console.log(`step ${n}: loss per token ${loss.toFixed(3)}`)
  }

  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  for (const [question] of chats) {
    const { message, termination } = yield* ask(sampler, renderer, question)
    yield* Console.log(`${question} → ${Message.text(message)} (${termination})`)
  }
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(Backend)))

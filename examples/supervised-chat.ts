/**
 * Fine-tunes a model on chats: conversations become tokens and weights, and sampled tokens become messages again.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { Datum, TinkerFuture, TrainingClient } from "effect-tinker"

const model = "local/small"
const learningRate = 4e-4

const chats = [
  { user: "Hello!", assistant: "Ahoy, matey!" },
  { user: "Who are you?", assistant: "A salty sea dog." },
  { user: "Where is the gold?", assistant: "Under the old palm." },
  { user: "Goodbye.", assistant: "Fair winds to ye!" }
]

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 32, seed: 1 })
  const chat = yield* Chat.forModel(training, { system: "Answer like a pirate." })
  const batch = yield* Datum.fromExamples(yield* chat.supervised(chats))

  const step = { learningRate }
  for (let n = 1; n <= 40; n++) {
    const { loss } = yield* training.trainStep(batch, "cross_entropy", step).pipe(TinkerFuture.await)
    if (n % 10 === 0) yield* Console.log(`step ${n}: loss per token ${loss.perToken.toFixed(3)}`)
  }

  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  for (const { user } of chats) {
    const { termination, text } = yield* chat.ask(sampler, user, { maxTokens: 40, temperature: 0 })
    yield* Console.log(`${user} → ${text} (${termination})`)
  }
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))

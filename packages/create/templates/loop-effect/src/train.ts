/**
 * A training loop of your own: every pass, every optimizer step and every sample is a call.
 */
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import type { SamplingClient } from "effect-tinker"
import { Datum, TinkerFuture, TrainingClient } from "effect-tinker"
import { Backend, model } from "./backend.js"
import { lessons, questions } from "./lessons.js"

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: yield* model, rank: 16, seed: 0 })
  const chat = yield* Chat.forModel(training) // the tokenizer and the chat format of the model
  const batch = yield* Datum.fromExamples(yield* chat.supervised(lessons))
  const ask = (sampler: SamplingClient.Service) =>
    Effect.forEach(questions, (question) =>
      Effect.flatMap(
        chat.ask(sampler, question, { temperature: 0, maxTokens: 40 }),
        ({ text }) => Console.log(`${question} → ${text}`)
      ))

  yield* ask(yield* training.saveWeightsAndGetSamplingClient())
  for (let step = 1; step <= 20; step++) {
    const { loss } = yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 }).pipe(TinkerFuture.await)
    if (step % 5 === 0) yield* Console.log(`step ${step}: loss ${loss.perToken.toFixed(3)}`)
  }
  yield* ask(yield* training.saveWeightsAndGetSamplingClient())
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(Backend)))

/**
 * Teaches a small language model who it is, on this machine, and asks it.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat } from "@effect-tinker/tokenizer"
import { Console, Effect } from "effect"
import { Datum, TinkerFuture, TrainingClient } from "effect-tinker"

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 16, seed: 1 })
  const chat = yield* Chat.forModel(training) // the tokenizer and the chat format of the model
  const batch = yield* Datum.fromExamples(yield* chat.supervised([{ user: "Who are you?", assistant: "A pirate." }]))

  for (let step = 1; step <= 20; step++) {
    const { loss } = yield* training.trainStep(batch, "cross_entropy", { learningRate: 5e-4 }).pipe(TinkerFuture.await)
    if (step % 5 === 0) yield* Console.log(`step ${step}: loss ${loss.perToken.toFixed(2)}`)
  }

  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  for (const question of ["Who are you?", "Mira lives in Oslo. Where does Mira live?"]) {
    const { text } = yield* chat.ask(sampler, question, { temperature: 0 })
    yield* Console.log(`${question} → ${text}`)
  }
})

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(NodeTinkerLocal.layerInProcess())))

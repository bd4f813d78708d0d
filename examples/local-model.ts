/**
 * A model by its name on the Hugging Face hub, its directory or its GGUF file, trained on this machine. Without an argument it
 * is the directory of `local/chat`, which needs no network.
 */
import { LocalCheckpoint } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat } from "@effect-tinker/tokenizer"
import { Console, Effect } from "effect"
import { Datum, TinkerFuture, TrainingClient } from "effect-tinker"
import { fileURLToPath } from "node:url"

// for example HuggingFaceTB/SmolLM2-135M-Instruct, org/name-GGUF:Q8_0, ollama:llama3.2:1b, ./model.gguf
const model = process.argv[2] ?? fileURLToPath(LocalCheckpoint.chatDirectory)

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 16, seed: 1 })
  const chat = yield* Chat.forModel(training)
  const batch = yield* Datum.fromExamples(
    yield* chat.supervised([{ user: "Who are you?", assistant: "A pirate." }])
  )
  for (let step = 1; step <= 15; step++) {
    const { loss } = yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 }).pipe(TinkerFuture.await)
    if (step % 5 === 0) yield* Console.log(`step ${step}: loss ${loss.perToken.toFixed(2)}`)
  }
  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  const { text } = yield* chat.ask(sampler, "Who are you?", { temperature: 0 })
  yield* Console.log(text)
})

const layer = NodeTinkerLocal.layerInProcess({ models: [model] })

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(layer)))

/**
 * The first program in plain async code: it teaches a small language model who it is, and asks it.
 */
import { connectLocal } from "@effect-tinker/local/NodePromise"
import { chatFor } from "@effect-tinker/tokenizer/Promise"
import { fromExamples } from "effect-tinker/Promise"

const main = async () => {
  await using tinker = await connectLocal()
  const training = await tinker.createLoraTrainingClient({ baseModel: "local/chat", rank: 16, seed: 1 })
  const chat = await chatFor(tinker, "local/chat") // the tokenizer and the chat format of the model
  const batch = fromExamples(await chat.supervised([{ user: "Who are you?", assistant: "A pirate." }]))

  for (let step = 1; step <= 20; step++) {
    const { loss } = await training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 })
    if (step % 5 === 0) console.log(`step ${step}: loss ${loss.perToken.toFixed(2)}`)
  }

  const sampler = await training.saveWeightsAndGetSamplingClient()
  for (const question of ["Who are you?", "Mira lives in Oslo. Where does Mira live?"]) {
    const { text } = await chat.ask(sampler, question, { temperature: 0 })
    console.log(`${question} → ${text}`)
  }
}

await main()

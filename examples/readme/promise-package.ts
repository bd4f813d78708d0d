import { chatFor, fromExamples } from "@effect-tinker/promise"
import { connectLocal } from "@effect-tinker/promise/node"

const tinker = await connectLocal()
const training = await tinker.createLoraTrainingClient({ baseModel: "local/chat", rank: 16, seed: 1 })
const chat = await chatFor(tinker, "local/chat")
const batch = fromExamples(await chat.supervised([{ user: "Who are you?", assistant: "A pirate." }]))

for (let step = 1; step <= 20; step++) {
  const { loss } = await training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 })
  if (step % 5 === 0) console.log(`step ${step}: loss ${loss.perToken.toFixed(2)}`)
}

const sampler = await training.saveWeightsAndGetSamplingClient()
const { text } = await chat.ask(sampler, "Who are you?", { temperature: 0 })
console.log(text)
await tinker.close()

/**
 * A training loop of your own: every pass, every optimizer step and every sample is a call.
 */
import { chatFor, fromExamples } from "@effect-tinker/promise"
import { connect, model } from "./backend.js"
import { lessons, questions } from "./lessons.js"

await using tinker = await connect()
const training = await tinker.createLoraTrainingClient({ baseModel: model, rank: 16, seed: 0 })
const chat = await chatFor(tinker, model) // the tokenizer and the chat format of the model
const batch = fromExamples(await chat.supervised(lessons))

const ask = async () => {
  const sampler = await training.saveWeightsAndGetSamplingClient()
  for (const question of questions) {
    const { text } = await chat.ask(sampler, question, { temperature: 0, maxTokens: 40 })
    console.log(`${question} → ${text}`)
  }
}

await ask()
for (let step = 1; step <= 20; step++) {
  const pass = training.forwardBackward(batch, "cross_entropy") // on its way
  const stepped = training.optimStep({ learningRate: 1e-4 }) // right behind it
  const { metrics } = await pass
  await stepped
  if (step % 5 === 0) console.log(`step ${step}: loss ${metrics["loss:sum"]?.toFixed(3)}`)
}
await ask()

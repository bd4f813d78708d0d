/**
 * Fine-tunes a model on conversations in a file. Run it again to go on where it was stopped.
 */
import { chatFor, trainers } from "@effect-tinker/promise"
import { connect, model } from "./backend.js"

const question = "Where is my drum? The order is 417."

await using tinker = await connect()
const chat = await chatFor(tinker, model)
const ask = async (options: { readonly baseModel: string } | { readonly modelPath: string }) => {
  const sampler = await tinker.createSamplingClient(options)
  return (await chat.ask(sampler, question, { temperature: 0, maxTokens: 40 })).text
}

console.log(`before: ${question} → ${await ask({ baseModel: model })}`)
let checkpoint: string | undefined
const run = trainers(tinker).supervised({
  model: { baseModel: model, rank: 16, seed: 0 },
  data: "data/chats.jsonl",
  learningRate: { peak: 1e-3, decay: "cosine", warmUp: 2 },
  batchSize: 8,
  epochs: 8,
  shuffle: 0,
  log: "runs/chats"
})
for await (const { final, loss, step, totalSteps } of run) {
  console.log(`step ${step} of ${totalSteps}: loss ${loss.toFixed(3)}`)
  checkpoint = final?.checkpoint.samplerPath
}

if (checkpoint === undefined) console.log("this run has ended; remove runs/chats to train again")
else {
  console.log(`after: ${question} → ${await ask({ modelPath: checkpoint })}`)
  console.log(`checkpoint: ${checkpoint}`)
}

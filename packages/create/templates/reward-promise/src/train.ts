/**
 * Trains a model by trial: a program scores its answers. Run it again to go on where it was stopped.
 */
import { chatFor, trainers } from "@effect-tinker/promise"
import { connect, model } from "./backend.js"
import { heldOut, question, reward, training } from "./task.js"

const percent = (share: number | undefined) => `${Math.round(100 * (share ?? NaN))} %`

await using tinker = await connect()
const chat = await chatFor(tinker, model)

/** The share of held-out problems that are answered right. */
const measure = async (options: { readonly baseModel: string } | { readonly modelPath: string }) => {
  const sampler = await tinker.createSamplingClient(options)
  const rewards = await Promise.all(heldOut.map(async (problem) => {
    const { text } = await chat.ask(sampler, question(problem), { maxTokens: 8, temperature: 0 })
    return reward(problem, text)
  }))
  return rewards.reduce<number>((sum, value) => sum + value, 0) / rewards.length
}

console.log(`held out: ${percent(await measure({ baseModel: model }))} right`)
let checkpoint: string | undefined
const run = trainers(tinker).reinforce({
  model: { baseModel: model, rank: 16, seed: 0 },
  problems: training,
  question,
  reward,
  learningRate: { peak: 2e-4, decay: "linear" },
  adam: { clip: 1 },
  maxTokens: 8,
  groupSize: 8, // answers to one problem, which are compared with each other
  groupsPerBatch: 16,
  epochs: 1,
  shuffle: 0,
  seed: 0,
  loss: "ppo",
  log: "runs/reward"
})
for await (const { final, metrics, step } of run) {
  console.log(`step ${step}: ${percent(metrics["env/all/reward"])} right`)
  checkpoint = final?.checkpoint.samplerPath
}

if (checkpoint === undefined) console.log("this run has ended; remove runs/reward to train again")
else {
  console.log(`held out, trained: ${percent(await measure({ modelPath: checkpoint }))} right`)
  console.log(`checkpoint: ${checkpoint}`)
}

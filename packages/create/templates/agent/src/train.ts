/**
 * Trains the model of the agent: it runs several times at each ticket, and what was better than its group is reinforced.
 * Run it again to go on where it was stopped.
 */
import { trainAgent } from "@effect-tinker/agents/Promise"
import { agent } from "./agent.js"
import { connect, model } from "./backend.js"

const percent = (share: number | undefined) => `${Math.round(100 * (share ?? NaN))} %`

await using tinker = await connect()
let checkpoint: string | undefined
const run = trainAgent(tinker, {
  agent,
  model: { baseModel: model, rank: 16, seed: 0 },
  learningRate: 2e-4,
  adam: { clip: 1 },
  maxTokens: 48,
  groupSize: 8,
  groupsPerBatch: 8,
  epochs: 1,
  seed: 0,
  test: { seed: 0 },
  log: "runs/agent"
})
for await (const { evaluations, final, metrics, step } of run) {
  const before = evaluations["test"]
  console.log(
    `step ${step}: ${percent(metrics["env/all/reward"])} of the tickets answered` +
      (before === undefined ? "" : `; held out: ${percent(before["env/all/reward"])}`)
  )
  if (final === undefined) continue
  checkpoint = final.checkpoint.samplerPath
  console.log(`held out, trained: ${percent(final.evaluations["test"]?.["env/all/reward"])}`)
}

console.log(
  checkpoint === undefined ? "this run has ended; remove runs/agent to train again" : `checkpoint: ${checkpoint}`
)

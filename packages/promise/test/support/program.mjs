// A program without Effect: trains, asks, goes on, rewards, downloads. It prints what came of it as JSON.
import { chatFor, fromExamples, isTinkerError, tokenizerFor, trainers } from "@effect-tinker/promise"
import { connectLocal, downloadCheckpoint } from "@effect-tinker/promise/node"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const tinker = await connectLocal()
const training = await tinker.createLoraTrainingClient({ baseModel: "local/chat", rank: 16, seed: 1 })
const chat = await chatFor(tinker, "local/chat")
const batch = fromExamples(await chat.supervised([{ user: "Who are you?", assistant: "A pirate." }]))
let first, last
for (let step = 1; step <= 20; step++) {
  const { loss } = await training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 })
  first ??= loss.perToken
  last = loss.perToken
}
const own = await training.forwardBackwardCustom(batch, (_, logprobs) => ({
  loss: -logprobs.flatMap((values) => [...values]).reduce((sum, value) => sum + value, 0),
  gradients: logprobs.map((values) => values.map(() => -1))
}))

const sampler = await training.saveWeightsAndGetSamplingClient()
const answer = await chat.ask(sampler, "Who are you?", { temperature: 0 })
const next = await chat.reply(sampler, answer, "Mira lives in Oslo. Where does Mira live?", { temperature: 0 })

let steps = 0
let final
for await (
  const step of trainers(tinker).reinforce({
    model: "local/chat",
    learningRate: 1e-4,
    problems: [1, 2, 3, 4],
    question: (n) => `What is ${n} + ${n}?`,
    reward: async (n, text) => text.trim() === String(2 * n),
    maxTokens: 8,
    groupSize: 4,
    groupsPerBatch: 2,
    keepConstant: true,
    loss: "ppo"
  })
) {
  steps++
  final = step.final
}
const directory = mkdtempSync(join(tmpdir(), "promise-"))
const { files } = await downloadCheckpoint(tinker, {
  tinkerPath: final.checkpoint.samplerPath,
  directory,
  overwrite: true
})
rmSync(directory, { recursive: true })

const runs = []
for await (const run of tinker.rest.trainingRuns()) runs.push(run.lastRequestTime instanceof Date)
const tokenizer = await tokenizerFor(tinker, "local/chat")
const refused = await tinker.rest.getCheckpoint("tinker://nobody/weights/nothing").catch((error) =>
  isTinkerError(error) ? error._tag : "none"
)
const aborted = await sampler.sample({ prompt: [72], signal: AbortSignal.abort() }).catch((error) => error.name)
await tinker.close()
console.log(JSON.stringify({
  learned: first > 1 && last < 0.1,
  custom: Object.keys(own.metrics).length > 0,
  answers: [answer.text, next.text],
  steps,
  files,
  runs,
  text: tokenizer.decode(tokenizer.encode("Hello")),
  refused,
  aborted
}))

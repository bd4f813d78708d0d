/**
 * A trainer, a chat and a download in plain async code.
 */
import { trainers } from "@effect-tinker/cookbook/Promise"
import { connectLocal } from "@effect-tinker/local/NodePromise"
import { chatFor } from "@effect-tinker/tokenizer/Promise"
import { downloadCheckpoint, metrics } from "effect-tinker/Promise"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

const baseModel = "local/small"

const chats = [
  { user: "Hello!", assistant: "Ahoy, matey!" },
  { user: "Who are you?", assistant: "A salty sea dog." },
  { user: "Where is the gold?", assistant: "Under the old palm." },
  { user: "Goodbye.", assistant: "Fair winds to ye!" }
]

const main = async () => {
  await using tinker = await connectLocal()
  const run = trainers(tinker).supervised({
    model: { baseModel, rank: 32, seed: 1 },
    data: chats, // or the path of a JSONL file
    batchSize: 4,
    epochs: 40,
    learningRate: 4e-4,
    signal: AbortSignal.timeout(600_000)
  })
  let tinkerPath = ""
  for await (const { final, loss, step } of run) {
    if (step % 10 === 0) console.log(`step ${step}: loss per token ${loss.toFixed(3)}`)
    tinkerPath = final?.checkpoint.samplerPath ?? tinkerPath
  }

  const chat = await chatFor(tinker, baseModel)
  const sampler = await tinker.createSamplingClient({ modelPath: tinkerPath })
  const { text } = await chat.ask(sampler, "Where is the gold?", { maxTokens: 40, temperature: 0 })
  console.log(text)

  const directory = await mkdtemp(join(tmpdir(), "tinker-"))
  const { files } = await downloadCheckpoint(tinker, { tinkerPath, directory, overwrite: true })
  console.log(`${files} files`)
  await rm(directory, { recursive: true })

  const tokens = metrics().filter(({ name }) => name === "tinker_tokens_out_total").reduce((n, m) => n + m.value, 0)
  console.log(`${tokens} tokens sampled`)
}

await main()

import { trainers } from "@effect-tinker/promise"
import { connectLocal } from "@effect-tinker/promise/node"

const tinker = await connectLocal()

for await (
  const { final, loss, step } of trainers(tinker).supervised({
    model: { baseModel: "local/chat", rank: 16 },
    data: "chats.jsonl",
    learningRate: 1e-3,
    batchSize: 8,
    log: "runs/support"
  })
) {
  console.log(step, loss, final?.checkpoint.samplerPath)
}

await tinker.close()

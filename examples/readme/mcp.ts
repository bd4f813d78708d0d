import * as Mcp from "@effect-tinker/agents/Mcp"
import { Dataset, Reinforce } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Array, Stream } from "effect"

declare const renderer: Renderer.Renderer

const counting = (target: number) =>
  Mcp.group({
    server: { command: "node", args: ["counter.js"] },
    question: `Bring the count to ${target}.`,
    reset: (session) => session.call("add", { by: 5 }),
    reward: (_, { transcript }) => transcript.at(-1)?.text === String(target),
    timeout: "10 seconds"
  })

export const program = Reinforce.train({
  problems: Dataset.map(Dataset.from(Array.range(6, 64)), counting),
  model: { baseModel: "Qwen/Qwen3-8B", rank: 32 },
  renderer,
  learningRate: 2e-5,
  maxTokens: 64,
  groupSize: 8,
  groupsPerBatch: 16
}).pipe(Stream.runDrain)

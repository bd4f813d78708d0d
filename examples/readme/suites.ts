import * as NodeSuite from "@effect-tinker/agents/NodeSuite"
import { Example, Supervised } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import { Effect, Stream } from "effect"

declare const renderer: Renderer.Renderer

const evaluate = [
  NodeSuite.inspect({ tasks: ["tasks.py@sums"], renderer, maxTokens: 64 }),
  NodeSuite.vitestEvals({ workingDirectory: "evals", renderer, maxTokens: 64 }),
  NodeSuite.evalite({ path: "sums.eval.ts", renderer, maxTokens: 64 })
]

export const program = Supervised.train({
  model: { baseModel: "Qwen/Qwen3-8B", rank: 32 },
  data: Example.chats("chats.jsonl"),
  renderer,
  learningRate: 1e-4,
  batchSize: 32,
  evaluate,
  evaluateEvery: 100
}).pipe(Stream.runDrain, Effect.provide(NodeContext.layer))

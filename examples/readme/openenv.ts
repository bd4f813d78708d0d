import { OpenEnv } from "@effect-tinker/agents"
import { Dataset, Reinforce } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import type { Renderer } from "@effect-tinker/tokenizer"
import { NodeSocket } from "@effect/platform-node"
import { Array, Effect, Option, Schema, Stream } from "effect"

declare const renderer: Renderer.Renderer

const guessing = (seed: number) =>
  OpenEnv.group({
    url: "http://127.0.0.1:8000",
    action: Schema.Struct({ guess: Schema.Number }),
    observation: Schema.Struct({ hint: Schema.String }),
    reset: { seed },
    start: ({ hint }) => [Message.user(`Guess my number. ${hint}`)],
    act: (message) =>
      Option.map(Option.fromNullable(/\d+/.exec(Message.text(message))), ([n]) => ({ guess: Number(n) })),
    observe: ({ observation }) => observation.hint
  })

export const program = Reinforce.train({
  problems: Dataset.map(Dataset.from(Array.range(1, 64)), guessing),
  model: { baseModel: "Qwen/Qwen3-8B", rank: 32 },
  renderer,
  learningRate: 2e-5,
  maxTokens: 64,
  groupSize: 8,
  groupsPerBatch: 16
}).pipe(Stream.runDrain, Effect.provide(NodeSocket.layerWebSocketConstructor))

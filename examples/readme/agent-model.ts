import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import { Chat } from "@effect-tinker/tokenizer"
import { generateText } from "ai"
import { Effect } from "effect"
import { SamplingClient } from "effect-tinker"

export const program = Effect.gen(function*() {
  const client = yield* SamplingClient.make({ baseModel: "Qwen/Qwen3-8B" })
  const { renderer } = yield* Chat.forModel("Qwen/Qwen3-8B")
  const agent = yield* AgentModel.make({ renderer, sampler: Sampler.fromClient(client) })
  const model = yield* AiSdk.make(agent)
  yield* Effect.promise((abortSignal) => generateText({ model, prompt: "Who are you?", abortSignal }))

  const { calls } = yield* (yield* Recorder.Recorder).release(agent.rollout)
  return calls.map(({ logprobs, turn }) => ({ ...turn, logprobs })) // exactly what was sampled
}).pipe(Effect.provide(Recorder.layer()))

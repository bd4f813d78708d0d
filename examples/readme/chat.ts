import type { Message, Tokenizer } from "@effect-tinker/tokenizer"
import { Chat, Renderer, Renderers } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import type { SamplingClient } from "effect-tinker"
import { ModelInput } from "effect-tinker"

export const conversation = Effect.fnUntraced(function*(
  client: SamplingClient.Service,
  model: string,
  tokenizer: Tokenizer.Tokenizer,
  calculator: Message.ToolSpec
) {
  const chat = yield* Chat.make(yield* Renderers.forModel(model, tokenizer), {
    system: "Be brief.",
    tools: [calculator]
  })
  const first = yield* chat.ask(client, "What is 17 * 23?", { maxTokens: 512 })
  const second = yield* chat.reply(client, first, { role: "tool", name: "calculator", content: "391" })
  return {
    ids: second.turn.prompt, // begins with first.turn.prompt and first.turn.completion, id for id
    logprobs: second.logprobs, // of second.turn.completion
    fork: second.fork // why not, where the format does not allow it
  }
})

export const seen = Effect.fnUntraced(function*(
  renderer: Renderer.Renderer,
  messages: ReadonlyArray<Message.Message>
) {
  const prompt = yield* renderer.generationPrompt(messages)
  const input = ModelInput.fromChunks(yield* Renderer.chunks(messages, prompt))
  return input
})

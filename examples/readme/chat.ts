import type { Message, Tokenizer } from "@effect-tinker/tokenizer"
import { Chat, Renderers } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import type { SamplingClient } from "effect-tinker"

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

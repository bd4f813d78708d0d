/**
 * Tokenizers and chats over a connection.
 */
import type * as Full from "@effect-tinker/tokenizer/Chat"
import * as Chats from "@effect-tinker/tokenizer/Promise"
import * as Errors from "effect-tinker/TinkerError"
import type { Answer, Chat, Tokenizer } from "./Chat.js"
import type { CallOptions, Tinker } from "./Clients.js"
import { tokenizersOf } from "./internal/connection.js"

/**
 * The tokenizer of a model.
 *
 * @since 0.1.0
 * @category constructors
 */
export const tokenizerFor = async (
  tinker: Tinker<"tokenizers">,
  model: string,
  options?: CallOptions
): Promise<Tokenizer> => {
  const { count, decode, encode, id, vocabSize } = await Chats.tokenizerFor(tokenizersOf(tinker), model, options)
  return { id, vocabSize, encode, count, decode }
}

/** Answers with what only the tokenizer's own interface shows of them. */
const answers = new WeakMap<object, Full.Answer>()

const remember = (answer: Full.Answer): Answer => {
  answers.set(answer, answer)
  return answer
}

const known = (answer: Answer): Full.Answer => {
  const found = answers.get(answer)
  if (found !== undefined) return found
  throw new Errors.InvalidInput({
    module: "Chat",
    method: "reply",
    description: "an answer to go on from is one that `ask` or `reply` returned"
  })
}

/**
 * The chat format of a model.
 *
 * @since 0.1.0
 * @category constructors
 */
export const chatFor = async (
  tinker: Tinker<"tokenizers">,
  model: string,
  options?: CallOptions & { readonly renderer?: string | undefined }
): Promise<Chat> => {
  const chat = await Chats.chatFor(tokenizersOf(tinker), model, options)
  return {
    supervised: chat.supervised,
    ask: async (sampler, input, options) => remember(await chat.ask(sampler, input, options)),
    reply: async (sampler, answer, input, options) => remember(await chat.reply(sampler, known(answer), input, options))
  }
}

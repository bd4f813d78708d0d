/**
 * The prompt after a turn, in the exact tokens of the turn wherever the format allows it.
 */
import type * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Trajectory from "../Trajectory.js"

const startsWith = (prompt: Int32Array, { completion, prompt: before }: Renderer.Turn): boolean => {
  if (prompt.length < before.length + completion.length) return false
  for (let i = 0; i < before.length; i++) if (prompt[i] !== before[i]) return false
  for (let i = 0; i < completion.length; i++) if (prompt[before.length + i] !== completion[i]) return false
  return true
}

/**
 * The tokens of a turn, continued with the messages after its answer. Where the format cannot be continued the prompt is
 * rendered from the messages instead, and unless that happens to begin with the sampled tokens, the conversation is forked.
 *
 * @internal
 */
export const nextPrompt = Effect.fnUntraced(function*(
  renderer: Renderer.Renderer,
  turn: Renderer.Turn,
  answer: Message.Message,
  added: ReadonlyArray<Message.Message>
) {
  const continued = renderer.continue(turn, added)
  if (Either.isRight(continued)) return { prompt: continued.right, fork: undefined }
  const prompt = yield* renderer.generationPrompt([...turn.messages, answer, ...added])
  const { description, reason } = continued.left
  const fork: Trajectory.Fork | undefined = startsWith(prompt, turn) ? undefined : { reason, description }
  return { prompt, fork }
})

import { Message, Renderers, Tokenizers } from "@effect-tinker/tokenizer"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"

const program = Effect.gen(function*() {
  const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("Qwen/Qwen3-8B")
  const renderer = yield* Renderers.forModel("Qwen/Qwen3-8B", tokenizer)
  const messages = [Message.user("Capital of France?"), Message.assistant("Paris.")]
  const prompt = yield* renderer.generationPrompt(messages.slice(0, 1)) // Int32Array: what the sampler is given
  const { tokens, weights } = yield* renderer.supervised(messages) //      what training is given
  yield* Console.log(prompt.length, tokens.length, weights)
})

NodeRuntime.runMain(program.pipe(Effect.provide(NodeTokenizers.layer())))

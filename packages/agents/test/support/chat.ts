import type { Sampler } from "@effect-tinker/agents"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import type { Message, Renderer } from "@effect-tinker/tokenizer"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Effect, Ref } from "effect"
import { readFileSync } from "node:fs"

/** The embedded backend with `local/chat`. */
export const Local = NodeTinkerLocal.layerInProcess()

/** The renderer of `local/chat`. */
export const chatRenderer = Effect.sync(() => {
  const read = (name: string): unknown =>
    JSON.parse(readFileSync(new URL(`../../../local/models/chat/${name}`, import.meta.url), "utf8"))
  return { tokenizerJson: read("tokenizer.json"), tokenizerConfig: read("tokenizer_config.json") }
}).pipe(Effect.flatMap(Tokenizer.fromHuggingFace), Effect.flatMap(Renderers.localChat))

/** A sampler that writes these texts in turn, each ended as the format ends answers. */
export const scripted = Effect.fnUntraced(
  function*(renderer: Renderer.Renderer, texts: ReadonlyArray<string>, version = 0) {
    const at = yield* Ref.make(0)
    const sampler: Sampler.Sampler = {
      sample: ({ count, maxTokens = Infinity }) =>
        Effect.forEach(
          Array.from({ length: count }),
          () =>
            Effect.map(Ref.getAndUpdate(at, (n) => n + 1), (n): Sampler.Sample => {
              const [end = 0] = renderer.stop
              const whole = [...renderer.tokenizer.encode(texts[n] ?? "", { parseSpecial: "all" }), Number(end)]
              const tokens = Int32Array.from(whole.slice(0, maxTokens))
              return {
                tokens,
                logprobs: Float32Array.from(tokens, (_, i) => -1 - i),
                stopReason: tokens.length < whole.length ? "length" : "stop",
                policyVersion: version
              }
            })
        )
    }
    return sampler
  }
)

export const add: Message.ToolSpec = {
  name: "add",
  description: "Adds two numbers",
  parameters: {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"]
  }
}

/** A call of `add` as the model writes it. */
export const callOf = (args: string) => `<tool_call>\n{"name": "add", "arguments": ${args}}\n</tool_call>`

/**
 * The renderers of the Kimi family.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import { kimiImageTokens } from "../internal/renderer/images.js"
import { kimiK2 as kimiK2Format } from "../internal/renderer/kimiK2.js"
import { fromFormat } from "../internal/renderer/make.js"
import type * as Renderer from "../Renderer.js"
import type { Tokenizer } from "../Tokenizer.js"
import type { RenderFailed } from "../TokenizerError.js"
import type { ImageOptions, ReasoningOptions, ThinkingOptions } from "./Options.js"
import { reasoning } from "./Options.js"

/**
 * Kimi K2 Thinking.
 *
 * @since 0.1.0
 * @category constructors
 */
export const kimiK2 = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(
    kimiK2Format({ name: "kimi_k2", keepThinking: options?.keepThinking ?? false, opens: "nothing" }),
    tokenizer
  )

/**
 * Kimi K2.5: a prompt opens the reasoning, and tools are declared as TypeScript.
 *
 * @since 0.1.0
 * @category constructors
 */
export const kimiK25 = (
  tokenizer: Tokenizer,
  options?: Pick<ReasoningOptions, "thinking"> & ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const thinking = options?.thinking ?? true
  return fromFormat(
    kimiK2Format({
      name: thinking ? "kimi_k25" : "kimi_k25_disable_thinking",
      keepThinking: false,
      opens: thinking ? "reasoning" : "answer",
      images: options?.imageTokens ?? kimiImageTokens
    }),
    tokenizer
  )
}

/**
 * Kimi K2.6: as K2.5, and reasoning can stay in the history, as its template has it with `preserve_thinking`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const kimiK26 = (
  tokenizer: Tokenizer,
  options?: ReasoningOptions & ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const { keepThinking, suffix, thinking } = reasoning(options)
  return fromFormat(
    kimiK2Format({
      name: `kimi_k26${suffix}`,
      keepThinking,
      opens: thinking ? "reasoning" : "answer",
      images: options?.imageTokens ?? kimiImageTokens
    }),
    tokenizer
  )
}

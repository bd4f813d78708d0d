/**
 * The renderers of the Nemotron family.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import { unknownImageTokens } from "../internal/renderer/images.js"
import { fromFormat } from "../internal/renderer/make.js"
import { nemotron3 as nemotron3Format } from "../internal/renderer/nemotron3.js"
import type * as Renderer from "../Renderer.js"
import type { Tokenizer } from "../Tokenizer.js"
import type { RenderFailed } from "../TokenizerError.js"
import type { ImageOptions, ReasoningOptions } from "./Options.js"
import { reasoning } from "./Options.js"

/**
 * Nemotron 3 Nano and Super. `low` effort, which only Super knows, is said at the end of the last question.
 *
 * @since 0.1.0
 * @category constructors
 */
export const nemotron3 = (
  tokenizer: Tokenizer,
  options?: ReasoningOptions & { readonly effort?: "low" | "full" | undefined }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const { keepThinking, suffix, thinking } = reasoning(options)
  const isLow = options?.effort === "low"
  return fromFormat(
    nemotron3Format({
      name: `nemotron3${isLow ? "_low_thinking" : suffix}`,
      ultra: false,
      thinking,
      keepThinking,
      effort: isLow ? "low" : undefined
    }),
    tokenizer
  )
}

/**
 * Nemotron 3 Ultra and the Nemotron 3.5 models. `medium` effort, which Ultra and 3.5 Super know, is said at the end of the
 * last question.
 *
 * @since 0.1.0
 * @category constructors
 */
export const nemotron3Ultra = (
  tokenizer: Tokenizer,
  options?: ReasoningOptions & ImageOptions & { readonly effort?: "medium" | "full" | undefined }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const { keepThinking, suffix, thinking } = reasoning(options)
  const isMedium = options?.effort === "medium"
  return fromFormat(
    nemotron3Format({
      name: `nemotron3_ultra${isMedium ? "_medium_thinking" : suffix}`,
      ultra: true,
      thinking,
      keepThinking,
      effort: isMedium ? "efficient" : undefined,
      images: options?.imageTokens ?? unknownImageTokens
    }),
    tokenizer
  )
}

/**
 * The renderers of the GLM family.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import { glm5 as glm5Format } from "../internal/renderer/glm5.js"
import { fromFormat } from "../internal/renderer/make.js"
import type * as Renderer from "../Renderer.js"
import type { Tokenizer } from "../Tokenizer.js"
import type { RenderFailed } from "../TokenizerError.js"
import type { ReasoningOptions } from "./Options.js"
import { reasoning } from "./Options.js"

/**
 * GLM 5 and 4.7 Flash. Reasoning of earlier turns is dropped, unless it is kept as their template does with
 * `clear_thinking=False`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const glm5 = (
  tokenizer: Tokenizer,
  options?: ReasoningOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const { keepThinking, suffix, thinking } = reasoning(options)
  return fromFormat(glm5Format({ name: `glm5${suffix}`, version: "5", thinking, keepThinking }), tokenizer)
}

/**
 * GLM 5.1: as GLM 5, with an empty block of reasoning in a turn that has none.
 *
 * @since 0.1.0
 * @category constructors
 */
export const glm51 = (
  tokenizer: Tokenizer,
  options?: ReasoningOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const { keepThinking, suffix, thinking } = reasoning(options)
  return fromFormat(glm5Format({ name: `glm5_1${suffix}`, version: "5.1", thinking, keepThinking }), tokenizer)
}

/**
 * GLM 5.3, which always reasons and keeps its reasoning in the history.
 *
 * @since 0.1.0
 * @category constructors
 */
export const glm53 = (
  tokenizer: Tokenizer,
  options?: {
    /** Defaults to `"max"`, as the template does. */
    readonly effort?: "low" | "high" | "max" | undefined
    /** Whether earlier reasoning stays; the template's `clear_thinking` drops it. Defaults to `true`. */
    readonly keepThinking?: boolean | undefined
  }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const effort = options?.effort ?? "max"
  const names = { low: "Low", high: "High", max: "Max" } as const
  return fromFormat(
    glm5Format({
      name: `glm5_3_${effort}_reasoning`,
      version: "5.3",
      effort: names[effort],
      thinking: true,
      keepThinking: options?.keepThinking ?? true
    }),
    tokenizer
  )
}

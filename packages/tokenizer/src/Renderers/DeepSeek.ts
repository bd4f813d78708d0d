/**
 * The renderers of the DeepSeek family.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import { deepseekV3 as deepseekV3Format } from "../internal/renderer/deepseekV3.js"
import { deepseekV4 as deepseekV4Format, deepseekV4Efforts } from "../internal/renderer/deepseekV4.js"
import { fromFormat } from "../internal/renderer/make.js"
import type * as Renderer from "../Renderer.js"
import type { Tokenizer } from "../Tokenizer.js"
import type { RenderFailed } from "../TokenizerError.js"
import type { ThinkingOptions } from "./Options.js"

/**
 * DeepSeek V3.1 without thinking.
 *
 * @since 0.1.0
 * @category constructors
 */
export const deepseekV3 = (tokenizer: Tokenizer): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(deepseekV3Format({ name: "deepseekv3", thinking: false, keepThinking: false }), tokenizer)

/**
 * DeepSeek V3.1 with thinking.
 *
 * @since 0.1.0
 * @category constructors
 */
export const deepseekV3Thinking = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(
    deepseekV3Format({ name: "deepseekv3_thinking", thinking: true, keepThinking: options?.keepThinking ?? false }),
    tokenizer
  )

/**
 * DeepSeek V4, as the encoder in its repository writes it: in chat mode unless it has a reasoning effort. Reasoning of
 * earlier answers is dropped unless tools are declared.
 *
 * @since 0.1.0
 * @category constructors
 */
export const deepseekV4 = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions & {
    /** Defaults to `"none"`, as the encoder does; `"low"` says nothing to the model. */
    readonly effort?: "none" | "low" | "high" | "max" | undefined
  }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const effort = options?.effort ?? "none"
  const keepThinking = options?.keepThinking ?? false
  const suffixes = { none: "_disable_thinking", low: "", high: "_high_reasoning", max: "_max_reasoning" }
  return fromFormat(
    deepseekV4Format({
      name: `deepseekv4${effort === "low" && keepThinking ? "_preserve_thinking" : suffixes[effort]}`,
      version: "4",
      effort: deepseekV4Efforts[effort],
      keepThinking
    }),
    tokenizer
  )
}

/**
 * DeepSeek V4.1, which begins with its reasoning effort; `none` is its chat mode, which does not reason. Reasoning
 * of earlier answers is dropped unless tools are declared.
 *
 * @since 0.1.0
 * @category constructors
 */
export const deepseekV41 = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions & {
    /** Defaults to `"high"`, as the template does. */
    readonly effort?: "none" | "low" | "high" | "max" | undefined
  }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const effort = options?.effort ?? "high"
  const keepThinking = options?.keepThinking ?? false
  const suffixes = { none: "_disable_thinking", low: "_low_reasoning", high: "", max: "_max_reasoning" }
  const efforts = { none: undefined, low: 50, high: 75, max: 100 }
  return fromFormat(
    deepseekV4Format({
      name: `deepseekv4_1${effort === "high" && keepThinking ? "_preserve_thinking" : suffixes[effort]}`,
      version: "4.1",
      effort: efforts[effort] === undefined
        ? undefined
        : `Reasoning Effort: ${
          efforts[effort]
        } (range 1-100, the higher the value, the more thorough the reasoning)\n\n`,
      keepThinking
    }),
    tokenizer
  )
}

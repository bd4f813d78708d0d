/**
 * The renderers of the Qwen family.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import { qwenImageTokens } from "../internal/renderer/images.js"
import { fromFormat } from "../internal/renderer/make.js"
import { qwen3 as qwen3Format } from "../internal/renderer/qwen3.js"
import { qwen35 as qwen35Format } from "../internal/renderer/qwen35.js"
import type * as Renderer from "../Renderer.js"
import type { Tokenizer } from "../Tokenizer.js"
import type { RenderFailed } from "../TokenizerError.js"
import type { ImageOptions, ReasoningOptions, ThinkingOptions } from "./Options.js"
import { reasoning } from "./Options.js"

/**
 * Qwen3 with thinking, as the model's template writes it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen3 = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(qwen3Format({ name: "qwen3", mode: "thinking", keepThinking: options?.keepThinking ?? false }), tokenizer)

/**
 * Qwen3 without reasoning, by the empty block its template writes for `enable_thinking=False`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen3DisableThinking = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(
    qwen3Format({ name: "qwen3_disable_thinking", mode: "disabled", keepThinking: options?.keepThinking ?? false }),
    tokenizer
  )

/**
 * Qwen3 Instruct (2507): no thinking.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen3Instruct = (tokenizer: Tokenizer): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(qwen3Format({ name: "qwen3_instruct", mode: "instruct", keepThinking: false }), tokenizer)

/**
 * Qwen3-VL, which sees images and whose texts are written as Qwen3 Instruct's.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen3Vl = (
  tokenizer: Tokenizer,
  options?: ImageOptions & {
    /** Whether the model is an Instruct one; only the name tells. Defaults to `true`. */
    readonly instruct?: boolean | undefined
  }
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(
    qwen3Format({
      name: options?.instruct === false ? "qwen3_vl" : "qwen3_vl_instruct",
      mode: "instruct",
      keepThinking: false,
      images: options?.imageTokens ?? qwenImageTokens
    }),
    tokenizer
  )

/**
 * Qwen3.5 with thinking, as the model's template writes it: texts are trimmed, and a prompt opens the reasoning.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen35 = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions & ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(
    qwen35Format({
      name: options?.keepThinking === true ? "qwen3_5_preserve_thinking" : "qwen3_5",
      version: "3.5",
      thinking: true,
      keepThinking: options?.keepThinking ?? false,
      images: options?.imageTokens ?? qwenImageTokens
    }),
    tokenizer
  )

/**
 * Qwen3.5 without reasoning, by the empty block its template writes for `enable_thinking=False`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen35DisableThinking = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions & ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(
    qwen35Format({
      name: "qwen3_5_disable_thinking",
      version: "3.5",
      thinking: false,
      keepThinking: options?.keepThinking ?? false,
      images: options?.imageTokens ?? qwenImageTokens
    }),
    tokenizer
  )

/**
 * Qwen3.6: Qwen3.5's format, except that constants in tool calls are written as JSON. The Tinker cookbook has Qwen3.5's
 * renderers for it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen36 = (
  tokenizer: Tokenizer,
  options?: ReasoningOptions & ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const { keepThinking, suffix, thinking } = reasoning(options)
  const images = options?.imageTokens ?? qwenImageTokens
  return fromFormat(
    qwen35Format({ name: `qwen3_6${suffix}`, version: "3.6", thinking, keepThinking, images }),
    tokenizer
  )
}

/**
 * Qwen3.8 with thinking, as the model's template writes it: reasoning stays in the history, and the system message begins
 * with how hard to think.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen38 = (
  tokenizer: Tokenizer,
  options?: ImageOptions & {
    /** Defaults to `"xhigh"`, as the template does; `"medium"` says nothing to the model. */
    readonly effort?: "low" | "medium" | "xhigh" | undefined
  }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const effort = options?.effort ?? "xhigh"
  return fromFormat(
    qwen35Format({
      name: `qwen3_8_${effort}_reasoning`,
      version: "3.8",
      thinking: true,
      keepThinking: true,
      effort,
      images: options?.imageTokens ?? qwenImageTokens
    }),
    tokenizer
  )
}

/**
 * Qwen3.8 without reasoning, by the empty block its template writes for `enable_thinking=False`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const qwen38DisableThinking = (
  tokenizer: Tokenizer,
  options?: ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(
    qwen35Format({
      name: "qwen3_8_disable_thinking",
      version: "3.8",
      thinking: false,
      keepThinking: true,
      images: options?.imageTokens ?? qwenImageTokens
    }),
    tokenizer
  )

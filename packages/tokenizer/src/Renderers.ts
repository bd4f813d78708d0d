/**
 * The renderers of the model families, by constructor, by name and by model.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ChatTemplate from "./ChatTemplate.js"
import * as python from "./internal/python.js"
import { gemma4 as gemma4Format } from "./internal/renderer/gemma4.js"
import { gptOss as gptOssFormat } from "./internal/renderer/gptOss.js"
import { inklingImageTokens, unknownImageTokens } from "./internal/renderer/images.js"
import { localChat as localChatFormat } from "./internal/renderer/localChat.js"
import { fromFormat } from "./internal/renderer/make.js"
import { minimaxM2 as minimaxM2Format } from "./internal/renderer/minimaxM2.js"
import { rules } from "./internal/renderer/rules.js"
import { llama3 as llama3Format, roleColon as roleColonFormat } from "./internal/renderer/simple.js"
import { fromTemplate as templateRenderer } from "./internal/renderer/template.js"
import { tmlV0 as tmlV0Format } from "./internal/renderer/tmlV0.js"
import type * as Message from "./Message.js"
import type * as Renderer from "./Renderer.js"
import { deepseekV3, deepseekV3Thinking, deepseekV4, deepseekV41 } from "./Renderers/DeepSeek.js"
import { glm5, glm51, glm53 } from "./Renderers/Glm.js"
import { kimiK2, kimiK25, kimiK26 } from "./Renderers/Kimi.js"
import { nemotron3, nemotron3Ultra } from "./Renderers/Nemotron.js"
import type { ImageOptions, ReasoningOptions, ThinkingOptions } from "./Renderers/Options.js"
import { reasoning } from "./Renderers/Options.js"
import {
  qwen3,
  qwen35,
  qwen35DisableThinking,
  qwen36,
  qwen38,
  qwen38DisableThinking,
  qwen3DisableThinking,
  qwen3Instruct,
  qwen3Vl
} from "./Renderers/Qwen.js"
import type { Tokenizer } from "./Tokenizer.js"
import type { ChatTemplateFailed } from "./TokenizerError.js"
import { RenderFailed } from "./TokenizerError.js"
import { baseName } from "./TokenizerId.js"

export type {
  /**
   * Settings of formats with images.
   *
   * @since 0.1.0
   * @category models
   */
  ImageOptions,
  /**
   * Settings of formats whose reasoning can be turned off.
   *
   * @since 0.1.0
   * @category models
   */
  ReasoningOptions,
  /**
   * Settings of formats with reasoning.
   *
   * @since 0.1.0
   * @category models
   */
  ThinkingOptions
} from "./Renderers/Options.js"

/**
 * The formats of DeepSeek V3 and V4.
 *
 * @since 0.1.0
 * @category constructors
 */
export * from "./Renderers/DeepSeek.js"

/**
 * The formats of GLM 5.
 *
 * @since 0.1.0
 * @category constructors
 */
export * from "./Renderers/Glm.js"

/**
 * The formats of Kimi K2.
 *
 * @since 0.1.0
 * @category constructors
 */
export * from "./Renderers/Kimi.js"

/**
 * The formats of Nemotron 3.
 *
 * @since 0.1.0
 * @category constructors
 */
export * from "./Renderers/Nemotron.js"

/**
 * The formats of Qwen3 and its successors.
 *
 * @since 0.1.0
 * @category constructors
 */
export * from "./Renderers/Qwen.js"

/**
 * `User: …` and `Assistant: …`, for base models. Stops at the string `"\n\nUser:"`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const roleColon = (tokenizer: Tokenizer): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(roleColonFormat(Option.getOrUndefined(tokenizer.specialTokens.bos)), tokenizer)

/**
 * Llama 3 Instruct. Unlike the model's template it neither adds dates to the system message nor trims texts, and it has no
 * tools.
 *
 * @since 0.1.0
 * @category constructors
 */
export const llama3 = (tokenizer: Tokenizer): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(llama3Format, tokenizer)

/**
 * Settings of {@link gptOss}.
 *
 * @since 0.1.0
 * @category models
 */
export interface GptOssOptions {
  /** How much to reason. Without it the format adds no system message. */
  readonly effort?: "low" | "medium" | "high" | undefined
  /** The date the system message gives, as `YYYY-MM-DD`. Defaults to today's. */
  readonly date?: string | undefined
}

/**
 * gpt-oss, in the harmony format. Tool calls are written as harmony specifies them (`<|constrain|>json`), which the model's
 * template does not.
 *
 * @since 0.1.0
 * @category constructors
 */
export const gptOss: (
  tokenizer: Tokenizer,
  options?: GptOssOptions
) => Effect.Effect<Renderer.Renderer, RenderFailed> = Effect.fnUntraced(function*(tokenizer, options) {
  const now = yield* Clock.currentTimeMillis
  const effort = options?.effort
  return yield* fromFormat(
    gptOssFormat({
      name: effort === undefined ? "gpt_oss_no_sysprompt" : `gpt_oss_${effort}_reasoning`,
      system: effort === undefined
        ? undefined
        : { effort, date: options?.date ?? python.strftime(new Date(now), "%Y-%m-%d") }
    }),
    tokenizer
  )
})

/**
 * MiniMax M2 and M2.5.
 *
 * @since 0.1.0
 * @category constructors
 */
export const minimaxM2 = (
  tokenizer: Tokenizer,
  options?: ThinkingOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(minimaxM2Format({ name: "minimax_m2", keepThinking: options?.keepThinking ?? false }), tokenizer)

/**
 * Gemma 4. A round of tools is one turn of the model, and what a message that calls tools says comes after their answers.
 *
 * @since 0.1.0
 * @category constructors
 */
export const gemma4 = (
  tokenizer: Tokenizer,
  options?: ReasoningOptions & ImageOptions & {
    /** Whether the model is 26B or 31B, whose template turns reasoning off in a different way. Defaults to `false`. */
    readonly large?: boolean | undefined
  }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const { keepThinking, suffix, thinking } = reasoning(options)
  const closesChannel = options?.large === true && !thinking
  return fromFormat(
    gemma4Format({
      name: `gemma4${closesChannel ? "_large" : ""}${suffix}`,
      thinking,
      keepThinking,
      closesChannel,
      images: options?.imageTokens ?? unknownImageTokens
    }),
    tokenizer
  )
}

/**
 * Inkling, whose history is never written differently. Its vocabulary is o200k with `Tokenizer.inklingTokens`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const tmlV0 = (
  tokenizer: Tokenizer,
  options?: ImageOptions & {
    /** How hard to think, from 0 up to but not including 1. Defaults to 0.9. */
    readonly effort?: number | undefined
  }
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const effort = options?.effort ?? 0.9
  return effort >= 0 && effort < 1
    ? fromFormat(tmlV0Format({ effort, images: options?.imageTokens ?? inklingImageTokens }), tokenizer)
    : Effect.fail(new RenderFailed({ renderer: "tml_v0", description: `the effort ${effort} is not in [0, 1)` }))
}

/**
 * The embedded model `local/chat`: Qwen3's frame, one line a tool, and a history that keeps its reasoning.
 *
 * @since 0.1.0
 * @category constructors
 */
export const localChat = (tokenizer: Tokenizer): Effect.Effect<Renderer.Renderer, RenderFailed> =>
  fromFormat(localChatFormat, tokenizer)

/**
 * A renderer for a model that has none here, made from its chat template: prompts and training examples are what the
 * template writes. The tokens of an answer are those between the prompt that asks for it and its end, or what the template
 * marks with `{% generation %}`; where a template writes an answer so that it cannot be found, it fails and names the
 * message. Text of messages goes through the template as it is, so control tokens in it are recognised.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromTemplate = (
  template: ChatTemplate.ChatTemplate,
  tokenizer: Tokenizer,
  options?: {
    /** More variables for the template. */
    readonly variables?: Readonly<Record<string, unknown>> | undefined
    readonly tools?: ReadonlyArray<Message.ToolSpec> | undefined
  }
): Renderer.Renderer => templateRenderer(template, tokenizer, options)

type Make = (tokenizer: Tokenizer, options: ImageOptions) => Effect.Effect<Renderer.Renderer, RenderFailed>

const makers: Readonly<Record<string, Make>> = {
  role_colon: roleColon,
  llama3,
  qwen3: (tokenizer) => qwen3(tokenizer),
  qwen3_disable_thinking: (tokenizer) => qwen3DisableThinking(tokenizer),
  qwen3_instruct: qwen3Instruct,
  qwen3_vl: (tokenizer, options) => qwen3Vl(tokenizer, { ...options, instruct: false }),
  qwen3_vl_instruct: qwen3Vl,
  qwen3_5: qwen35,
  qwen3_5_disable_thinking: qwen35DisableThinking,
  qwen3_5_preserve_thinking: (tokenizer, options) => qwen35(tokenizer, { ...options, keepThinking: true }),
  qwen3_6: qwen36,
  qwen3_6_disable_thinking: (tokenizer, options) => qwen36(tokenizer, { ...options, thinking: false }),
  qwen3_6_preserve_thinking: (tokenizer, options) => qwen36(tokenizer, { ...options, keepThinking: true }),
  qwen3_8_xhigh_reasoning: qwen38,
  qwen3_8_medium_reasoning: (tokenizer, options) => qwen38(tokenizer, { ...options, effort: "medium" }),
  qwen3_8_low_reasoning: (tokenizer, options) => qwen38(tokenizer, { ...options, effort: "low" }),
  qwen3_8_disable_thinking: qwen38DisableThinking,
  deepseekv3: deepseekV3,
  deepseekv3_disable_thinking: deepseekV3,
  deepseekv3_thinking: (tokenizer) => deepseekV3Thinking(tokenizer),
  gpt_oss_no_sysprompt: (tokenizer) => gptOss(tokenizer),
  gpt_oss_low_reasoning: (tokenizer) => gptOss(tokenizer, { effort: "low" }),
  gpt_oss_medium_reasoning: (tokenizer) => gptOss(tokenizer, { effort: "medium" }),
  gpt_oss_high_reasoning: (tokenizer) => gptOss(tokenizer, { effort: "high" }),
  kimi_k2: (tokenizer) => kimiK2(tokenizer),
  kimi_k25: kimiK25,
  kimi_k25_disable_thinking: (tokenizer, options) => kimiK25(tokenizer, { ...options, thinking: false }),
  kimi_k26: kimiK26,
  kimi_k26_disable_thinking: (tokenizer, options) => kimiK26(tokenizer, { ...options, thinking: false }),
  kimi_k26_preserve_thinking: (tokenizer, options) => kimiK26(tokenizer, { ...options, keepThinking: true }),
  nemotron3: (tokenizer) => nemotron3(tokenizer),
  nemotron3_low_thinking: (tokenizer) => nemotron3(tokenizer, { effort: "low" }),
  nemotron3_disable_thinking: (tokenizer) => nemotron3(tokenizer, { thinking: false }),
  nemotron3_preserve_thinking: (tokenizer) => nemotron3(tokenizer, { keepThinking: true }),
  nemotron3_ultra: nemotron3Ultra,
  nemotron3_ultra_disable_thinking: (tokenizer, options) => nemotron3Ultra(tokenizer, { ...options, thinking: false }),
  nemotron3_ultra_medium_thinking: (tokenizer, options) => nemotron3Ultra(tokenizer, { ...options, effort: "medium" }),
  nemotron3_ultra_preserve_thinking: (tokenizer, options) =>
    nemotron3Ultra(tokenizer, { ...options, keepThinking: true }),
  deepseekv4_1: (tokenizer) => deepseekV41(tokenizer),
  deepseekv4_1_low_reasoning: (tokenizer) => deepseekV41(tokenizer, { effort: "low" }),
  deepseekv4_1_max_reasoning: (tokenizer) => deepseekV41(tokenizer, { effort: "max" }),
  deepseekv4_1_disable_thinking: (tokenizer) => deepseekV41(tokenizer, { effort: "none" }),
  deepseekv4_1_preserve_thinking: (tokenizer) => deepseekV41(tokenizer, { keepThinking: true }),
  deepseekv4: (tokenizer) => deepseekV4(tokenizer, { effort: "low" }),
  deepseekv4_high_reasoning: (tokenizer) => deepseekV4(tokenizer, { effort: "high" }),
  deepseekv4_max_reasoning: (tokenizer) => deepseekV4(tokenizer, { effort: "max" }),
  deepseekv4_disable_thinking: (tokenizer) => deepseekV4(tokenizer),
  deepseekv4_preserve_thinking: (tokenizer) => deepseekV4(tokenizer, { effort: "low", keepThinking: true }),
  glm5: (tokenizer) => glm5(tokenizer),
  glm5_disable_thinking: (tokenizer) => glm5(tokenizer, { thinking: false }),
  glm5_preserve_thinking: (tokenizer) => glm5(tokenizer, { keepThinking: true }),
  glm5_1: (tokenizer) => glm51(tokenizer),
  glm5_1_disable_thinking: (tokenizer) => glm51(tokenizer, { thinking: false }),
  glm5_1_preserve_thinking: (tokenizer) => glm51(tokenizer, { keepThinking: true }),
  glm5_3_max_reasoning: (tokenizer) => glm53(tokenizer),
  glm5_3_low_reasoning: (tokenizer) => glm53(tokenizer, { effort: "low" }),
  glm5_3_high_reasoning: (tokenizer) => glm53(tokenizer, { effort: "high" }),
  tml_v0: tmlV0,
  gemma4,
  gemma4_disable_thinking: (tokenizer, options) => gemma4(tokenizer, { ...options, thinking: false }),
  gemma4_large_disable_thinking: (tokenizer, options) =>
    gemma4(tokenizer, { ...options, thinking: false, large: true }),
  gemma4_preserve_thinking: (tokenizer, options) => gemma4(tokenizer, { ...options, keepThinking: true }),
  minimax_m2: (tokenizer) => minimaxM2(tokenizer),
  local_chat: localChat
}

/**
 * The names {@link byName} knows: those of the Tinker cookbook, as far as they are implemented.
 *
 * @since 0.1.0
 * @category models
 */
export const names: ReadonlyArray<string> = Object.keys(makers)

/**
 * A renderer by its name in the Tinker cookbook.
 *
 * @since 0.1.0
 * @category constructors
 */
export const byName = (
  name: string,
  tokenizer: Tokenizer,
  options?: ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed> => {
  const make = makers[name]
  return make === undefined
    ? Effect.fail(
      new RenderFailed({ renderer: name, description: `there is no such renderer; known: ${names.join(", ")}` })
    )
    : make(tokenizer, options ?? {})
}

/**
 * The renderers made for a model, the recommended one first; empty when there is none here.
 *
 * @since 0.1.0
 * @category combinators
 */
export const recommended = (model: string): ReadonlyArray<string> =>
  rules.find(([pattern]) => pattern.test(baseName(model)))?.[1] ?? []

/**
 * The recommended renderer of a model; for a model without one, a renderer made from the tokenizer's chat template.
 * Where there is neither it fails, and says what to do.
 *
 * @since 0.1.0
 * @category constructors
 */
export const forModel = (
  model: string,
  tokenizer: Tokenizer,
  options?: ImageOptions
): Effect.Effect<Renderer.Renderer, RenderFailed | ChatTemplateFailed> => {
  const [name] = recommended(model)
  if (name !== undefined) return byName(name, tokenizer, options)
  if (tokenizer.chatTemplates["default"] === undefined) {
    return Effect.fail(
      new RenderFailed({
        renderer: model,
        description:
          "no renderer is known for this model, and its tokenizer has no chat template. If it was trained on a " +
          `format of another model, name it with Renderers.byName (${
            names.join(", ")
          }); a base model takes role_colon; ` +
          "a template of your own goes to Renderers.fromTemplate"
      })
    )
  }
  return Either.map(ChatTemplate.fromTokenizer(tokenizer), (template) => fromTemplate(template, tokenizer))
}

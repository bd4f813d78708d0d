/**
 * Options of renderers of several families.
 *
 * @since 0.1.0
 */

/**
 * Settings of formats with reasoning.
 *
 * @since 0.1.0
 * @category models
 */
export interface ThinkingOptions {
  /**
   * Whether reasoning stays in earlier answers. The models' own templates drop it; keeping it makes every prompt begin with
   * the one before it. Defaults to `false`.
   */
  readonly keepThinking?: boolean | undefined
}

/**
 * Settings of formats whose reasoning can be turned off.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReasoningOptions extends ThinkingOptions {
  /** Whether the prompt lets the model reason. Defaults to `true`. */
  readonly thinking?: boolean | undefined
}

/**
 * Settings of formats with images.
 *
 * @since 0.1.0
 * @category models
 */
export interface ImageOptions {
  /**
   * How many tokens an image takes. Defaults to what the model's image processor computes; for models whose processor is a
   * program in their repository (Nemotron 3.5 Super, Gemma 4) it must be given.
   */
  readonly imageTokens?: ((size: { readonly width: number; readonly height: number }) => number) | undefined
}

/** @internal */
export const reasoning = (options: ReasoningOptions | undefined) => {
  const thinking = options?.thinking ?? true
  const keepThinking = options?.keepThinking ?? false
  return { thinking, keepThinking, suffix: !thinking ? "_disable_thinking" : keepThinking ? "_preserve_thinking" : "" }
}

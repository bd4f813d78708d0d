/**
 * From text to token ids and back, for {@link SamplingClient.sampleText}: this package has no tokenizer, so it takes
 * whichever one is in the context. It must be that of the model.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as ModelInput from "./ModelInput.js"
import { InvalidInput } from "./TinkerError.js"

/**
 * Encodes and decodes.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly encode: (text: string) => Effect.Effect<ModelInput.Tokens, InvalidInput>
  readonly decode: (tokens: ModelInput.Tokens) => Effect.Effect<string, InvalidInput>
}

/**
 * The tokenizer as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class TextTokenizer extends Context.Tag("effect-tinker/TextTokenizer")<TextTokenizer, Service>() {}

/**
 * A tokenizer from two functions, which may throw.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: {
  readonly encode: (text: string) => ModelInput.Tokens
  readonly decode: (tokens: ModelInput.Tokens) => string
}): Service => {
  const attempt = <A>(method: string, run: () => A) =>
    Effect.try({
      try: run,
      catch: (cause) => new InvalidInput({ module: "TextTokenizer", method, description: String(cause), cause })
    })
  return {
    encode: (text) => attempt("encode", () => options.encode(text)),
    decode: (tokens) => attempt("decode", () => options.decode(tokens))
  }
}

/**
 * A tokenizer from two functions.
 *
 * @example
 * ```ts
 * import { TextTokenizer } from "effect-tinker"
 *
 * const Bytes = TextTokenizer.layer({
 *   encode: (text) => Int32Array.from(new TextEncoder().encode(text)),
 *   decode: (tokens) => new TextDecoder().decode(Uint8Array.from(tokens))
 * })
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Parameters<typeof make>[0]): Layer.Layer<TextTokenizer> =>
  Layer.succeed(TextTokenizer, make(options))

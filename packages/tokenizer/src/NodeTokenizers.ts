/**
 * Tokenizers on Node.js: by model name from the Hugging Face hub, with its cache on the disk.
 *
 * @since 0.1.0
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type { ConfigError } from "effect/ConfigError"
import * as Layer from "effect/Layer"
import * as HuggingFaceHub from "./HuggingFaceHub.js"
import * as Tokenizers from "./Tokenizers.js"

/**
 * Which hub, and which tokenizers are known beforehand.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends Tokenizers.Options {
  /** Settings not given come from the environment (`HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME`, `HF_HUB_OFFLINE`, …). */
  readonly hub?: Partial<HuggingFaceHub.Options> | undefined
}

/**
 * The tokenizers of any model on the hub.
 *
 * @example
 * ```ts
 * import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
 * import { Tokenizers } from "@effect-tinker/tokenizer"
 * import { Effect } from "effect"
 *
 * const count = Effect.gen(function*() {
 *   const tokenizers = yield* Tokenizers.Tokenizers
 *   const tokenizer = yield* tokenizers.forModel("Qwen/Qwen3-8B")
 *   return tokenizer.encode("How many tokens?").length
 * }).pipe(Effect.provide(NodeTokenizers.layer()))
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = ({ hub, ...options }: Options = {}): Layer.Layer<Tokenizers.Tokenizers, ConfigError> =>
  Tokenizers.layer(options).pipe(
    Layer.provide(HuggingFaceHub.layerFromEnv(hub)),
    Layer.provide([NodeContext.layer, NodeHttpClient.layerUndici])
  )

/**
 * Which tokenizer belongs to a model: the rules of the Python SDK as a pure function.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { TokenizerUnsupported } from "./TokenizerError.js"

/**
 * A repository of tokenizer files, at a revision when one is prescribed.
 *
 * @since 0.1.0
 * @category models
 */
export interface TokenizerRef {
  readonly repo: string
  readonly revision?: string | undefined
}

/**
 * The mirror from which the tokenizers of gated Llama 3 models are read.
 *
 * @since 0.1.0
 * @category configuration
 */
export const llama3Mirror = "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer"

/**
 * Repositories that are read at a fixed commit, and the repository that is read instead where it is another.
 *
 * @since 0.1.0
 * @category configuration
 */
export const pins: Readonly<Record<string, TokenizerRef>> = {
  "moonshotai/Kimi-K2-Thinking": {
    repo: "moonshotai/Kimi-K2-Thinking",
    revision: "612681931a8c906ddb349f8ad0f582cb552189cd"
  },
  "moonshotai/Kimi-K2.5": { repo: "moonshotai/Kimi-K2.5", revision: "4d01dfe0332d63057c186e0b262165819efb6611" },
  "moonshotai/Kimi-K2.5-Text-Only": {
    repo: "moonshotai/Kimi-K2.5",
    revision: "4d01dfe0332d63057c186e0b262165819efb6611"
  },
  "moonshotai/Kimi-K2.6": { repo: "moonshotai/Kimi-K2.6", revision: "b5aabbfb20227ed42becbf5541dbffd213942c58" },
  "moonshotai/Kimi-K3": { repo: "moonshotai/Kimi-K3", revision: "f831ab66814297da540d832a5235f8e904f29d06" }
}

/**
 * The base model's name without the variant some names carry after a colon.
 *
 * @since 0.1.0
 * @category combinators
 */
export const baseName = (model: string): string => model.split(":")[0] ?? model

/**
 * Where the tokenizer of a model is found.
 *
 * An explicit `tokenizerId` (the service reports one for some models) wins over the name; an explicit `revision` wins over
 * a pinned one. Tokenizers that were never published fail with what to do instead.
 *
 * @since 0.1.0
 * @category combinators
 */
export const resolve = (
  model: string,
  options: { readonly tokenizerId?: string | undefined; readonly revision?: string | undefined } = {}
): Either.Either<TokenizerRef, TokenizerUnsupported> => {
  const id = options.tokenizerId ?? fromName(baseName(model))
  if (id.startsWith("TML/") || id.startsWith("thinkingmachines/")) {
    return Either.left(
      new TokenizerUnsupported({
        repo: id,
        description:
          "this tokenizer is not published; if you have one, hand it to Tokenizers.register under the model's name"
      })
    )
  }
  const pinned = pins[id] ?? { repo: id }
  return Either.right(options.revision === undefined ? pinned : { repo: pinned.repo, revision: options.revision })
}

const fromName = (model: string): string => {
  if (model.startsWith("meta-llama/Llama-3")) return llama3Mirror
  // a path on this machine
  if (model.startsWith("/")) return model
  const segments = model.split("/")
  // organisation/model/variant: variants share the tokenizer of their model
  return segments.length === 3 ? segments.slice(0, 2).join("/") : model
}

/**
 * The tokenizer of the local models: one token per UTF-8 byte, and a few special tokens for conversations.
 *
 * @since 0.1.0
 */
import * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type { TokenizerError } from "@effect-tinker/tokenizer/TokenizerError"
import * as TextTokenizer from "effect-tinker/TextTokenizer"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"

/**
 * The special tokens with their ids. They follow the 256 bytes; the reserved ones make the vocabulary a multiple of
 * eight and are free for use in experiments.
 *
 * @since 0.1.0
 * @category models
 */
export const specialTokens = {
  "<|endoftext|>": 256,
  "<|im_start|>": 257,
  "<|im_end|>": 258,
  "<|pad|>": 259,
  "<|reserved_0|>": 260,
  "<|reserved_1|>": 261,
  "<|reserved_2|>": 262,
  "<|reserved_3|>": 263
} as const

/**
 * The text of a special token.
 *
 * @since 0.1.0
 * @category models
 */
export type SpecialToken = keyof typeof specialTokens

/**
 * How many tokens there are.
 *
 * @since 0.1.0
 * @category models
 */
export const vocabularySize: number = 264

/**
 * The id under which the server reports this tokenizer.
 *
 * @since 0.1.0
 * @category models
 */
export const tokenizerId: string = "local/bytes"

/**
 * The tokens that end a sequence when a request names no stops of its own.
 *
 * @since 0.1.0
 * @category models
 */
export const endTokens: ReadonlyArray<number> = [specialTokens["<|endoftext|>"], specialTokens["<|im_end|>"]]

const encoder = new TextEncoder()
const special = new Map<string, number>(Object.entries(specialTokens))
const specialText = new Map<number, string>(Array.from(special, ([text, id]) => [id, text]))
const specialBytes = new Map<number, Uint8Array>(Array.from(special, ([text, id]) => [id, encoder.encode(text)]))
const singleBytes: ReadonlyArray<Uint8Array> = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte))
const none = new Uint8Array(0)
const specialPattern = new RegExp(
  Array.from(special.keys(), (text) => text.replace(/[|]/g, "\\$&")).join("|"),
  "g"
)

/**
 * Text to tokens. The texts of special tokens become those tokens unless `specials` is false, which is what untrusted
 * text wants.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encode = (text: string, options?: { readonly specials?: boolean | undefined }): Int32Array => {
  if (options?.specials === false) return Int32Array.from(encoder.encode(text))
  const out: Array<number> = []
  let from = 0
  for (const match of text.matchAll(specialPattern)) {
    for (const byte of encoder.encode(text.slice(from, match.index))) out.push(byte)
    out.push(special.get(match[0]) ?? 0)
    from = match.index + match[0].length
  }
  if (from === 0) return Int32Array.from(encoder.encode(text))
  for (const byte of encoder.encode(text.slice(from))) out.push(byte)
  return Int32Array.from(out)
}

/**
 * The bytes one token stands for; none for an id outside the vocabulary.
 *
 * @since 0.1.0
 * @category combinators
 */
export const tokenBytes = (token: number): Uint8Array => singleBytes[token] ?? specialBytes.get(token) ?? none

/**
 * Tokens to text. Bytes that are not UTF-8 become the replacement character, and ids outside the vocabulary nothing.
 * Special tokens are written out unless `skipSpecials` is set.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decode = (
  tokens: Iterable<number>,
  options?: { readonly skipSpecials?: boolean | undefined }
): string => {
  const bytes: Array<number> = []
  for (const token of tokens) {
    if (specialText.has(token) && options?.skipSpecials === true) continue
    for (const byte of tokenBytes(token)) bytes.push(byte)
  }
  return new TextDecoder().decode(Uint8Array.from(bytes))
}

/** The printable character byte-level vocabularies write for each byte. */
const byteCharacters: ReadonlyArray<string> = (() => {
  let next = 256
  return singleBytes.map((_, byte) => {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
    return String.fromCodePoint(printable ? byte : next++)
  })
})()

/**
 * The same tokenizer as the files of a model repository, for whatever reads those: the tokenizer package, for example,
 * with `Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles)`. The template is that of a plain conversation.
 *
 * @since 0.1.0
 * @category models
 */
export const huggingFaceFiles: {
  readonly id: string
  readonly tokenizerJson: Readonly<Record<string, unknown>>
  readonly tokenizerConfig: Readonly<Record<string, unknown>>
} = {
  id: tokenizerId,
  tokenizerJson: {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: Array.from(special, ([content, id]) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true
    })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(byteCharacters.map((character, byte) => [character, byte])),
      merges: []
    }
  },
  tokenizerConfig: {
    tokenizer_class: "PreTrainedTokenizerFast",
    model_max_length: 1024,
    eos_token: "<|im_end|>",
    pad_token: "<|pad|>",
    clean_up_tokenization_spaces: false,
    chat_template: "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + " +
      "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
  }
}

const bytes = Tokenizer.fromHuggingFace(huggingFaceFiles)

/**
 * This tokenizer for the tokenizer package's `Tokenizers.layer`, under its own id and the names of the models that use it.
 *
 * @since 0.1.0
 * @category models
 */
export const registry: Readonly<
  Record<string, Effect.Effect<Tokenizer.Tokenizer, TokenizerError>>
> = { [tokenizerId]: bytes, "local/tiny": bytes, "local/small": bytes }

/**
 * This tokenizer for the SDK's `SamplingClient.sampleText`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<TextTokenizer.TextTokenizer> = TextTokenizer.layer({ encode, decode })

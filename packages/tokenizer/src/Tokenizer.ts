/**
 * Text to token ids and back, synchronously and without effects once loaded.
 *
 * A tokenizer is built from a model's own `tokenizer.json` by `@huggingface/tokenizers`. When it is byte-level BPE, as every
 * model family of the Tinker service is, a faster core of our own encodes and decodes; it must agree with the library on
 * a set of probes at load, otherwise the library does the work. `Tokenizer.engine` says which one it is.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import type { AddedToken } from "./AddedToken.js"
import type { Engine } from "./internal/engine.js"
import * as engine from "./internal/engine.js"
import * as load from "./internal/load.js"
import { InvalidTokens } from "./TokenizerError.js"
import type { TokenizerMalformed } from "./TokenizerError.js"

/**
 * Marks values of this module.
 *
 * @since 0.1.0
 * @category guards
 */
export const TypeId = "~@effect-tinker/tokenizer/Tokenizer" as const

/**
 * The type of {@link TypeId}.
 *
 * @since 0.1.0
 * @category guards
 */
export type TypeId = typeof TypeId

/**
 * Which added tokens are recognised in text.
 *
 * - `all`: every added token; for text that was rendered by a trusted template.
 * - `ordinary`: those not marked special, as Rust's `encode_special_tokens` and transformers' `split_special_tokens` do.
 * - `none`: no token at all: whatever the text spells, it stays text. For anything a user wrote.
 *
 * @since 0.1.0
 * @category models
 */
export type ParseSpecial = "all" | "ordinary" | "none"

/**
 * How text is encoded.
 *
 * @since 0.1.0
 * @category models
 */
export interface EncodeOptions {
  /** Whether the tokens the model expects around a text, such as a beginning-of-text, are added. Defaults to `true`. */
  readonly addSpecialTokens?: boolean | undefined
  /** Which added tokens the text may name. Defaults to `"all"`. */
  readonly parseSpecial?: ParseSpecial | undefined
}

/**
 * How tokens are decoded.
 *
 * @since 0.1.0
 * @category models
 */
export interface DecodeOptions {
  /** Whether special tokens are left out. Defaults to `false`. */
  readonly skipSpecialTokens?: boolean | undefined
}

/**
 * The spellings of the tokens with a role, where the model has them.
 *
 * @since 0.1.0
 * @category models
 */
export interface SpecialTokens {
  readonly bos: Option.Option<string>
  readonly eos: Option.Option<string>
  readonly pad: Option.Option<string>
  readonly unk: Option.Option<string>
}

/**
 * Decodes tokens as they arrive: the pieces, put together, are what decoding all tokens at once gives.
 *
 * @since 0.1.0
 * @category models
 */
export interface Decoder {
  /** The text that is complete after these tokens. */
  readonly push: (ids: Iterable<number>) => string
  /** Text held back, such as the beginning of a character that never ended. */
  readonly end: () => string
}

/**
 * The least a tokenizer is: text to ids and back. What needs no more than that should ask for no more, so that your own
 * tokenizer will do; every {@link Tokenizer} is one.
 *
 * @since 0.1.0
 * @category models
 */
export interface TextCodec {
  readonly encode: (text: string) => Int32Array
  readonly decode: (ids: Iterable<number>) => string
}

/**
 * A loaded tokenizer: plain functions, no effects.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tokenizer extends TextCodec {
  readonly [TypeId]: TypeId
  /** The name it was loaded by. */
  readonly id: string
  /** The commit or tag it was loaded at, when there is one. */
  readonly revision: Option.Option<string>
  /** Which implementation encodes and decodes. */
  readonly engine: "core" | "library"
  /** One more than the highest token id. */
  readonly vocabSize: number
  readonly addedTokens: ReadonlyArray<AddedToken>
  readonly specialTokens: SpecialTokens
  /** The model's chat templates by name; the one to use when none is asked for is `default`. */
  readonly chatTemplates: Readonly<Record<string, string>>
  readonly encode: (text: string, options?: EncodeOptions) => Int32Array
  /** Encodes a long text piece by piece: the caller may do something else each time it yields. */
  readonly encodeSteps: (text: string, options?: EncodeOptions) => Generator<undefined, Int32Array>
  readonly count: (text: string, options?: EncodeOptions) => number
  /** Ids without a token (models often have more outputs than tokens) contribute nothing. */
  readonly decode: (ids: Iterable<number>, options?: DecodeOptions) => string
  readonly decoder: (options?: DecodeOptions) => Decoder
  /** The exact bytes of a token; `None` for an unknown id, and always when the library does the work. */
  readonly tokenBytes: (id: number) => Option.Option<Uint8Array>
  readonly tokenToId: (token: string) => Option.Option<number>
  readonly idToToken: (id: number) => Option.Option<string>
}

/**
 * Whether a value is a tokenizer.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTokenizer = (u: unknown): u is Tokenizer => Predicate.hasProperty(u, TypeId)

const fromLoaded = (loaded: load.Loaded, id: string, revision: string | undefined): Tokenizer => {
  const use: Engine = loaded.engine
  const steps = (text: string, options: EncodeOptions | undefined) =>
    use.encode(text, options?.addSpecialTokens ?? true, options?.parseSpecial ?? "all")
  const encode = (text: string, options?: EncodeOptions) => engine.run(steps(text, options))
  return {
    [TypeId]: TypeId,
    id,
    revision: Option.fromNullable(revision),
    engine: loaded.kind,
    vocabSize: loaded.vocabSize,
    addedTokens: loaded.added,
    specialTokens: loaded.specialTokens,
    chatTemplates: loaded.chatTemplates,
    encode,
    encodeSteps: steps,
    count: (text, options) => encode(text, options).length,
    decode: (ids, options) => use.decode(ids, options?.skipSpecialTokens ?? false),
    decoder: (options) => use.decoder(options?.skipSpecialTokens ?? false),
    tokenBytes: (token) => Option.fromNullable(use.tokenBytes(token)),
    tokenToId: (token) => Option.fromNullable(loaded.tokenToId(token)),
    idToToken: (token) => Option.fromNullable(loaded.idToToken(token))
  }
}

/**
 * Input of {@link fromHuggingFace}. The files are given parsed.
 *
 * @since 0.1.0
 * @category models
 */
export interface HuggingFaceFiles {
  /** The name to give the tokenizer. Defaults to `"tokenizer"`. */
  readonly id?: string | undefined
  readonly revision?: string | undefined
  /** The content of `tokenizer.json`. */
  readonly tokenizerJson: unknown
  /** The content of `tokenizer_config.json`, where special tokens are named. */
  readonly tokenizerConfig?: unknown
  /** Templates from files of their own (`chat_template.jinja` is `default`); they win over those in the config. */
  readonly chatTemplates?: Readonly<Record<string, string>> | undefined
  /** Never use the byte-level core. Defaults to `false`. */
  readonly libraryOnly?: boolean | undefined
}

/**
 * A tokenizer from the files of a model repository.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromHuggingFace: (files: HuggingFaceFiles) => Effect.Effect<Tokenizer, TokenizerMalformed> = Effect
  .fnUntraced(function*(files) {
    const loaded = yield* load.huggingFace(files)
    if (loaded.disagreement !== undefined) {
      yield* Effect.logWarning(
        `${files.id ?? "tokenizer"}: the byte-level core disagrees with the library on ${
          JSON.stringify(loaded.disagreement)
        }; using the library`
      )
    }
    return fromLoaded(loaded, files.id ?? "tokenizer", files.revision)
  })

/**
 * Input of {@link fromTiktoken}.
 *
 * @since 0.1.0
 * @category models
 */
export interface TiktokenFiles {
  /** The name to give the tokenizer. Defaults to `"tokenizer"`. */
  readonly id?: string | undefined
  readonly revision?: string | undefined
  /** Lines of `base64(token) rank`. */
  readonly ranks: string
  /** The regular expression that cuts text into words, as written for Oniguruma or Python's `regex`. */
  readonly pattern: string
  /** Special tokens by spelling. Defaults to none. */
  readonly specialTokens?: Readonly<Record<string, number>> | undefined
  /** The content of `tokenizer_config.json`: names special tokens and those of `added_tokens_decoder`. */
  readonly tokenizerConfig?: unknown
  /** Fill this many ids after the ranks with `<|reserved_token_N|>` where nothing names them. Defaults to 0. */
  readonly reserved?: number | undefined
  readonly chatTemplates?: Readonly<Record<string, string>> | undefined
}

/**
 * A tokenizer from a tiktoken rank file, such as Kimi's `tiktoken.model`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromTiktoken = (files: TiktokenFiles): Effect.Effect<Tokenizer, TokenizerMalformed> =>
  Effect.map(load.tiktoken(files), (loaded) => fromLoaded(loaded, files.id ?? "tokenizer", files.revision))

/**
 * The word pattern of Kimi K2 and its successors.
 *
 * @since 0.1.0
 * @category constructors
 */
export const kimiPattern: string = load.kimiPattern

/**
 * The word pattern of o200k, which Inkling uses.
 *
 * @since 0.1.0
 * @category constructors
 */
export const o200kPattern: string = load.o200kPattern

/**
 * Inkling's control tokens, which come after o200k's ranks: `fromTiktoken({ ranks, pattern: o200kPattern, specialTokens:
 * inklingTokens })` is its tokenizer.
 *
 * @since 0.1.0
 * @category constructors
 */
export const inklingTokens: Readonly<Record<string, number>> = {
  "<|endoftext|>": 199_999,
  "<|message_user|>": 200_000,
  "<|message_model|>": 200_001,
  "<|message_system|>": 200_002,
  "<|message_tool|>": 200_003,
  "<|content_text|>": 200_004,
  "<|content_image|>": 200_005,
  "<|content_model_end_sampling|>": 200_006,
  "<|content_thinking|>": 200_008,
  "<|end_message|>": 200_010,
  "<|content_audio_input|>": 200_020,
  "<|content_tool_error|>": 200_022,
  "<|audio|>": 200_023,
  "<|content_xml|>": 200_024,
  "<|begin_of_text|>": 200_028,
  "<|audio_end|>": 200_043,
  "<|content_invoke_tool_json|>": 200_049,
  "<|content_invoke_tool_text|>": 200_057
}

/**
 * Encodes many texts, giving other fibers, timers and sockets a turn at least every 32 768 characters.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encodeBatch: (
  tokenizer: Tokenizer,
  texts: Iterable<string>,
  options?: EncodeOptions
) => Effect.Effect<Array<Int32Array>> = Effect.fnUntraced(function*(tokenizer, texts, options) {
  const out: Array<Int32Array> = []
  let short = 0
  for (const text of texts) {
    const steps = tokenizer.encodeSteps(text, options)
    for (;;) {
      const step = steps.next()
      if (step.done === true) {
        out.push(step.value)
        break
      }
      yield* breathe
    }
    short += text.length
    if (short >= 32_768) {
      short = 0
      yield* breathe
    }
  }
  return out
})

/**
 * Ends the current turn of the event loop. It asks the real clock whatever clock the program runs on: this is about
 * letting others run, not about time, and must not wait for a test to move the clock.
 */
const breathe: Effect.Effect<void> = Effect.withClock(Effect.sleep(0), Clock.make())

/**
 * Decodes a stream of tokens to a stream of text without empty pieces.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decodeStream =
  (tokenizer: Tokenizer, options?: DecodeOptions) =>
  <E, R>(ids: Stream.Stream<number, E, R>): Stream.Stream<string, E, R> =>
    Stream.suspend(() => {
      const decoder = tokenizer.decoder(options)
      return ids.pipe(
        Stream.mapChunks((chunk) => Chunk.of(decoder.push(chunk))),
        Stream.concat(Stream.sync(decoder.end)),
        Stream.filter((text) => text !== "")
      )
    })

/**
 * Checks that values are token ids of this tokenizer: whole numbers that have a token.
 *
 * @since 0.1.0
 * @category combinators
 */
export const checkIds = (
  tokenizer: Tokenizer,
  ids: Iterable<number>
): Either.Either<Int32Array, InvalidTokens> => {
  const list = Array.from(ids)
  for (let i = 0; i < list.length; i++) {
    const id = list[i]
    if (id === undefined || !Number.isInteger(id) || Option.isNone(tokenizer.idToToken(id))) {
      return Either.left(
        new InvalidTokens({ description: `element ${i} (${String(id)}) is not a token of ${tokenizer.id}` })
      )
    }
  }
  return Either.right(Int32Array.from(list))
}

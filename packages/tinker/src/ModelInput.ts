/**
 * Input of a model: text as tokens, images and audio, in order.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import { dual } from "effect/Function"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { strict, tag } from "./internal/wire/json.js"
import * as numbers from "./internal/wire/numbers.js"
import * as Tensor from "./internal/wire/tensor.js"
import { InvalidInput } from "./TinkerError.js"

/**
 * Token ids. They are held as an `Int32Array`; a list that does not fit one stays as it was given, and the operation
 * it is passed to fails with `InvalidInput`.
 *
 * @since 0.1.0
 * @category models
 */
export type Tokens = Int32Array | ReadonlyArray<number>

const isTokens = (u: unknown): u is Tokens => {
  if (u instanceof Int32Array) return true
  if (!Array.isArray(u)) return false
  for (let i = 0; i < u.length; i++) if (typeof u[i] !== "number") return false
  return true
}

const TokensFromSelf: Schema.Schema<Tokens> = Schema.declare(isTokens, {
  identifier: "Tokens",
  arbitrary: () => (fc) => fc.int32Array({ maxLength: 16 }),
  equivalence: () => (a, b) => a.length === b.length && Array.from(a).every((token, i) => token === b[i])
})

/** A list on the wire, an Int32Array here, as one schema node. */
const TokensFromJson: Schema.Schema<Tokens, ReadonlyArray<number>> = Schema.transformOrFail(
  Schema.declare((u): u is ReadonlyArray<number> => Array.isArray(u) && isTokens(u), { identifier: "TokenList" }),
  TokensFromSelf,
  {
    strict: true,
    decode: (list, _, ast) => {
      const tokens = numbers.toInt32(list)
      return tokens === undefined
        ? ParseResult.fail(
          new ParseResult.Type(ast, list, `tokens[${numbers.firstNotInt32(list)}] is not a 32-bit integer`)
        )
        : ParseResult.succeed(tokens)
    },
    encode: (tokens, _, ast) => {
      const wrong = numbers.firstNotInt32(tokens)
      return wrong >= 0
        ? ParseResult.fail(new ParseResult.Type(ast, tokens, `tokens[${wrong}] is not a 32-bit integer`))
        : ParseResult.succeed(numbers.toList(tokens))
    }
  }
)

const optionalInt = (key: string) =>
  Schema.optionalWith(Schema.NonNegativeInt, { nullable: true }).pipe(Schema.fromKey(key))

/**
 * The image formats of the wire.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ImageFormat: Schema.Literal<["png", "jpeg"]> = Schema.Literal("png", "jpeg")

/**
 * A run of tokens.
 *
 * @since 0.1.0
 * @category models
 */
export class EncodedText extends Schema.Class<EncodedText>("effect-tinker/ModelInput/EncodedText")({
  tokens: TokensFromJson,
  type: tag("encoded_text")
}, strict) {
  get length(): number {
    return this.tokens.length
  }
}

/**
 * An image by value. `expectedTokens` is advisory: the server computes the number itself and may refuse a mismatch.
 *
 * @since 0.1.0
 * @category models
 */
export class Image extends Schema.Class<Image>("effect-tinker/ModelInput/Image")({
  data: Schema.Uint8ArrayFromBase64,
  format: ImageFormat,
  expectedTokens: optionalInt("expected_tokens"),
  /** Older servers only, as `width` and `tokens`. */
  height: optionalInt("height"),
  width: optionalInt("width"),
  tokens: optionalInt("tokens"),
  type: tag("image")
}, strict) {
  get length(): number | undefined {
    return this.expectedTokens ?? this.tokens
  }
}

/**
 * An image by location. Sampling only: training requests have no place for it.
 *
 * @since 0.1.0
 * @category models
 */
export class ImageAssetPointer extends Schema.Class<ImageAssetPointer>("effect-tinker/ModelInput/ImageAssetPointer")({
  location: Schema.String,
  format: ImageFormat,
  expectedTokens: optionalInt("expected_tokens"),
  /** Older servers only, as `width` and `tokens`. */
  height: optionalInt("height"),
  width: optionalInt("width"),
  tokens: optionalInt("tokens"),
  type: tag("image_asset_pointer")
}, strict) {
  get length(): number | undefined {
    return this.expectedTokens ?? this.tokens
  }
}

/**
 * Audio: the serialized container of a DMel token tensor.
 *
 * @since 0.1.0
 * @category models
 */
export class Dmel extends Schema.Class<Dmel>("effect-tinker/ModelInput/Dmel")({
  dmel: Schema.Uint8ArrayFromBase64,
  type: tag("dmel")
}, strict) {
  get length(): number | undefined {
    const length = Tensor.firstDimension(this.dmel)
    return typeof length === "string" ? undefined : length
  }
}

/**
 * Any chunk of a model's input. Read by its `type`, or by its fields where an older client left the tag out.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Chunk: Schema.Union<[typeof EncodedText, typeof ImageAssetPointer, typeof Image, typeof Dmel]> = Schema
  .Union(EncodedText, ImageAssetPointer, Image, Dmel)

/**
 * A piece of a model's input: tokens, an image, audio.
 *
 * @since 0.1.0
 * @category models
 */
export type Chunk = typeof Chunk.Type

/**
 * A chunk as plain fields, for code that makes inputs without depending on this package, such as a renderer.
 *
 * @since 0.1.0
 * @category models
 */
export type ChunkFields =
  | { readonly type: "encoded_text"; readonly tokens: Tokens }
  | {
    readonly type: "image"
    readonly data: Uint8Array
    readonly format: "png" | "jpeg"
    readonly expectedTokens?: number | undefined
  }

/**
 * The whole input of a model.
 *
 * @since 0.1.0
 * @category models
 */
export class ModelInput extends Schema.Class<ModelInput>("effect-tinker/ModelInput")({
  chunks: Schema.Array(Chunk)
}, strict) {}

const trusted = { disableValidation: true } as const

const text = (tokens: Tokens): EncodedText =>
  new EncodedText({ tokens: numbers.toInt32(tokens) ?? tokens, type: "encoded_text" }, trusted)

const make = (chunks: ReadonlyArray<Chunk>): ModelInput => new ModelInput({ chunks }, trusted)

const chunk = (fields: Chunk | ChunkFields): Chunk => {
  if (fields instanceof EncodedText || fields instanceof Image) return fields
  if (fields.type === "encoded_text") return text(fields.tokens)
  if (fields.type !== "image") return fields
  const { data, expectedTokens, format } = fields
  return new Image(
    { data, format, ...(expectedTokens === undefined ? {} : { expectedTokens }), type: "image" },
    trusted
  )
}

/**
 * An input of no chunk.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty: ModelInput = make([])

/**
 * Text as one run of tokens. An `Int32Array` is not copied.
 *
 * @example
 * ```ts
 * import { ModelInput } from "effect-tinker"
 *
 * const prompt = ModelInput.fromInts([1, 15, 27])
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromInts = (tokens: Tokens): ModelInput => make([text(tokens)])

const isTokenList = (input: Tokens | ReadonlyArray<Chunk | ChunkFields>): input is Tokens =>
  input.length === 0 || typeof input[0] === "number"

/**
 * An input as it is, from token ids, or from chunks.
 *
 * @since 0.1.0
 * @category constructors
 */
export const from = (input: ModelInput | Tokens | ReadonlyArray<Chunk | ChunkFields>): ModelInput => {
  if (input instanceof ModelInput) return input
  return isTokenList(input) ? fromInts(input) : fromChunks(input)
}

/**
 * Text as the tokens a tokenizer makes of it: anything that encodes, such as one of `@effect-tinker/tokenizer`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromText = (tokenizer: { readonly encode: (text: string) => Tokens }, text: string): ModelInput =>
  fromInts(tokenizer.encode(text))

/**
 * An input of several pieces.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromChunks = (chunks: ReadonlyArray<Chunk | ChunkFields>): ModelInput => make(chunks.map(chunk))

/**
 * The input followed by one more chunk.
 *
 * @since 0.1.0
 * @category combinators
 */
export const append: {
  (chunk: Chunk): (self: ModelInput) => ModelInput
  (self: ModelInput, chunk: Chunk): ModelInput
} = dual(2, (self: ModelInput, chunk: Chunk): ModelInput => make([...self.chunks, chunk]))

/**
 * The input followed by one token, as a separate chunk.
 *
 * @since 0.1.0
 * @category combinators
 */
export const appendInt: {
  (token: number): (self: ModelInput) => ModelInput
  (self: ModelInput, token: number): ModelInput
} = dual(2, (self: ModelInput, token: number): ModelInput => append(self, text([token])))

const invalid = (method: string, description: string) =>
  Either.left(new InvalidInput({ module: "ModelInput", method, description }))

/**
 * All tokens in one array; fails when there is a chunk that is not text.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toInts = (self: ModelInput): Either.Either<Int32Array, InvalidInput> => {
  let total = 0
  for (const chunk of self.chunks) {
    if (chunk.type !== "encoded_text") return invalid("toInts", `a chunk of type ${chunk.type} has no tokens`)
    const wrong = numbers.firstNotInt32(chunk.tokens)
    if (wrong >= 0) return invalid("toInts", `token ${wrong} (${chunk.tokens[wrong]}) is not a 32-bit integer`)
    total += chunk.tokens.length
  }
  const tokens = new Int32Array(total)
  let at = 0
  for (const chunk of self.chunks) {
    if (chunk.type !== "encoded_text") continue
    tokens.set(chunk.tokens, at)
    at += chunk.tokens.length
  }
  return Either.right(tokens)
}

/**
 * Positions the input takes in the context; fails when an image does not say how many it expects to take.
 *
 * @since 0.1.0
 * @category combinators
 */
export const length = (self: ModelInput): Either.Either<number, InvalidInput> => {
  let total = 0
  for (const chunk of self.chunks) {
    if (chunk.length === undefined) {
      return invalid(
        "length",
        chunk.type === "dmel"
          ? `dmel: ${Tensor.firstDimension(chunk.dmel)}`
          : `${chunk.type}: expectedTokens is not set`
      )
    }
    total += chunk.length
  }
  return Either.right(total)
}

/**
 * Fails on the first token that is not a 32-bit integer.
 *
 * @since 0.1.0
 * @category combinators
 */
export const validate = (self: ModelInput): Either.Either<ModelInput, InvalidInput> => {
  for (let c = 0; c < self.chunks.length; c++) {
    const chunk = self.chunks[c]
    if (chunk?.type !== "encoded_text") continue
    const wrong = numbers.firstNotInt32(chunk.tokens)
    if (wrong >= 0) {
      return invalid("validate", `chunk ${c}: token ${wrong} (${chunk.tokens[wrong]}) is not a 32-bit integer`)
    }
  }
  return Either.right(self)
}

/**
 * Reads `tokenizer.json` and `tokenizer_config.json` as far as the byte-level core needs them.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { AddedToken } from "../AddedToken.js"
import type { Parts, Stage } from "./bpe.js"
import { byteToChar } from "./bytes.js"
import * as Library from "./library.js"
import { PairTable } from "./pairTable.js"

const isVocabulary = (input: unknown): input is Record<string, number> => {
  if (!Predicate.isRecord(input)) return false
  for (const token in input) if (typeof input[token] !== "number") return false
  return true
}

const isMerges = (input: unknown): input is ReadonlyArray<string | readonly [string, string]> => {
  if (!Array.isArray(input)) return false
  for (const merge of input) if (typeof merge !== "string" && !Array.isArray(merge)) return false
  return true
}

// hundreds of thousands of entries: one loop instead of a schema node each
const Vocabulary = Schema.declare(isVocabulary, { identifier: "Vocabulary" })
const Merges = Schema.declare(isMerges, { identifier: "Merges" })

/** @internal */
export const TokenizerJson = Schema.Struct({
  added_tokens: Schema.optionalWith(Schema.Array(AddedToken), { default: () => [], nullable: true }),
  model: Schema.Struct({ type: Schema.optional(Schema.String), vocab: Schema.Unknown }),
  pre_tokenizer: Schema.optional(Schema.Unknown),
  decoder: Schema.optional(Schema.Unknown)
})

/** @internal */
export const BpeModel = Schema.Struct({
  type: Schema.optional(Schema.Literal("BPE")),
  vocab: Vocabulary,
  merges: Merges,
  ignore_merges: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true }),
  byte_fallback: Schema.optionalWith(Schema.Boolean, { default: () => false, nullable: true }),
  dropout: Schema.optional(Schema.NullOr(Schema.Number)),
  continuing_subword_prefix: Schema.optional(Schema.NullOr(Schema.String)),
  end_of_word_suffix: Schema.optional(Schema.NullOr(Schema.String))
})

const TokenName = Schema.NullOr(Schema.Union(Schema.String, Schema.Struct({ content: Schema.String })))

/** @internal */
export const TokenizerConfig = Schema.Struct({
  bos_token: Schema.optional(TokenName),
  eos_token: Schema.optional(TokenName),
  pad_token: Schema.optional(TokenName),
  unk_token: Schema.optional(TokenName),
  chat_template: Schema.optional(Schema.NullOr(Schema.Union(
    Schema.String,
    Schema.Array(Schema.Struct({ name: Schema.String, template: Schema.String }))
  ))),
  added_tokens_decoder: Schema.optional(Schema.NullOr(Schema.Record({
    key: Schema.String,
    value: Schema.Struct({ content: Schema.String, special: Schema.optional(Schema.Boolean) })
  })))
})

/** @internal */
export const tokenName = (name: typeof TokenName.Type | undefined): Option.Option<string> =>
  name === null || name === undefined
    ? Option.none()
    : Option.some(typeof name === "string" ? name : name.content)

const PreTokenizer = Schema.Struct({
  type: Schema.String,
  pretokenizers: Schema.optional(Schema.Array(Schema.Unknown)),
  pattern: Schema.optional(Schema.Union(
    Schema.Struct({ Regex: Schema.String }),
    Schema.Struct({ String: Schema.String })
  )),
  behavior: Schema.optional(Schema.String),
  invert: Schema.optional(Schema.Boolean),
  add_prefix_space: Schema.optional(Schema.Boolean),
  use_regex: Schema.optional(Schema.Boolean),
  individual_digits: Schema.optional(Schema.Boolean)
})

/**
 * The words of GPT-2. The library spells white space as JavaScript's `\s`, which differs from Unicode's (and Rust's) at
 * U+0085 and U+FEFF; this one does not.
 */
const gpt2Pattern =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu

/** The stages of a pre-tokenizer that ends in bytes, or `undefined` when it does anything else. */
const stagesOf = (input: unknown): ReadonlyArray<Stage> | undefined => {
  const decoded = Schema.decodeUnknownEither(PreTokenizer)(input)
  if (Either.isLeft(decoded)) return undefined
  const config = decoded.right
  const list = config.type === "Sequence" ? config.pretokenizers ?? [] : [input]
  const stages: Array<Stage> = []
  for (let i = 0; i < list.length; i++) {
    const stage = Schema.decodeUnknownEither(PreTokenizer)(list[i])
    if (Either.isLeft(stage)) return undefined
    const { add_prefix_space, behavior, individual_digits, invert, pattern, type, use_regex } = stage.right
    if (type === "ByteLevel") {
      if (add_prefix_space === true || i !== list.length - 1) return undefined
      if (use_regex !== false) stages.push({ pattern: gpt2Pattern, keepGaps: false })
      return stages
    }
    if (type === "Digits") {
      stages.push({ pattern: individual_digits === true ? /\p{N}/gu : /\p{N}+/gu, keepGaps: true })
      continue
    }
    if (type !== "Split" || pattern === undefined) return undefined
    const compiled = Library.compilePattern(pattern)
    const kind = behavior?.toLowerCase()
    if (compiled === null || (kind !== "isolated" && !(kind === "removed" && invert === true))) return undefined
    stages.push({ pattern: compiled, keepGaps: kind === "isolated" })
  }
  return undefined
}

/**
 * Everything the byte-level core needs, or `undefined` when the model is not byte-level BPE in full.
 *
 * @internal
 */
export const partsOf = (json: { readonly pre_tokenizer?: unknown; readonly model: unknown }): Parts | undefined => {
  const decoded = Schema.decodeUnknownEither(BpeModel)(json.model)
  const stages = stagesOf(json.pre_tokenizer)
  if (Either.isLeft(decoded) || stages === undefined) return undefined
  const model = decoded.right
  if (model.byte_fallback || (model.dropout ?? 0) > 0) return undefined
  if ((model.continuing_subword_prefix ?? "") !== "" || (model.end_of_word_suffix ?? "") !== "") return undefined
  const ids = new Map<string, number>(Object.entries(model.vocab))
  const byteIds = new Int32Array(256)
  for (let byte = 0; byte < 256; byte++) {
    const id = ids.get(byteToChar[byte] ?? "")
    if (id === undefined) return undefined
    byteIds[byte] = id
  }
  const pairs = new PairTable(model.merges.length)
  for (let rank = 0; rank < model.merges.length; rank++) {
    const merge = model.merges[rank] ?? ""
    const space = typeof merge === "string" ? merge.indexOf(" ") : 0
    const left = typeof merge === "string" ? merge.slice(0, space) : merge[0]
    const right = typeof merge === "string" ? merge.slice(space + 1) : merge[1]
    const leftId = ids.get(left)
    const rightId = ids.get(right)
    const merged = ids.get(left + right)
    if (leftId === undefined || rightId === undefined || merged === undefined) return undefined
    pairs.set(leftId, rightId, rank, merged)
  }
  return { stages, byteIds, pairs, wholeWords: model.ignore_merges ? ids : undefined }
}

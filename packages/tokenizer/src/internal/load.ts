/**
 * Builds an engine from the files of a tokenizer, and decides which one it is.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { AddedToken } from "../AddedToken.js"
import type { TiktokenFiles } from "../Tokenizer.js"
import { TokenizerMalformed } from "../TokenizerError.js"
import { Bpe } from "./bpe.js"
import { spell, spelledBytes, utf8 } from "./bytes.js"
import { ByteTable } from "./byteTable.js"
import type { Affixes, Engine } from "./engine.js"
import * as engine from "./engine.js"
import * as fileLimits from "./fileLimits.js"
import * as Library from "./library.js"
import { patternProblem } from "./patterns.js"
import * as tiktokenFile from "./tiktoken.js"
import * as json from "./tokenizerJson.js"

/** @internal */
export interface Loaded {
  readonly kind: "core" | "library"
  readonly engine: Engine
  readonly added: ReadonlyArray<AddedToken>
  readonly vocabSize: number
  readonly specialTokens: Record<"bos" | "eos" | "pad" | "unk", Option.Option<string>>
  readonly chatTemplates: Readonly<Record<string, string>>
  readonly tokenToId: (token: string) => number | undefined
  readonly idToToken: (id: number) => string | undefined
  /** The first probe on which the core and the library differ. */
  readonly disagreement: string | undefined
}

interface Naming {
  readonly id?: string | undefined
  readonly revision?: string | undefined
}

const malformed = (files: Naming, file: string, description: string, cause?: unknown): TokenizerMalformed =>
  new TokenizerMalformed({ repo: files.id, revision: files.revision, file, description, cause })

const decodeConfig = (
  files: Naming & {
    readonly tokenizerConfig?: unknown
    readonly chatTemplates?: Readonly<Record<string, string>> | undefined
  }
) =>
  Schema.decodeUnknown(json.TokenizerConfig)(files.tokenizerConfig ?? {}).pipe(
    Effect.mapError((cause) =>
      malformed(files, "tokenizer_config.json", "it does not have the expected fields", cause)
    ),
    Effect.map((config) => ({
      config,
      specialTokens: {
        bos: json.tokenName(config.bos_token),
        eos: json.tokenName(config.eos_token),
        pad: json.tokenName(config.pad_token),
        unk: json.tokenName(config.unk_token)
      },
      chatTemplates: {
        ...(typeof config.chat_template === "string"
          ? { default: config.chat_template }
          : Object.fromEntries((config.chat_template ?? []).map(({ name, template }) => [name, template]))),
        ...files.chatTemplates
      }
    }))
  )

/**
 * Texts on which the core must agree with the library: each names a decision the two could take differently. All
 * characters are older than Unicode 15, so the engine's tables do not matter.
 */
const probes: ReadonlyArray<string> = [
  "",
  " ",
  "Hello, world! It's 2024 — they'll say \"fine\".",
  "  leading and   inner   spaces  ",
  "tabs\tand\nnew\r\nlines\n\n\nmany\n \n",
  "price: 12345.678 and 1,000,000; x=0x1F",
  "def f(x):\n    return x ** 2  # comment\n",
  "{\"key\": [1, 2.5, null], \"text\": \"a\\nb\"}",
  "naïve café Übergrößenträger œuvre",
  "Съешь ещё этих мягких французских булок",
  "我们在北京吃饺子。日本語のテキスト、한국어 문장",
  "مرحبا بالعالم हिन्दी ไทย",
  "😀👩‍👩‍👧‍👦🇫🇷 ✓ ½ ² Ⅷ",
  "e\u0301 a\u0308 \u00a0nbsp\u3000wide",
  "https://example.com/path?query=1&other=two#three",
  "CamelCaseIdentifier snake_case_identifier SCREAMING_CASE",
  "a".repeat(200),
  "ab ".repeat(60),
  "'S 'T 'RE don't DON'T we'Ve",
  "\u0000\u0001\u007f\u200b",
  "<not a token> <|almost|> </think "
]

const affixesOf = (library: Library.Library): Affixes => {
  const marker = "\u0000text\u0000"
  const tokens = library.post_processor === null ? [marker] : library.post_processor([marker], null, true).tokens
  const at = tokens.indexOf(marker)
  const ids = (list: ReadonlyArray<string>) => list.flatMap((token) => library.token_to_id(token) ?? [])
  return { before: ids(tokens.slice(0, at)), after: ids(tokens.slice(at + 1)) }
}

/** Bytes of each token by id: added tokens are their text, the others are spelled. */
const byteTable = (
  vocab: Readonly<Record<string, unknown>>,
  added: ReadonlyArray<AddedToken>
): ByteTable | undefined => {
  const tokens: Array<Uint8Array | undefined> = []
  const put = (id: number, bytes: Uint8Array): void => {
    while (tokens.length < id) tokens.push(undefined)
    tokens[id] = bytes
  }
  const addedIds = new Set(added.map((token) => token.id))
  for (const token in vocab) {
    const id = vocab[token]
    if (typeof id !== "number") return undefined
    if (addedIds.has(id)) continue
    const bytes = spelledBytes(token)
    if (bytes === undefined) return undefined
    put(id, bytes)
  }
  for (const token of added) put(token.id, utf8(token.content))
  return ByteTable.make(tokens)
}

const sameIds = (left: Int32Array, right: Int32Array): boolean =>
  left.length === right.length && left.every((id, i) => id === right[i])

const firstDisagreement = (ours: Engine, theirs: Engine, added: ReadonlyArray<AddedToken>): string | undefined => {
  const sample = added[0]?.content ?? ""
  return [...probes, `a${sample}b ${sample} c`].find((text) => {
    const ids = engine.run(ours.encode(text, true, "all"))
    return !sameIds(ids, engine.run(theirs.encode(text, true, "all"))) ||
      !sameIds(engine.run(ours.encode(text, false, "none")), engine.run(theirs.encode(text, false, "none"))) ||
      ours.decode(ids, false) !== theirs.decode(ids, false)
  })
}

/** Parts of the file that must not be built at all. */
const problemOf = (
  decoded: typeof json.TokenizerJson.Type,
  source: unknown
): string | undefined => {
  const { vocab } = decoded.model
  const ids = Predicate.isRecord(vocab) && !Array.isArray(vocab) ? Object.values(vocab) : []
  const entries = (Array.isArray(vocab) ? vocab.length : ids.length) + decoded.added_tokens.length
  const parts = Predicate.isRecord(source)
    ? [source["normalizer"], source["pre_tokenizer"], source["post_processor"], source["decoder"]]
    : []
  return fileLimits.idProblem(ids, entries) ??
    fileLimits.idProblem(decoded.added_tokens.map((token) => token.id), entries) ??
    fileLimits.partProblem(parts)
}

const isByteLevelDecoder = (decoder: unknown): boolean =>
  Predicate.hasProperty(decoder, "type") && decoder.type === "ByteLevel"

/** @internal */
export const huggingFace: (
  files: Naming & {
    readonly tokenizerJson: unknown
    readonly tokenizerConfig?: unknown
    readonly chatTemplates?: Readonly<Record<string, string>> | undefined
    readonly libraryOnly?: boolean | undefined
  }
) => Effect.Effect<Loaded, TokenizerMalformed> = Effect.fnUntraced(function*(files) {
  const { chatTemplates, specialTokens } = yield* decodeConfig(files)
  const decoded = yield* Schema.decodeUnknown(json.TokenizerJson)(files.tokenizerJson).pipe(
    Effect.mapError((cause) => malformed(files, "tokenizer.json", "it does not have the expected fields", cause))
  )
  const problem = problemOf(decoded, files.tokenizerJson)
  if (problem !== undefined) return yield* malformed(files, "tokenizer.json", problem)
  const source: object = Predicate.isRecord(files.tokenizerJson) ? files.tokenizerJson : {}
  const config: object = Predicate.isRecord(files.tokenizerConfig) ? files.tokenizerConfig : {}
  return yield* Effect.try({
    try: (): Loaded => {
      const library = Library.make(source, config)
      const added = decoded.added_tokens
      const affixes = affixesOf(library)
      const slow = engine.library({ library, added, affixes })
      const vocab = Predicate.isRecord(decoded.model.vocab) ? decoded.model.vocab : undefined
      let vocabSize = Array.isArray(decoded.model.vocab) ? decoded.model.vocab.length : 0
      for (const token in vocab) vocabSize = Math.max(vocabSize, Number(vocab[token]) + 1)
      for (const token of added) vocabSize = Math.max(vocabSize, token.id + 1)
      const shared = {
        added,
        vocabSize,
        specialTokens,
        chatTemplates,
        tokenToId: library.token_to_id.bind(library),
        idToToken: library.id_to_token.bind(library)
      }
      const eligible = files.libraryOnly !== true && vocab !== undefined && isByteLevelDecoder(decoded.decoder) &&
        !added.some((token) => token.singleWord)
      const parts = eligible ? json.partsOf(modelOf(source)) : undefined
      const table = eligible ? byteTable(vocab, added) : undefined
      // what throws at the first text is no tokenizer
      engine.run(slow.encode("a b", true, "all"))
      if (vocab === undefined || parts === undefined || table === undefined) {
        return { ...shared, kind: "library", engine: slow, disagreement: undefined }
      }
      const normalizer = library.normalizer
      const fast = engine.core({
        bpe: new Bpe(parts),
        table,
        added,
        normalize: normalizer === null ? null : (text) => normalizer(text),
        affixes
      })
      const disagreement = firstDisagreement(fast, slow, added)
      return disagreement === undefined
        ? { ...shared, ...names(vocab, added), kind: "core", engine: fast, disagreement }
        : { ...shared, kind: "library", engine: slow, disagreement }
    },
    catch: (cause) => malformed(files, "tokenizer.json", "the tokenizer cannot be built from it", cause)
  })
})

const modelOf = (source: object): { readonly pre_tokenizer?: unknown; readonly model: unknown } => ({
  pre_tokenizer: Predicate.hasProperty(source, "pre_tokenizer") ? source.pre_tokenizer : undefined,
  model: Predicate.hasProperty(source, "model") ? source.model : undefined
})

/** Lookups of their own, so that the library's model (half of the memory) can be collected. */
const names = (vocab: Readonly<Record<string, unknown>>, added: ReadonlyArray<AddedToken>) => {
  const ids = new Map<string, number>()
  const tokens: Array<string> = []
  const put = (token: string, id: number): void => {
    ids.set(token, id)
    tokens[id] = token
  }
  for (const token in vocab) put(token, Number(vocab[token]))
  for (const token of added) put(token.content, token.id)
  return {
    tokenToId: (token: string) => ids.get(token),
    idToToken: (id: number): string | undefined => tokens[id]
  }
}

/**
 * Kimi cuts runs of Han characters off first and keeps them out of the letter classes; the rest is o200k's pattern
 * without the slash after punctuation.
 *
 * @internal
 */
export const kimiPattern: string = [
  "[\\p{Han}]+",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "\\p{N}{1,3}",
  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*",
  "\\s*[\\r\\n]+",
  "\\s+(?!\\S)",
  "\\s+"
].join("|")

/** @internal */
export const o200kPattern: string = [
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "\\p{N}{1,3}",
  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*",
  "\\s*[\\r\\n]+",
  "\\s+(?!\\S)",
  "\\s+"
].join("|")

/** @internal */
export const tiktoken: (
  files: TiktokenFiles
) => Effect.Effect<Loaded, TokenizerMalformed> = Effect.fnUntraced(function*(files) {
  const { chatTemplates, config, specialTokens } = yield* decodeConfig(files)
  const named = [
    ...Object.values(files.specialTokens ?? {}),
    ...Object.keys(config.added_tokens_decoder ?? {}).map(Number)
  ]
  const problem = patternProblem(files.pattern) ??
    fileLimits.idProblem(named, files.ranks.split("\n").length + named.length)
  if (problem !== undefined) return yield* malformed(files, "tiktoken.model", problem)
  const built = yield* Effect.try({
    try: () =>
      Either.flatMap(
        tiktokenFile.parseRanks(files.ranks),
        (ranks) => Either.map(tiktokenFile.partsOf(ranks, files.pattern), (parts) => ({ parts, ranks }))
      ),
    catch: (cause) => malformed(files, "tiktoken.model", "the tokenizer cannot be built from it", cause)
  })
  if (Either.isLeft(built)) return yield* malformed(files, "tiktoken.model", built.left)
  const { parts, ranks } = built.right
  const added = new Map<number, AddedToken>()
  const add = (id: number, content: string): void => {
    if (!added.has(id)) {
      added.set(id, new AddedToken({ id, content, special: true, normalized: false, singleWord: false }))
    }
  }
  for (const [content, id] of Object.entries(files.specialTokens ?? {})) add(id, content)
  for (const [id, token] of Object.entries(config.added_tokens_decoder ?? {})) add(Number(id), token.content)
  const first = ranks.tokens.length
  for (let id = first; id < first + (files.reserved ?? 0); id++) add(id, `<|reserved_token_${id}|>`)
  const list = Array.from(added.values()).sort((left, right) => left.id - right.id)
  const vocab: Record<string, number> = {}
  ranks.tokens.forEach((token, rank) => {
    if (token !== undefined) vocab[spell(token, 0, token.length)] = rank
  })
  const table = byteTable(vocab, list)
  if (table === undefined) return yield* malformed(files, "tiktoken.model", "a token is not a sequence of bytes")
  return {
    kind: "core",
    engine: engine.core({
      bpe: new Bpe(parts),
      table,
      added: list,
      normalize: null,
      affixes: { before: [], after: [] }
    }),
    added: list,
    vocabSize: table.size,
    specialTokens,
    chatTemplates,
    ...names(vocab, list),
    disagreement: undefined
  }
})

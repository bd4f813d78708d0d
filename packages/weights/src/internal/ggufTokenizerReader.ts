/**
 * The tokenizer of a GGUF file as the files of a Hugging Face directory. Byte-level BPE is stored with its merges;
 * SentencePiece is stored with scores, from which the merges follow: the pair whose result has the highest score is
 * merged first.
 */
import * as Effect from "effect/Effect"
import { InvalidFile, UnsupportedFormat } from "../WeightsError.js"
import type { MetadataValue } from "./ggufReader.js"
import { patternOf } from "./preTokenizers.js"

type Metadata = ReadonlyMap<string, MetadataValue>

const strings = (metadata: Metadata, key: string): ReadonlyArray<string> | undefined => {
  const value = metadata.get(key)
  return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : undefined
}

const numbers = (metadata: Metadata, key: string): ReadonlyArray<number> | undefined => {
  const value = metadata.get(key)
  return Array.isArray(value) && value.every((item) => typeof item === "number") ? value : undefined
}

const numberOf = (metadata: Metadata, key: string): number | undefined => {
  const value = metadata.get(key)
  return typeof value === "number" ? value : undefined
}

const stringOf = (metadata: Metadata, key: string): string | undefined => {
  const value = metadata.get(key)
  return typeof value === "string" ? value : undefined
}

/** Kinds of tokens, as llama.cpp counts them. */
const kind = { control: 3, userDefined: 4, byte: 6 } as const

const addedTokens = (tokens: ReadonlyArray<string>, kinds: ReadonlyArray<number>) =>
  tokens.flatMap((content, id) =>
    kinds[id] === kind.control || kinds[id] === kind.userDefined
      ? [{
        id,
        content,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: kinds[id] === kind.control
      }]
      : []
  )

/** The ids of tokens; where a token is there twice, the first. */
const vocabularyOf = (tokens: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const ids = new Map<string, number>()
  tokens.forEach((token, id) => {
    if (!ids.has(token)) ids.set(token, id)
  })
  return ids
}

// No piece of a vocabulary is longer; it bounds the work for a hostile one.
const longestPiece = 256

/** All ways in which a piece is made of two others, best pieces first. */
const mergesOf = (
  ids: ReadonlyMap<string, number>,
  scores: ReadonlyArray<number>,
  kinds: ReadonlyArray<number>
): ReadonlyArray<readonly [string, string]> => {
  const merges: Array<{ readonly pair: readonly [string, string]; readonly score: number; readonly order: number }> = []
  for (const [piece, id] of ids) {
    if (kinds[id] === kind.control || kinds[id] === kind.byte || piece.length > longestPiece) continue
    for (let cut = 1; cut < piece.length; cut++) {
      const [left, right] = [piece.slice(0, cut), piece.slice(cut)]
      const [leftId, rightId] = [ids.get(left), ids.get(right)]
      if (leftId === undefined || rightId === undefined) continue
      merges.push({ pair: [left, right], score: scores[id] ?? 0, order: leftId })
    }
  }
  return merges.sort((a, b) => b.score - a.score || a.order - b.order).map(({ pair }) => pair)
}

const byteLevel = (
  metadata: Metadata,
  ids: ReadonlyMap<string, number>,
  pre: NonNullable<ReturnType<typeof patternOf>>
) => ({
  normalizer: pre.normalizer,
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      ...pre.stages,
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: pre.usesGpt2Words }
    ]
  },
  decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
  model: {
    type: "BPE",
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: pre.ignoresMerges,
    vocab: Object.fromEntries(ids),
    merges: strings(metadata, "tokenizer.ggml.merges") ?? []
  }
})

const sentencePiece = (
  metadata: Metadata,
  ids: ReadonlyMap<string, number>,
  scores: ReadonlyArray<number>,
  kinds: ReadonlyArray<number>,
  unknown: string | undefined
) => {
  const prefixed = metadata.get("tokenizer.ggml.add_space_prefix") !== false
  const spaces = { type: "Replace", pattern: { String: " " }, content: "▁" }
  return {
    normalizer: prefixed
      ? { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "▁" }, spaces] }
      : spaces,
    pre_tokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(prefixed ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : [])
      ]
    },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: unknown ?? null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: true,
      ignore_merges: false,
      vocab: Object.fromEntries(ids),
      merges: mergesOf(ids, scores, kinds)
    }
  }
}

/** @internal */
export const fromMetadata = Effect.fnUntraced(function*(path: string, metadata: Metadata) {
  const invalid = (description: string) => new InvalidFile({ path, description })
  const unsupported = (description: string) => new UnsupportedFormat({ description: `${path}: ${description}` })
  const tokens = strings(metadata, "tokenizer.ggml.tokens")
  if (tokens === undefined) return yield* invalid("the file has no vocabulary (tokenizer.ggml.tokens)")
  const kinds = numbers(metadata, "tokenizer.ggml.token_type") ?? []
  const ids = vocabularyOf(tokens)
  const named = (key: string): string | undefined => {
    const id = numberOf(metadata, `tokenizer.ggml.${key}_token_id`)
    return id === undefined ? undefined : tokens[id]
  }
  const model = stringOf(metadata, "tokenizer.ggml.model")
  let core: object
  if (model === "gpt2") {
    const name = stringOf(metadata, "tokenizer.ggml.pre") ?? "default"
    const pre = patternOf(name)
    if (pre === undefined) return yield* unsupported(`the pre-tokenizer ${JSON.stringify(name)} is not supported`)
    core = byteLevel(metadata, ids, pre)
  } else if (model === "llama") {
    const scores = numbers(metadata, "tokenizer.ggml.scores")
    if (scores === undefined) return yield* invalid("the vocabulary has no scores (tokenizer.ggml.scores)")
    core = sentencePiece(metadata, ids, scores, kinds, named("unknown"))
  } else {
    return yield* unsupported(`tokenizers of the kind ${JSON.stringify(model ?? "none")} are not supported`)
  }
  return {
    tokenizerJson: { version: "1.0", added_tokens: addedTokens(tokens, kinds), post_processor: null, ...core },
    tokenizerConfig: {
      bos_token: named("bos") ?? null,
      eos_token: named("eos") ?? null,
      pad_token: named("padding") ?? null,
      unk_token: named("unknown") ?? null,
      add_bos_token: metadata.get("tokenizer.ggml.add_bos_token") === true
    },
    chatTemplate: stringOf(metadata, "tokenizer.chat_template")
  }
})

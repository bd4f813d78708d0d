/**
 * A byte-level tokenizer small enough to load in a millisecond: 256 bytes, merges learned from a few sentences of our own,
 * and added tokens of every kind.
 */
import { byteToChar } from "../../src/internal/bytes.js"

const text =
  "the cat sat on the mat and the other cat sat on the hat. in the end they all ate the ham that the man had. hello world"

const learn = (count: number): ReadonlyArray<readonly [string, string]> => {
  const words = text.split(/(?= )/).map((word) => Array.from(word.replace(" ", "Ġ")))
  const merges: Array<readonly [string, string]> = []
  while (merges.length < count) {
    const counts = new Map<string, number>()
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; i++) {
        const pair = `${word[i]}\u0000${word[i + 1]}`
        counts.set(pair, (counts.get(pair) ?? 0) + 1)
      }
    }
    const best = Array.from(counts).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0]
    const [left, right] = best?.[0].split("\u0000") ?? []
    if (left === undefined || right === undefined) break
    merges.push([left, right])
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; i++) {
        if (word[i] === left && word[i + 1] === right) word.splice(i, 2, left + right)
      }
    }
  }
  return merges
}

const merges = learn(40)
const vocabulary = [...byteToChar, ...merges.map(([left, right]) => left + right)]
const first = vocabulary.length

const added = (content: string, special: boolean, more: object = {}) => ({
  content,
  special,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  ...more
})

export const addedTokens = [
  added("<|bos|>", true),
  added("<|end|>", true),
  added("<|endless|>", true),
  added("<think>", false),
  added("</think>", false),
  added("<pad>", true, { lstrip: true, rstrip: true })
].map((token, i) => ({ ...token, id: first + i }))

export const qwenPattern =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

export const tokenizerJson = {
  version: "1.0",
  truncation: null,
  padding: null,
  added_tokens: addedTokens,
  normalizer: { type: "NFC" },
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      { type: "Split", pattern: { Regex: qwenPattern }, behavior: "Isolated", invert: false },
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false }
    ]
  },
  post_processor: {
    type: "TemplateProcessing",
    single: [{ SpecialToken: { id: "<|bos|>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
    pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
    special_tokens: { "<|bos|>": { id: "<|bos|>", ids: [first], tokens: ["<|bos|>"] } }
  },
  decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
  model: {
    type: "BPE",
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: "",
    end_of_word_suffix: "",
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
    merges: merges.map(([left, right]) => `${left} ${right}`)
  }
}

export const tokenizerConfig = {
  bos_token: "<|bos|>",
  eos_token: { content: "<|end|>", __type: "AddedToken" },
  pad_token: null,
  clean_up_tokenization_spaces: true,
  chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}"
}

/** The id of an added token by its spelling. */
export const idOf = (content: string): number => addedTokens.find((token) => token.content === content)?.id ?? -1

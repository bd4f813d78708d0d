/**
 * Our ids beside those of the Rust implementation, on real vocabularies (gpt2, Qwen3, Llama 3.2, DeepSeek V3; gpt-oss where
 * its package is installed too).
 *
 * `TINKER_TEST_RUNS` sets how many random texts each group has (40 by default).
 */
import type { Tokenizer } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Corpus } from "./support/corpus.js"
import { corpus } from "./support/corpus.js"
import type { Family, RustTokenizer } from "./support/models.js"
import { file, isInstalled, load, rust } from "./support/models.js"

const runs = Number(process.env["TINKER_TEST_RUNS"] ?? 40)

const join = (ids: Iterable<number>) => Array.from(ids).join(" ")

const rustIds = (tokenizer: RustTokenizer, texts: ReadonlyArray<string>, addSpecialTokens: boolean) =>
  Effect.map(
    Effect.promise(() => tokenizer.encodeBatch(texts, { addSpecialTokens })),
    (encodings) => encodings.map((encoding) => encoding.getIds())
  )

/** A lone surrogate is U+FFFD to us; Rust is not handed one. */
const wellFormed = (text: string): string => text.replace(/[\ud800-\udfff]/gu, "\ufffd")

/** Only Qwen normalizes. */
const normalized = (family: Family, text: string): string => family === "qwen3" ? text.normalize("NFC") : text

/** Why two implementations may differ: their Unicode tables do, in normalization or in a character's class. */
const isExplained = (family: Family, oracle: RustTokenizer, text: string): boolean =>
  (oracle.getNormalizer()?.normalizeString(text) ?? text) !== normalized(family, text) ||
  Array.from(text).some((char) => char >= "\u0250" && classified(oracle, char) !== isLetter(char))

const isLetter = (char: string): boolean => /[\p{L}\p{M}]/u.test(char)

/** Whether Rust takes a character for one that continues a word. */
const classified = (oracle: RustTokenizer, char: string): boolean =>
  oracle.getPreTokenizer()?.preTokenizeString(`x${char}`).length === 1

/** The same tokenizer, blind for some of its added tokens: their spelling becomes one that no text has. */
const blind = (json: string, isBlind: (token: { readonly special: boolean }) => boolean): string => {
  const parsed: {
    readonly added_tokens: ReadonlyArray<{ readonly content: string; readonly special: boolean }>
  } = JSON.parse(json)
  return JSON.stringify({
    ...parsed,
    post_processor: null,
    added_tokens: parsed.added_tokens.map((token, i) =>
      isBlind(token) ? { ...token, content: `\u{10fffd}${i}` } : token
    )
  })
}

const compare = Effect.fnUntraced(function*(
  tokenizer: Tokenizer.Tokenizer,
  oracle: RustTokenizer,
  texts: ReadonlyArray<string>,
  options: Required<Tokenizer.EncodeOptions>
) {
  const given = texts.map(wellFormed)
  const expected = yield* rustIds(oracle, given, options.addSpecialTokens === true)
  return given.filter((text, i) => join(tokenizer.encode(text, options)) !== join(expected[i] ?? []))
})

const suite = (family: Family, allowed: number) =>
  describe.skipIf(!isInstalled(family))(`${family}${isInstalled(family) ? "" : " (not installed)"}`, () => {
    const setUp = Effect.cached(Effect.gen(function*() {
      const tokenizer = yield* load(family)
      const json = file(family, "tokenizer.json")
      const texts: Corpus = corpus(20_241, runs, tokenizer.addedTokens.slice(0, 20).map((token) => token.content))
      return { tokenizer, json, oracle: rust(json), texts }
    })).pipe(Effect.runSync)

    it.effect("uses the byte-level core", () =>
      Effect.gen(function*() {
        const { tokenizer } = yield* setUp
        assert.strictEqual(tokenizer.engine, "core")
      }), 120_000)

    it.effect("gives the ids of the Rust implementation", () =>
      Effect.gen(function*() {
        const { oracle, texts, tokenizer } = yield* setUp
        for (const addSpecialTokens of [true, false]) {
          const options = { addSpecialTokens, parseSpecial: "all" } as const
          assert.deepStrictEqual(yield* compare(tokenizer, oracle, texts.ordinary, options), [])
        }
      }), 120_000)

    it.effect("differs on adversarial text only where the Unicode tables differ", () =>
      Effect.gen(function*() {
        const { oracle, texts, tokenizer } = yield* setUp
        const different = yield* compare(tokenizer, oracle, texts.adversarial, {
          addSpecialTokens: true,
          parseSpecial: "all"
        })
        assert.deepStrictEqual(different.filter((text) => !isExplained(family, oracle, text)), [])
        assert.isAtMost(different.length / texts.adversarial.length, allowed)
      }), 120_000)

    it.effect("keeps control tokens in text from being recognised, as Rust without them", () =>
      Effect.gen(function*() {
        const { json, texts, tokenizer } = yield* setUp
        const modes = tokenizer.addedTokens.some((token) => !token.special)
          ? ["ordinary", "none"] as const
          : ["none"] as const
        for (const parseSpecial of modes) {
          const oracle = rust(blind(json, (token) => parseSpecial === "none" || token.special))
          const options = { addSpecialTokens: false, parseSpecial }
          assert.deepStrictEqual(yield* compare(tokenizer, oracle, texts.ordinary, options), [])
        }
      }), 120_000)

    it.effect("decodes as Rust does, whole and token by token", () =>
      Effect.gen(function*() {
        const { oracle, texts, tokenizer } = yield* setUp
        const ids = [...texts.ordinary, ...texts.adversarial].map((text) => Array.from(tokenizer.encode(text)))
        // tokens in an order no text has, so that characters are cut in half
        const shuffled = ids.map((list) => list.slice().reverse())
        for (const skipSpecialTokens of [true, false]) {
          for (const lists of [ids, shuffled]) {
            const expected = yield* Effect.promise(() => oracle.decodeBatch(lists, skipSpecialTokens))
            lists.forEach((list, i) => {
              assert.strictEqual(tokenizer.decode(list, { skipSpecialTokens }), expected[i])
              const decoder = tokenizer.decoder({ skipSpecialTokens })
              const streamed = list.map((id) => decoder.push([id])).join("") + decoder.end()
              assert.strictEqual(streamed, expected[i])
            })
          }
        }
      }), 120_000)

    it.effect("returns the text it was given", () =>
      Effect.gen(function*() {
        const { texts, tokenizer } = yield* setUp
        for (const text of [...texts.ordinary, ...texts.adversarial].map(wellFormed)) {
          const options = { addSpecialTokens: false, parseSpecial: "none" } as const
          assert.strictEqual(tokenizer.decode(tokenizer.encode(text, options)), normalized(family, text))
        }
      }), 120_000)
  })

// the share of adversarial texts allowed to differ: Qwen normalizes, so every newer composition rule shows
suite("gpt2", 0.05)
suite("qwen3", 0.25)
suite("llama3", 0.05)
suite("deepseek", 0.05)
suite("gptoss", 0.05)

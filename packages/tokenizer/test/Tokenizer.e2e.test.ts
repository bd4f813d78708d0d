/** Beside the Rust implementation, and on the rank files of real models. */
import { Tokenizer } from "@effect-tinker/tokenizer"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { corpus } from "./support/corpus.js"
import { describeReal, ranks, rust } from "./support/models.js"
import { addedTokens, tokenizerConfig, tokenizerJson } from "./support/tiny.js"

describeReal("Tokenizer", () => {
  it("gives the library's and Rust's ids on random text", async () => {
    const files = { id: "tiny", tokenizerJson, tokenizerConfig }
    const core = Effect.runSync(Tokenizer.fromHuggingFace(files))
    const library = Effect.runSync(Tokenizer.fromHuggingFace({ ...files, libraryOnly: true }))
    const texts = corpus(11, 120, addedTokens.map((token) => token.content)).ordinary.map((text) =>
      text.replace(/[\ud800-\udfff]/gu, "\ufffd")
    )
    const expected = await rust(JSON.stringify(tokenizerJson)).encodeBatch(texts, { addSpecialTokens: true })
    texts.forEach((text, i) => {
      const ids = Array.from(core.encode(text))
      assert.deepStrictEqual(ids, Array.from(library.encode(text)), text)
      assert.deepStrictEqual(ids, Array.from(expected[i]?.getIds() ?? []), text)
    })
  })
})

describeReal("fromTiktoken", () => {
  it.effect("gives GPT-2's ids from GPT-2's ranks", () =>
    Effect.gen(function*() {
      const tokenizer = yield* Tokenizer.fromTiktoken({
        ranks: ranks("r50k_base"),
        pattern: "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        specialTokens: { "<|endoftext|>": 50_256 }
      })
      assert.strictEqual(tokenizer.vocabSize, 50_257)
      assert.deepStrictEqual(Array.from(tokenizer.encode("Hello, world!")), [15496, 11, 995, 0])
      assert.deepStrictEqual(Array.from(tokenizer.encode("<|endoftext|>")), [50_256])
      assert.isAbove(tokenizer.count("<|endoftext|>", { parseSpecial: "none" }), 1)
    }))

  it.effect("gives Python tiktoken's ids with Kimi's pattern", () =>
    Effect.gen(function*() {
      // made by packages/parity/python/golden_tiktoken.py, on the ranks of o200k
      const golden: { readonly texts: ReadonlyArray<string>; readonly ids: ReadonlyArray<ReadonlyArray<number>> } = JSON
        .parse(readFileSync(new URL("golden/tiktoken.json", import.meta.url), "utf8"))
      const tokenizer = yield* Tokenizer.fromTiktoken({ ranks: ranks("o200k_base"), pattern: Tokenizer.kimiPattern })
      golden.texts.forEach((text, i) => assert.deepStrictEqual(Array.from(tokenizer.encode(text)), golden.ids[i], text))
    }))
})

import { Tokenizer } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FastCheck as fc } from "effect"
import * as LocalTokenizer from "../src/LocalTokenizer.js"

describe("LocalTokenizer", () => {
  it.prop("decode after encode is the same text", [fc.fullUnicodeString()], ([text]) => {
    assert.strictEqual(LocalTokenizer.decode(LocalTokenizer.encode(text)), text)
    assert.strictEqual(LocalTokenizer.decode(LocalTokenizer.encode(text, { specials: false })), text)
  })

  it("reads special tokens where they are meant, and as plain bytes where they are not", () => {
    const text = "<|im_start|>user\nhi<|im_end|>"
    const tokens = LocalTokenizer.encode(text)
    assert.strictEqual(tokens[0], 257)
    assert.strictEqual(tokens[tokens.length - 1], 258)
    assert.strictEqual(tokens.length, 2 + "user\nhi".length)
    assert.strictEqual(LocalTokenizer.decode(tokens), text)
    assert.strictEqual(LocalTokenizer.decode(tokens, { skipSpecials: true }), "user\nhi")
    assert.strictEqual(LocalTokenizer.encode(text, { specials: false }).length, text.length)
    // more bytes than a call has arguments
    assert.strictEqual(LocalTokenizer.encode(`${"x".repeat(200_000)}<|im_end|>`).length, 200_001)
  })

  it("every token of the vocabulary stands for bytes, and nothing else does", () => {
    for (let token = 0; token < LocalTokenizer.vocabularySize; token++) {
      assert.isAbove(LocalTokenizer.tokenBytes(token).length, 0)
    }
    assert.strictEqual(LocalTokenizer.tokenBytes(264).length, 0)
    assert.strictEqual(LocalTokenizer.tokenBytes(-1).length, 0)
    assert.strictEqual(LocalTokenizer.vocabularySize % 8, 0)
    assert.strictEqual(LocalTokenizer.decode([104, 0xc3, 105]), "h\ufffdi")
  })

  it.effect("its files make the same tokenizer elsewhere", () =>
    Effect.gen(function*() {
      const tokenizer = yield* Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles)
      assert.strictEqual(tokenizer.vocabSize, LocalTokenizer.vocabularySize)
      const texts = [
        "",
        "a b  c\n\tð",
        "<|im_start|>user\nhi ☕ 日本<|im_end|>",
        ...fc.sample(fc.fullUnicodeString(), 50)
      ]
      for (const text of texts) {
        const tokens = LocalTokenizer.encode(text)
        assert.deepStrictEqual(tokenizer.encode(text), tokens)
        assert.strictEqual(tokenizer.decode(tokens), LocalTokenizer.decode(tokens))
      }
    }))
})

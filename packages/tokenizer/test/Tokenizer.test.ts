import { Tokenizer } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Either, Exit, FastCheck, Fiber, Option, Stream } from "effect"
import { corpus } from "./support/corpus.js"
import * as tiny from "./support/tiny.js"

const { tokenizerConfig, tokenizerJson } = tiny

const core = Effect.runSync(Tokenizer.fromHuggingFace({ id: "tiny", tokenizerJson, tokenizerConfig }))
const library = Effect.runSync(
  Tokenizer.fromHuggingFace({ id: "tiny", tokenizerJson, tokenizerConfig, libraryOnly: true })
)

const engines = [["core", core], ["library", library]] as const

const plain = { addSpecialTokens: false } as const

describe("Tokenizer", () => {
  it("uses the core for byte-level BPE by default", () => {
    assert.strictEqual(core.engine, "core")
    assert.strictEqual(library.engine, "library")
    assert.isTrue(Tokenizer.isTokenizer(core))
    assert.isFalse(Tokenizer.isTokenizer({}))
  })

  for (const [name, tokenizer] of engines) {
    describe(name, () => {
      it("adds the tokens around a text by default", () => {
        assert.deepStrictEqual(Array.from(tokenizer.encode("")), [tiny.idOf("<|bos|>")])
        assert.deepStrictEqual(Array.from(tokenizer.encode("", plain)), [])
        assert.strictEqual(tokenizer.count("the cat"), tokenizer.count("the cat", plain) + 1)
      })

      it("recognises the longest added token, and none on request", () => {
        const text = "a<|endless|><think>b"
        const ids = (parseSpecial: Tokenizer.ParseSpecial) =>
          Array.from(tokenizer.encode(text, { addSpecialTokens: false, parseSpecial }))
        assert.includeMembers(ids("all"), [tiny.idOf("<|endless|>"), tiny.idOf("<think>")])
        assert.notInclude(ids("all"), tiny.idOf("<|end|>"))
        assert.include(ids("ordinary"), tiny.idOf("<think>"))
        assert.notInclude(ids("ordinary"), tiny.idOf("<|endless|>"))
        assert.isTrue(ids("none").every((id) => id < tiny.idOf("<|bos|>")))
        for (const mode of ["all", "ordinary", "none"] as const) assert.strictEqual(tokenizer.decode(ids(mode)), text)
      })

      it("lets an added token swallow the whitespace it claims", () => {
        assert.strictEqual(tokenizer.decode(tokenizer.encode("a  <pad> \n b", plain)), "a<pad>b")
      })

      it("leaves special tokens out of decoded text on request", () => {
        const ids = tokenizer.encode("<think>hello<|end|>")
        assert.strictEqual(tokenizer.decode(ids), "<|bos|><think>hello<|end|>")
        assert.strictEqual(tokenizer.decode(ids, { skipSpecialTokens: true }), "<think>hello")
      })

      it("decodes nothing to nothing, takes any iterable of ids, ignores ids without a token", () => {
        assert.strictEqual(tokenizer.decode([]), "")
        assert.strictEqual(tokenizer.decode(Int32Array.of(104, 105)), tokenizer.decode([104, 105]))
        assert.strictEqual(tokenizer.decode([104, 99_999, 105]), tokenizer.decode([104, 105]))
      })

      it("does not rewrite spaces before punctuation, whatever the config's clean-up flag says", () => {
        assert.strictEqual(tokenizer.decode(tokenizer.encode("hello . world", plain)), "hello . world")
      })

      it("knows tokens by name and id", () => {
        assert.deepStrictEqual(tokenizer.tokenToId("<|end|>"), Option.some(tiny.idOf("<|end|>")))
        assert.deepStrictEqual(tokenizer.idToToken(tiny.idOf("<|end|>")), Option.some("<|end|>"))
        assert.deepStrictEqual(tokenizer.tokenToId("no such token"), Option.none())
        assert.deepStrictEqual(tokenizer.idToToken(99_999), Option.none())
        assert.strictEqual(tokenizer.vocabSize, tiny.idOf("<pad>") + 1)
        assert.deepStrictEqual(tokenizer.specialTokens.bos, Option.some("<|bos|>"))
        assert.deepStrictEqual(tokenizer.specialTokens.eos, Option.some("<|end|>"))
        assert.deepStrictEqual(tokenizer.specialTokens.pad, Option.none())
        assert.property(tokenizer.chatTemplates, "default")
      })

      it.effect("streams what decoding at once gives", () =>
        Effect.gen(function*() {
          for (const text of corpus(7, 20, ["<|end|>", "<think>"]).ordinary) {
            const ids = tokenizer.encode(text)
            const pieces = yield* Stream.fromIterable(ids).pipe(
              Stream.rechunk(2),
              Tokenizer.decodeStream(tokenizer),
              Stream.runCollect
            )
            assert.strictEqual(Chunk.toArray(pieces).join(""), tokenizer.decode(ids))
            assert.notInclude(Chunk.toArray(pieces), "")
          }
        }))
    })
  }

  it("gives the library's ids on random text", () => {
    const texts = corpus(11, 120, tiny.addedTokens.map((token) => token.content)).ordinary
    for (const text of texts.map((text) => text.replace(/[\ud800-\udfff]/gu, "\ufffd"))) {
      assert.deepStrictEqual(Array.from(core.encode(text)), Array.from(library.encode(text)), text)
    }
  })

  it.prop("decode after encode is the normalized text", { text: FastCheck.fullUnicodeString() }, ({ text }) => {
    const options = { addSpecialTokens: false, parseSpecial: "none" } as const
    return core.decode(core.encode(text, options)) === text.normalize("NFC")
  })

  it("turns lone surrogates into U+FFFD", () => {
    assert.strictEqual(core.decode(core.encode("a\ud800b", plain)), "a\ufffdb")
  })

  it("merges long words as it merges short ones", () => {
    // above 64 tokens a heap takes over; the words of one text never influence each other
    const word = "thecatsatonthemat"
    for (const times of [1, 3, 4, 5, 40, 400]) {
      const text = word.repeat(times)
      assert.deepStrictEqual(Array.from(core.encode(text, plain)), Array.from(library.encode(text, plain)))
    }
  })

  it("says the bytes of a token", () => {
    const [id = -1] = core.encode("é", plain)
    assert.deepStrictEqual(core.tokenBytes(id), Option.some(Uint8Array.of(0xc3)))
    assert.deepStrictEqual(core.tokenBytes(tiny.idOf("<think>")), Option.some(new TextEncoder().encode("<think>")))
    assert.deepStrictEqual(core.tokenBytes(99_999), Option.none())
  })

  it("holds a character back until it is whole", () => {
    const decoder = core.decoder()
    const ids = Array.from(core.encode("a😀", plain))
    assert.deepStrictEqual(ids.map((id) => decoder.push([id])), ["a", "", "", "", "😀"])
    assert.strictEqual(decoder.end(), "")
    decoder.push(ids.slice(0, 2))
    assert.strictEqual(decoder.end(), "\ufffd")
  })

  it("checks ids handed in from outside", () => {
    assert.deepStrictEqual(Tokenizer.checkIds(core, [1, 2]), Either.right(Int32Array.of(1, 2)))
    for (const bad of [[-1], [1.5], [Number.NaN], [99_999]]) {
      const result = Tokenizer.checkIds(core, bad)
      assert.isTrue(Either.isLeft(result) && result.left._tag === "InvalidTokens")
    }
  })

  it.live("lets others run while it encodes a long text", () =>
    Effect.gen(function*() {
      let ticks = 0
      const ticker = yield* Effect.fork(Effect.forever(Effect.delay(Effect.sync(() => ticks++), 1)))
      const long = "the cat sat on the mat ".repeat(20_000)
      const [ids, short] = yield* Tokenizer.encodeBatch(core, [long, "hello"], plain)
      yield* Fiber.interrupt(ticker)
      assert.deepStrictEqual(ids, core.encode(long, plain))
      assert.deepStrictEqual(short, core.encode("hello", plain))
      assert.isAbove(ticks, 5)
    }))

  it.effect("encodes a batch without anyone moving the test clock", () =>
    Effect.gen(function*() {
      const texts = Array.from({ length: 50 }, (_, i) => `number ${i} `.repeat(200))
      const encoded = yield* Tokenizer.encodeBatch(core, texts)
      assert.deepStrictEqual(encoded, texts.map((text) => core.encode(text)))
    }))

  it.effect("refuses files that are not a tokenizer", () =>
    Effect.gen(function*() {
      for (
        const bad of [undefined, 5, [], {}, { model: { type: "BPE" } }, { model: { type: "Nothing", vocab: null } }]
      ) {
        const error = yield* Effect.flip(Tokenizer.fromHuggingFace({ id: "org/model", tokenizerJson: bad }))
        assert.strictEqual(error._tag, "TokenizerMalformed")
        assert.include(error.message, "org/model/tokenizer.json")
      }
      const error = yield* Effect.flip(Tokenizer.fromHuggingFace({ tokenizerJson, tokenizerConfig: { bos_token: 3 } }))
      assert.strictEqual(error.file, "tokenizer_config.json")
    }))

  it.effect("leaves models that are not byte-level BPE to the library", () =>
    Effect.gen(function*() {
      const variants = [
        { pre_tokenizer: { type: "Whitespace" } },
        { pre_tokenizer: { type: "ByteLevel", add_prefix_space: true, use_regex: true } },
        { model: { ...tokenizerJson.model, end_of_word_suffix: "</w>" } },
        { model: { ...tokenizerJson.model, vocab: { ...tokenizerJson.model.vocab, "文": 400 } } }
      ]
      for (const variant of variants) {
        const tokenizer = yield* Tokenizer.fromHuggingFace({ tokenizerJson: { ...tokenizerJson, ...variant } })
        assert.strictEqual(tokenizer.engine, "library")
      }
    }))

  it.effect("prefers templates from files of their own", () =>
    Effect.gen(function*() {
      const tokenizer = yield* Tokenizer.fromHuggingFace({
        tokenizerJson,
        tokenizerConfig: {
          chat_template: [{ name: "default", template: "config" }, { name: "tool_use", template: "tools" }]
        },
        chatTemplates: { default: "file" }
      })
      assert.deepStrictEqual(tokenizer.chatTemplates, { default: "file", tool_use: "tools" })
    }))
})

describe("fromTiktoken", () => {
  it.effect("names reserved ids and cuts Han runs off, as Kimi does", () =>
    Effect.gen(function*() {
      const bytes = Array.from({ length: 256 }, (_, byte) => Buffer.from([byte]))
      const more = ["你好", "你好a", "ab"].map((text) => Buffer.from(text))
      const lines = [...bytes, Buffer.from("你"), Buffer.from("好"), ...more].map((token, rank) =>
        `${token.toString("base64")} ${rank}`
      )
      const tokenizer = yield* Tokenizer.fromTiktoken({
        ranks: lines.join("\n"),
        pattern: Tokenizer.kimiPattern,
        tokenizerConfig: { added_tokens_decoder: { 261: { content: "<|im_end|>", special: true } } },
        reserved: 4
      })
      // "你好a" is a token, but the Han run ends before the letter
      assert.deepStrictEqual(Array.from(tokenizer.encode("你好a")), [258, 97])
      assert.deepStrictEqual(Array.from(tokenizer.encode("ab<|im_end|>")), [260, 261])
      assert.deepStrictEqual(tokenizer.idToToken(263), Option.some("<|reserved_token_263|>"))
      assert.strictEqual(tokenizer.vocabSize, 265)
      assert.strictEqual(tokenizer.decode(tokenizer.encode("你好 ab!")), "你好 ab!")
    }))

  it.effect("refuses a file that is not ranks", () =>
    Effect.gen(function*() {
      for (const bad of ["", "!!! 1", "YQ== x", "YQ== 0"]) {
        const exit = yield* Effect.exit(Tokenizer.fromTiktoken({ ranks: bad, pattern: Tokenizer.kimiPattern }))
        assert.isTrue(Exit.isFailure(exit))
        const error = yield* Effect.flip(Tokenizer.fromTiktoken({ ranks: bad, pattern: Tokenizer.kimiPattern }))
        assert.strictEqual(error._tag, "TokenizerMalformed")
      }
    }))
})

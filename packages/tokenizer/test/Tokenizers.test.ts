import { Tokenizer, TokenizerError, TokenizerFiles, Tokenizers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option } from "effect"
import * as tiny from "./support/tiny.js"

const json = JSON.stringify(tiny.tokenizerJson)
const config = JSON.stringify(tiny.tokenizerConfig)

const ranks = Array.from({ length: 256 }, (_, byte) => `${Buffer.from([byte]).toString("base64")} ${byte}`).join("\n")

const memory = TokenizerFiles.layerMemory({
  "org/model": { "tokenizer.json": json, "tokenizer_config.json": config, "chat_template.jinja": "from a file" },
  "org/plain": { "tokenizer.json": json },
  "org/broken": { "tokenizer.json": json.slice(0, 100) },
  "org/ranks": { "tiktoken.model": ranks },
  "org/nothing": {},
  "moonshotai/Kimi-K2-Instruct": {
    "tiktoken.model": ranks,
    "tokenizer_config.json": JSON.stringify({ added_tokens_decoder: { 258: { content: "<|im_end|>", special: true } } })
  }
})

const live = Tokenizers.layer().pipe(Layer.provide(memory))

/** A source that counts its requests and answers on command. */
const slow = Effect.gen(function*() {
  const gate = yield* Deferred.make<void, TokenizerError.TokenizerUnavailable>()
  let asked = 0
  const layer = Layer.succeed(TokenizerFiles.TokenizerFiles, {
    get: (_ref, file) =>
      Effect.suspend(() => {
        if (file === "tokenizer.json") asked++
        return Effect.as(Deferred.await(gate), {
          content: file === "tokenizer.json" ? Option.some(new TextEncoder().encode(json)) : Option.none(),
          commit: Option.none()
        })
      })
  })
  return { gate, asked: () => asked, layer: Tokenizers.layer({ capacity: 2 }).pipe(Layer.provide(layer)) }
})

const until = (condition: () => boolean) => Effect.yieldNow().pipe(Effect.repeat({ until: condition }))

describe("Tokenizers", () => {
  it.effect("loads by model name, with config and template", () =>
    Effect.gen(function*() {
      const tokenizers = yield* Tokenizers.Tokenizers
      const tokenizer = yield* tokenizers.forModel("org/model/variant:1")
      assert.strictEqual(tokenizer.id, "org/model")
      assert.deepStrictEqual(tokenizer.specialTokens.bos, Option.some("<|bos|>"))
      assert.strictEqual(tokenizer.chatTemplates["default"], "from a file")
      assert.strictEqual(yield* tokenizers.forModel("anything", { tokenizerId: "org/model" }), tokenizer)
      assert.deepStrictEqual((yield* tokenizers.load({ repo: "org/plain" })).chatTemplates, {})
    }).pipe(Effect.provide(live)))

  it.effect("reads Kimi's ranks, naming the reserved ids", () =>
    Effect.gen(function*() {
      const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("moonshotai/Kimi-K2-Instruct")
      assert.deepStrictEqual(tokenizer.tokenToId("<|im_end|>"), Option.some(258))
      assert.deepStrictEqual(tokenizer.tokenToId("<|reserved_token_257|>"), Option.some(257))
      assert.strictEqual(tokenizer.vocabSize, 512)
      assert.strictEqual(tokenizer.decode(tokenizer.encode("你好 hi<|im_end|>")), "你好 hi<|im_end|>")
    }).pipe(Effect.provide(live)))

  it.effect("fails with what is wrong", () =>
    Effect.gen(function*() {
      const tokenizers = yield* Tokenizers.Tokenizers
      const tag = (model: string) => Effect.map(Effect.flip(tokenizers.forModel(model)), (error) => error._tag)
      assert.strictEqual(yield* tag("org/missing"), "TokenizerNotFound")
      assert.strictEqual(yield* tag("org/broken"), "TokenizerMalformed")
      assert.strictEqual(yield* tag("org/nothing"), "TokenizerUnsupported")
      assert.strictEqual(yield* tag("org/ranks"), "TokenizerUnsupported")
      assert.strictEqual(yield* tag("thinkingmachines/Inkling"), "TokenizerUnsupported")
    }).pipe(Effect.provide(live)))

  it.effect("asks the registry first, also for names that cannot be resolved", () =>
    Effect.gen(function*() {
      const tokenizers = yield* Tokenizers.Tokenizers
      let runs = 0
      const own = Effect.suspend(() => {
        runs++
        return Tokenizer.fromHuggingFace({ id: "own", tokenizerJson: tiny.tokenizerJson })
      })
      yield* tokenizers.register("thinkingmachines/Inkling", own)
      const first = yield* tokenizers.forModel("thinkingmachines/Inkling:64k")
      assert.strictEqual(first.id, "own")
      assert.strictEqual(yield* tokenizers.forModel("thinkingmachines/Inkling"), first)
      assert.strictEqual(runs, 1)
      yield* tokenizers.register("org/model", own)
      assert.strictEqual((yield* tokenizers.load({ repo: "org/model" })).id, "own")
      assert.strictEqual((yield* tokenizers.forModel("org/model/variant")).id, "own")
      // an explicit id is asked for, not the model
      assert.strictEqual((yield* tokenizers.forModel("org/model", { tokenizerId: "org/plain" })).id, "org/plain")
    }).pipe(Effect.provide(live)))

  it.effect("shares one load among callers, and survives the first one leaving", () =>
    Effect.gen(function*() {
      const { asked, gate, layer } = yield* slow
      yield* Effect.gen(function*() {
        const tokenizers = yield* Tokenizers.Tokenizers
        const first = yield* Effect.fork(tokenizers.forModel("org/a"))
        const second = yield* Effect.fork(tokenizers.forModel("org/a"))
        yield* until(() => asked() === 1)
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(first)))
        yield* Deferred.succeed(gate, void 0)
        const tokenizer = yield* Fiber.join(second)
        assert.strictEqual(yield* tokenizers.forModel("org/a"), tokenizer)
        assert.strictEqual(asked(), 1)
      }).pipe(Effect.provide(layer))
    }))

  it.effect("does not keep a failure", () =>
    Effect.gen(function*() {
      const { asked, gate, layer } = yield* slow
      yield* Effect.gen(function*() {
        const tokenizers = yield* Tokenizers.Tokenizers
        yield* Deferred.fail(gate, new TokenizerError.TokenizerUnavailable({ description: "down", isRetryable: true }))
        assert.strictEqual((yield* Effect.flip(tokenizers.forModel("org/a")))._tag, "TokenizerUnavailable")
        yield* Effect.flip(tokenizers.forModel("org/a"))
        assert.strictEqual(asked(), 2)
      }).pipe(Effect.provide(layer))
    }))

  it.effect("keeps the most recently used", () =>
    Effect.gen(function*() {
      const { asked, gate, layer } = yield* slow
      yield* Deferred.succeed(gate, void 0)
      yield* Effect.gen(function*() {
        const tokenizers = yield* Tokenizers.Tokenizers
        for (const name of ["org/a", "org/b", "org/a", "org/c", "org/a"]) yield* tokenizers.forModel(name)
        assert.strictEqual(asked(), 3)
        yield* tokenizers.forModel("org/b")
        assert.strictEqual(asked(), 4)
      }).pipe(Effect.provide(layer))
    }))
})

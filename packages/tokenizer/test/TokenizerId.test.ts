import { TokenizerId } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"

const table: ReadonlyArray<readonly [model: string, expected: TokenizerId.TokenizerRef]> = [
  ["Qwen/Qwen3-8B", { repo: "Qwen/Qwen3-8B" }],
  ["Qwen/Qwen3-8B:some-variant", { repo: "Qwen/Qwen3-8B" }],
  ["gpt2", { repo: "gpt2" }],
  ["org/model/variant", { repo: "org/model" }],
  ["a/b/c/d", { repo: "a/b/c/d" }],
  ["meta-llama/Llama-3.1-8B", { repo: TokenizerId.llama3Mirror }],
  ["meta-llama/Llama-3.3-70B-Instruct:x", { repo: TokenizerId.llama3Mirror }],
  ["meta-llama/Llama-2-7b", { repo: "meta-llama/Llama-2-7b" }],
  ["moonshotai/Kimi-K2-Instruct", { repo: "moonshotai/Kimi-K2-Instruct" }],
  ["moonshotai/Kimi-K2-Thinking", {
    repo: "moonshotai/Kimi-K2-Thinking",
    revision: "612681931a8c906ddb349f8ad0f582cb552189cd"
  }],
  ["moonshotai/Kimi-K2.5-Text-Only", {
    repo: "moonshotai/Kimi-K2.5",
    revision: "4d01dfe0332d63057c186e0b262165819efb6611"
  }],
  ["moonshotai/Kimi-K2.6:peft:262144", {
    repo: "moonshotai/Kimi-K2.6",
    revision: "b5aabbfb20227ed42becbf5541dbffd213942c58"
  }],
  ["moonshotai/Kimi-K3", { repo: "moonshotai/Kimi-K3", revision: "f831ab66814297da540d832a5235f8e904f29d06" }]
]

describe("TokenizerId", () => {
  for (const [model, expected] of table) {
    it(`resolves ${model}`, () => assert.deepStrictEqual(TokenizerId.resolve(model), Either.right(expected)))
  }

  it("lets an explicit id and revision win", () => {
    assert.deepStrictEqual(
      TokenizerId.resolve("meta-llama/Llama-3.1-8B", { tokenizerId: "org/own" }),
      Either.right({ repo: "org/own" })
    )
    assert.deepStrictEqual(
      TokenizerId.resolve("moonshotai/Kimi-K2.6", { revision: "main" }),
      Either.right({ repo: "moonshotai/Kimi-K2.6", revision: "main" })
    )
  })

  for (const model of ["thinkingmachines/Inkling", "TML/anything"]) {
    it(`says what to do about ${model}`, () => {
      const result = TokenizerId.resolve(model)
      assert.isTrue(Either.isLeft(result))
      if (Either.isLeft(result)) {
        assert.strictEqual(result.left._tag, "TokenizerUnsupported")
        assert.include(result.left.message, "Tokenizers.register")
      }
    })
  }
})

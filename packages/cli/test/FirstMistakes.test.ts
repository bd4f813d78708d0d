import * as Tokenizers from "@effect-tinker/tokenizer/Tokenizers"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { nearest } from "../src/internal/nearest.js"
import * as dataFile from "../src/training/dataFile.js"
import * as setup from "../src/training/setup.js"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-tinker-mistakes-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)

describe("first mistakes", () => {
  it.scoped("a file without the columns of training data is told which it has", () =>
    Effect.gen(function*() {
      const file = join(yield* temporary, "questions.jsonl")
      writeFileSync(file, "{\"question\":\"2+2?\",\"answer\":\"4\"}\n")
      const failure = yield* Effect.flip(dataFile.detect(file))
      assert.include(failure.message, "Expected rows with messages, with prompt and completion, or with chosen")
      assert.include(failure.message, "these have question, answer")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a wrong name of a local model is told the right one", () =>
    Effect.gen(function*() {
      const tokenizers = yield* Tokenizers.Tokenizers
      const failure = yield* Effect.flip(tokenizers.forModel("local/chta"))
      assert.include(failure.message, "did you mean local/chat?")
      assert.include((yield* Effect.flip(tokenizers.forModel("local/llama"))).message, "it has local/bytes")
    }).pipe(Effect.provide(setup.tokenizers), Effect.provide(NodeContext.layer)))

  it("the nearest name is at most two letters away", () => {
    assert.strictEqual(nearest("chta", ["chat", "small"]), "chat")
    assert.strictEqual(nearest("smal", ["chat", "small"]), "small")
    assert.isUndefined(nearest("mistral", ["chat", "small"]))
  })
})

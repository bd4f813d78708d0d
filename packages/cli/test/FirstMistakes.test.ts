import * as Tokenizers from "@effect-tinker/tokenizer/Tokenizers"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { nearest } from "../src/internal/nearest.js"
import * as dataFile from "../src/training/dataFile.js"
import * as modelSettings from "../src/training/modelSettings.js"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-tinker-mistakes-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)

describe("first mistakes", () => {
  it.scoped("a file without the columns of training data is told which it has", () =>
    Effect.gen(function*() {
      const file = join(yield* temporary, "questions.jsonl")
      writeFileSync(file, "{\"frage\":\"2+2?\",\"antwort\":\"4\"}\n")
      const failure = yield* Effect.flip(dataFile.recognize(file))
      assert.include(failure.message, "its columns are frage, antwort")
      assert.include(failure.message, "Alpaca (instruction, output)")
      const columns = yield* dataFile.parseColumns(Option.some("user=frage,assistant=antwort"))
      assert.deepInclude(yield* dataFile.recognize(file, columns), { kind: "chats" })
      const wrong = yield* Effect.flip(dataFile.parseColumns(Option.some("frage=user")))
      assert.include(wrong.message, "expected ROLE=COLUMN")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a wrong name of a local model is told the right one", () =>
    Effect.gen(function*() {
      const tokenizers = yield* Tokenizers.Tokenizers
      const failure = yield* Effect.flip(tokenizers.forModel("local/chta"))
      assert.include(failure.message, "did you mean local/chat?")
      assert.include((yield* Effect.flip(tokenizers.forModel("local/llama"))).message, "it has local/bytes")
    }).pipe(Effect.provide(modelSettings.tokenizers), Effect.provide(NodeContext.layer)))

  it("the nearest name is at most two letters away", () => {
    assert.strictEqual(nearest("chta", ["chat", "small"]), "chat")
    assert.strictEqual(nearest("smal", ["chat", "small"]), "small")
    assert.isUndefined(nearest("mistral", ["chat", "small"]))
  })
})

import { LocalTokenizer } from "@effect-tinker/local"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { CannotContinue } from "@effect-tinker/tokenizer/TokenizerError"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as continuation from "../src/internal/continuation.js"

describe("continuation", () => {
  it.effect("forks where the prompt that was rendered does not begin with what was sampled", () =>
    Effect.gen(function*() {
      const files = LocalTokenizer.huggingFaceFiles
      const real = yield* Renderers.qwen3Instruct(yield* Tokenizer.fromHuggingFace(files))
      const refusal = new CannotContinue({ renderer: "any", reason: "HistoryRewritten", description: "rewritten" })
      const turn = { messages: [Message.user("?")], prompt: Int32Array.of(1, 2), completion: Int32Array.of(3, 4) }
      const next = (rendered: ReadonlyArray<number>) =>
        continuation.nextPrompt(
          {
            ...real,
            continue: () => Either.left(refusal),
            generationPrompt: () => Effect.succeed(Int32Array.from(rendered))
          },
          turn,
          Message.assistant("!"),
          []
        )
      const same = yield* next([1, 2, 3, 4, 5])
      assert.deepStrictEqual([Array.from(same.prompt), same.fork], [[1, 2, 3, 4, 5], undefined])
      assert.isUndefined((yield* next([1, 2, 3, 4])).fork)
      for (const other of [[1, 2, 3], [0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0, 5]]) {
        assert.deepStrictEqual(
          (yield* next(other)).fork,
          { reason: "HistoryRewritten", description: "rewritten" },
          other.join()
        )
      }
    }))
})

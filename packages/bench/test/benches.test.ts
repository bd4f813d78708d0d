import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as benches from "../src/benches.js"

describe("benches", () => {
  it.effect("fails with a sentence for a bench that does not exist", () =>
    Effect.gen(function*() {
      const unknown = yield* Effect.flip(benches.find(["nonsense"]))
      assert.include(unknown.message, "There is no bench named \"nonsense\" yet.")
      for (const args of [[], ["wire", "twice"]]) {
        assert.include((yield* Effect.flip(benches.find(args))).message, "usage: npm run bench -- NAME")
      }
    }))

  it.effect("finds a bench by its name", () =>
    Effect.map(benches.find(["wire"]), ({ bench, name }) => {
      assert.strictEqual(name, "wire")
      assert.include(bench.summary, "protobuf")
    }))
})

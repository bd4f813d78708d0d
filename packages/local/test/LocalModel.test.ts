import { assert, describe, it } from "@effect/vitest"
import * as LocalModel from "../src/LocalModel.js"

describe("LocalModel", () => {
  it("measures fit the kernels, which work on eight columns at a time", () => {
    for (const model of LocalModel.all) {
      assert.strictEqual(model.width % model.heads, 0)
      for (const size of [model.width, model.hidden, model.vocabularySize, model.width / model.heads]) {
        assert.strictEqual(size % 8, 0, model.name)
      }
    }
  })

  it("counts weights", () => {
    assert.strictEqual(LocalModel.parameterCount(LocalModel.tiny), 2 * 264 * 64 + 2 * (4 * 64 * 64 + 2 * 64 * 256))
  })
})

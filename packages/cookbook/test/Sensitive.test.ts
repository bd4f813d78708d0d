import { Sensitive } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"

describe("Sensitive", () => {
  it("personal data in every text of a value, and nowhere else", () => {
    assert.deepStrictEqual(
      Sensitive.redactJson({ "ann@example.org": ["to bob@example.org", { a: null, b: 3, c: true }], d: "x" }),
      { "ann@example.org": ["to [EMAIL]", { a: null, b: 3, c: true }], d: "x" }
    )
  })
})

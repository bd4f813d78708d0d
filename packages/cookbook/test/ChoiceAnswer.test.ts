import { assert, describe, it } from "@effect/vitest"
import * as ChoiceAnswer from "../src/ChoiceAnswer.js"

describe("ChoiceAnswer", () => {
  it("writes choices with their letters", () => {
    assert.strictEqual(ChoiceAnswer.list(["red", "blue"]), "(A) red\n(B) blue")
  })

  it("finds the letter that an answer comes to", () => {
    for (
      const [text, letter] of [
        ["\\boxed{b}", "B"],
        ["The answer is (C).", "C"],
        ["answer: d", "D"],
        ["A is wrong, so I take B", "B"],
        [`A ${"word ".repeat(100)}`, ""],
        ["été Dé", ""],
        ["E", ""]
      ] as const
    ) assert.strictEqual(ChoiceAnswer.find(text), letter, text)
    assert.strictEqual(ChoiceAnswer.find("E", 5), "E")
  })
})

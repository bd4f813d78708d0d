import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import * as MathAnswer from "../src/MathAnswer.js"

describe("MathAnswer", () => {
  it("finds boxed answers with braces of their own, the first or the last", () => {
    const text = "First \\boxed{\\frac{1}{2}}, then \\boxed{3}."
    assert.deepStrictEqual(MathAnswer.firstBoxed(text), Option.some("\\frac{1}{2}"))
    assert.deepStrictEqual(MathAnswer.lastBoxed(text), Option.some("3"))
    assert.deepStrictEqual(MathAnswer.lastBoxed("so \\boxed 7"), Option.some("7"))
    assert.deepStrictEqual(MathAnswer.firstBoxed("\\boxed{1"), Option.none())
    assert.deepStrictEqual(MathAnswer.lastBoxed("no box"), Option.none())
    assert.deepStrictEqual(MathAnswer.lastBoxed("} \\boxed{1}"), Option.none())
  })

  it("finds the number that an answer comes to", () => {
    for (
      const [text, number] of [
        ["It is \\boxed{\\$1,234.50}", "1234.50"],
        ["Work: 3 + 4\n#### 7", "7"],
        ["The answer is $1,200.", "1200"],
        ["So **42** of 90 apples", "42"],
        ["He has 3 and then 12, so 15.", "15."],
        ["nothing", ""]
      ] as const
    ) assert.strictEqual(MathAnswer.finalNumber(text), number, text)
    assert.isTrue(MathAnswer.isNumber("He has 3 and then 12, so 15.", "15"))
    assert.isTrue(MathAnswer.isNumber("\\boxed{2125}", "2,125"))
    assert.isFalse(MathAnswer.isNumber("", "2"))
  })

  it("asks for an integer from 0 to 999 in a contest", () => {
    assert.isTrue(MathAnswer.isContestInteger("\\boxed{042}", 42))
    assert.isTrue(MathAnswer.isContestInteger("\\boxed{42.0}", 42))
    assert.isFalse(MathAnswer.isContestInteger("\\boxed{42.5}", 42))
    assert.isFalse(MathAnswer.isContestInteger("\\boxed{1042}", 1042))
  })

  it("takes other ways to write an answer for the same", () => {
    for (
      const [given, wanted] of [
        ["\\dfrac{1}{2}", "\\frac12"],
        ["1/2", "0.5"],
        ["x = 5", "5"],
        ["1{,}000", "1000"],
        ["3\\sqrt{8}", "6\\sqrt2"],
        ["(x+1)^2", "x^2+2x+1"],
        ["\\frac{x+1}{2}", "(x+1)/2"],
        ["\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\pi/2)"],
        ["45^\\circ", "45"],
        ["12 cm", "12"],
        ["\\text{Monday}", "monday"],
        ["\\sqrt{-4}", "2\\sqrt{-1}"],
        ["7\\frac{3}{4}", "7.75"],
        ["4!", "4!"]
      ] as const
    ) assert.isTrue(MathAnswer.isSame(given, wanted), `${given} and ${wanted}`)
  })

  it("takes other answers for wrong, and other forms where the form is asked for", () => {
    for (
      const [given, wanted] of [
        ["\\frac{2}{4}", "\\frac{1}{2}"],
        ["2^2", "4"],
        ["(1,2)", "[1,2)"],
        ["(1,2)", "(2,1)"],
        ["x+1", "x-1"],
        ["0.333", "\\frac{1}{3}"],
        ["cat", "act"],
        ["", "1"],
        ["((((", "1"],
        ["1/0", "2/0+1"]
      ] as const
    ) assert.isFalse(MathAnswer.isSame(given, wanted), `${given} and ${wanted}`)
  })

  it("ends on answers made to exhaust it", () => {
    for (const part of ["(", "\\frac{", "\\sqrt{", "-", "2^", "{", "9!", "\\boxed{"]) {
      assert.isFalse(MathAnswer.isBoxed(`\\boxed{${part.repeat(5000)}}`, "1"), part)
      assert.isFalse(MathAnswer.isSame(part.repeat(400 / part.length), "1x"), part)
    }
  })
})

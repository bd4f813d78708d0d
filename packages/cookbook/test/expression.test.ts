import { assert, describe, it } from "@effect/vitest"
import * as expression from "../src/internal/expression.js"

describe("expressions", () => {
  it("have the same value however they are written", () => {
    for (
      const [first, second] of [
        ["1 + 2 * 3 - 4 / 2", "5"],
        ["2^3^2", "512"],
        ["-2^2", "-4"],
        ["2 - -3", "5"],
        ["(a + b)^2", "a^2 + 2ab + b^2"],
        ["(a - b)(a + b)", "a^2 - b^2"],
        ["x/y*y", "x"],
        ["5!/3!", "20"],
        ["0!", "1"],
        ["sqrt(-4)", "2 sqrt(-1)"],
        ["sqrt(-1) * sqrt(-1)", "-1"],
        ["(1 + sqrt(-1))/(1 - sqrt(-1))", "sqrt(-1)"],
        ["(-8)^(2)", "64"],
        ["(-1)^(1/2)", "sqrt(-1)"],
        ["sin(x)^2 + cos(x)^2", "1"],
        ["tan(x) cot(x)", "1"],
        ["sec(x)", "1/cos(x)"],
        ["csc(x)", "1/sin(x)"],
        ["exp(ln(x))", "x"],
        ["log(exp(2))", "2"],
        ["sin(pi/6)", "0.5"],
        ["cos(sqrt(-1))", "(exp(1) + exp(-1))/2"],
        ["sin(sqrt(-1))/sqrt(-1)", "(exp(1) - exp(-1))/2"],
        ["sin(1 + sqrt(-1))", "sin(1)cos(sqrt(-1)) + cos(1)sin(sqrt(-1))"],
        ["cos(1 + sqrt(-1))", "cos(1)cos(sqrt(-1)) - sin(1)sin(sqrt(-1))"],
        ["exp(pi * sqrt(-1))", "-1"],
        ["ln(-1)", "pi sqrt(-1)"],
        ["0^(1/2)", "0"],
        ["1.5e2", "150"],
        ["sqrt x", "x^(1/2)"],
        ["2**3", "8"]
      ] as const
    ) {
      assert.isTrue(expression.same(first, second), `${first} = ${second}`)
      assert.isFalse(expression.same(first, `${second} + 0.001`), `${first} = ${second} + 0.001`)
    }
  })

  it("what cannot be read, or has no value, is the same as nothing", () => {
    for (const text of ["", "1 +", "(1", "1)", "2 ^", "#", "1/0", "(-1)!", "2.5!", "171!", "sin", "*2"]) {
      assert.isFalse(expression.same(text, text), text)
    }
    // levels of parentheses
    const deep = (levels: number) => `${"(".repeat(levels)}1${")".repeat(levels)}`
    assert.isTrue(expression.same(deep(90), "1"))
    assert.isFalse(expression.same(deep(200), "1"))
  })

  it("LaTeX as plain text", () => {
    for (
      const [latex, text] of [
        ["\\frac{1}{2}", "1/2"],
        ["7\\frac{3}{4}", "7 3/4"],
        ["\\dfrac{a+b}{10}", "(a+b)/10"],
        ["\\tfrac12", "1/2"],
        ["\\sqrt{x+1}", "sqrt(x+1)"],
        ["\\sqrt 2", "sqrt(2)"],
        ["\\sqrt[3]{8}", "((8)^(1/(3)))"],
        ["x^{10}", "x^10"],
        ["x^{a+1}", "x^(a+1)"],
        ["2\\cdot 3 \\times 4 \\div 2", "2*3 *4 /2"],
        ["\\pi r^2", "pir^2"],
        ["\\left(1,2\\right)", "(1,2)"],
        ["√2·3", "sqrt2*3"],
        ["\\text{no}", "no"],
        ["{a{b}}", "ab"],
        ["\\alpha\\,\\beta", "α β"]
      ] as const
    ) assert.strictEqual(expression.fromLatex(latex), text, latex)
  })
})

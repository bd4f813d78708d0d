import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as PythonAnswer from "../src/PythonAnswer.js"
import * as Sandbox from "../src/Sandbox.js"

const encode = (text: string) => new TextEncoder().encode(text)

/** A sandbox in which a program prints what it is told to. */
const printing = (print: (program: string, stdin: string) => string, exitCode = 0) =>
  Effect.provideService(
    Sandbox.Sandbox,
    Sandbox.make({
      name: "made",
      run: ({ files, stdin }) =>
        Effect.sync(() => {
          const program = new TextDecoder().decode(files.get("program.py"))
          const stdout = encode(print(program, new TextDecoder().decode(stdin)))
          return { exitCode, stdout, stderr: encode(""), files: new Map() }
        })
    })
  )

/** What a program prints that runs to its end. */
const toTheEnd = (program: string) => `\n${/print\("\\n" \+ "(\w+)"\)\s*$/.exec(program)?.[1] ?? ""}\n`

describe("PythonAnswer", () => {
  it("finds the code of an answer", () => {
    assert.strictEqual(PythonAnswer.find("So:\n```python\nx = 1\n```\nor\n```python\nx = 2\n```"), "x = 1")
    assert.strictEqual(PythonAnswer.find("```\na\n```\n```js\nb\n```"), "b")
    assert.strictEqual(PythonAnswer.find(" x = 1\n"), "x = 1")
  })

  it.effect("passes programs that reach the end of their tests, not those that end before", () =>
    Effect.gen(function*() {
      const test = PythonAnswer.passes("x = 1", "assert x == 1")
      assert.isTrue(yield* printing(toTheEnd)(test))
      assert.isFalse(yield* printing(() => "all tests passed")(test), "it left with exit code 0")
      assert.isFalse(yield* printing(toTheEnd, 1)(test))
    }))

  it.effect("compares what a program prints for each input", () =>
    Effect.gen(function*() {
      const tests = [{ input: "1 2", output: "3\n" }, { input: "4 5", output: "9" }]
      const sum = printing((_, stdin) => `${stdin.split(" ").map(Number).reduce((a, b) => a + b)}\n`)
      assert.isTrue(yield* sum(PythonAnswer.passesInputs("", tests)))
      assert.isFalse(yield* printing(() => "3")(PythonAnswer.passesInputs("", tests)))
      assert.isFalse(yield* printing(() => "")(PythonAnswer.passesInputs("", [])), "without tests nothing is proved")
    }))
})

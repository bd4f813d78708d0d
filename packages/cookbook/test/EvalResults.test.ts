import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Benchmark from "../src/Benchmark.js"
import * as EvalResults from "../src/EvalResults.js"

const result = (id: string, reward: number, sample = 0, outcome: Benchmark.Result["outcome"] = "completed") =>
  new Benchmark.Result({ id, sample, outcome, reward, answer: `${id} is ${reward}`, tokens: 1, target: "t" })

const of = (model: string, results: ReadonlyArray<Benchmark.Result>) =>
  EvalResults.fromResults({ name: "sums", model, results })

describe("EvalResults", () => {
  it("pairs examples, each with the mean of its attempts", () => {
    const before = of("a", [result("x", 1), result("x", 0, 1), result("y", 1), result("z", 0), result("only", 1)])
    const after = of("b", [
      result("x", 1),
      result("x", 1, 1),
      result("y", 0),
      result("z", 0),
      result("w", 0, 0, "failed")
    ])
    const compared = EvalResults.compare(before, after)
    assert.deepInclude(compared, { shared: 3, better: 1, worse: 1, alone: [1, 0], models: ["a", "b"] })
    assert.deepStrictEqual(compared.changed.map(({ id }) => id), ["y", "x"], "what became worse is first")
    assert.closeTo(compared.difference.mean, (0.5 - 1 + 0) / 3, 1e-12)
    assert.deepStrictEqual(compared.changed[0]?.second, { value: 0, answer: "y is 0" })
  })

  it("finds no difference between an evaluation and itself, and a certain one where all became right", () => {
    const ids = Array.from({ length: 30 }, (_, n) => `e${n}`)
    const wrong = of("a", ids.map((id) => result(id, 0)))
    const right = of("b", ids.map((id) => result(id, 1)))
    assert.deepInclude(EvalResults.compare(wrong, wrong), { p: 1, better: 0, worse: 0 })
    const { difference, p } = EvalResults.compare(wrong, right)
    assert.isBelow(p, 0.001)
    assert.strictEqual(difference.low, 1)
  })

  it("writes Markdown that text of a model cannot break", () => {
    const answer = "a | b\n<script>*x*"
    const before = of("a", [result("x", 1)])
    const changed = new Benchmark.Result({ ...result("x", 0), answer })
    const text = EvalResults.toMarkdown([EvalResults.compare(before, of("b", [changed]))])
    assert.include(text, "| sums | 1 | 0 | -1 |")
    assert.include(text, "a \\| b \\<script\\>\\*x\\*")
  })

  it.scoped("reads what a benchmark recorded and what the command printed, and nothing else", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-results-" })
      const file = (name: string, text: string) =>
        Effect.as(fs.writeFileString(`${directory}/${name}`, text), `${directory}/${name}`)
      const recorded = yield* EvalResults.read(
        yield* file(
          "sums.jsonl",
          [{ benchmark: "sums", model: "m", samples: 1, seed: 0 }, result("x", 0, 0, "failed"), result("x", 1)]
            .map((one) => JSON.stringify(one)).join("\n") + "\n{\"id\": \"cut"
        )
      )
      assert.deepInclude(recorded, { name: "sums", model: "m", failed: 0 })
      assert.deepStrictEqual(recorded.examples.get("x")?.attempts, [{ value: 1, answer: "x is 1" }])
      const printed = yield* EvalResults.read(
        yield* file(
          "nll.json",
          JSON.stringify(
            { target: "m", metrics: { nll: 2 }, examples: [{ row: 0, value: 2 }, { row: 1, value: null }] },
            null,
            2
          )
        )
      )
      assert.deepStrictEqual(printed.examples.get("0")?.attempts, [{ value: -2, answer: "" }], "more is better")
      const none = yield* Effect.flip(EvalResults.read(yield* file("other.json", "{}")))
      assert.strictEqual(none._tag, "NoResults")
    }).pipe(Effect.provide(NodeContext.layer)))
})

import { Benchmark, Dataset, Environment, Policy, Scorer } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { renderer } from "./utils/local.js"

const problems = Dataset.fromIterable(Array.from({ length: 6 }, (_, n) => ({
  id: `sum-${n}`,
  input: `${n}+1?`,
  target: String(n + 1),
  problem: Environment.problem({ question: `${n}+1?`, check: (answer) => answer === String(n + 1) })
})))

/** Answers what follows the number in the prompt, unless told otherwise by the number. */
const policyOf = (answer: (n: number, seed: number) => Effect.Effect<string, string>) =>
  Effect.map(renderer, (write) => ({
    write,
    policy: Policy.make(({ prompt, seed = 0 }) =>
      Effect.map(answer(Number(/(\d)\+1\?/.exec(write.tokenizer.decode(prompt))?.[1]), seed), (text) => {
        const cut = text.endsWith("…")
        const tokens = write.tokenizer.encode(cut ? text : `${text}<|im_end|>`)
        return {
          tokens,
          logprobs: new Float32Array(tokens.length),
          stopReason: cut ? "length" as const : "stop" as const,
          policyVersion: 0
        }
      })
    )
  }))

const file = Effect.map(
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
  (directory) => `${directory}/results.jsonl`
)

describe("Benchmark", () => {
  it.scoped("counts what was cut off and what failed apart, and tries again what failed", () =>
    Effect.gen(function*() {
      const path = yield* file
      let asked = 0
      let broken = true
      const { policy, write } = yield* policyOf((n) => {
        asked++
        return n === 1 && broken
          ? Effect.fail("lost")
          : Effect.succeed(n === 2 ? "4…" : n === 3 ? "wrong" : String(n + 1))
      })
      const options = { name: "sums", model: "m", policy, problems, settings: { renderer: write }, file: path }
      const first = yield* Benchmark.run(options)
      assert.deepInclude(first, { examples: 6, truncated: 1, failed: 1, resumed: 0 })
      assert.deepStrictEqual(first.results.map(({ outcome }) => outcome), [
        "completed",
        "failed",
        "truncated",
        "completed",
        "completed",
        "completed"
      ])
      assert.closeTo(first.passAt[1] ?? NaN, 3 / 6, 1e-9)
      assert.include(first.results[1]?.error ?? "", "lost")
      broken = false
      asked = 0
      const again = yield* Benchmark.run(options)
      assert.deepInclude(again, { failed: 0, resumed: 5 })
      assert.strictEqual(asked, 1)
      const { improved, regressed, shared } = Benchmark.compare(first, again)
      assert.deepStrictEqual([shared, improved.length, regressed.length], [5, 0, 0])
      const other = yield* Effect.flip(Benchmark.run({ ...options, model: "another" }))
      assert.strictEqual(other._tag, "BenchmarkChanged")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("cut short, it goes on with the examples that are missing", () =>
    Effect.gen(function*() {
      const path = yield* file
      let hanging = true
      const asked: Array<number> = []
      const { policy, write } = yield* policyOf((n) => {
        asked.push(n)
        return hanging && n === 3 ? Effect.never : Effect.succeed(String(n + 1))
      })
      const options = {
        name: "sums",
        model: "m",
        policy,
        problems,
        settings: { renderer: write },
        file: path,
        concurrency: 1
      }
      const fiber = yield* Effect.fork(Benchmark.run(options))
      while (!asked.includes(3)) yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 1)))
      yield* Fiber.interrupt(fiber)
      // a kill in the middle of a line
      const fs = yield* FileSystem.FileSystem
      yield* fs.writeFileString(path, `${yield* fs.readFileString(path)}{"id":"sum-`)
      hanging = false
      asked.length = 0
      const report = yield* Benchmark.run(options)
      assert.deepStrictEqual(asked, [3, 4, 5])
      assert.deepInclude(report, { score: 1, resumed: 3 })
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("the chance that one of k attempts is right", () =>
    Effect.gen(function*() {
      assert.strictEqual(Benchmark.passAt(4, 0, 2), 0)
      assert.strictEqual(Benchmark.passAt(4, 3, 2), 1)
      assert.closeTo(Benchmark.passAt(4, 1, 1), 0.25, 1e-12)
      // 1 - (3 choose 2) / (4 choose 2)
      assert.closeTo(Benchmark.passAt(4, 1, 2), 0.5, 1e-12)
      const { policy, write } = yield* policyOf((n, seed) => Effect.succeed(seed % 2 === 0 ? String(n + 1) : "no"))
      const report = yield* Benchmark.run({
        name: "sums",
        model: "m",
        policy,
        problems,
        settings: { renderer: write },
        samples: 4,
        passAt: [1, 2, 4]
      })
      assert.strictEqual(report.results.length, 24)
      assert.closeTo(report.passAt[1] ?? NaN, report.score, 1e-9)
      assert.isAbove(report.passAt[4] ?? NaN, report.passAt[1] ?? NaN)
      const log = yield* Benchmark.toInspect(report)
      assert.deepInclude(JSON.parse(JSON.stringify(log)), { version: 2, status: "success" })
    }).pipe(Effect.provide(NodeContext.layer)))
})

/** Of the shape `autoevals` has. */
const exact = ({ expected, output }: { readonly output: string; readonly expected: string }) => ({
  name: "Exact",
  score: output === expected ? 1 : 0
})

const lengthy = async ({ output }: { readonly output: string; readonly expected: string }) => ({
  name: "Lengthy",
  score: output === "?" ? null : Math.min(1, output.length / 4)
})

describe("Scorer", () => {
  it.effect("is a reward, and its failures are failures", () =>
    Effect.gen(function*() {
      const reward = Scorer.reward(exact, (row: number, output) => ({ output, expected: String(row) }))
      assert.strictEqual(yield* reward(3, "3"), 1)
      assert.strictEqual(yield* Scorer.reward(lengthy, (_: number, output) => ({ output, expected: "" }))(3, "?"), 0)
      const failing = Scorer.reward((_: string): Scorer.Score => {
        throw new Error("no key")
      }, (_: number, output) => output)
      assert.include((yield* Effect.flip(failing(3, "3"))).message, "no key")
      const unhappy = Scorer.score(() => ({ name: "Judge", score: null, error: new Error("429") }), {})
      assert.strictEqual((yield* Effect.flip(unhappy)).message, "Judge: 429")
    }))

  it.scoped("several scorers: the mean is the reward, each is a metric", () =>
    Effect.gen(function*() {
      const graded = Dataset.map(
        Scorer.problems([1, 2], {
          question: (n) => `${n}+1?`,
          scorers: [exact, lengthy],
          args: (n, output) => ({ output, expected: String(n + 1) })
        }),
        (problem) => ({ id: "one", problem })
      )
      const { policy, write } = yield* policyOf(() => Effect.succeed("2"))
      const { results } = yield* Benchmark.run({
        name: "graded",
        model: "m",
        policy,
        problems: graded,
        settings: { renderer: write }
      })
      assert.deepStrictEqual(results.map(({ reward }) => reward), [0.625, 0.125])
    }).pipe(Effect.provide(NodeContext.layer)))
})

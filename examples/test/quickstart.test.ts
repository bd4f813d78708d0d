import { assert, describe, it } from "@effect/vitest"
import { Effect, Random, TestClock } from "effect"
import * as Tasks from "../quickstart/tasks.js"
import { drawChart, makeScreen } from "../quickstart/terminal.js"

const record = (isTTY: boolean) => {
  const written: Array<string> = []
  return { output: { isTTY, write: (text: string) => written.push(text) }, text: () => written.join("") }
}

const words = (problems: ReadonlyArray<Tasks.Problem>) =>
  new Set(problems.flatMap(({ question }) => question.match(/[A-Z][a-z]+|\b[a-z]{4,}\b/g) ?? []))

describe("quickstart", () => {
  it.effect("a log gets whole lines without control characters, a terminal a bar that moves", () =>
    Effect.gen(function*() {
      const log = record(false)
      const terminal = record(true)
      for (const { output } of [log, terminal]) {
        const screen = makeScreen(output, { color: true })
        yield* screen.heading("title")
        const bar = screen.bar("training", 20)
        for (let step = 1; step <= 20; step++) yield* bar(step, `loss ${step}`)
        yield* screen.chart([3, 2, 1], String)
        yield* screen.table([["question", "answer"], ["What is 1 + 2?", "3"]])
      }
      assert.isFalse(/[\u001b\r]/.test(log.text()))
      assert.strictEqual(log.text().match(/training \d+\/20/g)?.length, 6)
      assert.include(log.text(), "training 20/20 loss 20\n")
      assert.include(log.text(), "  question        answer\n  What is 1 + 2?  3\n")
      const drawn = terminal.text().split("\r").slice(1)
      assert.strictEqual(new Set(drawn.map((line) => /(\d+)\/20/.exec(line)?.[1])).size, 20)
      for (const text of drawn) assert.isAtMost(text.replace(/\u001b\[\d*[mK]|\n[^]*/g, "").length, 80)
      assert.include(terminal.text(), "█")
    }))

  it.effect("a log is never silent for long while there is progress", () =>
    Effect.gen(function*() {
      const log = record(false)
      const bar = makeScreen(log.output, { color: false }).bar("training", 50)
      for (let step = 1; step <= 50; step++) {
        yield* TestClock.adjust("600 millis")
        yield* bar(step, "")
      }
      const shown = Array.from(log.text().matchAll(/training (\d+)\/50/g), ([, step]) => Number(step))
      assert.isAtMost(Math.max(...shown.slice(1).map((step, i) => step - (shown[i] ?? 0))) * 0.6, 2)
    }))

  it("a chart is as high as its largest value", () => {
    const rows = drawChart([5, 3, 0], (value) => value.toFixed(0), false)
    assert.deepStrictEqual(rows, ["  5 | #", "    | #", "    | ##", "    | ##", "  0 | ###"])
    assert.isAtMost(
      Math.max(...drawChart(Array.from({ length: 500 }, (_, i) => i), String, true).map((r) => r.length)),
      80
    )
  })

  it.effect("what is held out shares no word and no sum with what is trained on", () =>
    Effect.gen(function*() {
      const sizes = { train: 300, heldOut: 60 }
      for (let seed = 1; seed <= 5; seed++) {
        const draw = <A>(task: Effect.Effect<A>) => Effect.withRandom(task, Random.make(seed))
        const orders = yield* draw(Tasks.orders(sizes))
        const trained = words(orders.train)
        const shared = Array.from(words(orders.heldOut)).filter((word) => trained.has(word))
        assert.deepStrictEqual(shared, ["Send"])
        const sums = yield* draw(Tasks.sums(sizes))
        const operands = ({ question }: Tasks.Problem) => (question.match(/\d+/g) ?? []).sort().join()
        const all = [...sums.train, ...sums.heldOut].map(operands)
        assert.strictEqual(new Set(all).size, sizes.train + sizes.heldOut)
        assert.deepStrictEqual(yield* draw(Tasks.orders(sizes)), orders)
      }
    }))

  it("an answer is right or wrong as a whole", () => {
    const task: Tasks.Task = {
      train: [],
      heldOut: [{ question: "1 + 2", answer: "3" }, { question: "2", answer: "2" }]
    }
    assert.strictEqual(Tasks.accuracy(task, ["3 ", "23"]), 0.5)
  })
})

import { LocalTokenizer } from "@effect-tinker/local"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Progress } from "effect-tinker"
import { SampledSequence } from "effect-tinker/wire/Sample"
import { advantages, experience, lessons, phrases, reward } from "../quickstart/task.js"
import { drawChart, makeScreen } from "../quickstart/terminal.js"

const record = (isTTY: boolean) => {
  const written: Array<string> = []
  return { output: { isTTY, write: (text: string) => written.push(text) }, text: () => written.join("") }
}

describe("quickstart", () => {
  it.effect("a log gets whole lines without control characters, a terminal a bar that moves", () =>
    Effect.gen(function*() {
      const log = record(false)
      const terminal = record(true)
      for (const { output } of [log, terminal]) {
        const screen = makeScreen(output, { color: true })
        yield* screen.heading("title")
        yield* Effect.scoped(Effect.gen(function*() {
          const progress = yield* Progress.make({ totalSteps: 20, render: screen.progress("training", () => "aeiou") })
          for (let step = 1; step <= 20; step++) {
            yield* progress.step({ loss: step })
            yield* Effect.repeatN(Effect.yieldNow(), 20)
          }
        }))
        yield* screen.chart([3, 2, 1], String)
      }
      assert.isFalse(/[\u001b\r]/.test(log.text()))
      assert.strictEqual(log.text().match(/training \d+\/20/g)?.length, 6)
      assert.isTrue(log.text().endsWith("\n"))
      assert.include(log.text(), "training 20/20 loss 20 aeiou\n")
      const drawn = terminal.text().split("\r").slice(1)
      assert.strictEqual(new Set(drawn.map((line) => /(\d+)\/20/.exec(line)?.[1])).size, 20)
      for (const text of drawn) assert.isAtMost(text.replace(/\u001b\[\d*[mK]|\n[^]*/g, "").length, 80)
      assert.include(terminal.text(), "█")
    }))

  it("a chart is as high as its largest value", () => {
    const rows = drawChart([6, 3, 0], (value) => value.toFixed(0), false)
    assert.deepStrictEqual(rows, ["6 | #", "  | #", "  | #", "  | ##", "  | ##", "0 | ###"])
    assert.isAtMost(
      Math.max(...drawChart(Array.from({ length: 500 }, (_, i) => i), String, true).map((r) => r.length)),
      80
    )
  })

  it.effect("lessons score the answer only, and rewards count vowels", () =>
    Effect.gen(function*() {
      const { answerTokens, data: [first], tokens } = yield* lessons(LocalTokenizer)
      const length = (text: (english: string, pigLatin: string) => string) =>
        phrases.reduce((sum, phrase) => sum + text(...phrase).length, 0)
      assert.strictEqual(answerTokens, length((_, pigLatin) => ` ${pigLatin}\n`))
      assert.strictEqual(tokens, length((english, pigLatin) => `English: ${english}\nPig Latin: ${pigLatin}\n`))
      const weights = Array.from(first?.lossFnInputs["weights"]?.data ?? [], Number)
      const answer = " uick-qay ox-fay\n".length
      assert.deepStrictEqual(weights, weights.map((_, i) => i < weights.length - answer ? 0 : 1))
      assert.strictEqual(reward("aeix"), 0.75)
      assert.strictEqual(reward(""), 0)
      const spread = advantages([0, 1, 0.5, 0.5])
      assert.approximately(spread.reduce((sum, value) => sum + value, 0), 0, 1e-9)
      const sequence = new SampledSequence({
        stopReason: "length",
        tokens: LocalTokenizer.encode("ae"),
        logprobs: Float32Array.of(-1, -2)
      })
      const opening = LocalTokenizer.encode("Write:")
      const datum = yield* experience(opening, sequence, 2)
      const numbers = (key: string) => Array.from(datum.lossFnInputs[key]?.data ?? [], Number)
      assert.deepStrictEqual(numbers("logprobs").slice(opening.length - 1), [-1, -2])
      assert.deepStrictEqual(numbers("advantages").slice(opening.length - 2), [0, 2, 2])
      assert.strictEqual(numbers("target_tokens").length, opening.length + 1)
    }))
})

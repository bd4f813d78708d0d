import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { MetricsLog } from "effect-tinker"
import * as Report from "../src/metrics/Report.js"

const entries = (values: Readonly<Record<string, ReadonlyArray<number>>>): ReadonlyArray<MetricsLog.Entry> =>
  Array.from({ length: Math.max(...Object.values(values).map(({ length }) => length)) }, (_, i) => ({
    step: i + 1,
    time: 1_700_000_000_000 + i * 60_000,
    metrics: Object.fromEntries(
      Object.entries(values).flatMap(([name, list]) => list[i] === undefined ? [] : [[name, list[i]]])
    )
  }))

/** The heights of a curve, from its path. */
const heights = (page: string, name: string): ReadonlyArray<number> => {
  const card = page.split("<section").find((part) => part.includes(`<h2>${name}</h2>`)) ?? ""
  const path = /<path class="curve[^"]*" d="([^"]*)"/.exec(card)?.[1] ?? ""
  return Array.from(path.matchAll(/[ML]\S+ ([\d.]+)/g), ([, y]) => Number(y))
}

describe("Report", () => {
  it("draws a curve for every metric, losses and rewards first", () => {
    const page = Report.render(entries({ entropy: [1, 1, 1], reward: [0, 1, 2], "test/loss": [4], loss: [3, 2, 1] }))
    assert.deepStrictEqual(Array.from(page.matchAll(/<h2>(.*?)<\/h2>/g), ([, name]) => name), [
      "loss",
      "test/loss",
      "reward",
      "entropy"
    ])
    const [a = 0, b = 0, c = 0] = heights(page, "loss")
    assert.isTrue(a < b && b < c) // down on the page is up in numbers
    assert.approximately(c - b, b - a, 0.02)
    assert.strictEqual(new Set(heights(page, "entropy")).size, 1)
    assert.include(page, "3 steps · from 2023-11-14 22:13 UTC · 2m")
    assert.include(page, "<td>1<small>step 3</small></td><td>3<small>step 1</small></td>")
  })

  it("a spike survives among twenty thousand steps", () => {
    const values = Array.from({ length: 20_000 }, (_, i) => i === 7_777 ? 50 : 1)
    const page = Report.render(entries({ loss: values }))
    assert.isBelow(page.length, 200_000)
    assert.isBelow(Math.min(...heights(page, "loss")), 30)
  })

  it("numbers that are none leave a gap and a word", () => {
    const page = Report.render(entries({ loss: [1, NaN, Infinity, 2], broken: [NaN] }))
    assert.strictEqual(heights(page, "loss").length, 2)
    assert.include(page, "2 values are no finite number")
    assert.include(page, "1 value is no finite number")
    assert.notInclude(page.replace(/no finite/g, ""), "NaN")
    assert.include(Report.render([]), "The log has no numbers yet.")
  })

  it("of a run that was resumed, the last value of a step counts, and steps are counted once", () => {
    const at = (step: number, loss: number) => ({ step, time: undefined, metrics: { loss } })
    const resumed = [at(1, 4), at(2, 3), at(3, 9), at(4, 9), at(2, 2.5), at(3, 2), at(4, 1)]
    const page = Report.render(resumed)
    assert.include(page, "4 steps")
    assert.deepStrictEqual(heights(page, "loss"), heights(Report.render([at(1, 4), ...resumed.slice(4)]), "loss"))
    const card = page.split("<section").find((part) => part.includes("<h2>loss</h2>")) ?? ""
    const xs = Array.from(
      (/<path class="curve[^"]*" d="([^"]*)"/.exec(card)?.[1] ?? "").matchAll(/[ML]([\d.]+) /g),
      ([, x]) => Number(x)
    )
    assert.deepStrictEqual(xs, [...xs].sort((a, b) => a - b))
  })

  it("text is text: nothing of it becomes markup, and nothing is loaded", () => {
    const evil = "<img src=x onerror=alert(1)>\"'&\u0000</title><script>"
    const page = Report.render(entries({ [evil]: [1, 2] }), { title: evil })
    assert.notMatch(page, /<img|<script|onerror=alert\(1\)>"/)
    assert.include(page, "&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;\ufffd&lt;/title&gt;&lt;script&gt;")
    assert.notMatch(page, /https?:|url\(|@import|<link|<iframe/)
    assert.include(page, "default-src 'none'")
  })

  it.scoped("is written from a log, whole or not at all", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const [log, output] = [`${directory}/metrics.jsonl`, `${directory}/report.html`]
      yield* fs.writeFileString(log, "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"lo")
      const { steps, torn } = yield* Report.write({ log, output, title: "A run" })
      assert.deepStrictEqual([steps, torn?._tag], [2, "TornLine"])
      assert.include(yield* fs.readFileString(output), "<h1>A run</h1>")
      assert.deepStrictEqual((yield* fs.readDirectory(directory)).sort(), ["metrics.jsonl", "report.html"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("is written from a run directory", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const step = (n: number) =>
        `${JSON.stringify({ _tag: "Step", time: n, step: n, metrics: { loss: n }, timings: {} })}\n`
      yield* fs.writeFileString(`${directory}/journal.jsonl`, step(1) + step(2))
      const { steps } = yield* Report.write({ log: directory, output: `${directory}/page.html`, title: "A run" })
      assert.strictEqual(steps, 2)
      assert.include(yield* fs.readFileString(`${directory}/page.html`), "<h2>loss</h2>")
    }).pipe(Effect.provide(NodeContext.layer)))
})

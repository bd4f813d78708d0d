import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as Output from "../src/terminal/Output.js"
import * as stdio from "./fixtures/stdio.js"

const columns: ReadonlyArray<Output.Column> = [
  { header: "Run ID", keep: true },
  { header: "Base Model" },
  { header: "Size", align: "right" }
]
const rows = [
  ["0f0f0f0f-0000-4000-8000-000000000001:train:0", "Qwen/Qwen3-8B-with-a-rather-long-name", "1.0 GB"],
  ["0f0f0f0f-0000-4000-8000-000000000002:train:0", "日本語モデル", "12 B"]
]
const result: Output.Result = {
  title: "2 runs",
  columns,
  rows,
  json: { runs: [1, 2], total: 2 },
  items: [{ a: 1 }, { a: 2 }]
}

const print = (format: Output.Format, options: Parameters<typeof stdio.make>[0] = {}, value = result) =>
  Effect.gen(function*() {
    const streams = stdio.make(options)
    yield* Effect.flatMap(Output.Output, (output) => output.print(value)).pipe(
      Effect.provide(Layer.provide(Output.layer(format), streams.layer))
    )
    return streams.written
  })

describe("Output", () => {
  it.effect("a pipe gets whole rows without colour, the title goes to stderr", () =>
    Effect.gen(function*() {
      const { stderr, stdout } = yield* print("table")
      const lines = stdout.trimEnd().split("\n")
      assert.strictEqual(lines.length, 3)
      assert.match(lines[0] ?? "", /^RUN ID +BASE MODEL +SIZE$/)
      assert.include(lines[1], "Qwen/Qwen3-8B-with-a-rather-long-name")
      assert.notInclude(stdout, "\u001b")
      assert.strictEqual(stderr, "2 runs\n")
    }))

  it.effect("a terminal gets rows that fit, and ids that can be copied", () =>
    Effect.gen(function*() {
      const { stdout } = yield* print("table", { isTTY: true, columns: 70 })
      const lines = stdout.trimEnd().split("\n")
      for (const line of lines) assert.isAtMost([...line].length, 70)
      assert.include(lines[1], "0f0f0f0f-0000-4000-8000-000000000001:train:0")
      assert.include(lines[1], "…")
    }))

  it.effect("a terminal too narrow for an id beside the rest gets it above", () =>
    Effect.gen(function*() {
      const { stdout } = yield* print("table", { isTTY: true, columns: 40 })
      assert.deepStrictEqual(stdout.split("\n").slice(0, 4), [
        "RUN ID",
        "  BASE MODEL                        SIZE",
        "0f0f0f0f-0000-4000-8000-000000000001:train:0",
        "  Qwen/Qwen3-8B-with-a-rather-l…  1.0 GB"
      ])
    }))

  it.effect("a column that wraps is broken between words, and within those that are too long", () =>
    Effect.gen(function*() {
      const value: Output.Result = {
        columns: [{ header: "Check", keep: true }, { header: "Detail", wrap: true }],
        rows: [["server", "http://127.0.0.1:8765/a/long/path does not answer"], ["clock", "agrees"]],
        json: {}
      }
      const { stdout } = yield* print("table", { isTTY: true, columns: 30 }, value)
      assert.deepStrictEqual(stdout.trimEnd().split("\n"), [
        "CHECK   DETAIL",
        "server  http://127.0.0.1:8765/",
        "        a/long/path",
        "        does not answer",
        "clock   agrees"
      ])
      assert.include((yield* print("table", { isTTY: true, columns: 12 }, value)).stdout, "answer")
      assert.include((yield* print("table", {}, value)).stdout, "long/path does not answer\n")
    }))

  it.effect("notes are broken between words, and keep their place", () =>
    Effect.gen(function*() {
      const say = (options: Parameters<typeof stdio.make>[0]) =>
        Effect.gen(function*() {
          const streams = stdio.make(options)
          yield* Effect.gen(function*() {
            const output = yield* Output.Output
            yield* output.note("  one two three four")
            yield* output.warn("five six seven")
          }).pipe(Effect.provide(Layer.provide(Output.layer("table"), streams.layer)))
          return streams.written.stderr
        })
      assert.strictEqual(yield* say({}), "  one two three four\nwarning: five six seven\n")
      assert.strictEqual(
        yield* say({ isTTY: true, columns: 14 }),
        "  one two\nthree four\nwarning: five\nsix seven\n"
      )
    }))

  it.effect("colours say at a glance how a value is meant", () =>
    Effect.gen(function*() {
      const value: Output.Result = {
        columns: [{ header: "Check" }, { header: "Status", tone: (status) => status === "ok" ? "good" : "bad" }],
        rows: [["server", "ok"], ["clock", "failed"]],
        json: {}
      }
      const { stdout } = yield* print("table", { isTTY: true, colour: true }, value)
      assert.include(stdout, "\u001b[32mok\u001b[0m")
      assert.include(stdout, "\u001b[31mfailed\u001b[0m")
      assert.notInclude((yield* print("table", {}, value)).stdout, "\u001b")
    }))

  it.effect("a terminal too narrow for columns gets records", () =>
    Effect.gen(function*() {
      const { stdout } = yield* print("table", { isTTY: true, columns: 16 })
      assert.include(stdout, "RUN ID      0f0f0f0f-0000-4000-8000-000000000001:train:0\n")
      assert.match(stdout, /^SIZE +12 B$/m)
    }))

  it.effect("wide characters are counted as two columns", () =>
    Effect.gen(function*() {
      const { stdout } = yield* print("table")
      const [, first = "", second = ""] = stdout.split("\n")
      const model = "Qwen/Qwen3-8B-with-a-rather-long-name"
      assert.strictEqual(first.indexOf("1.0 GB") - first.indexOf("Qwen"), model.length + 2)
      assert.strictEqual(second.indexOf("  12 B") - second.indexOf("日"), model.length + 2 - "日本語モデル".length)
    }))

  it.effect("colour only where it is wanted", () =>
    Effect.gen(function*() {
      assert.include((yield* print("table", { isTTY: true, colour: true, columns: 200 })).stdout, "\u001b[36m")
      assert.notInclude((yield* print("table", { isTTY: true, colour: false, columns: 200 })).stdout, "\u001b")
    }))

  it.effect("what a server sends cannot drive the terminal", () =>
    Effect.gen(function*() {
      const { stdout } = yield* print("table", { isTTY: true, columns: 200 }, {
        ...result,
        rows: [["\u001b]0;owned\u0007\u001b[2J", "a\nb\u202e", "1"]]
      })
      assert.notMatch(stdout, /[\u001b\u0007\u202e]/)
      assert.strictEqual(stdout.trimEnd().split("\n").length, 2)
    }))

  it.effect("json is one value, ndjson one value a line", () =>
    Effect.gen(function*() {
      const json = yield* print("json", { isTTY: true })
      assert.deepStrictEqual(JSON.parse(json.stdout), { runs: [1, 2], total: 2 })
      assert.strictEqual(json.stderr, "")
      assert.strictEqual((yield* print("ndjson")).stdout, "{\"a\":1}\n{\"a\":2}\n")
    }))

  it.effect("an empty table is a title and nothing on stdout", () =>
    Effect.gen(function*() {
      const { stderr, stdout } = yield* print("table", {}, { ...result, title: "No runs", rows: [] })
      assert.strictEqual(stdout, "")
      assert.strictEqual(stderr, "No runs\n")
    }))
})

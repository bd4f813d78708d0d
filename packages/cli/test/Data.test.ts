import { Cli } from "@effect-tinker/cli"
import { NodeContext } from "@effect/platform-node"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as stdio from "./fixtures/stdio.js"

let directory = ""
const at = (name: string) => join(directory, name)
const jsonl = (rows: ReadonlyArray<unknown>) => rows.map((row) => `${JSON.stringify(row)}\n`).join("")
const rowsOf = (name: string): ReadonlyArray<unknown> =>
  readFileSync(at(name), "utf8").trim().split("\n").map((line) => JSON.parse(line))

const chat = (question: string, answer: string) => ({
  messages: [{ role: "user", content: question }, { role: "assistant", content: answer }],
  source: "made"
})

const rows = [
  ...Array.from({ length: 18 }, (_, n) => chat(`What is the number after ${n}?`, `It is ${n + 1}.`)),
  chat("What is the number after 3?", "It is 4."),
  chat("Who are you?", "Write to ann@example.org.")
]

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "effect-tinker-data-"))
  writeFileSync(at("chats.jsonl"), jsonl(rows))
  writeFileSync(at("held-out.jsonl"), jsonl([chat("What is the number after 5?", "6")]))
  writeFileSync(at("others.jsonl"), jsonl(Array.from({ length: 40 }, (_, n) => ({ prompt: `p${n}`, completion: "c" }))))
})

afterAll(() => rmSync(directory, { recursive: true }))

const run = (...args: ReadonlyArray<string>) =>
  Effect.suspend(() => {
    const { layer, written } = stdio.make()
    return Cli.runWith(["node", "tinker", "data", ...args]).pipe(
      Effect.provide([layer, NodeContext.layer]),
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["TINKER_BASE_URL", "local"]]))),
      Effect.map((code) => ({ code, ...written }))
    )
  })

const json = (...args: ReadonlyArray<string>) =>
  Effect.map(run(...args, "-f", "json"), ({ code, stderr, stdout }) => {
    assert.strictEqual(code, 0, stderr)
    return JSON.parse(stdout)
  })

describe("tinker data", () => {
  it.effect("check: says what hurts, and writes the rows without what was found", () =>
    Effect.gen(function*() {
      const checked = yield* json(
        "check",
        at("chats.jsonl"),
        "--model",
        "local/tiny",
        "--held-out",
        at("held-out.jsonl"),
        "--redact",
        at("clean.jsonl")
      )
      assert.deepInclude(checked.quality.counts, { exact: 1, leaked: 1, empty: 0, sensitive: 1 })
      assert.deepInclude(checked.quality.sensitive, { email: 1, card: 0 })
      assert.deepStrictEqual(rowsOf("clean.jsonl").slice(0, 19), rows.slice(0, 19), "all fields are kept")
      assert.include(readFileSync(at("clean.jsonl"), "utf8"), "Write to [EMAIL].")
      const { stderr } = yield* run("check", at("chats.jsonl"), "--model", "local/tiny")
      assert.match(stderr, /1 row the same as another row; the first is row 19 \(like row 4\)/)
      assert.notInclude(stderr, "ann@example.org")
    }))

  it.effect("split, dedupe, sample: each row once, as it was, and the same with the same seed", () =>
    Effect.gen(function*() {
      const { files } = yield* json(
        "split",
        at("others.jsonl"),
        "--share",
        "0.25",
        "--train",
        at("a.jsonl"),
        "--held-out",
        at("b.jsonl")
      )
      const [train, heldOut] = [rowsOf("a.jsonl"), rowsOf("b.jsonl")]
      assert.deepStrictEqual(files.map((file: { rows: number }) => file.rows), [train.length, heldOut.length])
      assert.sameDeepMembers([...train, ...heldOut], [...rowsOf("others.jsonl")])
      assert.isAbove(heldOut.length, 0)

      yield* json("dedupe", at("chats.jsonl"), "--exact", "--out", at("c.jsonl"))
      assert.deepStrictEqual(rowsOf("c.jsonl"), rows.filter((_, n) => n !== 18))

      for (const name of ["d.jsonl", "e.jsonl"]) yield* json("sample", at("others.jsonl"), "-n", "5", "--out", at(name))
      assert.deepStrictEqual(rowsOf("d.jsonl"), rowsOf("e.jsonl"))
      assert.lengthOf(new Set(rowsOf("d.jsonl").map((row) => JSON.stringify(row))), 5)
    }))

  it.effect("mix: by weight, until the first file or all are read; nothing is left of a file that failed", () =>
    Effect.gen(function*() {
      yield* json("mix", at("others.jsonl"), at("chats.jsonl"), "--weights", "3,1", "--all", "--out", at("f.jsonl"))
      assert.sameDeepMembers([...rowsOf("f.jsonl")], [...rowsOf("others.jsonl"), ...rows])
      const start = rowsOf("f.jsonl").slice(0, 20).filter((row) => JSON.stringify(row).includes("prompt"))
      assert.isTrue(start.length > 10 && start.length < 20, `${start.length} of 20 are of the file with weight 3`)
      const { code, stderr } = yield* run("mix", at("others.jsonl"), at("missing.jsonl"), "--out", at("g.jsonl"))
      assert.notStrictEqual(code, 0)
      assert.include(stderr, "missing.jsonl")
      assert.notInclude(readdirSync(directory).join(" "), "g.jsonl")
      const wrong = yield* run("mix", at("others.jsonl"), at("chats.jsonl"), "--weights", "1", "--out", at("g.jsonl"))
      assert.match(wrong.stderr, /--weights needs a number above 0 for each file/)
    }))
})

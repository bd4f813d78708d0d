import { Cli } from "@effect-tinker/cli"
import { NodeContext } from "@effect/platform-node"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as stdio from "./fixtures/stdio.js"

let directory = ""
const at = (name: string) => join(directory, name)
const rowsOf = (name: string) => readFileSync(at(name), "utf8").trim().split("\n").map((line) => JSON.parse(line))

const names = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kim", "Leo"]

/** Two answers to each question, in one session: one that the user likes. */
const runs = names.flatMap((name) =>
  [["Ahoy!", 1], ["Hello.", 0]].map(([answer, score]) => ({
    id: `${name}-${score}`,
    trace_id: `${name}-${score}`,
    run_type: "llm",
    start_time: "2026-11-01T00:00:00Z",
    inputs: { messages: [{ role: "user", content: `Greet me, I am ${name}.` }] },
    outputs: { choices: [{ message: { role: "assistant", content: answer } }] },
    extra: { metadata: { session_id: `session-${name}` } },
    feedback_stats: { thumb: { n: 1, avg: score } }
  }))
)

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "effect-tinker-traces-"))
  writeFileSync(at("runs.jsonl"), runs.map((run) => `${JSON.stringify(run)}\n`).join(""))
  writeFileSync(at("scorer.mjs"), "export default ({ output }) => output.trim() === \"Ahoy!\"\n")
  writeFileSync(at("opposite.mjs"), "export default ({ output }) => output.trim() !== \"Ahoy!\"\n")
  writeFileSync(at("nothing.mjs"), "export default 5\n")
})

afterAll(() => rmSync(directory, { recursive: true }))

const run = (...args: ReadonlyArray<string>) =>
  Effect.suspend(() => {
    const { layer, written } = stdio.make()
    return Cli.runWith(["node", "tinker", ...args]).pipe(
      Effect.provide([layer, NodeContext.layer]),
      Effect.withConfigProvider(
        ConfigProvider.fromMap(new Map([["TINKER_BASE_URL", "local"], ["TINKER_LOCAL_DIR", at("backend")]]))
      ),
      Effect.map((code) => ({ code, ...written }))
    )
  })

const json = (...args: ReadonlyArray<string>) =>
  Effect.map(run(...args, "-f", "json"), ({ code, stderr, stdout }) => {
    assert.strictEqual(code, 0, stderr)
    return JSON.parse(stdout)
  })

describe.sequential("traces on the command line", { timeout: 300_000 }, () => {
  it.live("data import, and what is made of traces, with the same sessions held out everywhere", () =>
    Effect.gen(function*() {
      const imported = yield* json("data", "import", at("runs.jsonl"), "--out", at("traces.jsonl"))
      assert.deepInclude(imported, { records: 24, added: 24, rejected: 0, sources: { langsmith: 24 } })
      assert.deepInclude(yield* json("data", "import", at("runs.jsonl"), "-o", at("traces.jsonl")), {
        added: 0,
        records: 0
      })
      const made = Effect.fnUntraced(function*(what: string, ...more: ReadonlyArray<string>) {
        const [out, held] = [`${what}.jsonl`, `${what}-held.jsonl`]
        const files = ["--out", at(out), "--held-out", at(held), "--share", "0.5", "--seed", "3"]
        yield* json("data", what, at("traces.jsonl"), ...files, ...more)
        return [rowsOf(out), rowsOf(held)] as const
      })
      const asked = (
        row: {
          readonly messages?: ReadonlyArray<{ readonly content: string }>
          readonly prompt?: ReadonlyArray<{ readonly content: string }>
        }
      ) => (row.messages ?? row.prompt ?? [])[0]?.content
      const [chats, chatsHeld] = yield* made("successes")
      const [pairs, pairsHeld] = yield* made("pairs")
      const [best] = yield* made("best")
      const [prompts, promptsHeld] = yield* made("replay")
      assert.strictEqual(chats.length + chatsHeld.length, 12)
      assert.strictEqual(pairs.length, chats.length)
      assert.deepStrictEqual(best, chats)
      assert.strictEqual(prompts.length + promptsHeld.length, 24)
      assert.isAbove(chatsHeld.length, 1)
      assert.deepStrictEqual(pairsHeld.map(asked).sort(), chatsHeld.map(asked).sort())
      assert.isFalse(chats.map(asked).some((one) => chatsHeld.map(asked).includes(one)))
      assert.isTrue(
        pairs.every(({ chosen, rejected }) => chosen[0].content === "Ahoy!" && rejected[0].content === "Hello.")
      )
    }))

  it.live("improve: a model that is better on held-out sessions, and a page that says so", () =>
    Effect.gen(function*() {
      const improve = (...more: ReadonlyArray<string>) =>
        json(
          "improve",
          at("runs.jsonl"),
          "--model",
          "local/chat",
          "--eval",
          at("scorer.mjs"),
          "--share",
          "0.5",
          "--seed",
          "3",
          "--rank",
          "8",
          "--learning-rate",
          "2e-3",
          "--epochs",
          "8",
          "--max-tokens",
          "8",
          ...more
        )
      const report = yield* improve("--run-dir", at("run"), "--require-better")
      assert.deepInclude(report, { verdict: "ship", before: 0, after: 1, worse: 0, traces: 24 })
      assert.strictEqual(report.sessions.train + report.sessions.heldOut, 12)
      // both traces of a session are one cluster
      assert.strictEqual(report.cases, 2 * report.sessions.heldOut)
      assert.strictEqual(report.difference.clusters, report.sessions.heldOut)
      assert.strictEqual(report.examples.sft, report.sessions.train)
      const page = readFileSync(at("run/report.md"), "utf8")
      assert.match(page, /\*\*Ship it\.\*\*/)
      assert.isAbove(report.tokens, 0)
      // the results are files that `eval compare` reads
      const [compared] = yield* json("eval", "compare", at("run/before.jsonl"), at("run/after.jsonl"))
      assert.deepStrictEqual(compared.scores, [0, 1])
      // the same command again has nothing left to train
      const again = yield* improve("--run-dir", at("run"))
      assert.deepStrictEqual(again.sampler_path, report.sampler_path)

      // nothing was trained this time: both evaluations are paid for
      const priced = ["--price", "train=4,prefill=1,sample=2", "--currency", "eur"]
      const costly = yield* improve("--run-dir", at("run"), ...priced)
      assert.deepInclude(costly, { currency: "eur" })
      const cents = costly.cost
      assert.isAbove(cents, 0)
      assert.include(readFileSync(at("run/report.md"), "utf8"), `| cost | ${cents} EUR |`)
      // training costs more than is left of that
      const short = yield* run(
        ...["improve", at("runs.jsonl"), "--model", "local/chat", "--eval", at("scorer.mjs"), "--share", "0.5"],
        ...["--rank", "8", "--learning-rate", "2e-3", "--epochs", "8", "--max-tokens", "8", "--seed", "3"],
        ...["--run-dir", at("short"), ...priced, "--budget", String(cents)]
      )
      assert.strictEqual(short.code, 1)
      assert.match(short.stderr.replace(/\s+/g, " "), /The budget is used up before it is done/)
      const unpriced = yield* run(
        "improve",
        at("runs.jsonl"),
        "--model",
        "local/chat",
        "--eval",
        at("scorer.mjs"),
        "--budget",
        "1"
      )
      assert.match(unpriced.stderr, /--budget needs prices/)

      const both = yield* improve("--run-dir", at("both"), "--method", "sft+dpo")
      assert.deepInclude(both.examples, { dpo: report.sessions.train })
      assert.isAtLeast(both.after, 0.9)

      // without log probabilities: what was better than the mean of its prompt, by how much
      const offline = yield* improve("--run-dir", at("offline"), "--method", "offline")
      assert.deepInclude(offline.examples, { sft: 0, dpo: 0, offline: report.sessions.train })
      assert.isAtLeast(offline.after, 0.9)
    }))

  it.live("improve: a model that became worse is not to be shipped", () =>
    Effect.gen(function*() {
      const args = [
        at("runs.jsonl"),
        "--model",
        "local/chat",
        "--eval",
        at("opposite.mjs"),
        "--share",
        "0.5",
        "--seed",
        "3"
      ]
      const training = ["--rank", "8", "--learning-rate", "2e-3", "--epochs", "8", "--max-tokens", "8"]
      const { code, stderr } = yield* run("improve", ...args, ...training, "--run-dir", at("worse"), "--require-better")
      assert.strictEqual(code, 1)
      assert.match(stderr.replace(/\s+/g, " "), /It is not to be shipped: worse/)
      assert.match(readFileSync(at("worse/report.md"), "utf8"), /\*\*Do not ship it\.\*\*/)
    }))

  it.live("improve: what is missing is said", () =>
    Effect.gen(function*() {
      const failed = (...more: ReadonlyArray<string>) =>
        Effect.map(
          run("improve", at("runs.jsonl"), "--model", "local/chat", "--run-dir", at("failed"), ...more),
          ({ code, stderr }) => {
            assert.notStrictEqual(code, 0)
            return stderr.replace(/\s+/g, " ")
          }
        )
      assert.match(yield* failed("--eval", at("nothing.mjs")), /evaluates nothing/)
      assert.match(yield* failed("--eval", at("scorer.mjs"), "--at-least", "2"), /is a success/)
      assert.match(yield* failed("--eval", at("scorer.mjs"), "--share", "0"), /--share must be above 0/)
      assert.match(yield* failed("--eval", at("scorer.mjs"), "--score", "speed"), /is a success/)
    }))
})

import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import * as process_ from "./fixtures/process.js"
import * as training from "./fixtures/training.js"

const jsonl = (rows: ReadonlyArray<unknown>) => rows.map((row) => `${JSON.stringify(row)}\n`).join("")

const signature = {
  name: "add",
  parameters: { type: "dict", properties: { a: { type: "integer" } }, required: ["a"] }
}

/** Made rows, in the files and columns of the datasets on the hub. */
const files: Readonly<Record<string, string>> = {
  "HuggingFaceH4/MATH-500/test.jsonl": jsonl(
    [1, 2, 3, 4].map((n) => ({ problem: `What is ${n}+${n}?`, solution: `\\boxed{${2 * n}}`, unique_id: `sum/${n}` }))
  ),
  "google/IFEval/ifeval_input_data.jsonl": jsonl(
    [1, 2, 3].map((n) => ({
      key: n,
      prompt: `Say ${n} without a comma.`,
      instruction_id_list: ["punctuation:no_comma"],
      kwargs: [{}]
    }))
  ),
  "gorilla-llm/Berkeley-Function-Calling-Leaderboard/BFCL_v3_simple.json": jsonl(
    [1, 2].map((n) => ({ id: `c${n}`, question: [[{ role: "user", content: `Add ${n}` }]], function: [signature] }))
  ),
  "gorilla-llm/Berkeley-Function-Calling-Leaderboard/possible_answer/BFCL_v3_simple.json": jsonl(
    [1, 2].map((n) => ({ id: `c${n}`, ground_truth: [{ add: { a: [n] } }] }))
  )
}

const hub = createServer((request, response) => {
  const url = decodeURIComponent(request.url ?? "")
  const repo = /^\/api\/datasets\/(.+)\/revision\//.exec(url)?.[1]
  const [, of = "", name = ""] = /^\/datasets\/(.+?)\/resolve\/[0-9a-f]{40}\/(.+)$/.exec(url) ?? []
  const siblings = Object.entries(files).flatMap(([path, text]) =>
    path.startsWith(`${repo}/`) ?
      [{
        rfilename: path.slice(`${repo}/`.length),
        size: Buffer.byteLength(text),
        lfs: { sha256: createHash("sha256").update(text).digest("hex"), size: Buffer.byteLength(text) }
      }] :
      []
  )
  const content = files[`${of}/${name}`]
  if (siblings.length > 0) response.end(JSON.stringify({ sha: "0123456789abcdef0123456789abcdef01234567", siblings }))
  else {
    response.writeHead(content === undefined ? 404 : 200)
    response.end(content)
  }
})

let cli: process_.Tinker
let endpoint = ""

beforeAll(async () => {
  cli = await process_.make()
  await new Promise<void>((resolve) => hub.listen(0, "127.0.0.1", resolve))
  const address = hub.address()
  endpoint = `http://127.0.0.1:${address !== null && typeof address === "object" ? address.port : 0}`
}, 120_000)

afterAll(() => {
  hub.closeAllConnections()
  hub.close()
  cli.dispose()
})

describe.sequential("tinker eval --benchmark", { timeout: 300_000 }, () => {
  it("runs three on data of a hub, goes on where it was, logs for Inspect; compare pairs and gates", async () => {
    const { cwd, here, jsonHere: json, refuses } = training.place(cli, {
      HF_ENDPOINT: endpoint,
      HF_HOME: join(cli.home, "hub")
    })
    const run = (out: string, ...more: ReadonlyArray<string>) =>
      json(
        "eval",
        "local/tiny",
        "--benchmark",
        "math500,ifeval,bfcl",
        "--max-tokens",
        "12",
        "--temperature",
        "1",
        "--out",
        out,
        ...more
      )
    const { benchmarks } = await run("evals/a", "--inspect-log", "logs")
    assert.deepStrictEqual(
      benchmarks.map(({ name, problems }: { name: string; problems: number }) => [name, problems]),
      [
        ["math500", 4],
        ["ifeval", 3],
        ["bfcl", 2]
      ]
    )
    for (const { failed, interval, score } of benchmarks) {
      assert.strictEqual(failed, 0)
      assert.isTrue(interval.low <= score && score <= interval.high)
    }
    const again = await run("evals/a")
    assert.deepStrictEqual(again.benchmarks.map(({ resumed }: { resumed: number }) => resumed), [4, 3, 2])
    const log = JSON.parse(readFileSync(join(cwd, "logs/ifeval.json"), "utf8"))
    assert.strictEqual(log.samples.length, 3)

    await run("evals/b", "--seed", "1")
    const compared = await json("eval", "compare", "evals/a", "evals/b", "--markdown", "changes.md")
    assert.deepStrictEqual(compared.map(({ name, shared }: { name: string; shared: number }) => [name, shared]), [
      ["bfcl", 2],
      ["ifeval", 3],
      ["math500", 4]
    ])
    assert.include(readFileSync(join(cwd, "changes.md"), "utf8"), "| math500 |")
    const same = await here(["eval", "compare", "evals/a/math500.jsonl", "evals/a/math500.jsonl", "--no-regression"])
    assert.strictEqual(same.code, 0, same.stderr)
    const gate = await here(["eval", "compare", "evals/a", "evals/a", "--min-delta", "0.01"])
    assert.strictEqual(gate.code, 1)
    assert.match(gate.stderr, /the difference is 0, and 0\.01 were asked for/)

    assert.match(
      await refuses("eval", "local/tiny", "--benchmark", "gsm8"),
      /^2 error: There is no benchmark gsm8; did you mean gsm8k\?/
    )
    assert.match(await refuses("eval", "compare", "chats.jsonl", "chats.jsonl"), /has no results of an evaluation/)
  })
})

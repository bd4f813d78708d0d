import { CallStore } from "@effect-tinker/agents"
import { NodeFileSystem } from "@effect/platform-node"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as process_ from "./fixtures/process.js"

let cli: process_.Tinker
let root: string

beforeAll(async () => {
  cli = await process_.make()
  root = mkdtempSync(join(tmpdir(), "tinker-gateway-"))
}, 60_000)

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
  cli.dispose()
})

describe("tinker gateway", { timeout: 120_000 }, () => {
  it("serves a model to OpenAI clients, and records what they sample", async () => {
    const record = join(root, "calls")
    const args = ["gateway", "local/tiny", "--base-url", "local", "--port", "0", "--record", record, "-f", "ndjson"]
    const child = spawn(process.execPath, [cli.bin, ...args], {
      env: { ...cli.base, TINKER_LOCAL_DIR: join(root, "data") }
    })
    let complaints = ""
    child.stderr.on("data", (data) => complaints += String(data))
    const line = await new Promise<string>((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`${code}: ${complaints}`)))
      child.stdout.once("data", (data) => resolve(String(data)))
    })
    const { api_key: key, base_url: url } = JSON.parse(line)
    const answer = await fetch(`${url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "x-rollout-id": "first" },
      body: JSON.stringify({ messages: [{ role: "user", content: "Hello" }], max_tokens: 8 })
    })
    const { usage } = await answer.json()
    assert.strictEqual((await fetch(`${url}/models`)).status, 401)
    // Other commands join the process that has the data directory open.
    const env = { TINKER_LOCAL_DIR: join(root, "data") }
    writeFileSync(
      join(root, "chats.jsonl"),
      "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"},{\"role\":\"assistant\",\"content\":\"Ahoy\"}]}\n"
    )
    const lines = [
      ["doctor"],
      ["models"],
      ["train", "sft", "chats.jsonl", "--model", "local/tiny", "--rank", "4", "--steps", "1", "--out", "run"],
      ["run", "list"],
      ["chat", "--model", "local/tiny", "--max-tokens", "4"]
    ]
    for (const words of lines) {
      const joined = await cli.run([...words, "--base-url", "local"], { env, cwd: root, input: "Hello\n" })
      assert.strictEqual(joined.code, 0, `${words.join(" ")}\n${joined.stderr}`)
    }
    const other = await cli.run(["run", "list", "--base-url", "local"], { env, cwd: root })
    assert.match(other.stdout, /local\/tiny/)
    // Reaching the port is not enough: it asks for the key of the directory.
    const [address] = readFileSync(join(root, "data", "address"), "utf8").split(" ")
    const status = async (key: string) =>
      (await fetch(`${address}/api/v1/training_runs`, { headers: { "x-api-key": key } })).status
    assert.strictEqual(await status("tml-local"), 401)
    assert.strictEqual(await status(readFileSync(join(root, "data", "api-key"), "utf8").trim()), 200)
    const ended = new Promise((resolve) => child.once("exit", resolve))
    child.kill("SIGTERM")
    await ended
    const [recorded] = await Stream.runCollect(CallStore.read(record)).pipe(
      Effect.map(Chunk.toReadonlyArray),
      Effect.provide(NodeFileSystem.layer),
      Effect.runPromise
    )
    assert.strictEqual(recorded?.rollout, "first")
    assert.deepStrictEqual(
      recorded?.calls.map(({ turn }) => [turn.prompt.length, turn.completion.length]),
      [[usage.prompt_tokens, usage.completion_tokens]]
    )
  })
})

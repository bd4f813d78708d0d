import { Cli } from "@effect-tinker/cli"
import { NodeContext } from "@effect/platform-node"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as stdio from "./fixtures/stdio.js"

let directory = ""
let url = ""
let asked = 0
const keys: Array<string | undefined> = []
const at = (name: string) => join(directory, name)

/** A judge that likes short answers, and a user who says the same each time. */
const answer = (messages: ReadonlyArray<{ readonly content: string }>): string => {
  const last = messages.at(-1)?.content ?? ""
  if (messages[0]?.content.includes("You play a user") === true) return "Shorter, please."
  if (last.includes("<wishes>")) {
    return JSON.stringify({ criteria: [{ name: "short", question: "Is it short?", weight: 2 }] })
  }
  const answers = Array.from(last.matchAll(/<answer>\n(.*?)\n<\/answer>/gs), ([, text = ""]) => text)
  return JSON.stringify(answers.map(({ length }) => ({ reason: `${length} letters`, score: 1 / (1 + length) })))
}

const server = createServer((request, response) => {
  const parts: Array<Buffer> = []
  request.on("data", (part: Buffer) => parts.push(part))
  request.on("end", () => {
    asked++
    keys.push(request.headers.authorization)
    const content = answer(JSON.parse(Buffer.concat(parts).toString("utf8")).messages)
    response.setHeader("content-type", "application/json")
    response.end(
      JSON.stringify({ choices: [{ message: { content } }], usage: { prompt_tokens: 100, completion_tokens: 10 } })
    )
  })
})

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "effect-tinker-judged-"))
  const prompts = ["What is 137 + 288?", "What is 461 + 377?"].map((prompt) => `${JSON.stringify({ prompt })}\n`)
  writeFileSync(at("prompts.jsonl"), prompts.join(""))
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/v1`
})

afterAll(() => {
  server.closeAllConnections()
  server.close()
  rmSync(directory, { recursive: true })
})

const run = (...args: ReadonlyArray<string>) =>
  Effect.suspend(() => {
    const { layer, written } = stdio.make()
    const env = new Map([
      ["TINKER_BASE_URL", "local"],
      ["TINKER_LOCAL_DIR", at("backend")],
      ["JUDGE_API_KEY", "secret"]
    ])
    return Cli.runWith(["node", "tinker", ...args]).pipe(
      Effect.provide([layer, NodeContext.layer]),
      Effect.withConfigProvider(ConfigProvider.fromMap(env)),
      Effect.map((code) => ({ code, ...written }))
    )
  })

const judge = () => ["--judge-url", url, "--judge-model", "m", "--judge-price", "prefill=1,sample=2"]

const rolloutsOf = (run: string): ReadonlyArray<{ readonly reason?: string; readonly reward: number }> =>
  readFileSync(join(at(run), "rollouts.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line).rollout)

describe.sequential("judges on the command line", { timeout: 120_000 }, () => {
  it.live("train judged: relative to the group, with reasons in the rollouts, costed and cached", () =>
    Effect.gen(function*() {
      const train = (name: string, ...more: ReadonlyArray<string>) =>
        run(
          ...["train", "judged", at("prompts.jsonl"), "--model", "local/chat", "--rank", "4", "--group-size", "3"],
          ...["--groups-per-batch", "2", "--max-tokens", "24", "--steps", "1", "--run-dir", at(name)],
          ...["--criteria", "Short is good.", "--judge-cache", at("cache/judge.jsonl"), ...judge(), ...more]
        )
      const first = yield* train("relative")
      assert.strictEqual(first.code, 0, first.stderr)
      const spent = /the judge answered (\d) questions, and 0 from the cache: (\d+) tokens, ([\d.e-]+)/.exec(
        first.stderr
      )
      // both orders of each group whose answers differ
      const questions = Number(spent?.[1])
      assert.include([2, 4], questions, first.stderr)
      assert.strictEqual(Number(spent?.[2]), 110 * questions)
      assert.closeTo(Number(spent?.[3]), 120e-6 * questions, 1e-12)
      assert.deepStrictEqual(new Set(keys), new Set(["Bearer secret"]))
      const rollouts = rolloutsOf("relative")
      assert.strictEqual(rollouts.length, 6)
      assert.isTrue(rollouts.every(({ reason }) => /^(\d+ letters \(|all answers are the same)/.test(reason ?? "")))
      assert.isTrue(rollouts.some(({ reason }) => /^\d+ letters \(/.test(reason ?? "")))
      const before = asked
      // another run with the same seed samples the same answers
      const again = yield* train("again")
      assert.include(again.stderr, `answered 0 questions, and ${questions} from the cache`)
      assert.strictEqual(asked, before)

      const rubric = yield* train("rubric", "--rubric")
      assert.match(rubric.stderr, /criterion short \(2\): Is it short\?/)
      assert.isTrue(rolloutsOf("rubric").every(({ reason }) => /^short [\d.]+: \d+ letters$/.test(reason ?? "")))

      const talk = yield* train("talk", "--persona", "Ann, in a hurry.", "--user-turns", "2")
      assert.strictEqual(talk.code, 0, talk.stderr)
      assert.strictEqual(rolloutsOf("talk").length, 6)
    }))

  it.live("eval and improve by words alone", () =>
    Effect.gen(function*() {
      const words = ["--criteria", "Short is good.", "--judge-cache", at("cache/judge.jsonl"), ...judge()]
      const evaluated = yield* run(
        ...["eval", "local/chat", "--on", at("prompts.jsonl"), "--max-tokens", "24", ...words, "-f", "json"]
      )
      assert.strictEqual(evaluated.code, 0, evaluated.stderr)
      const { examples } = JSON.parse(evaluated.stdout)
      assert.strictEqual(examples.length, 2)
      assert.isTrue(examples.every(({ value }: { readonly value: number }) => value > 0 && value < 1))

      const chats = Array.from({ length: 12 }, (_, n) => ({
        messages: [{ role: "user", content: `Greet me, I am number ${n}.` }, { role: "assistant", content: "Hi" }],
        id: `t${n}`,
        session: `s${n}`,
        source: "chat",
        scores: { reward: 1 },
        calls: 1
      }))
      writeFileSync(at("traces.jsonl"), chats.map((chat) => `${JSON.stringify(chat)}\n`).join(""))
      const improved = yield* run(
        ...["improve", at("traces.jsonl"), "--model", "local/chat", "--share", "0.5", "--rank", "8", "--epochs", "8"],
        ...["--learning-rate", "2e-3", "--max-tokens", "24", "--run-dir", at("improved"), ...words, "-f", "json"]
      )
      assert.strictEqual(improved.code, 0, improved.stderr)
      const report = JSON.parse(improved.stdout)
      // two letters: a third
      assert.closeTo(report.after, 1 / 3, 1e-9)
      assert.isBelow(report.before, report.after)
      assert.strictEqual(report.verdict, "ship")
    }))

  it.live("what is missing is said", () =>
    Effect.gen(function*() {
      const failed = (...args: ReadonlyArray<string>) =>
        Effect.map(run(...args), ({ code, stderr }) => {
          assert.strictEqual(code, 2)
          return stderr.replace(/\s+/g, " ")
        })
      const train = ["train", "judged", at("prompts.jsonl"), "--model", "local/tiny", "--judge-cache", at("none.jsonl")]
      assert.match(yield* failed(...train), /There is no judge to ask/)
      assert.match(yield* failed(...train, "--judge-url", url), /needs --judge-model/)
      assert.match(yield* failed(...train, ...judge(), "--rubric"), /A rubric is made of --criteria/)
      assert.match(
        yield* failed("improve", at("prompts.jsonl"), "--model", "local/tiny", "--run-dir", at("none")),
        /nothing to evaluate by/
      )
    }))
})

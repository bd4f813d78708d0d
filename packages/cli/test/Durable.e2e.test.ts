import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import * as process_ from "./fixtures/process.js"
import * as training from "./fixtures/training.js"

let cli: process_.Tinker

beforeAll(async () => {
  cli = await process_.make()
}, 120_000)

afterAll(() => cli.dispose())

/** Rewards that a person gives. */
const graded = `
import { Judgement } from "@effect-tinker/cluster"
import { Environment } from "@effect-tinker/cookbook"
import { Effect } from "effect"

export default [65, 66].map((letter) =>
  Environment.group(() =>
    Effect.succeed({
      initial: Effect.succeed({ _tag: "Continue", observation: { prompt: Int32Array.of(letter), stop: [] } }),
      step: ({ tokens }) =>
        Effect.map(
          Judgement.ask({ question: \`Is it \${letter}?\`, answer: Array.from(tokens).join(" ") }),
          (reward) => ({ _tag: "Done", reason: "completed", reward })
        )
    })
  )
)
`

const place = () => {
  const found = training.place(cli)
  writeFileSync(join(found.cwd, "graded.ts"), graded)
  return found
}

/** Until something is so, however busy the machine is. */
const until = async (test: () => boolean) => {
  for (let i = 0; i < 600 && !test(); i++) await sleep(100)
  assert.isTrue(test())
}

const tiny = ["--model", "local/tiny", "--rank", "4"]

describe.sequential("tinker train --durable", { timeout: 300_000 }, () => {
  it("waits for grades through two restarts; runs list, grade and show follow it", async () => {
    const { cwd, here, json, jsonHere, tinker } = place()
    const questions = join(cwd, "run", "durable", "questions")
    const asked = () => existsSync(questions) ? readdirSync(questions).filter((name) => name.endsWith(".json")) : []
    const train = [
      "train",
      "rl",
      "graded.ts",
      ...tiny,
      "--group",
      "2",
      "--groups-per-batch",
      "2",
      "--max-tokens",
      "4",
      "--durable",
      "--out",
      "run"
    ]
    // Questions of the process before are there at once: this one is at work when it has said so itself.
    const status = join(cwd, "run", "durable", "status.json")
    for (let start = 1; start <= 2; start++) {
      const begun = Date.now()
      // All four rollouts have asked: what is asked later is not among the grades given below.
      const isWaiting = () => existsSync(status) && statSync(status).mtimeMs > begun && asked().length === 4
      const ended = await tinker(train, {
        onStart: (interrupt) => void until(isWaiting).then(() => sleep(1000)).then(interrupt)
      })
      assert.strictEqual(ended.code, 130, ended.stderr)
    }
    const listed = await json("runs", "grade", "run")
    assert.strictEqual(listed.total, 4)
    assert.match(listed.questions[0].question, /^Is it 6[56]\?$/)
    const wrong = await here(["runs", "grade", "run", "nothing", "1"])
    assert.strictEqual(wrong.code, 1)
    assert.match(wrong.stderr, /does not wait for a grade of nothing/)
    for (const [n, { key }] of listed.questions.entries()) {
      const { code, stderr } = await tinker(["runs", "grade", "run", key, String(n)])
      assert.strictEqual(code, 0, stderr)
    }
    const done = await json(...train)
    assert.isTrue(done.complete)
    assert.strictEqual(done.steps, 1)
    assert.strictEqual((await jsonHere("runs", "show", "run")).status, "complete")
    assert.strictEqual((await tinker(["runs", "follow", "run"])).stdout.split("\n").filter(Boolean).length, 1)
  })

  it("pauses across restarts, resumes, and is cancelled for good", async () => {
    const { cwd, here, json, jsonHere, tinker } = place()
    const train = [
      "train",
      "sft",
      "chats.jsonl",
      ...tiny,
      "--batch-size",
      "2",
      "--epochs",
      "4",
      "--save-every",
      "2",
      "--durable",
      "--out",
      join(cwd, "run")
    ]
    assert.match((await here(["runs", "pause", "run"])).stderr, /no durable run/)
    const first = await tinker(train, { interruptAt: /step 3/ })
    assert.strictEqual(first.code, 130, first.stderr)
    await json("runs", "pause", "run")
    const paused = await tinker(train, { interruptAt: /Paused/ })
    assert.strictEqual(paused.code, 130, paused.stderr)
    assert.strictEqual((await jsonHere("runs", "show", "run")).status, "paused")
    await json("runs", "resume", "run")
    const { code, stderr } = await tinker(train)
    assert.strictEqual(code, 0, stderr)
    assert.strictEqual((await jsonHere("runs", "show", "run")).steps, 24)
    assert.match((await tinker(["runs", "cancel", "run"])).stderr, /is complete/)
  })
})

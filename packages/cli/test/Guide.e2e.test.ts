import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as process_ from "./fixtures/process.js"

const guide = readFileSync(new URL("../../../docs/chats-to-model.md", import.meta.url), "utf8")

const blocks = (language: string): ReadonlyArray<string> =>
  Array.from(guide.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)).flatMap(([, info, body]) =>
    info === language && body !== undefined ? [body] : []
  )

/** The commands of the guide, each with what it is said to print. */
const steps = blocks("console").flatMap((block) =>
  block.split(/^\$ /m).slice(1).map((text) => {
    const [command = "", ...output] = text.split("\n")
    return { command, shown: output.join("\n").trim() }
  })
)

const number = /\d[\d,]*(?:\.\d+)?/g

/** Training is repeatable; the margin is for other processors. */
const measure = (line: string) => {
  const plain = line.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID").replace(/\d+ (?:second|minute)s? ago/, "just now")
  return {
    words: plain.replace(number, "#").replace(/ +/g, " "),
    numbers: (plain.match(number) ?? []).map((text) => Number(text.replaceAll(",", "")))
  }
}

const near = (a: number, b: number) => Math.abs(a - b) <= 0.05 + 0.15 * Math.max(a, b)

const agree = (output: string, shown: string): boolean => {
  const [is, should] = [output, shown].map((text) => text.trim().split("\n").map(measure))
  return is?.length === should?.length && (is ?? []).every(({ numbers, words }, i) => {
    const line = should?.[i]
    return line?.words === words && line.numbers.every((value, n) => near(value, numbers[n] ?? NaN))
  })
}

let cli: process_.Tinker

beforeAll(async () => {
  cli = await process_.make({ models: true })
}, 120_000)

afterAll(() => cli.dispose())

describe("docs/chats-to-model.md", { timeout: 300_000 }, () => {
  it("does what it says, in a fresh directory", async () => {
    const cwd = mkdtempSync(join(cli.home, "guide-"))
    writeFileSync(join(cwd, "chats.jsonl"), blocks("json")[0] ?? "")
    let address = ""
    for (const { command, shown } of steps) {
      const [piped, line = command] = command.includes(" | ") ? command.split(" | ") : [undefined, command]
      const args = line.replace("tinker://RUN/sampler_weights/final", address).split(" ").slice(1)
      const { code, stderr, stdout } = await cli.run(args, {
        cwd,
        limit: 240_000,
        input: piped === undefined ? undefined : `${JSON.parse(piped.replace(/^echo /, ""))}\n`,
        env: { TINKER_LOCAL_DIR: join(cwd, "backend") }
      })
      assert.strictEqual(code, 0, `${command}\n${stderr}`)
      assert.isTrue(agree(stderr + stdout, shown), `${command} prints\n${stderr}${stdout}\nnot\n${shown}`)
      address = /tinker:\/\/\S+\/sampler_weights\/final/.exec(stdout)?.[0] ?? address
    }
    assert.isAtLeast(steps.length, 5)
  })
})

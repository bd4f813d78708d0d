import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as RunLog from "../src/RunLog.js"

const program = fileURLToPath(new URL("./fixtures/chats.ts", import.meta.url))

/** Runs the program to its end, or sends it a signal after so many steps. */
const start = (args: ReadonlyArray<string>, end?: { readonly after: number; readonly by: NodeJS.Signals }) =>
  new Promise<{ readonly code: number | null; readonly text: string; readonly complaints: string }>((resolve) => {
    const child = spawn(process.execPath, ["--conditions=@effect-tinker/source", "--import", "tsx", program, ...args])
    let text = ""
    let complaints = ""
    child.stdout.on("data", (data) => {
      text += String(data)
      if (end !== undefined && text.split("step ").length > end.after) child.kill(end.by)
    })
    child.stderr.on("data", (data) => complaints += String(data))
    child.on("close", (code) => resolve({ code, text, complaints }))
  })

const read = (directory: string) =>
  Effect.runPromise(
    Effect.provide(RunLog.read(directory), NodeContext.layer).pipe(Effect.map(Option.getOrUndefined))
  )

const losses = (run: RunLog.Run | undefined) => run?.steps.map(({ metrics, step }) => [step, metrics["loss"]])

// a machine that stands still for longer than a save may take on exit is no fault of the program
describe("a program that is run again", { timeout: 300_000, retry: 2 }, () => {
  it("goes on where it was ended, and does not begin where its checkpoints would be lost", async () => {
    const root = mkdtempSync(join(tmpdir(), "tinker-again-"))
    try {
      const file = join(root, "chats.jsonl")
      const chat = (n: number) => ({
        messages: [{ role: "user", content: `${n}?` }, { role: "assistant", content: ["cat", "dog", "cow"][n % 3] }]
      })
      writeFileSync(file, Array.from({ length: 4 }, (_, n) => `${JSON.stringify(chat(n))}\n`).join(""))

      const whole = await start([file, join(root, "whole"), join(root, "whole-checkpoints")])
      assert.strictEqual(whole.code, 0, whole.complaints)
      const wanted = losses(await read(join(root, "whole")))
      assert.strictEqual(wanted?.length, 40)

      const cut = [file, join(root, "cut"), join(root, "cut-checkpoints")]
      assert.strictEqual((await start(cut, { after: 8, by: "SIGKILL" })).code, null)
      const ended = await start(cut, { after: 8, by: "SIGTERM" })
      const saved = await read(join(root, "cut"))
      // A termination ends the run in order; what it has is in a checkpoint, or at most a period of three steps older.
      assert.strictEqual(Option.getOrUndefined(saved?.ended ?? Option.none())?.outcome, "interrupted", ended.complaints)
      assert.isAtLeast((saved?.checkpoints.at(-1)?.step ?? 0) + 3, saved?.steps.length ?? NaN)
      assert.strictEqual((await start(cut)).code, 0)
      const found = await read(join(root, "cut"))
      assert.strictEqual(found?.resumes, 2)
      assert.deepStrictEqual(losses(found), wanted)

      const refused = await start([file, join(root, "refused")])
      assert.notStrictEqual(refused.code, 0)
      assert.include(refused.text + refused.complaints, "NodeTinkerLocal.layerInProcess({ directory })")
      assert.isUndefined(await read(join(root, "refused")))
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  })
})

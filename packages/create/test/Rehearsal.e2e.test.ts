/**
 * `npm create effect-tinker` from a registry on the loopback interface: the packages are built and published there, and in empty directories a project of each kind is created, installed, type-checked, tested and trained. With
 * `TINKER_REHEARSE=all` all projects, package managers and runtimes, which takes some ten minutes: `npm run rehearse`.
 */
import { assert, describe, it } from "@effect/vitest"
import { Config, Effect } from "effect"
import { spawn } from "node:child_process"
import { install } from "../../../.ci/install.mjs"

const root = new URL("../../../", import.meta.url).pathname
const { missing } = await install(".ci/registry")

const rehearse = (args: ReadonlyArray<string>) =>
  Effect.async<{ readonly status: number | null; readonly output: string }>((resume) => {
    const child = spawn(process.execPath, [".ci/rehearse.mjs", ...args], {
      cwd: root,
      stdio: ["ignore", "pipe", "inherit"]
    })
    let output = ""
    child.stdout.on("data", (chunk) => {
      output += chunk
    })
    child.once("close", (status) => resume(Effect.succeed({ status, output })))
    return Effect.sync(() => child.kill())
  })

describe.skipIf(missing !== undefined)("a release", () => {
  it.live("is published, installed and trains, in one project of each kind", () =>
    Effect.gen(function*() {
      const extent = yield* Config.withDefault(Config.string("TINKER_REHEARSE"), "smoke")
      const { output, status } = yield* rehearse(extent === "all" ? [] : ["--smoke"])
      assert.strictEqual(status, 0, output)
      for (const project of ["chats, promise", "reward, effect", "loop, promise", "agent, ai-sdk"]) {
        assert.match(output, new RegExp(`^create ${project}, \\w+: train +\\d+ s`, "m"))
      }
      assert.match(output, /Order 417: your drum is on its way to you/)
      assert.match(output, /Mira lives in Oslo\. Where does Mira live\? → Mira lives in Oslo\./)
    }), 1_800_000)
})

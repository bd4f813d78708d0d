import { RunLog } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

/** The program as one file, so that a process does not spend its life loading modules. */
const bundle = (outfile: string) =>
  Effect.promise(() =>
    build({
      entryPoints: [fileURLToPath(new URL("utils/killable.ts", import.meta.url))],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      conditions: ["@effect-tinker/source"],
      external: ["hyparquet"],
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
      logLevel: "error"
    })
  )

const linesOf = (path: string) => existsSync(path) ? readFileSync(path, "utf8").split("\n").length - 1 : 0

/** Runs the program; kills it some time after its journal has grown by so many lines. */
const run = (
  program: string,
  args: ReadonlyArray<string>,
  killAfter?: { readonly lines: number; readonly millis: number }
) =>
  Effect.async<"done" | "killed", Error>((resume) => {
    const child = spawn(process.execPath, [program, ...args], {
      stdio: ["ignore", "ignore", "pipe"]
    })
    let stderr = ""
    child.stderr.on("data", (chunk) => {
      stderr += String(chunk)
    })
    const journal = `${args[1]}/journal.jsonl`
    const before = linesOf(journal)
    const watch = killAfter === undefined ? undefined : setInterval(() => {
      if (linesOf(journal) < before + killAfter.lines) return
      clearInterval(watch)
      setTimeout(() => child.kill("SIGKILL"), killAfter.millis)
    }, 2)
    child.on("exit", (code, signal) => {
      clearInterval(watch)
      resume(
        signal === "SIGKILL"
          ? Effect.succeed("killed")
          : code === 0
          ? Effect.succeed("done")
          : Effect.fail(new Error(`exit code ${code}: ${stderr}`))
      )
    })
    return Effect.sync(() => {
      clearInterval(watch)
      child.kill("SIGKILL")
    })
  })

const directories = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped()
  yield* fs.makeDirectory(`${root}/backend`)
  const program = `${root}/program.mjs`
  yield* bundle(program)
  return { run: `${root}/run`, backend: `${root}/backend`, program }
})

const seriesOf = (directory: string) =>
  Effect.map(RunLog.read(directory), (found) => {
    const { resumes, steps } = Option.getOrThrow(found)
    return { resumes, series: steps.map(({ metrics, step }) => [step, metrics["loss"], metrics["learning_rate"]]) }
  })

const cases = [
  ...[0, 1, 3].flatMap((submitAhead) =>
    [false, true].map((background) => ({ trainer: "supervised", submitAhead, background }))
  ),
  { trainer: "reinforce", submitAhead: 0, background: true },
  { trainer: "preference", submitAhead: 0, background: false }
]

describe.sequential("a run whose process is killed", () => {
  const expected = new Map<string, ReadonlyArray<ReadonlyArray<unknown>>>()

  /** What the trainer computes when nobody kills it. */
  const undisturbed = Effect.fnUntraced(function*(trainer: string) {
    const known = expected.get(trainer)
    if (known !== undefined) return known
    const { backend, program, run: directory } = yield* directories
    yield* run(program, [trainer, directory, backend, "1", "false"])
    const { series } = yield* seriesOf(directory)
    assert.strictEqual(series.length, 16)
    expected.set(trainer, series)
    return series
  })

  for (const { background, submitAhead, trainer } of cases) {
    const saves = background ? "background" : "blocking"
    it.scoped(
      `${trainer} resumes bit for bit: submit-ahead ${submitAhead}, ${saves} saves`,
      () =>
        Effect.gen(function*() {
          const whole = yield* undisturbed(trainer)
          const { backend, program, run: directory } = yield* directories
          const args = [trainer, directory, backend, String(submitAhead), String(background)]
          const kills: Array<string> = []
          for (let outcome = "killed"; outcome === "killed";) {
            const killAfter = { lines: 1 + Math.floor(Math.random() * 9), millis: Math.random() * 30 }
            outcome = yield* kills.length < 2 ? run(program, args, killAfter) : run(program, args)
            kills.push(`${outcome} after ${killAfter.lines} lines and ${killAfter.millis.toFixed(1)} ms`)
          }
          const { series } = yield* seriesOf(directory)
          assert.deepStrictEqual(series, whole, kills.join("; "))
        }).pipe(Effect.provide(NodeContext.layer)),
      240_000
    )
  }
})

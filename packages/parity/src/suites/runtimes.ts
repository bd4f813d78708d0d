/**
 * `--runtimes`: the same program, bundled without anything of Node, gives the same on Node, Deno and Bun.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { FileSystem, Path } from "@effect/platform"
import { Console, Effect, Either, Redacted } from "effect"
import { build } from "esbuild"
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { Suite } from "../Suite.js"
import { against, Differs } from "../Suite.js"

const name = "runtimes"

const cache = fileURLToPath(new URL("../../../../node_modules/.cache/runtimes", import.meta.url))

interface Runtime {
  readonly name: string
  /** The package that brings it; without one it is this process's own. */
  readonly package?: string
  readonly args: ReadonlyArray<string>
}

const tried: ReadonlyArray<Runtime> = [
  { name: "node", args: [] },
  { name: "deno", package: "deno@2.9.6", args: ["run", "--no-prompt", "--allow-net=127.0.0.1", "--allow-env"] },
  { name: "bun", package: "bun@1.4.4", args: [] }
]

const execute = (command: string, args: ReadonlyArray<string>, timeout: number) =>
  Effect.async<string, string>((resume) => {
    const child = execFile(command, [...args], { timeout, encoding: "utf8" }, (error, stdout, stderr) =>
      resume(
        error === null
          ? Effect.succeed(stdout)
          : Effect.fail(stderr.trim().split("\n").slice(-3).join(" ") || error.message)
      ))
    return Effect.sync(() => child.kill())
  })

/** The program of a runtime, installed where it is not; or why it cannot be. */
const commandOf = Effect.fnUntraced(function*(runtime: Runtime) {
  if (runtime.package === undefined) return process.execPath
  const path = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const command = path.join(cache, "node_modules", ".bin", runtime.name)
  const version = runtime.package.split("@")[1] ?? ""
  const installed = Effect.map(execute(command, ["--version"], 30_000), (text) => text.includes(version))
  if (yield* Effect.orElseSucceed(installed, () => false)) return command
  yield* Effect.mapError(fs.makeDirectory(cache, { recursive: true }), (error) => error.message)
  yield* execute(
    "npm",
    ["install", "--no-save", "--no-package-lock", "--silent", "--prefix", cache, runtime.package],
    240_000
  )
  yield* execute(command, ["--version"], 30_000)
  return command
})

const bundle = (outfile: string) =>
  Effect.tryPromise({
    try: () =>
      build({
        entryPoints: [fileURLToPath(new URL("../runtimes/program.ts", import.meta.url))],
        outfile,
        bundle: true,
        // Whatever needs a runtime of its own fails here.
        platform: "neutral",
        format: "esm",
        target: "es2022",
        mainFields: ["module", "main"],
        conditions: ["@effect-tinker/source", "import"],
        logLevel: "silent"
      }),
    catch: (cause) => new Differs({ suite: name, differences: [`bundle: ${cause}`] })
  })

export const runtimes: Suite = {
  name,
  summary: "the same program gives the same on Node, Deno and Bun",
  run: () =>
    Effect.scoped(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = yield* Effect.orDie(fs.makeTempDirectoryScoped())
      const program = path.join(directory, "program.mjs")
      yield* bundle(program)
      const answers = new Map<string, string>()
      const differences: Array<string> = []
      for (const runtime of tried) {
        // A server for each, so that they have nothing of each other.
        const { baseUrl } = yield* Effect.orDie(
          NodeTinkerLocal.serve({ apiKeys: [{ key: Redacted.make("tml-runtimes") }] })
        )
        const command = yield* Effect.either(commandOf(runtime))
        if (Either.isLeft(command)) {
          yield* Console.log(`${runtime.name}: not tried, it cannot be installed here: ${command.left}`)
          continue
        }
        const answer = yield* Effect.either(execute(command.right, [...runtime.args, program, baseUrl], 60_000))
        if (Either.isLeft(answer)) differences.push(`${runtime.name}: ${answer.left}`)
        else {
          answers.set(runtime.name, answer.right.trim())
          yield* against(runtime.package?.replace("@", " ") ?? `node ${process.versions.node}`)
          yield* Console.log(`${runtime.name}: ${answer.right.trim()}`)
        }
      }
      const expected = answers.get("node")
      for (const [runtime, answer] of answers) {
        if (answer !== expected) differences.push(`${runtime}: ${answer} where Node has ${expected}`)
      }
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
      yield* Console.log(`the same on ${Array.from(answers.keys()).join(", ")}`)
    }))
}

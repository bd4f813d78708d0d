/**
 * `--runtimes`: the same program, bundled without anything of Node, gives the same on Node, Deno and Bun, and so does one of
 * `@effect-tinker/promise`; the tests of the SDK pass on the newer versions of Node.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { FileSystem, Path } from "@effect/platform"
import { Console, Effect, Either, Redacted, Schema } from "effect"
import { build } from "esbuild"
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { bundlePromise } from "../../../../.ci/promise.mjs"
import type { Suite } from "../Suite.js"
import { against, Differs } from "../Suite.js"

const name = "runtimes"

const root = fileURLToPath(new URL("../../../../", import.meta.url))
const cache = `${root}node_modules/.cache/runtimes`

interface Runtime {
  readonly name: "node" | "deno" | "bun"
  /** The package that brings it; without one it is this process's own. */
  readonly package?: string
  readonly args: ReadonlyArray<string>
}

const newerNodes: ReadonlyArray<Runtime> = ["node@22.23.3", "node@24.21.0"].map((version) => ({
  name: "node",
  package: version,
  args: []
}))

const tried: ReadonlyArray<Runtime> = [
  { name: "node", args: [] },
  ...newerNodes,
  { name: "node", package: "node@26.10.0", args: [] },
  { name: "deno", package: "deno@2.9.6", args: ["run", "--no-prompt", "--allow-net=127.0.0.1", "--allow-env"] },
  { name: "bun", package: "bun@1.4.4", args: [] }
]

const label = (runtime: Runtime): string => runtime.package?.replace("@", " ") ?? `node ${process.versions.node}`

const execute = (command: string, args: ReadonlyArray<string>, timeout: number) =>
  Effect.async<string, string>((resume) => {
    const options = { cwd: root, timeout, encoding: "utf8", maxBuffer: 1 << 26 } as const
    const child = execFile(command, [...args], options, (error, stdout, stderr) =>
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
  const directory = path.join(cache, runtime.package)
  const command = path.join(directory, "node_modules", ".bin", runtime.name)
  const version = runtime.package.split("@")[1] ?? ""
  const installed = Effect.map(execute(command, ["--version"], 30_000), (text) => text.includes(version))
  if (yield* Effect.orElseSucceed(installed, () => false)) return command
  yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true }), (error) => error.message)
  yield* execute(
    "npm",
    ["install", "--no-save", "--no-package-lock", "--silent", "--prefix", directory, runtime.package],
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

/** `@effect-tinker/promise` as it is installed, in a project without Effect; its program. */
const promiseProject = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const source = `${root}packages/promise`
  const installed = path.join(directory, "node_modules/@effect-tinker/promise")
  yield* execute(process.execPath, [".ci/tsc.mjs", "packages/promise/tsconfig.src.json"], 300_000)
  yield* Effect.tryPromise({
    try: () => bundlePromise(source, path.join(installed, "dist")),
    catch: (cause) => `bundle: ${cause}`
  })
  const program = path.join(directory, "promise.mjs")
  yield* Effect.mapError(
    Effect.all([
      fs.copyFile(`${source}/package.json`, path.join(installed, "package.json")),
      fs.copy(`${root}packages/local/models`, path.join(installed, "models")),
      // Deno looks for packages where a manifest names them.
      fs.writeFileString(
        path.join(directory, "package.json"),
        JSON.stringify({ type: "module", dependencies: { "@effect-tinker/promise": "*" } })
      ),
      fs.copyFile(`${source}/test/support/program.mjs`, program)
    ]),
    (error) => error.message
  )
  return program
})

const Report = Schema.parseJson(Schema.Struct({ numPassedTests: Schema.Number, numFailedTests: Schema.Number }))

/** How many tests of the SDK pass under a version of Node; all of them have to. */
const testsUnder = Effect.fnUntraced(function*(command: string, report: string) {
  const fs = yield* FileSystem.FileSystem
  const args = ["run", "packages/tinker/", "--exclude", "**/*.e2e.test.ts", "--reporter=json"]
  yield* execute(command, ["node_modules/vitest/vitest.mjs", ...args, `--outputFile=${report}`], 1_200_000)
  const { numFailedTests, numPassedTests } = yield* fs.readFileString(report).pipe(
    Effect.flatMap(Schema.decode(Report)),
    Effect.mapError((error) => error.message)
  )
  if (numFailedTests > 0 || numPassedTests === 0) return yield* Effect.fail(`${numFailedTests} tests failed`)
  return numPassedTests
})

export const runtimes: Suite = {
  name,
  summary: "the same program gives the same on Node, Deno and Bun; the tests of the SDK under newer versions of Node",
  run: () =>
    Effect.scoped(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = yield* Effect.orDie(fs.makeTempDirectoryScoped())
      const program = path.join(directory, "program.mjs")
      yield* bundle(program)
      const withoutEffect = yield* promiseProject(directory).pipe(
        Effect.mapError((difference) => new Differs({ suite: name, differences: [difference] }))
      )
      const answers = new Map<string, string>()
      const promises = new Map<string, string>()
      const differences: Array<string> = []
      for (const runtime of tried) {
        // A server for each, so that they have nothing of each other.
        const { baseUrl } = yield* Effect.orDie(
          NodeTinkerLocal.serve({ apiKeys: [{ key: Redacted.make("tml-runtimes") }] })
        )
        const command = yield* Effect.either(commandOf(runtime))
        if (Either.isLeft(command)) {
          yield* Console.log(`${label(runtime)}: not tried, it cannot be installed here: ${command.left}`)
          continue
        }
        const answer = yield* Effect.either(execute(command.right, [...runtime.args, program, baseUrl], 60_000))
        if (Either.isLeft(answer)) differences.push(`${label(runtime)}: ${answer.left}`)
        else {
          answers.set(label(runtime), answer.right.trim())
          yield* against(label(runtime))
          yield* Console.log(`${label(runtime)}: ${answer.right.trim()}`)
        }
        // It keeps a model in files of its own, and writes a checkpoint.
        const args = runtime.name === "deno" ? ["run", "--allow-all"] : runtime.args
        const promise = yield* Effect.either(execute(command.right, [...args, withoutEffect], 120_000))
        if (Either.isLeft(promise)) differences.push(`${label(runtime)}, @effect-tinker/promise: ${promise.left}`)
        else promises.set(label(runtime), promise.right.trim())
        if (!newerNodes.includes(runtime)) continue
        const tests = yield* Effect.either(testsUnder(command.right, path.join(directory, "report.json")))
        if (Either.isLeft(tests)) differences.push(`${label(runtime)}: ${tests.left}`)
        else yield* Console.log(`${label(runtime)}: ${tests.right} tests of the SDK pass`)
      }
      for (const outcomes of [answers, promises]) {
        const [expected] = outcomes.values()
        for (const [runtime, answer] of outcomes) {
          if (answer !== expected) differences.push(`${runtime}: ${answer} where this Node has ${expected}`)
        }
      }
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
      yield* Console.log(`the same on ${Array.from(answers.keys()).join(", ")}`)
      yield* Console.log(`@effect-tinker/promise: the same on ${Array.from(promises.keys()).join(", ")}`)
    }))
}

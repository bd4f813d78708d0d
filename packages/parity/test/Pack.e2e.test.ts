/**
 * What a stranger installs: each publishable package packed, installed in an empty folder and type-checked from there.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { writePackages } from "../../../.ci/native/packages.mjs"

const root = new URL("../../../", import.meta.url).pathname

const packages = [
  "create",
  "platform",
  "tinker",
  "tokenizer",
  "local",
  "cookbook",
  "agents",
  "cluster",
  "weights",
  "studio",
  "cli"
]

const program = `
import * as Effect from "effect/Effect"
import * as Tinker from "effect-tinker"
import * as Wire from "effect-tinker/wire"
import * as Tokenizer from "@effect-tinker/tokenizer"
import * as Local from "@effect-tinker/local"
import * as Cookbook from "@effect-tinker/cookbook"
import * as Agents from "@effect-tinker/agents"
import * as Studio from "@effect-tinker/studio"
import * as Weights from "@effect-tinker/weights"
import * as Cli from "@effect-tinker/cli"

const modules: ReadonlyArray<object> = [
  Tinker,
  Wire,
  Tokenizer,
  Local,
  Cookbook,
  Agents,
  Weights,
  Studio,
  Cli
]
export const program: Effect.Effect<number> = Effect.sync(() => modules.length)
// @ts-expect-error internal modules are closed
import * as Closed from "effect-tinker/internal/anything"
export { Closed }
`

/** The libraries under this one name types of Node. */
const nodeProgram = `
import * as Cluster from "@effect-tinker/cluster"
export const runs: object = Cluster.DurableRun
`

const tsconfig = (file: string, types: ReadonlyArray<string>) => ({
  compilerOptions: {
    target: "ES2022",
    module: "NodeNext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: false,
    types
  },
  files: [file]
})

/** Prints which kernels an engine of the installed packages uses. */
const modeProgram = `
import { Engine } from "@effect-tinker/local"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import { Console, Effect } from "effect"
Effect.flatMap(Engine.Engine, ({ mode }) => Console.log(mode)).pipe(
  Effect.provide(NodeEngine.layer({ models: [], threads: 1 })),
  Effect.runPromise
)
`

const Packed = Schema.parseJson(Schema.Array(Schema.Struct({
  filename: Schema.String,
  files: Schema.Array(Schema.Struct({ path: Schema.String }))
})))

const run = (cwd: string, command: string, ...args: ReadonlyArray<string>) =>
  Command.make(command, ...args).pipe(
    Command.workingDirectory(cwd),
    Command.stderr("inherit"),
    Command.string
  )

describe("npm pack", () => {
  it.scopedLive("installs in an empty folder and type-checks a user's program", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-user-" })
      yield* run(root, "node", ".ci/tsc.mjs", "tsconfig.build.json")
      const chosen = packages.map((name) => `--workspace=packages/${name}`)
      const packed = yield* run(root, "npm", "pack", "--json", "--pack-destination", folder, ...chosen).pipe(
        Effect.flatMap(Schema.decode(Packed))
      )
      assert.strictEqual(packed.length, packages.length)
      for (const { files } of packed) {
        const names = files.map((file) => file.path)
        assert.includeMembers(names, ["LICENSE", "README.md", "package.json"])
        assert.deepStrictEqual(names.filter((file) => file.endsWith(".tsbuildinfo")), [])
      }
      const tarballs = packed.map(({ filename }) => path.join(folder, filename))
      // what a registry would choose by platform
      const kernels = writePackages(path.join(folder, "native"))
        .filter((directory) => path.basename(directory) === `${process.platform}-${process.arch}`)
      yield* fs.writeFileString(path.join(folder, "package.json"), `{ "private": true, "type": "module" }`)
      yield* fs.writeFileString(path.join(folder, "program.ts"), program)
      yield* fs.writeFileString(path.join(folder, "node.ts"), nodeProgram)
      const needed = ["effect@3", "@types/node@20", "typescript@7"]
      // with peers, as a stranger has them: npm hands the settings of this project on to what runs under it
      const settings = ["--no-legacy-peer-deps", "--prefer-offline", "--no-audit", "--no-fund"]
      yield* run(folder, "npm", "install", ...settings, ...needed, ...tarballs, ...kernels)
      for (const [file, types] of [["program.ts", []], ["node.ts", ["node"]]] as const) {
        yield* fs.writeFileString(path.join(folder, "tsconfig.json"), JSON.stringify(tsconfig(file, types)))
        // the version that this project is written with, and the one that a newcomer installs
        for (const from of [root, folder]) {
          assert.strictEqual(yield* run(folder, path.join(from, "node_modules", ".bin", "tsc"), "-p", folder), "")
        }
      }
      yield* fs.writeFileString(path.join(folder, "mode.mjs"), modeProgram)
      const mode = yield* run(folder, "node", "mode.mjs")
      assert.strictEqual(mode.trim(), kernels.length === 0 ? "wasm" : "native")
    }).pipe(Effect.provide(NodeContext.layer)), 900_000)
})

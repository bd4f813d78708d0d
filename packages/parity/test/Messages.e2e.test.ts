/**
 * Messages to a person who installed something that does not fit: they say what to type. The packages are the built ones, in a
 * project that lacks what is at stake.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile, execFileSync } from "node:child_process"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { bundleCommand, bundleCreate } from "../../../.ci/command.mjs"
import { install } from "../../../.ci/install.mjs"

const root = new URL("../../../", import.meta.url).pathname
const folder = mkdtempSync(join(tmpdir(), "effect-tinker-messages-"))
const { missing } = await install("packages/effect4/effect")

/** Ours, by their directories. */
const ours: Readonly<Record<string, string>> = {
  tinker: "effect-tinker",
  tokenizer: "@effect-tinker/tokenizer",
  cookbook: "@effect-tinker/cookbook",
  agents: "@effect-tinker/agents"
}

/** A project with our packages and all others of the workspace but some. */
const project = (name: string, without: ReadonlyArray<string>, effect?: string) => {
  const modules = join(folder, name, "node_modules")
  for (const [directory, own] of Object.entries(ours)) {
    mkdirSync(join(modules, own), { recursive: true })
    for (const part of ["package.json", "dist"]) {
      cpSync(join(root, "packages", directory, part), join(modules, own, part), { recursive: true })
    }
  }
  const from = join(root, "node_modules")
  const names = readdirSync(from).flatMap((entry) =>
    entry.startsWith("@") ? readdirSync(join(from, entry)).map((inner) => `${entry}/${inner}`) : [entry]
  )
  for (const entry of names) {
    if (entry.startsWith(".") || without.includes(entry) || existsSync(join(modules, entry))) continue
    const target = entry === "effect" && effect !== undefined ? effect : join(from, entry)
    mkdirSync(join(modules, entry, ".."), { recursive: true })
    symlinkSync(realpathSync(target), join(modules, entry))
  }
  writeFileSync(join(folder, name, "package.json"), `{ "private": true, "type": "module" }`)
  return join(folder, name)
}

/** Runs a program as Node reads it from a file: what it wrote. */
const said = (directory: string, file: string, program: string, flags: ReadonlyArray<string> = []) => {
  writeFileSync(join(directory, file), program)
  return new Promise<string>((resolve) =>
    execFile(process.execPath, [...flags, file], { cwd: directory }, (_, stdout, stderr) => resolve(stdout + stderr))
  )
}

/** A preload that claims to be an older Node. */
const older = join(folder, "older.cjs")

const failing = (effect: string, imports: string) =>
  `import * as Effect from "effect/Effect"\n${imports}\nEffect.runPromise(Effect.flip(${effect})).then((error) => console.log(error.message))`

interface Case {
  readonly title: string
  readonly wanted: ReadonlyArray<string>
  readonly run: () => Promise<string>
}

describe.skipIf(missing !== undefined)("messages", () => {
  const bare: { directory: string } = { directory: "" }

  beforeAll(async () => {
    execFileSync(process.execPath, [".ci/tsc.mjs", "tsconfig.build.json"], { cwd: root, stdio: "inherit" })
    bare.directory = project("bare", ["@effect/ai", "@modelcontextprotocol/sdk", "hyparquet", "franc"])
    await bundleCommand(join(folder, "cli"))
    await bundleCreate(join(folder, "create"))
    for (const name of ["cli", "create"]) {
      writeFileSync(join(folder, name, "package.json"), `{ "type": "module", "version": "0.1.0" }`)
    }
    writeFileSync(
      older,
      `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "18.20.4" } })`
    )
  }, 300_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const cases: ReadonlyArray<Case> = [
    {
      title: "Effect 4, forced",
      wanted: ["effect/dist/Either.js", "requiresEffect3.js"],
      run: () =>
        said(
          project("effect-4", [], join(root, "packages/effect4/effect/node_modules/effect")),
          "a.mjs",
          `import "effect-tinker"`
        )
    },
    {
      title: "CommonJS, on a Node that cannot require ES modules",
      wanted: ["ERR_REQUIRE_ESM", "dynamic import()"],
      run: () => said(bare.directory, "a.cjs", `require("effect-tinker")`, ["--no-experimental-require-module"])
    },
    {
      title: "CommonJS, on a Node that can",
      wanted: ["object"],
      run: () => said(bare.directory, "b.cjs", `console.log(typeof require("effect-tinker").TrainingClient)`)
    },
    {
      title: "the command on an older Node",
      wanted: ["tinker needs Node 20.18.1 or newer, and this is 18.20.4", "https://nodejs.org"],
      run: () => said(join(folder, "cli"), "run.mjs", `await import("./tinker.js")`, ["--require", older])
    },
    {
      title: "npm create on an older Node",
      wanted: ["create-effect-tinker needs Node 20.18.1 or newer, and this is 18.20.4", "https://nodejs.org"],
      run: () => said(join(folder, "create"), "run.mjs", `await import("./create.js")`, ["--require", older])
    },
    {
      title: "Effect AI without @effect/ai",
      wanted: ["Cannot find package '@effect/ai'"],
      run: () => said(bare.directory, "ai.mjs", `import "@effect-tinker/agents/EffectAi"`)
    },
    {
      title: "MCP without its SDK",
      wanted: ["Cannot find package '@modelcontextprotocol/sdk'"],
      run: () => said(bare.directory, "mcp.mjs", `import "@effect-tinker/agents/Mcp"`)
    },
    {
      title: "a Parquet file without hyparquet",
      wanted: ["npm install hyparquet"],
      run: () =>
        said(
          bare.directory,
          "parquet.mjs",
          failing(
            `Stream.runDrain(Dataset.values(DataFile.parquet("rows.parquet", Schema.Unknown))).pipe(Effect.provide(NodeContext.layer))`,
            [
              `import * as Schema from "effect/Schema"`,
              `import * as Stream from "effect/Stream"`,
              `import { DataFile, Dataset } from "@effect-tinker/cookbook"`,
              `import * as NodeContext from "@effect/platform-node/NodeContext"`
            ].join("\n")
          )
        )
    },
    {
      title: "languages without franc",
      wanted: ["npm install franc"],
      run: () =>
        said(
          bare.directory,
          "franc.mjs",
          failing("Language.detector", `import { Language } from "@effect-tinker/cookbook"`)
        )
    }
  ]

  for (const { run, title, wanted } of cases) {
    it(title, async () => {
      const text = await run()
      for (const part of wanted) assert.include(text, part)
    }, 120_000)
  }
})

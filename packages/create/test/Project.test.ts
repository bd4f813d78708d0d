import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Project } from "create-effect-tinker"
import { Effect, Schema } from "effect"
import { createRequire } from "node:module"
import ts from "typescript"

const templates = new URL("../templates", import.meta.url).pathname

const base: Project.Project = {
  name: "my-model",
  start: "chats",
  framework: "ai-sdk",
  style: "effect",
  packageManager: "npm",
  version: "0.1.0"
}

const all: ReadonlyArray<Project.Project> = [
  ...(["chats", "reward", "loop"] as const).flatMap((start) =>
    (["effect", "promise"] as const).map((style) => ({ ...base, start, style }))
  ),
  ...(["ai-sdk", "openai-agents", "langgraph", "mastra", "effect-ai"] as const).map((framework) => ({
    ...base,
    start: "agent" as const,
    framework
  }))
]

const title = ({ framework, start, style }: Project.Project) => `${start}, ${start === "agent" ? framework : style}`

const Manifest = Schema.parseJson(Schema.Struct({
  name: Schema.String,
  private: Schema.Literal(true),
  type: Schema.Literal("module"),
  scripts: Schema.Record({ key: Schema.String, value: Schema.String }),
  dependencies: Schema.Record({ key: Schema.String, value: Schema.String }),
  devDependencies: Schema.Record({ key: Schema.String, value: Schema.String })
}))

const manifestOf = (files: Readonly<Record<string, string>>) => Schema.decode(Manifest)(files["package.json"] ?? "")

/** The packages that a module imports. */
const imported = (text: string) =>
  ts.preProcessFile(text).importedFiles
    .map(({ fileName }) => fileName)
    .filter((name) => !name.startsWith(".") && !name.startsWith("node:"))
    .map((name) => name.split("/").slice(0, name.startsWith("@") ? 2 : 1).join("/"))

describe("Project", () => {
  for (const project of all) {
    it.effect(`${title(project)}: has a program, a test, a README and every package it imports`, () =>
      Effect.gen(function*() {
        const files = yield* Project.files(project, templates)
        const names = Object.keys(files)
        assert.includeMembers(names, [".gitignore", "README.md", "package.json", "src/train.ts", "src/backend.ts"])
        assert.strictEqual(names.filter((name) => /^test\/\w+\.test\.ts$/.test(name)).length, 1)
        assert.notInclude(names, "gitignore")
        const { dependencies, devDependencies, scripts } = yield* manifestOf(files)
        const used = Object.entries(files).filter(([name]) => name.endsWith(".ts")).flatMap(([, text]) =>
          imported(text)
        )
        const named = Object.keys({ ...dependencies, ...devDependencies })
        assert.deepStrictEqual(used.filter((name) => !named.includes(name)), [])
        assert.deepStrictEqual(scripts, { train: "tsx src/train.ts", test: "vitest run", check: "tsc" })
        const plain = project.start !== "agent" && project.style === "promise"
        assert.strictEqual(dependencies[plain ? "@effect-tinker/promise" : "effect-tinker"], "^0.1.0")
        // Plain async code comes without Effect.
        assert.strictEqual(Object.hasOwn(dependencies, "effect"), !plain)
        // Modules that a program names are there.
        const relative = Object.entries(files).filter(([name]) => name.endsWith(".ts")).flatMap(([name, text]) =>
          ts.preProcessFile(text).importedFiles.map(({ fileName }) => fileName).filter((file) => file.startsWith("."))
            .map((file) => new URL(file, `file:///${name}`).pathname.slice(1).replace(/\.js$/, ".ts"))
        )
        assert.deepStrictEqual(relative.filter((name) => !names.includes(name)), [])
      }).pipe(Effect.provide(NodeContext.layer)))
  }

  it.effect("an agent of a framework is plain async code, one of Effect AI is Effects", () =>
    Effect.gen(function*() {
      const agent = { ...base, start: "agent" as const, style: "effect" as const }
      assert.strictEqual(Project.styleOf({ ...agent, framework: "mastra" }), "promise")
      assert.strictEqual(Project.styleOf({ ...agent, framework: "effect-ai", style: "promise" }), "effect")
      const files = yield* Project.files({ ...agent, framework: "effect-ai" }, templates)
      // of `agent-effect-ai`, in place of that of `agent`
      assert.include(files["src/train.ts"], "NodeRuntime.runMain")
      assert.include(files["test/orders.test.ts"], "rewards an answer")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("asks for the versions of Effect that this workspace has", () =>
    Effect.gen(function*() {
      const require = createRequire(import.meta.url)
      for (const project of all) {
        const { dependencies } = yield* manifestOf(yield* Project.files(project, templates))
        for (const name of ["effect", "@effect/platform", "@effect/platform-node"]) {
          const installed: { readonly version: string } = require(`${name}/package.json`)
          if (dependencies["effect"] === undefined) continue
          assert.strictEqual(dependencies[name], `^${installed.version}`, `${title(project)}: ${name}`)
        }
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("the README has the commands of the package manager", () =>
    Effect.gen(function*() {
      const readmeOf = (packageManager: Project.PackageManager) =>
        Effect.map(Project.files({ ...base, packageManager }, templates), (files) => files["README.md"] ?? "")
      assert.include(
        yield* readmeOf("npm"),
        "npm install\nnpm run train   # on this machine, without an account\nnpm test\n"
      )
      assert.include(
        yield* readmeOf("bun"),
        "bun install\nbun run train   # on this machine, without an account\nbun run test"
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("writes into an empty repository, and into no directory that has files", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.makeDirectory(path.join(directory, ".git"))
      yield* Project.write(directory, { "a/b.txt": "b" })
      assert.strictEqual(yield* fs.readFileString(path.join(directory, "a", "b.txt")), "b")
      const refused = yield* Effect.flip(Project.write(directory, { "a/b.txt": "c" }))
      assert.strictEqual(refused.message, `${directory} is not empty: name a new directory`)
      assert.strictEqual(yield* fs.readFileString(path.join(directory, "a", "b.txt")), "b")
    }).pipe(Effect.provide(NodeContext.layer)))

  it("a name is one that npm accepts", () => {
    const accepts = Schema.is(Project.Name)
    assert.deepStrictEqual(
      ["my-model", "@me/model", "a.b_c", "", "My", ".hidden", "a b", "@me", "a/b"].map(accepts),
      [true, true, true, false, false, false, false, false, false]
    )
  })
})

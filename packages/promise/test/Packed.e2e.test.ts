/**
 * The package as it is installed: without a dependency, without Effect in its types, whole on this Node.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { build } from "esbuild"
import { bundlePromise } from "../../../.ci/promise.mjs"

const root = new URL("../../../", import.meta.url).pathname
const source = `${root}packages/promise`

const run = (cwd: string, command: string, ...args: ReadonlyArray<string>) =>
  Command.make(command, ...args).pipe(Command.workingDirectory(cwd), Command.stderr("inherit"), Command.string)

/** The package in the modules of an empty project. */
const installed = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const project = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-promise-" })
  const directory = path.join(project, "node_modules/@effect-tinker/promise")
  yield* run(root, "node", ".ci/tsc.mjs", "packages/promise/tsconfig.src.json")
  yield* Effect.promise(() => bundlePromise(source, path.join(directory, "dist")))
  yield* fs.copyFile(path.join(source, "package.json"), path.join(directory, "package.json"))
  yield* fs.copy(path.join(root, "packages/local/models"), path.join(directory, "models"))
  yield* fs.writeFileString(path.join(project, "package.json"), `{ "private": true, "type": "module" }`)
  return { directory, project }
})

const typed = `
import type { Answer, Tinker } from "@effect-tinker/promise"
import { chatFor, connect, fromTokens, isTinkerError, trainers } from "@effect-tinker/promise"
import { connectLocal as inMemory } from "@effect-tinker/promise/local"
import { connectLocal } from "@effect-tinker/promise/node"

export const main = async (): Promise<Answer | undefined> => {
  const tinker = await connectLocal({ directory: "checkpoints" })
  const remote: Tinker = await connect({ baseUrl: "https://tinker.test", timeout: "5 seconds" })
  // @ts-expect-error a connection over fetch has no tokenizers
  await chatFor(remote, "local/chat")
  // @ts-expect-error the backend in memory has no files
  trainers(await inMemory())
  const loss: number | undefined = (await (await tinker.createLoraTrainingClient({ baseModel: "local/chat" })).trainStep(
    [fromTokens([1, 2, 3])],
    "cross_entropy"
  )).loss.perToken
  try {
    return await (await chatFor(tinker, "local/chat")).ask(
      await tinker.createSamplingClient({ baseModel: "local/chat" }),
      "Hello",
      { maxTokens: loss }
    )
  } catch (error) {
    if (isTinkerError(error) && error._tag === "RateLimited") return undefined
    throw error
  }
}
`

describe("@effect-tinker/promise", () => {
  it.scopedLive(
    "installs alone: no dependency, no Effect in its types, at most 3 MB of code",
    () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const path = yield* Path.Path
        const { directory, project } = yield* installed
        const manifest = yield* fs.readFileString(path.join(directory, "package.json")).pipe(
          Effect.flatMap(Schema.decode(Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))))
        )
        assert.notProperty(manifest, "dependencies")
        assert.notProperty(manifest, "peerDependencies")
        let bytes = 0
        const declarations: Array<string> = []
        for (const name of yield* fs.readDirectory(path.join(directory, "dist"), { recursive: true })) {
          const file = path.join(directory, "dist", name)
          const { size, type } = yield* fs.stat(file)
          if (type !== "File") continue
          bytes += Number(size)
          if (!name.endsWith(".d.ts")) continue
          declarations.push(name)
          for (const [, specifier] of (yield* fs.readFileString(file)).matchAll(/(?:from |import\()"([^"]+)"/g)) {
            assert.match(specifier ?? "", /^\.\/[A-Za-z]+\.js$/, name)
          }
        }
        assert.includeMembers(declarations, ["index.d.ts", "local.d.ts", "node.d.ts"])
        assert.isAtMost(bytes, 3e6)

        yield* fs.writeFileString(path.join(project, "program.ts"), typed)
        yield* fs.writeFileString(
          path.join(project, "tsconfig.json"),
          JSON.stringify({
            compilerOptions: {
              target: "ES2022",
              lib: ["ES2022", "DOM", "DOM.AsyncIterable"],
              module: "NodeNext",
              strict: true,
              exactOptionalPropertyTypes: true,
              noEmit: true,
              skipLibCheck: false,
              types: []
            },
            files: ["program.ts"]
          })
        )
        assert.strictEqual(yield* run(project, path.join(root, "node_modules/.bin/tsc"), "-p", project), "")

        yield* fs.copyFile(new URL("support/program.mjs", import.meta.url).pathname, path.join(project, "program.mjs"))
        assert.deepStrictEqual(JSON.parse(yield* run(project, "node", "program.mjs")), {
          learned: true,
          custom: true,
          answers: ["A pirate.", "Mira lives in Oslo."],
          steps: 2,
          files: 3,
          runs: [true, true],
          text: "Hello",
          refused: "NotFound",
          aborted: "AbortError"
        })
      }).pipe(Effect.provide(NodeContext.layer)),
    300_000
  )

  it.scopedLive(
    "bundles for browsers: the clients without the trainers, nothing of Node",
    () =>
      Effect.gen(function*() {
        const { project } = yield* installed
        const weight = (contents: string) =>
          Effect.promise(async () => {
            const { outputFiles } = await build({
              stdin: { contents, resolveDir: project },
              bundle: true,
              minify: true,
              format: "esm",
              platform: "browser",
              write: false,
              logLevel: "silent"
            })
            return outputFiles[0]?.contents.length ?? 0
          })
        // Whatever needs Node fails to be bundled.
        const client = yield* weight(`export { connect } from "@effect-tinker/promise"`)
        const all = yield* weight(`export { chatFor, connect, trainers } from "@effect-tinker/promise"`)
        const guard = yield* weight(`export { isTinkerError } from "@effect-tinker/promise"`)
        assert.isBelow(client, 650_000)
        assert.isBelow(client, all - 200_000)
        assert.isBelow(guard, client)
      }).pipe(Effect.provide(NodeContext.layer)),
    300_000
  )
})

/**
 * The clients of the packed package outside Node: in a window that has what browsers have and no more, and in the runtime
 * of Cloudflare's workers. Both get what Node gets.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Command, FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import type { Readable } from "node:stream"
import { createContext, runInContext } from "node:vm"
import { install } from "../../../.ci/install.mjs"
import { bundlePromise } from "../../../.ci/promise.mjs"

const root = new URL("../../../", import.meta.url).pathname
const source = `${root}packages/promise`

/** The program in one file, over the package as it is published. */
const bundled = (contents: string, format: "esm" | "iife") =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const project = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-runtimes-" })
    const directory = path.join(project, "node_modules/@effect-tinker/promise")
    yield* Command.make("node", ".ci/tsc.mjs", "packages/promise/tsconfig.src.json").pipe(
      Command.workingDirectory(root),
      Command.exitCode
    )
    yield* Effect.promise(() => bundlePromise(source, path.join(directory, "dist")))
    yield* fs.copyFile(path.join(source, "package.json"), path.join(directory, "package.json"))
    yield* fs.copyFile(new URL("support/runtime.mjs", import.meta.url).pathname, path.join(project, "runtime.mjs"))
    const { outputFiles } = yield* Effect.promise(() =>
      build({
        stdin: { contents, resolveDir: project },
        bundle: true,
        format,
        globalName: "program",
        platform: "browser",
        write: false,
        logLevel: "silent"
      })
    )
    return { project, text: outputFiles[0]?.text ?? "" }
  })

const expected = (tokens: ReadonlyArray<number>) => ({
  fell: true,
  tokens,
  refused: "NotFound",
  aborted: "AbortError",
  node: "undefined"
})

/** What a page and a worker have alike; nothing else of this process is in its world. */
const web = [
  "AbortController",
  "AbortSignal",
  "Blob",
  "CompressionStream",
  "DOMException",
  "DecompressionStream",
  "Event",
  "EventTarget",
  "FormData",
  "Headers",
  "ReadableStream",
  "Request",
  "Response",
  "TextDecoder",
  "TextEncoder",
  "TransformStream",
  "URL",
  "URLSearchParams",
  "WritableStream",
  "atob",
  "btoa",
  "clearInterval",
  "clearTimeout",
  "console",
  "crypto",
  "fetch",
  "performance",
  "queueMicrotask",
  "setInterval",
  "setTimeout",
  "structuredClone"
]

const { missing, require = createRequire(import.meta.url) } = await install("packages/promise/test/workers")

const configuration = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker", esModule = embed "worker.js")],
      compatibilityDate = "2025-06-01"
    )),
    (name = "internet", network = (allow = ["public", "private", "local"]))
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]
);
`

/** A worker that is served, and the port where. */
const served = (binary: string, directory: string) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      spawn(binary, ["serve", "config.capnp", "--control-fd=3"], {
        cwd: directory,
        stdio: ["ignore", "inherit", "inherit", "pipe"]
      })
    ),
    (child) =>
      Effect.async<void>((resume) => {
        if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
        child.once("close", () => resume(Effect.void))
        child.kill("SIGKILL")
      })
  ).pipe(
    Effect.flatMap((child) =>
      Effect.async<number, Error>((resume) => {
        child.once("close", (code) => resume(Effect.fail(new Error(`workerd ended with ${code}`))))
        const control = child.stdio[3] as Readable
        control.on("data", (data: Buffer) => {
          const port = /"port":(\d+)/.exec(data.toString())?.[1]
          if (port !== undefined) resume(Effect.succeed(Number(port)))
        })
      })
    )
  )

describe("@effect-tinker/promise elsewhere than on Node", () => {
  it.scopedLive("trains and samples in a window", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve()
      const { text } = yield* bundled(`export { run } from "./runtime.mjs"`, "iife")
      const globals: Record<string, unknown> = Object.fromEntries(
        web.map((
          name
        ) => [
          name,
          Object.getOwnPropertyDescriptor(globalThis, name)?.get?.call(globalThis) ?? Reflect.get(globalThis, name)
        ])
      )
      const context = createContext({ ...globals, document: {}, navigator: { userAgent: "test" } })
      runInContext("globalThis.window = globalThis.self = globalThis", context)
      runInContext(text, context)
      const found = yield* Effect.promise(() =>
        runInContext(
          `program.run(${JSON.stringify(baseUrl)}, ${JSON.stringify(Redacted.value(apiKey))}).then(JSON.stringify)`,
          context
        )
      )
      const result = JSON.parse(String(found))
      assert.lengthOf(result.tokens, 5)
      assert.deepStrictEqual(result, expected(result.tokens))
    }).pipe(Effect.provide(NodeContext.layer)), 300_000)

  it.scopedLive.skipIf(missing !== undefined)(
    "trains and samples in a worker, which may do nothing while it is loaded",
    () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve()
        const worker = `import { run } from "./runtime.mjs"
        export default {
          async fetch() {
            try {
              return Response.json(await run(${JSON.stringify(baseUrl)}, ${JSON.stringify(Redacted.value(apiKey))}))
            } catch (error) {
              return new Response(String(error?.stack ?? error), { status: 500 })
            }
          }
        }`
        const { project, text } = yield* bundled(worker, "esm")
        yield* fs.writeFileString(`${project}/worker.js`, text)
        yield* fs.writeFileString(`${project}/config.capnp`, configuration)
        const port = yield* served(require("workerd").default, project)
        const [status, body] = yield* Effect.promise(async () => {
          const response = await fetch(`http://127.0.0.1:${port}/`)
          return [response.status, await response.text()] as const
        })
        assert.strictEqual(status, 200, body)
        const result = JSON.parse(body)
        assert.lengthOf(result.tokens, 5)
        assert.deepStrictEqual(result, expected(result.tokens))
      }).pipe(Effect.provide(NodeContext.layer)),
    300_000
  )
})

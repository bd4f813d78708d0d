/**
 * `npm run bench -- size`: what a minimal sampling program weighs in a browser's bundle, and what it consists of.
 */
import { Effect } from "effect"
import { build } from "esbuild"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import type { Bench } from "./Bench.js"
import { BenchFailed, round } from "./Bench.js"

const here = fileURLToPath(new URL(".", import.meta.url))

const sampleWith = (imports: string) => `
${imports}
const program = Effect.gen(function*() {
  const sampler = yield* SamplingClient.make({ modelPath: "tinker://run/sampler_weights/final" })
  return yield* sampler.sample({ prompt: ModelInput.fromInts([1, 2, 3]), maxTokens: 16 })
})
export const result = Effect.runPromise(program.pipe(
  Effect.scoped,
  Effect.provide(ServiceClient.layer({ apiKey: "tml-x" })),
  Effect.provide(TinkerTransport.layerFetch)
))`

const byPath = `
import * as Effect from "effect/Effect"
import * as ModelInput from "effect-tinker/ModelInput"
import * as SamplingClient from "effect-tinker/SamplingClient"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as TinkerTransport from "effect-tinker/TinkerTransport"`

const byBarrel = `
import { Effect } from "effect"
import { ModelInput, SamplingClient, ServiceClient, TinkerTransport } from "effect-tinker"`

/** What any program pays that speaks HTTP and JSON with Effect. */
const floor = `
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
export const result = Effect.runPromise(HttpClient.get("https://tinker.test/").pipe(
  Effect.flatMap(HttpClientResponse.schemaBodyJson(Schema.Struct({ tokens: Schema.Array(Schema.Number) }))),
  Effect.provide(TinkerTransport.layerFetch)
))`

const promises = `
import { Tinker } from "effect-tinker/Promise"
const tinker = await Tinker.connect({ apiKey: "tml-x" })
const sampler = await tinker.createSamplingClient({ modelPath: "tinker://run/sampler_weights/final" })
export const result = await sampler.sample({ prompt: [1, 2, 3], maxTokens: 16 })`

interface Bundle {
  readonly minified: number
  readonly gzip: number
  /** Bytes of the bundle by package. */
  readonly parts: ReadonlyMap<string, number>
  /** Bytes of the bundle by module, the largest first. */
  readonly modules: ReadonlyArray<readonly [string, number]>
}

const packageOf = (path: string): string => {
  const inside = path.split("node_modules/").pop() ?? path
  if (inside !== path) return inside.split("/").slice(0, inside.startsWith("@") ? 2 : 1).join("/")
  return path.includes("packages/tinker/") || path.includes("tinker/dist/") ? "effect-tinker" : "the program"
}

const bundle = (contents: string) =>
  Effect.tryPromise({
    try: async (): Promise<Bundle> => {
      const { metafile, outputFiles } = await build({
        stdin: { contents, resolveDir: here, sourcefile: "program.js" },
        bundle: true,
        minify: true,
        write: false,
        metafile: true,
        platform: "browser",
        format: "esm",
        target: "es2022",
        legalComments: "none",
        // What is published, not its source.
        conditions: ["import"],
        logLevel: "silent"
      })
      const parts = new Map<string, number>()
      const modules: Array<readonly [string, number]> = []
      for (const { inputs } of Object.values(metafile.outputs)) {
        for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
          parts.set(packageOf(path), (parts.get(packageOf(path)) ?? 0) + bytesInOutput)
          modules.push([path.split("node_modules/").pop() ?? path, bytesInOutput])
        }
      }
      const code = outputFiles[0]?.contents ?? new Uint8Array(0)
      return {
        minified: code.length,
        gzip: gzipSync(code, { level: 9 }).length,
        parts: new Map([...parts].sort(([, a], [, b]) => b - a)),
        modules: modules.sort(([, a], [, b]) => b - a)
      }
    },
    catch: (cause) => new BenchFailed({ reason: `a program could not be bundled: ${cause}` })
  })

const kib = (bytes: number): string => (bytes / 1024).toFixed(1)

export const bench: Bench = {
  summary: "a minimal sampling program as a browser loads it, in KiB",
  run: Effect.gen(function*() {
    const programs = {
      "sampling, modules by path": yield* bundle(sampleWith(byPath)),
      "sampling, from the barrels": yield* bundle(sampleWith(byBarrel)),
      "sampling, effect-tinker/Promise": yield* bundle(promises),
      "a GET with Effect, Schema and fetch": yield* bundle(floor)
    }
    const ours = programs["sampling, modules by path"]
    const least = programs["a GET with Effect, Schema and fetch"]
    return {
      table: [
        ["", "minified", "gzip"],
        ...Object.entries(programs).map(([name, { gzip, minified }]) => [name, kib(minified), kib(gzip)]),
        [],
        ["the first by package", "minified", "share"],
        ...Array.from(ours.parts, ([name, bytes]) => [
          name,
          kib(bytes),
          `${(bytes / ours.minified * 100).toFixed(0)} %`
        ]),
        [],
        ["its largest modules", "minified"],
        ...ours.modules.slice(0, 12).map(([name, bytes]) => [name, kib(bytes)])
      ],
      ratios: {
        minified_kib: round(ours.minified / 1024),
        gzip_kib: round(ours.gzip / 1024),
        own_gzip_kib: round((ours.gzip - least.gzip) / 1024),
        to_floor: round(ours.gzip / least.gzip),
        barrel_to_paths: round(programs["sampling, from the barrels"].gzip / ours.gzip)
      },
      notes: [
        "`to_floor` is ours relative to a program that does one GET with Effect; `own_gzip_kib` is what we add to it."
      ]
    }
  })
}

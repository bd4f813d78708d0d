import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { ModelInput, SamplingClient, ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { build } from "esbuild"
import { mkdtempSync, rmSync } from "node:fs"
import { builtinModules } from "node:module"
import { tmpdir } from "node:os"
import { fileURLToPath } from "node:url"
import * as Report from "../../cli/src/metrics/Report.js"
import * as NodeTinkerLocal from "../src/NodeTinkerLocal.js"
import { browser, look, site, start } from "./utils/chromium.js"

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

const bundle = (entryPoints: ReadonlyArray<string>, platform: "browser" | "neutral") =>
  Effect.promise(() =>
    build({
      entryPoints: [...entryPoints],
      platform,
      bundle: true,
      write: false,
      outdir: "/",
      metafile: true,
      format: "esm",
      target: "es2022",
      mainFields: ["module", "main"],
      conditions: ["@effect-tinker/source", "import"],
      logLevel: "silent"
    })
  )

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(`${tmpdir()}/effect-tinker-browser-`)),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

if ("missing" in browser) process.stderr.write(`Skipping the browser's tests: ${browser.missing}.\n`)
const inBrowser = it.scopedLive.skipIf("missing" in browser)

describe("elsewhere than on Node", () => {
  it.effect("nothing of Node is in the graph of the portable entries", () =>
    Effect.gen(function*() {
      const tinker = here("../../tinker/src")
      const portable = [
        `${tinker}/index.ts`,
        `${tinker}/Promise.ts`,
        here("../src/index.ts"),
        here("../src/Promise.ts")
      ]
      for (const platform of ["browser", "neutral"] as const) {
        const { metafile } = yield* bundle(portable, platform)
        const imports = Object.values(metafile.inputs).flatMap(({ imports }) => imports)
        const foreign = imports.filter(({ external, path }) =>
          external === true || path.startsWith("node:") || builtinModules.includes(path)
        )
        assert.deepStrictEqual(foreign, [])
        assert.isTrue(Object.keys(metafile.inputs).some((path) => path.endsWith("src/SamplingClient.ts")))
        assert.deepStrictEqual(
          Object.keys(metafile.inputs).filter((path) => /platform-node|undici|\/Node[A-Z]/.test(path)),
          []
        )
      }
    }), 60_000)

  inBrowser("a page samples from the server across origins, and gets what Node gets", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve({ allowOrigin: "*" })
      const { outputFiles } = yield* bundle([here("fixtures/page.ts")], "browser")
      const page = yield* site({
        "/": "<!doctype html><script type=\"module\" src=\"/page.js\"></script>",
        "/page.js": outputFiles[0]?.text ?? ""
      })
      const query = new URLSearchParams({ server: baseUrl, key: Redacted.value(apiKey) })
      yield* start([`${page.url}/?${query}`, "--remote-debugging-port=0"])
      const result = JSON.parse(yield* Effect.promise(() => page.posted))
      const { sequences } = yield* SamplingClient.make({ baseModel: "local/tiny" }).pipe(
        Effect.flatMap((sampler) =>
          sampler.sample({ prompt: ModelInput.fromInts([72, 101, 108]), maxTokens: 6, temperature: 0, stop: [] })
        ),
        Effect.provide(ServiceClient.layer({ baseUrl, apiKey })),
        Effect.provide(NodeTinker.layer())
      )
      assert.deepStrictEqual(result, { tokens: Array.from(sequences[0]?.tokens ?? []), refused: "NotFound" })
    }), 60_000)

  inBrowser("a report is drawn, in light and in dark, and asks for nothing", () =>
    Effect.gen(function*() {
      const entries = Array.from({ length: 80 }, (_, i) => ({
        step: i + 1,
        time: undefined,
        metrics: { loss: 3 * Math.exp(-i / 20), reward: 1 - Math.exp(-i / 25), "<b>": i % 7 }
      }))
      const { asked, url } = yield* site({ "/report.html": Report.render(entries, { title: "A <run>" }) })
      const images = yield* directory
      const shoot = (name: string, ...flags: ReadonlyArray<string>) =>
        Effect.gen(function*() {
          const path = `${images}/${name}.png`
          const { ended } = yield* start([
            `--screenshot=${path}`,
            "--window-size=1280,900",
            ...flags,
            `${url}/report.html`
          ])
          yield* Effect.promise(() => ended)
          return path
        })
      const light = yield* shoot("light")
      const dark = yield* shoot("dark", "--blink-settings=preferredColorScheme=0")
      // A curve goes from one side of its card to the other; the number above it does not.
      for (
        const [image, loss, reward] of [
          [light, [47, 111, 235], [18, 148, 106]],
          [dark, [110, 168, 255], [63, 206, 155]]
        ] as const
      ) {
        assert.isAbove(look(image, loss).columns, 300)
        assert.isAbove(look(image, reward).columns, 300)
      }
      assert.isAbove(look(dark, [14, 17, 23]).pixels, 100_000)
      assert.deepStrictEqual(
        new Set(asked.filter((line) => line !== "GET /favicon.ico")),
        new Set(["GET /report.html"])
      )
    }), 60_000)
})

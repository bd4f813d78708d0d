import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { build } from "esbuild"
import manifest from "../package.json" with { type: "json" }
import { installLine, oldest, problem } from "../src/requiresEffect3.js"

describe("requiresEffect3", () => {
  it("asks for what the peer dependencies ask for", () => {
    assert.strictEqual(`^${oldest}`, manifest.peerDependencies.effect)
    const platform = /\^(0\.\d+)/.exec(manifest.peerDependencies["@effect/platform"])?.[1]
    assert.include(installLine, `@effect/platform@${platform} `)
  })

  it("accepts the Effect of these tests and newer ones of the same major", () => {
    assert.isUndefined(problem(Effect.void[Effect.EffectTypeId]._V))
    for (const version of [oldest, "3.22.5", "3.23.0", "3.100.0"]) assert.isUndefined(problem(version), version)
  })

  it("refuses older and other majors, with the install line", () => {
    for (const version of ["3.22.3", "3.9.10", "2.4.0", "4.0.0", "4.1.0-rc.1"]) {
      const message = problem(version)
      assert.include(message, `found ${version}`)
      assert.include(message, installLine)
    }
  })

  it("stays in what a bundler makes of a program, without a warning", async () => {
    const { outputFiles, warnings } = await build({
      stdin: {
        contents: "export { RetryPolicy } from \"effect-tinker\"",
        resolveDir: new URL("..", import.meta.url).pathname
      },
      bundle: true,
      write: false,
      format: "esm",
      platform: "node",
      packages: "bundle",
      conditions: ["@effect-tinker/source"],
      external: ["effect/*", "@effect/*", "undici"],
      logLevel: "silent"
    })
    assert.deepStrictEqual(warnings, [])
    assert.include(outputFiles[0]?.text, installLine)
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { findLlama, importersOf } from "../src/internal/exportCheck.js"

describe("export --verify", () => {
  it("takes node-llama-cpp from beside the program before the working directory, and knows which file it is", () => {
    const root = realpathSync(mkdtempSync(join(tmpdir(), "tinker-llama-")))
    const place = (name: string, installed: boolean) => {
      const directory = join(root, name)
      const module = join(directory, "node_modules", "node-llama-cpp")
      mkdirSync(installed ? module : directory, { recursive: true })
      if (installed) {
        writeFileSync(join(module, "package.json"), JSON.stringify({ name: "node-llama-cpp", main: "index.js" }))
        writeFileSync(join(module, "index.js"), "throw new Error('it is not loaded to be found')")
      }
      return { importer: join(directory, "_.js"), file: join(module, "index.js") }
    }
    const ours = place("ours", true)
    const none = place("none", false)
    const here = place("here", true)
    const file = (...importers: ReadonlyArray<{ readonly importer: string }>) =>
      Option.getOrUndefined(findLlama(importers.map(({ importer }) => importer)))
    assert.strictEqual(file(ours, here), ours.file)
    assert.strictEqual(file(none, here), here.file)
    assert.isUndefined(file(none, none))
    rmSync(root, { recursive: true })
  })

  it("asks beside the program first, whatever the working directory has", () => {
    const source = new URL("../src/internal/exportCheck.ts", import.meta.url)
    assert.deepStrictEqual(importersOf("/home/somebody"), [source.href, "/home/somebody/_.js"])
  })
})

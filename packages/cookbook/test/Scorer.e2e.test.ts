import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import type { Scorers } from "./utils/scorers.js"
import { suite } from "./utils/scorers.js"

const directory = "packages/cookbook/test/autoevals"

const { missing } = await install(directory)

const root = fileURLToPath(new URL("../../../", import.meta.url))

describe.skipIf(missing !== undefined)("scorers of autoevals, untouched", async () => {
  // Not known to the compiler here, because it is not always installed; its types are checked on their own, below.
  const { scorers }: { readonly scorers: Scorers } = await import(`${root}${directory}/scorers.ts`)

  it("have the types that are asked for", () => {
    const compile = [".ci/tsc.mjs", directory]
    assert.strictEqual(execFileSync(process.execPath, compile, { cwd: root, encoding: "utf8" }), "")
  })

  suite(scorers)
})

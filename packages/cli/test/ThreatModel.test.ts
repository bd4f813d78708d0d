import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../../../", import.meta.url))

describe("the threat model", () => {
  it("names a test in every row, which is there", () => {
    const [, model = ""] = readFileSync(`${root}SECURITY.md`, "utf8").split("## Threat model")
    const rows = model.split("\n").filter((line) => line.startsWith("| ") && !/^\| +\| who|^\| ---/.test(line))
    assert.isAbove(rows.length, 30)
    for (const row of rows) {
      const [, file = "", title = ""] = /`(packages\/[^`]+\.test\.ts)` "([^"]+)" \|$/.exec(row) ?? []
      assert.isTrue(file !== "" && existsSync(`${root}${file}`), row)
      const titles = Array.from(
        readFileSync(`${root}${file}`, "utf8").matchAll(/\bit(?:\.\w+)?\(\s*["'`](.*)["'`],/g),
        ([, found]) => found
      )
      assert.isTrue(titles.some((found) => found?.includes(title)), `${file} has no test "${title}"`)
    }
  })
})

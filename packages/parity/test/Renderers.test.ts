/**
 * What the docs say about renderers is what the suite does.
 */
import { Renderers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { explained } from "../src/renderers/differences.js"
import { families } from "../src/renderers/families.js"
import { table } from "../src/renderers/table.js"

describe("the table of renderers", () => {
  it("has every renderer, once", () => {
    assert.deepStrictEqual(families.map(({ name }) => name).sort(), [...Renderers.names].sort())
  })

  it("stands in the docs as the suite's data make it", () => {
    const docs = readFileSync(new URL("../../../docs/renderers.md", import.meta.url), "utf8")
    assert.include(docs, table(families))
  })
})

describe("differences on purpose", () => {
  it("are each about a renderer that is compared with their oracle", () => {
    for (const entry of explained) {
      const held = families.filter((family) =>
        entry.renderers.test(family.name) &&
        (entry.oracle === "cookbook" ? family.cookbook !== false : family.renderers !== undefined)
      )
      assert.isAbove(held.length, 0, `${entry.oracle} ${entry.renderers.source}: ${entry.why}`)
    }
  })
})

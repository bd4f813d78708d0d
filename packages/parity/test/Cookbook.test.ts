import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { readFileSync } from "node:fs"
import { compare, Vectors } from "../src/cookbook/compare.js"

describe("the official cookbook", () => {
  it.effect("makes the same data of 200 random trajectories", () =>
    Effect.gen(function*() {
      const text = readFileSync(new URL("../vectors/cookbook.json", import.meta.url), "utf8")
      const { differences, rows, trajectories } = compare(yield* Schema.decode(Vectors)(text))
      assert.deepStrictEqual(differences, [])
      assert.isAtLeast(trajectories, 200)
      assert.isAbove(rows, trajectories)
    }))
})

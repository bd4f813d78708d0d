import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as All from "../src/all.js"

const release: typeof All.Release.Type = {
  version: "0.1.0",
  machine: "two cores",
  ratios: { wire: { to_floor: 2, to_python: 40, gone: 1 }, size: { gzip_kib: 50 } }
}

describe("bench --all", () => {
  it("shows each ratio beside that of the last release", () => {
    const now = new Map([["wire", { to_floor: 2.5, to_python: null, fresh: 3 }], ["size", { gzip_kib: 50 }]])
    assert.deepStrictEqual(All.table(release, now), [
      ["bench", "ratio", "0.1.0", "now", "change"],
      ["wire", "to_floor", "2", "2.5", "+25 %"],
      ["wire", "to_python", "40", "", ""],
      ["wire", "fresh", "", "3", ""],
      ["wire", "gone", "1", "", ""],
      ["size", "gzip_kib", "50", "50", "="]
    ])
  })

  it("names a bench that did not run", () => {
    assert.deepStrictEqual(All.table(release, new Map([["engine", undefined]]))[1], [
      "engine",
      "did not run",
      "",
      "",
      ""
    ])
  })

  it("names what is worse by more than 15 %, in the direction of the ratio", () => {
    const before = {
      version: "0.1.0",
      machine: "two cores",
      ratios: { wire: { to_floor: 2, to_python: 40, to_json: 1, gone: 1 }, agents: { growth: 1, held_to_recorded: 1 } }
    }
    const now = new Map<string, Record<string, number | null> | undefined>([
      ["wire", { to_floor: 1.69, to_python: 34.1, to_json: null, fresh: 0.1 }],
      ["agents", { growth: 1.16, held_to_recorded: 0.5 }],
      ["engine", undefined]
    ])
    assert.deepStrictEqual(All.fallen(before, now), [
      "wire to_floor: 2 in 0.1.0, 1.69 now",
      "agents growth: 1 in 0.1.0, 1.16 now"
    ])
  })

  it.effect("refuses a name that is no bench", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(All.run(["wire", "nonsense"]))
      assert.strictEqual(error.message, "There is no bench named nonsense.")
    }).pipe(Effect.provide(NodeContext.layer)))
})

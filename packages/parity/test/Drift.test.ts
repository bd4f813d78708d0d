import { assert, describe, it } from "@effect/vitest"
import { Api } from "effect-tinker/wire"
import { known, libraries } from "../src/drift/known.js"
import { between, betweenCookbooks, guide, unknownHere, unrendered, unseen } from "../src/suites/drift.js"

const before = {
  version: "1.0.0",
  types: { A: { x: "int", y: "str = 'a'" }, Gone: { z: "int" } },
  endpoints: ["/api/v1/asample"],
  headers: ["x-api-key"],
  variables: []
}

const now = {
  version: "1.1.0",
  types: { A: { x: "float", y: "str = 'a'", w: "bool = False" }, New: { z: "int" } },
  endpoints: ["/api/v1/asample", "/api/v1/teleport/{where}"],
  headers: ["x-api-key", "x-new"],
  variables: ["TINKER_NEW"]
}

describe("drift", () => {
  it("lists what came, went and changed", () => {
    assert.deepStrictEqual(between(before, now), [
      "new endpoint: /api/v1/teleport/{where}",
      "new type: New",
      "removed type: Gone",
      "new field: A.w",
      "changed field: A.x: int -> float",
      "new header: x-new",
      "new variable: TINKER_NEW"
    ])
    assert.deepStrictEqual(between(now, now), [])
  })

  it("finds what our own tables lack, whatever the names in a path are called", () => {
    assert.deepStrictEqual(unknownHere(now), ["not in our table of endpoints: /api/v1/teleport/{where}"])
    const ours = Api.all.map(({ path }) => path.replaceAll(/\{[^}]+\}/g, "{other_name}"))
    assert.deepStrictEqual(unknownHere({ ...now, endpoints: ours, types: {} }), [])
    const types = { ClientConfigResponse: { pjwt_auth_enabled: "bool = False", brand_new_flag: "bool = False" } }
    assert.deepStrictEqual(unknownHere({ ...before, types }), ["not among the flags we read: brand_new_flag"])
  })

  it("lists new names, recipes, models and renderers of a cookbook, and which of them cannot be rendered here", () => {
    const old = { version: "1", names: ["rl.train.main"], recipes: ["math"], models: [], renderers: ["llama3"] }
    const next = {
      version: "2",
      names: ["rl.train.main", "rl.train.more"],
      recipes: [],
      models: ["meta-llama/Llama-3.1-8B-Instruct", "nobody/Knows-1B"],
      renderers: ["llama3", "unheard_of"]
    }
    assert.deepStrictEqual(betweenCookbooks(old, next), [
      "new name: rl.train.more",
      "removed recipe: math",
      "new model: meta-llama/Llama-3.1-8B-Instruct",
      "new model: nobody/Knows-1B",
      "new renderer: unheard_of"
    ])
    assert.deepStrictEqual(unrendered(next).map(({ what }) => what), ["`unheard_of`", "nobody/Knows-1B"])
  })

  it("a major version is new when nobody has looked at it", () => {
    const library = { name: "ai", ours: 6, seen: 7 }
    assert.deepStrictEqual(unseen([{ ...library, newest: "7.9.1" }]), [])
    assert.deepStrictEqual(unseen([{ ...library, newest: "8.0.0" }]), ["new major version: ai 8.0.0"])
  })

  it("the guide has a row for everything", () => {
    const text = guide(
      { sdk: "1.0.0", cookbook: "2.0.0" },
      known,
      libraries.map((one) => ({ ...one, newest: "9.9.9" }))
    )
    const rows = text.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| ---"))
    assert.strictEqual(rows.length, known.length + libraries.length + 2)
    assert.include(text, "| `effect` | 9.9.9 | 3 |")
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Api } from "effect-tinker/wire"
import { between, unknownHere } from "../src/suites/drift.js"

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
})

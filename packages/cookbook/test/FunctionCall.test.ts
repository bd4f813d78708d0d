import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import * as FunctionCall from "../src/FunctionCall.js"

const signature: FunctionCall.Signature = {
  name: "area",
  parameters: {
    properties: { base: { type: "integer" }, height: { type: "float" }, unit: { type: "string" } },
    required: ["base", "height"]
  }
}

const accepted: FunctionCall.Accepted = { area: { base: [10], height: [5], unit: ["cm", "centimeter", ""] } }

const isCall = (arguments_: Readonly<Record<string, unknown>>, name = "area") =>
  FunctionCall.isCall({ name, arguments: arguments_ }, signature, accepted)

describe("FunctionCall", () => {
  it("accepts every value that counts, and leaves out what is optional", () => {
    assert.isTrue(isCall({ base: 10, height: 5 }))
    assert.isTrue(isCall({ base: 10, height: 5, unit: "Centi-meter" }))
  })

  it("refuses other names, types, values and parameters", () => {
    assert.isFalse(isCall({ base: 10, height: 5 }, "volume"))
    assert.isFalse(isCall({ base: "10", height: 5 }))
    assert.isFalse(isCall({ base: 10.5, height: 5 }))
    assert.isFalse(isCall({ base: 10, height: 6 }))
    assert.isFalse(isCall({ base: 10 }))
    assert.isFalse(isCall({ base: 10, height: 5, color: "red" }))
    assert.isFalse(isCall({ base: 10, height: 5, unit: "inch" }))
  })

  it("matches several calls in any order, each once", () => {
    const [first, second] = [{ area: { base: [1], height: [2] } }, { area: { base: [3], height: [4] } }]
    const call = (base: number, height: number) => ({ name: "area", arguments: { base, height } })
    const match = (...calls: ReadonlyArray<FunctionCall.Call>) =>
      FunctionCall.areCalls(calls, [signature], [first, second])
    assert.isTrue(match(call(3, 4), call(1, 2)))
    assert.isFalse(match(call(1, 2), call(1, 2)))
    assert.isFalse(match(call(1, 2)))
  })

  it("reads calls from an answer, and nothing else", () => {
    const call = { name: "area", arguments: { base: 1 } }
    assert.deepStrictEqual(FunctionCall.find(`Sure: ${JSON.stringify(call)}`), Option.some([call]))
    assert.deepStrictEqual(
      FunctionCall.find(`\`\`\`json\n${JSON.stringify([call, call])}\n\`\`\``),
      Option.some([call, call])
    )
    assert.deepStrictEqual(FunctionCall.find("area(1)"), Option.none())
    assert.deepStrictEqual(FunctionCall.find("{\"name\": 1}"), Option.none())
  })
})

import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { SamplingParams } from "effect-tinker/wire"
import { fromJson, toJson } from "./utils/json.js"

const json = (params: SamplingParams.SamplingParams) => toJson(SamplingParams.SamplingParams, params)
const defaults = { temperature: 1, top_k: -1, top_p: 1 }

describe("SamplingParams", () => {
  it("writes its defaults and leaves the rest out", () => {
    assert.deepStrictEqual(json(new SamplingParams.SamplingParams()), defaults)
    assert.deepStrictEqual(json(new SamplingParams.SamplingParams({ maxTokens: 5, seed: 0 })), {
      ...defaults,
      max_tokens: 5,
      seed: 0
    })
  })

  it("sends an empty list of stops, which is not the same as none", () => {
    assert.deepStrictEqual(json(new SamplingParams.SamplingParams({ stop: [] })), { ...defaults, stop: [] })
  })

  it("reads a bare stop as a list of one", () => {
    const params = Either.getOrThrow(fromJson(SamplingParams.SamplingParams)({ stop: "END" }))
    assert.deepStrictEqual(params.stop, ["END"])
    assert.deepStrictEqual(json(params), { ...defaults, stop: ["END"] })
  })

  it("refuses stops of both kinds at once, and misspelt parameters", () => {
    assert.isTrue(Either.isLeft(fromJson(SamplingParams.SamplingParams)({ stop: ["a", 1] })))
    assert.isTrue(Either.isLeft(fromJson(SamplingParams.SamplingParams)({ max_token: 1 })))
  })
})

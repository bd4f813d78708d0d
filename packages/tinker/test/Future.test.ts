import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Future, Id } from "effect-tinker/wire"
import { toJson } from "./utils/json.js"

describe("Future", () => {
  it("tells the four answers of a poll apart, in order", () => {
    const tag = (json: unknown) => Future.classify(json)._tag
    assert.strictEqual(tag({ type: "try_again", error: "x" }), "TryAgain")
    assert.strictEqual(tag({ status: "complete_metadata", error: "x" }), "CompleteMetadata")
    assert.strictEqual(tag({ error: null }), "RequestFailed")
    assert.strictEqual(tag({ type: "sample" }), "Completed")
    assert.strictEqual(tag(null), "Completed")
    assert.strictEqual(tag([]), "Completed")
  })

  it("goes on polling whatever the queue says", () => {
    const decode = Schema.decodeUnknownSync(Future.TryAgain)
    assert.strictEqual(decode({ type: "try_again" }).queueState, "unknown")
    assert.strictEqual(decode({ type: "try_again", queue_state: "paused_moon" }).queueState, "paused_moon")
    assert.strictEqual(
      decode({ type: "try_again", queue_state: "paused_capacity", queue_state_reason: "full" }).queueStateReason,
      "full"
    )
  })

  it("reads whom a failure is blamed on in any casing, and what is not said as unknown", () => {
    const category = (category: unknown) =>
      Schema.decodeUnknownSync(Future.RequestFailed)({ error: "x", category }).category
    assert.deepStrictEqual(["user", "User", "USER", "Server", "martian", null, undefined].map(category), [
      "user",
      "user",
      "user",
      "server",
      "unknown",
      "unknown",
      "unknown"
    ])
  })

  it("reads a failure whose error is no text", () => {
    const error = (error: unknown) => Schema.decodeUnknownSync(Future.RequestFailed)({ error }).error
    assert.strictEqual(error(null), "null")
    assert.strictEqual(error({ message: "x" }), `{"message":"x"}`)
  })

  it("takes an announced size of null for none", () => {
    const { responsePayloadSize } = Schema.decodeUnknownSync(Future.CompleteMetadata)({
      status: "complete_metadata",
      response_payload_size: null
    })
    assert.strictEqual(responsePayloadSize, 0)
  })

  it("skips completions in states it does not know", () => {
    const { completions } = Schema.decodeUnknownSync(Future.FuturesRetrieveResponse)({
      completions: [
        { state: "paused" },
        { state: "finished", request_id: "a", response_payload_uncompressed_size: 7 },
        { state: "failed", request_id: "b" },
        "nonsense"
      ],
      cursor: 9
    })
    assert.deepStrictEqual(completions.map(({ requestId, state }) => [state, requestId]), [
      ["finished", "a"],
      ["failed", "b"]
    ])
  })

  it("says which results were fetched only when there are some", () => {
    const target = new Future.SamplingSessionTarget({ samplingSessionId: Id.SamplingSessionId.make("s") })
    const json = {
      target: { type: "sampling_session", sampling_session_id: "s", cloned_sampler_id: 0 },
      prev_cursor: 0
    }
    assert.deepStrictEqual(
      toJson(Future.FuturesRetrieveRequest, new Future.FuturesRetrieveRequest({ target })),
      json
    )
    const retrievedRequestIds = [Id.RequestId.make("r")]
    assert.deepStrictEqual(
      toJson(Future.FuturesRetrieveRequest, new Future.FuturesRetrieveRequest({ target, retrievedRequestIds })),
      { ...json, retrieved_request_ids: ["r"] }
    )
  })
})

import { assert, describe, it } from "@effect/vitest"
import { DateTime, Either, Schema } from "effect"
import { Checkpoint } from "effect-tinker"
import { toJson } from "./utils/json.js"

const json = {
  checkpoint_id: "weights/0001",
  checkpoint_type: "training",
  time: "2026-01-02T03:04:05.678901+02:00",
  tinker_path: "tinker://run/weights/0001"
}

describe("Checkpoint", () => {
  it("reads what a server says, and defaults what it leaves out", () => {
    const checkpoint = Schema.decodeUnknownSync(Checkpoint.Checkpoint)(json)
    assert.strictEqual(checkpoint.checkpointId, "weights/0001")
    assert.strictEqual(checkpoint.public, false)
    assert.isUndefined(checkpoint.expiresAt)
    assert.strictEqual(DateTime.formatIso(checkpoint.time), "2026-01-02T01:04:05.678Z")
  })

  it("takes an instant without a zone for UTC, whatever the zone of the machine", () => {
    const checkpoint = Schema.decodeUnknownSync(Checkpoint.Checkpoint)({ ...json, time: "2026-01-02T03:04:05" })
    assert.strictEqual(DateTime.formatIso(checkpoint.time), "2026-01-02T03:04:05.000Z")
  })

  it("lists a kind of checkpoint it does not know", () => {
    const list = Schema.decodeUnknownSync(Checkpoint.CheckpointsListResponse)({
      checkpoints: [{ ...json, checkpoint_type: "holographic", new_field: 1 }, json],
      cursor: null
    })
    assert.deepStrictEqual(list.checkpoints.map((checkpoint) => checkpoint.checkpointType), ["holographic", "training"])
    assert.isUndefined(list.cursor)
  })

  it("sends the null that removes an expiry", () => {
    assert.deepStrictEqual(toJson(Checkpoint.SetTtlRequest, new Checkpoint.SetTtlRequest({ ttlSeconds: null })), {
      ttl_seconds: null
    })
  })

  it("parses the three kinds of paths", () => {
    const kinds = ["weights", "sampler_weights", "external_weights"].map((kind) =>
      Either.getOrThrow(Checkpoint.parsePath(`tinker://s:train:0/${kind}/x`))
    )
    assert.deepStrictEqual(kinds.map((path) => path.checkpointType), ["training", "sampler", "external"])
    assert.deepStrictEqual(kinds.map((path) => path.checkpointId), [
      "weights/x",
      "sampler_weights/x",
      "external_weights/x"
    ])
    assert.deepStrictEqual(kinds.map((path) => path.trainingRunId), ["s:train:0", "s:train:0", "s:train:0"])
  })

  it("parses a sampler path of two segments, as SkyRL names them", () => {
    const path = Either.getOrThrow(Checkpoint.parsePath("tinker://model_1/step_1"))
    assert.deepStrictEqual(
      [path.trainingRunId, path.checkpointType, path.checkpointId],
      ["model_1", "sampler", "step_1"]
    )
  })

  it("names what is wrong with a path", () => {
    for (const path of ["", "run/weights/x", "tinker://run/weights", "tinker://run/other/x", "tinker:///weights/x"]) {
      const parsed = Checkpoint.parsePath(path)
      assert.isTrue(Either.isLeft(parsed), path)
      if (Either.isLeft(parsed)) {
        assert.strictEqual(parsed.left._tag, "InvalidInput")
        assert.include(parsed.left.message, JSON.stringify(path))
      }
    }
  })
})

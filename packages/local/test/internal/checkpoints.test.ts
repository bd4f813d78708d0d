import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Checkpoints, layer } from "../../src/internal/server/checkpoints.js"
import type { Snapshot } from "../../src/LocalAdapter.js"
import * as Storage from "../../src/Storage.js"

/** Memory in which reading takes a while, as it does on a disk. */
const slow = Layer.effect(
  Storage.Storage,
  Effect.map(Storage.memory, (storage) => ({
    ...storage,
    get: (path: string) => Effect.zipRight(Effect.repeatN(Effect.yieldNow(), 20), storage.get(path))
  }))
)

const snapshot = (value: number): Snapshot => {
  const tensor = { name: "a.lora_A", shape: [2], data: Float32Array.of(value, value) }
  return {
    baseModel: "local/tiny",
    rank: 1,
    scale: 181,
    trainAttn: true,
    trainMlp: true,
    trainUnembed: true,
    weights: [tensor],
    optimizer: { steps: value, first: [tensor], second: [tensor] }
  }
}

const options = { runId: "run", kind: "weights", name: "a", owner: "me" } as const

describe("checkpoints", () => {
  it.effect("a checkpoint is read whole while another save replaces it", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const record = yield* checkpoints.save(snapshot(1), options)
      const [loaded] = yield* Effect.all([
        checkpoints.load(record),
        Effect.zipRight(Effect.repeatN(Effect.yieldNow(), 30), checkpoints.save(snapshot(2), options))
      ], { concurrency: "unbounded" })
      assert.deepStrictEqual(loaded, snapshot(1))
      assert.deepStrictEqual(yield* checkpoints.load(record), snapshot(2))
    }).pipe(Effect.provide(Layer.provide(layer, slow))))

  it.effect("publishing changes what is there, not what was there when it was asked for", () =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const old = yield* checkpoints.save(snapshot(1), options)
      yield* checkpoints.save(snapshot(2), { ...options, userMetadata: { n: "2" } })
      const published = yield* checkpoints.update(old, { public: true })
      assert.deepStrictEqual(published.userMetadata, { n: "2" })
      assert.isTrue(published.public)
      assert.deepStrictEqual(yield* checkpoints.list, [published])
    }).pipe(Effect.provide(Layer.provide(layer, slow))))
})

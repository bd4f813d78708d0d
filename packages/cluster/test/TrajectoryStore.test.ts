import { TrajectoryStore } from "@effect-tinker/cluster"
import type { Trajectory } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { LibsqlClient } from "@effect/sql-libsql"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FastCheck as fc, Layer, Option } from "effect"
import * as codec from "../src/internal/codec.js"

const turn = fc.record({
  prompt: fc.int32Array({ maxLength: 8 }),
  action: fc.array(fc.tuple(fc.integer({ min: 0, max: 1 << 20 }), fc.float()), { maxLength: 8 }).map((pairs) => ({
    tokens: Int32Array.from(pairs, ([token]) => token),
    logprobs: Float32Array.from(pairs, ([, logprob]) => logprob),
    stopReason: "stop" as const,
    policyVersion: 3
  })),
  reward: fc.double(),
  masked: fc.boolean(),
  metrics: fc.dictionary(fc.string().filter((key) => key !== "__proto__" && !key.startsWith("$")), fc.double())
})

const trajectory: fc.Arbitrary<Trajectory.Trajectory> = fc.record({
  turns: fc.array(turn, { maxLength: 3 }),
  stop: fc.constant("completed" as const),
  reward: fc.double(),
  metrics: fc.constant({})
})

const example = (reward: number): ReadonlyArray<Trajectory.Trajectory> => [
  { turns: [], stop: "completed", reward, metrics: { none: NaN } }
]

const key = (step: number, task = "file.jsonl#1/../x") =>
  new TrajectoryStore.RolloutKey({ run: "a/b", step, task, sample: 0 })

const Directory = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
    (path) => TrajectoryStore.layerDirectory(path)
  )
)

type Store = Layer.Layer<TrajectoryStore.TrajectoryStore, unknown, FileSystem.FileSystem>

const Sql = Layer.provide(TrajectoryStore.layerSql, LibsqlClient.layer({ url: ":memory:" }))

describe("TrajectoryStore", () => {
  it.prop("keeps every number as it is", [fc.array(trajectory, { maxLength: 2 })], ([trajectories]) => {
    const back = codec.decode(codec.encode(trajectories))
    assert.deepStrictEqual(back._tag === "Right" ? back.right : back.left, trajectories)
  })

  it("refuses what is no trajectory", () => {
    for (const text of ["", "{}", "[1]", "[{\"turns\":[{}],\"reward\":1}]"]) {
      assert.strictEqual(codec.decode(text)._tag, "Left", text)
    }
  })

  it.scoped("in a directory can be read by its user only", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const store = yield* Effect.provide(
        TrajectoryStore.TrajectoryStore,
        TrajectoryStore.layerDirectory(`${root}/store`)
      )
      yield* store.put(key(1), example(1))
      const names = yield* fs.readDirectory(`${root}/store`, { recursive: true })
      for (const name of ["", ...names]) {
        const { mode, type } = yield* fs.stat(`${root}/store/${name}`)
        assert.strictEqual(mode & 0o777, type === "Directory" ? 0o700 : 0o600, name)
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  const stores: ReadonlyArray<readonly [name: string, store: Store]> = [["a directory", Directory], ["a database", Sql]]
  for (const [name, store] of stores) {
    it.scoped(`in ${name}, the first result of a rollout stays`, () =>
      Effect.gen(function*() {
        const { get, has, prune, put } = yield* TrajectoryStore.TrajectoryStore
        assert.isTrue(Option.isNone(yield* get(key(1))))
        assert.isFalse(yield* has(key(1)))
        assert.deepStrictEqual(
          (yield* Effect.all([put(key(1), example(1)), put(key(1), example(2))], { concurrency: 2 })).filter(Boolean)
            .length,
          1
        )
        assert.isFalse(yield* put(key(1), example(3)))
        assert.notStrictEqual(Option.getOrThrow(yield* get(key(1)))[0]?.reward, 3)
        yield* put(key(2), example(4))
        assert.deepStrictEqual(Option.getOrThrow(yield* get(key(2))), example(4))
        yield* prune("a/b", 2)
        assert.isFalse(yield* has(key(1)))
        assert.isTrue(yield* has(key(2)))
      }).pipe(Effect.provide(store), Effect.provide(NodeContext.layer)))
  }
})

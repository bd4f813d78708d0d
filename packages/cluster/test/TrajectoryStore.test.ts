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

    it.scoped(`in ${name}, many are stored and found at once`, () =>
      Effect.gen(function*() {
        const { get, getMany, latest, put, putMany } = yield* TrajectoryStore.TrajectoryStore
        assert.deepStrictEqual(yield* latest("a/b"), Option.none())
        assert.deepStrictEqual(yield* putMany([]), [])
        assert.deepStrictEqual(yield* getMany([]), [])
        yield* put(key(3, "t7"), example(-1))
        // More than one statement has.
        const keys = Array.from({ length: 600 }, (_, n) => key(3, `t${n}`))
        const isNew = yield* putMany(keys.map((key, n) => ({ key, trajectories: example(n) })))
        assert.deepStrictEqual(isNew, keys.map((_, n) => n !== 7))
        const found = yield* getMany([key(4, "t1"), ...keys])
        assert.isTrue(found[0] !== undefined && Option.isNone(found[0]))
        assert.deepStrictEqual(
          found.slice(1).map((one) => Option.getOrThrow(one)[0]?.reward),
          keys.map((_, n) => n === 7 ? -1 : n)
        )
        // Of two with one key one counts.
        const twice = key(12, "twice")
        const which = yield* putMany([
          { key: twice, trajectories: example(0) },
          { key: twice, trajectories: example(1) }
        ])
        assert.strictEqual(which.filter(Boolean).length, 1)
        assert.strictEqual(Option.getOrThrow(yield* get(twice))[0]?.reward, which.indexOf(true))
        assert.deepStrictEqual(yield* latest("a/b"), Option.some(12))
        assert.deepStrictEqual(yield* latest("a"), Option.none())
      }).pipe(Effect.provide(store), Effect.provide(NodeContext.layer)))
  }
})

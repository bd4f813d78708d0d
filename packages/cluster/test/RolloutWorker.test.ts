import { RolloutWorker, RunAuthority, TrajectoryStore } from "@effect-tinker/cluster"
import { Dataset } from "@effect-tinker/cookbook"
import { TinkerLocal } from "@effect-tinker/local"
import { MessageStorage, RunnerHealth, Runners, RunnerStorage, Sharding, ShardingConfig } from "@effect/cluster"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { LibsqlClient } from "@effect/sql-libsql"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Either, Layer, Logger, Option, Redacted } from "effect"
import { TinkerFuture, TrainingClient } from "effect-tinker"
import * as codec from "../src/internal/codec.js"
import * as entityGate from "../src/internal/entityGate.js"
import { renderer, small } from "./utils/small.js"

const Stored = Layer.merge(
  TrajectoryStore.layerSql,
  RunAuthority.layerSql({ secret: Redacted.make("a secret of thirty-two characters") })
).pipe(
  Layer.provide(LibsqlClient.layer({ url: ":memory:" })),
  Layer.merge(Logger.remove(Logger.defaultLogger))
)

const Directory = Layer.unwrapScoped(
  Effect.flatMap(
    FileSystem.FileSystem,
    (fs) => Effect.map(fs.makeTempDirectoryScoped(), TrajectoryStore.layerDirectory)
  )
).pipe(Layer.provide(NodeContext.layer))

const groups = ["default", "cpu"]

/** A cluster of one process, which has all shards. */
const Cluster = Sharding.layer.pipe(
  Layer.provideMerge(Runners.layerNoop),
  Layer.provideMerge(MessageStorage.layerMemory),
  Layer.provideMerge(entityGate.layer),
  Layer.provide([RunnerStorage.layerMemory, RunnerHealth.layerNoop]),
  Layer.provide(ShardingConfig.layer({ availableShardGroups: groups, assignedShardGroups: groups, shardsPerGroup: 4 }))
)

/** A worker over the embedded backend, and a client of one of its slots. */
const start = Effect.gen(function*() {
  const authority = yield* RunAuthority.RunAuthority
  const ran: Array<string> = []
  const local = yield* Layer.build(TinkerLocal.layer())
  const cluster = yield* Layer.build(Cluster)
  const worker = RolloutWorker.layer({
    problems: Dataset.fromIterable([small(0), small(1)]),
    settings: { renderer: yield* renderer },
    concurrency: 3,
    onRollout: ({ key }) => Effect.sync(() => void ran.push(key.text))
  })
  yield* Effect.provide(Layer.build(Layer.fresh(worker)), Context.merge(local, cluster))
  const training = yield* Effect.provide(TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4 }), local)
  const { path } = yield* TinkerFuture.await(training.saveWeightsForSampler("here"))
  yield* authority.register("mine")
  const slot = (yield* Effect.provide(RolloutWorker.Slot.client, cluster))("cpu/mine/0")
  const requestOf = (sample: number, problem = "memory#1") =>
    new RolloutWorker.RolloutRequest({
      key: new TrajectoryStore.RolloutKey({ run: "mine", step: 0, task: `0:${problem}`, sample }),
      problem,
      seed: 5,
      policy: { path, version: 0, maxTokens: 4 },
      limits: {}
    })
  const signed = Effect.fnUntraced(function*(request: RolloutWorker.RolloutRequest) {
    return { request, signature: yield* authority.sign("mine", RolloutWorker.signedText(request)) }
  })
  return { ran, requestOf, signed, slot }
})

/** As the codec writes arrays, of anything. */
const textOf = (value: unknown) =>
  JSON.stringify(value, (_, item: unknown) =>
    item instanceof Int32Array
      ? { $i32: Buffer.from(item.buffer).toString("base64") }
      : item instanceof Float32Array
      ? { $f32: Buffer.from(item.buffer).toString("base64") }
      : item)

const given = (reward: number) => [{ turns: [], stop: "completed" as const, reward, metrics: {} }]

describe("RolloutWorker", () => {
  it.scopedLive("runs what is asked for through the database once, and stores it", () =>
    Effect.gen(function*() {
      const store = yield* TrajectoryStore.TrajectoryStore
      const { ran, requestOf, signed, slot } = yield* start
      const request = requestOf(0)
      const receipt = yield* slot.rollout(yield* signed(request))
      assert.strictEqual(receipt.concurrency, 3)
      const [trajectory] = Option.getOrThrow(yield* store.get(request.key))
      assert.deepStrictEqual(Array.from(trajectory?.turns[0]?.prompt ?? []), [65, 67])
      assert.strictEqual(trajectory?.turns[0]?.action.tokens.length, 4)
      assert.deepStrictEqual(ran, [request.key.text])
      // What is stored already is not run again.
      const known = requestOf(1)
      yield* store.put(known.key, given(1))
      yield* slot.rollout(yield* signed(known))
      assert.deepStrictEqual(yield* store.get(known.key), Option.some(given(1)))
      assert.deepStrictEqual(ran, [request.key.text])
    }).pipe(Effect.provide(Stored)), 60_000)

  it.scopedLive(
    "gives what is asked for directly to the trainer, the same with the same seed, and once again if asked",
    () =>
      Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        const { ran, requestOf, signed, slot } = yield* start
        const play = Effect.fnUntraced(function*(request: RolloutWorker.RolloutRequest) {
          const { trajectories } = yield* slot.play(yield* signed(request))
          return trajectories ?? ""
        })
        const first = yield* play(requestOf(0))
        const decoded = Either.getOrThrow(codec.decode(first))
        assert.deepStrictEqual(Array.from(decoded[0]?.turns[0]?.prompt ?? []), [65, 67])
        // Kept until the trainer has stored it: an answer that was lost is given again.
        assert.strictEqual(yield* play(requestOf(0)), first)
        const other = Either.getOrThrow(codec.decode(yield* play(requestOf(1))))
        assert.deepStrictEqual(other[0]?.turns[0]?.action.tokens, decoded[0]?.turns[0]?.action.tokens)
        assert.isTrue(Option.isNone(yield* store.get(requestOf(0).key)))
        // To look whether it is stored costs more than to run it again.
        yield* store.put(requestOf(2).key, given(1))
        const again = Either.getOrThrow(codec.decode(yield* play(requestOf(2))))
        assert.strictEqual(again[0]?.turns.length, 1)
        assert.deepStrictEqual(ran, [])
        yield* slot.stored({ kept: [requestOf(0).key.text], known: [requestOf(1).key.text, requestOf(2).key.text] })
        assert.deepStrictEqual(ran, [requestOf(0).key.text])
      }).pipe(Effect.provide(Stored)),
    60_000
  )

  it.scopedLive(
    "stores by itself where each result is written alone, and runs nothing that is stored there",
    () =>
      Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        assert.strictEqual(store.writer, "worker")
        const { ran, requestOf, signed, slot } = yield* start
        yield* store.put(requestOf(1).key, given(1))
        for (const sample of [0, 1]) {
          assert.isUndefined((yield* slot.play(yield* signed(requestOf(sample)))).trajectories)
        }
        assert.deepStrictEqual(ran, [requestOf(0).key.text])
        const [trajectory] = Option.getOrThrow(yield* store.get(requestOf(0).key))
        assert.strictEqual(trajectory?.turns.length, 1)
        assert.deepStrictEqual(yield* store.get(requestOf(1).key), Option.some(given(1)))
      }).pipe(Effect.provide(Layer.merge(Stored, Directory))),
    60_000
  )

  it.scopedLive(
    "does nothing without a signature, and says which problem it does not have",
    () =>
      Effect.gen(function*() {
        const { ran, requestOf, signed, slot } = yield* start
        const request = requestOf(0)
        const { signature } = yield* signed(requestOf(1))
        for (
          const attempt of [
            Effect.asVoid(slot.play({ request })),
            Effect.asVoid(slot.play({ request, signature })),
            Effect.asVoid(slot.rollout({ request, signature }))
          ]
        ) {
          assert.include((yield* Effect.flip(attempt)).message, "is refused")
        }
        const missing = yield* Effect.flip(slot.play(yield* signed(requestOf(0, "memory#2"))))
        assert.include(missing.message, "there is no problem memory#2 here")
        assert.deepStrictEqual(ran, [])
      }).pipe(Effect.provide(Stored)),
    60_000
  )
})

describe("texts of trajectories", () => {
  it("are refused where a number or an array is missing", () => {
    const action = {
      tokens: Int32Array.of(1, 2),
      logprobs: Float32Array.of(-0.5, -0),
      stopReason: "stop" as const,
      policyVersion: 0
    }
    const turn = {
      prompt: Int32Array.of(3),
      action,
      reward: 1,
      masked: false,
      metrics: { none: NaN, most: Infinity, least: -0 }
    }
    const whole = [{ turns: [turn], stop: "completed" as const, reward: 1, metrics: {} }]
    assert.deepStrictEqual(Either.getOrThrow(codec.decode(codec.encode(whole))), whole)
    const isWrong = (value: unknown) => Either.isLeft(codec.decode(textOf(value)))
    const withTurn = (more: object) => [{ ...whole[0], turns: [{ ...turn, ...more }] }]
    for (
      const value of [
        {},
        [3],
        [{ ...whole[0], reward: "1" }],
        [{ ...whole[0], turns: 3 }],
        withTurn({ prompt: [3] }),
        withTurn({ prompt: undefined }),
        withTurn({ action: undefined }),
        withTurn({ action: { ...action, tokens: [1, 2] } }),
        withTurn({ action: { ...action, logprobs: [-0.5, 0] } }),
        withTurn({ action: { ...action, logprobs: Float32Array.of(-0.5) } })
      ]
    ) assert.isTrue(isWrong(value), JSON.stringify(value))
    assert.isTrue(Either.isLeft(codec.decode("no json")))
    assert.isTrue(Either.isLeft(codec.decode("[{\"turns\":[{\"prompt\":{\"$i32\":\"A\"}}],\"reward\":1}]")))
  })
})

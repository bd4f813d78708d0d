import { RolloutCluster, RolloutWorker, RunAuthority, TrajectoryStore } from "@effect-tinker/cluster"
import { Dataset, type Environment, Rollout, type Trajectory } from "@effect-tinker/cookbook"
import { TinkerLocal } from "@effect-tinker/local"
import { MessageStorage, RunnerHealth, Runners, RunnerStorage, Sharding, ShardingConfig } from "@effect/cluster"
import { LibsqlClient } from "@effect/sql-libsql"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Context, Duration, Effect, Exit, Layer, Logger, Option, Redacted, Schedule, Stream } from "effect"
import { TrainingClient } from "effect-tinker"
import * as codec from "../src/internal/codec.js"
import { renderer, small } from "./utils/small.js"

const Stored = Layer.merge(
  TrajectoryStore.layerSql,
  RunAuthority.layerSql({ secret: Redacted.make("a secret of thirty-two characters") })
).pipe(
  Layer.provide(LibsqlClient.layer({ url: ":memory:" })),
  // Rollouts are late on purpose.
  Layer.merge(Logger.remove(Logger.defaultLogger))
)

const groups = ["default", "cpu"]

/** A cluster of one process, which has all shards. */
const Cluster = Sharding.layer.pipe(
  Layer.provideMerge(Runners.layerNoop),
  Layer.provideMerge(MessageStorage.layerMemory),
  Layer.provide([RunnerStorage.layerMemory, RunnerHealth.layerNoop]),
  Layer.provide(ShardingConfig.layer({ availableShardGroups: groups, assignedShardGroups: groups, shardsPerGroup: 4 }))
)

const rewarded = (reward: number): ReadonlyArray<Trajectory.Trajectory> => [
  { turns: [], stop: "completed", reward, metrics: {} }
]

const keyOf = (step: number, sample = 0, index = 0) =>
  new TrajectoryStore.RolloutKey({ run: "mine", step, task: `${index}:memory#0`, sample })

interface Asked {
  readonly request: RolloutWorker.RolloutRequest
  readonly signature: string | undefined
}

/** A trainer, and a worker that does what a test says of its nth rollout. */
const start = Effect.fnUntraced(function*(
  play: (request: RolloutWorker.RolloutRequest, n: number) => Effect.Effect<
    ReadonlyArray<Trajectory.Trajectory>,
    RolloutWorker.RolloutFailed
  >,
  options?: Partial<RolloutCluster.Options>
) {
  const asked: Array<Asked> = []
  const kept: Array<string> = []
  const known: Array<string> = []
  const receipt = new RolloutWorker.Receipt({ worker: "worker:1", concurrency: 8 })
  const slots = RolloutWorker.Slot.toLayer(
    Effect.succeed(RolloutWorker.Slot.of({
      worker: () => Effect.succeed(receipt),
      rollout: () => Effect.dieMessage("a worker that answers is asked directly"),
      play: ({ payload: { request, signature } }) =>
        Effect.map(
          play(request, asked.push({ request, signature })),
          (trajectories) => new RolloutWorker.Played({ receipt, trajectories: codec.encode(trajectories) })
        ),
      stored: ({ payload }) =>
        Effect.sync(() => {
          kept.push(...payload.kept)
          known.push(...payload.known)
        })
    })),
    { concurrency: "unbounded" }
  )
  const context = yield* Layer.build(
    RolloutCluster.layer({ run: "mine", slots: 8, ...options }).pipe(
      Layer.provide(Layer.provideMerge(slots, Cluster)),
      Layer.merge(TinkerLocal.layer())
    )
  )
  const runner = Context.get(context, Rollout.Runner)
  const training = yield* Effect.provide(TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4 }), context)
  const publish = (version: number) => runner.publish(training, { maxTokens: 4, temperature: 0.5, version })
  const policy = yield* publish(3)
  const settings = { renderer: yield* renderer }
  const [problem] = Chunk.toReadonlyArray(
    yield* Stream.runCollect(Dataset.values(RolloutCluster.problems(Dataset.fromIterable([small(0)]))))
  )
  const roll = (
    at?: { readonly step: number; readonly index: number },
    more?: {
      readonly member?: number
      readonly seed?: number
      readonly limits?: Rollout.Limits
      readonly problem?: Environment.Group
    }
  ) =>
    problem === undefined
      ? Effect.dieMessage("there is a problem")
      : runner.episode({ policy, problem, settings, member: 0, at, ...more })
  const rewards = (...given: Parameters<typeof roll>) =>
    Effect.map(roll(...given), (trajectories) => trajectories.map(({ reward }) => reward))
  return { asked, kept, known, publish, roll, rewards }
})

const until = (condition: () => boolean) =>
  Effect.sync(condition).pipe(
    Effect.repeat({ until: (yes) => yes, schedule: Schedule.spaced("10 millis") }),
    Effect.timeout("20 seconds")
  )

const later = { step: 3, index: 0 }

describe("RolloutCluster", () => {
  it.scopedLive(
    "asks a worker for what the trainer would run, with its signature, and stores what it gives",
    () =>
      Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        const authority = yield* RunAuthority.RunAuthority
        const { asked, kept, known, rewards } = yield* start(() => Effect.succeed(rewarded(0.25)), { weight: 2 })
        const limits = { maxTurns: 2, timeout: "3 seconds" } as const
        assert.deepStrictEqual(yield* rewards({ step: 3, index: 7 }, { member: 1, seed: 5, limits }), [0.25])
        assert.strictEqual(asked.length, 1)
        const [{ request, signature } = { request: undefined, signature: undefined }] = asked
        assert(request !== undefined)
        assert.strictEqual(request.key.text, "mine/3/7:memory#0/1")
        assert.deepStrictEqual([request.problem, request.seed, request.weight], ["memory#0", 5, 2])
        assert.strictEqual(request.limits.maxTurns, 2)
        assert.deepStrictEqual(request.limits.timeout, Duration.seconds(3))
        assert.deepInclude(request.policy, { version: 3, maxTokens: 4, temperature: 0.5 })
        assert.match(request.policy.path, /^tinker:\/\/.*sampler_weights\/rollouts-000003$/)
        yield* authority.check("mine", RolloutWorker.signedText(request), signature ?? "")
        // It is stored under its key, and the worker hears that it need not keep it.
        assert.deepStrictEqual(Option.map(yield* store.get(keyOf(3, 1, 7)), ([one]) => one?.reward), Option.some(0.25))
        yield* until(() => kept.length > 0)
        assert.deepStrictEqual([kept, known], [["mine/3/7:memory#0/1"], []])
      }).pipe(Effect.provide(Stored)),
    60_000
  )

  it.scopedLive(
    "what an earlier process has stored is not run again, up to its last step",
    () =>
      Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        yield* store.put(keyOf(3), rewarded(1))
        yield* store.put(keyOf(4, 1), rewarded(2))
        const { asked, rewards } = yield* start(() => Effect.succeed(rewarded(9)))
        assert.deepStrictEqual(yield* rewards(later), [1])
        assert.deepStrictEqual(yield* rewards({ step: 4, index: 0 }, { member: 1 }), [2])
        assert.deepStrictEqual(asked, [])
        // Its step had begun, and this one had not ended.
        assert.deepStrictEqual(yield* rewards({ step: 4, index: 0 }), [9])
        assert.strictEqual(asked.length, 1)
      }).pipe(Effect.provide(Stored)),
    60_000
  )

  it.scopedLive("of two results for a rollout the one that was stored first counts", () =>
    Effect.gen(function*() {
      const store = yield* TrajectoryStore.TrajectoryStore
      const { kept, known, rewards } = yield* start(({ key }) =>
        Effect.as(Effect.orDie(store.put(key, rewarded(1))), rewarded(2))
      )
      assert.deepStrictEqual(yield* rewards(later), [1])
      yield* until(() => known.length > 0)
      assert.deepStrictEqual([kept, known], [[], ["mine/3/0:memory#0/0"]])
    }).pipe(Effect.provide(Stored)), 60_000)

  it.scopedLive(
    "a rollout that is late is given away again, and the first to end counts",
    () =>
      Effect.gen(function*() {
        const { asked, rewards } = yield* start(
          (_, n) => n === 1 ? Effect.never : Effect.succeed(rewarded(n)),
          { stragglerAfter: "300 millis" }
        )
        assert.deepStrictEqual(yield* rewards(later), [2])
        assert.strictEqual(asked.length, 2)
        assert.strictEqual(asked[0]?.request.key.text, asked[1]?.request.key.text)
      }).pipe(Effect.provide(Stored)),
    60_000
  )

  it.scopedLive(
    "none is given away more often than allowed: those that are late, and those that fail",
    () =>
      Effect.gen(function*() {
        const never = yield* start(() => Effect.never, { stragglerAfter: "100 millis", attempts: 3 })
        const late = yield* Effect.flip(never.roll(later))
        assert.include(late.message, "3 attempts, none of which ended within 100ms")
        assert.strictEqual(never.asked.length, 3)
      }).pipe(Effect.provide(Stored)),
    60_000
  )

  it.scopedLive(
    "a failure is tried again by as many attempts; one that passes by itself does not count",
    () =>
      Effect.gen(function*() {
        const failing = (isTransient: (n: number) => boolean) => ({ key }: RolloutWorker.RolloutRequest, n: number) =>
          n > 4
            ? Effect.succeed(rewarded(n))
            : new RolloutWorker.RolloutFailed({
              key: key.text,
              description: "out of order",
              isTransient: isTransient(n)
            })
        const failed = yield* start(failing(() => false), { attempts: 3 })
        assert.include((yield* Effect.flip(failed.roll(later))).message, "out of order")
        assert.strictEqual(failed.asked.length, 3)
        // Four workers, unless more or fewer are asked for.
        const usual = yield* start(failing(() => false))
        yield* Effect.flip(usual.roll({ step: 4, index: 0 }))
        assert.strictEqual(usual.asked.length, 4)
        // The third is transient, so that two more may fail for good: the fifth succeeds.
        const passing = yield* start(failing((n) => n === 3), { attempts: 3 })
        assert.deepStrictEqual(yield* passing.rewards({ step: 5, index: 0 }), [5])
      }).pipe(Effect.provide(Stored)),
    60_000
  )

  it.scopedLive("evaluations run here; a problem that workers cannot know is refused", () =>
    Effect.gen(function*() {
      const { asked, roll } = yield* start(() => Effect.succeed(rewarded(9)))
      const [evaluated] = yield* roll()
      assert.strictEqual(evaluated?.turns.length, 1)
      const unknown = yield* Effect.exit(roll(later, { problem: small(0) }))
      assert.isTrue(Exit.isFailure(unknown))
      assert.include(String(unknown), "give the trainer RolloutCluster.problems")
      assert.deepStrictEqual(asked, [])
    }).pipe(Effect.provide(Stored)), 60_000)

  it.scopedLive(
    "what was sampled for steps long ago is removed as policies are published",
    () =>
      Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        for (const step of [0, 1, 2, 3]) yield* store.put(keyOf(step), rewarded(step))
        const { publish } = yield* start(() => Effect.never, { keepSteps: 3 })
        const kept = Effect.map(
          store.getMany([0, 1, 2, 3].map((step) => keyOf(step))),
          (found) => found.map((one) => Option.isSome(one))
        )
        // At version 3 nothing is older than three steps; at version 5, what came before step 2.
        assert.deepStrictEqual(yield* kept, [true, true, true, true])
        yield* publish(5)
        assert.deepStrictEqual(yield* kept, [false, false, true, true])
        // Those of the step that begins are kept whatever is asked for.
        yield* start(() => Effect.never, { keepSteps: -1 })
        assert.deepStrictEqual(yield* kept, [false, false, false, true])
      }).pipe(Effect.provide(Stored)),
    60_000
  )
})

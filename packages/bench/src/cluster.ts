/**
 * What durability costs a run, and how rollouts grow with workers: wall time, with environments that wait rather than
 * compute, so that the cores of this machine are not what is measured.
 */
import { DurableRun } from "@effect-tinker/cluster"
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import * as RolloutCluster from "@effect-tinker/cluster/RolloutCluster"
import * as TrajectoryStore from "@effect-tinker/cluster/TrajectoryStore"
import * as WorkerPlan from "@effect-tinker/cluster/WorkerPlan"
import { Dataset, Reinforce, Rollout, RunLog } from "@effect-tinker/cookbook"
import { TinkerLocal } from "@effect-tinker/local"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { SqlClient } from "@effect/sql"
import { Chunk, Clock, Duration, Effect, Layer, Option, Redacted, Scope, Stream } from "effect"
import { TinkerFuture, TrainingClient } from "effect-tinker"
import type { Bench } from "./Bench.js"
import { BenchFailed, median, round, sized } from "./Bench.js"
import * as env from "./cluster/environment.js"
import * as Program from "./Program.js"

const failed = (error: unknown) => new BenchFailed({ reason: error instanceof Error ? error.message : String(error) })

// =============================================================================
// durable runs
// =============================================================================

const steps = sized(12, 4)
const saveEvery = 4
const stepWait = Duration.millis(sized(1500, 20))
const turns = sized(2, 1)

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const started = yield* Clock.currentTimeMillis
    yield* effect
    return (yield* Clock.currentTimeMillis) - started
  })

const train = (wait: Duration.Duration) => (log: RunLog.Target<FileSystem.FileSystem>) =>
  Stream.unwrap(Effect.map(env.renderer, (renderer) =>
    Reinforce.train({
      model: { baseModel: "local/tiny", rank: 4, seed: 1 },
      problems: env.problems(2 * steps, wait),
      renderer,
      learningRate: 1e-3,
      maxTokens: 4,
      groupSize: 4,
      groupsPerBatch: 2,
      checkpoints: { periodic: { steps: saveEvery } },
      log
    })))

/** Milliseconds of the same run, plain and durable: from opening its engine to having closed it. */
const durability = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-bench-" })
  const once = Effect.fnUntraced(function*(name: string, isDurable: boolean, wait: Duration.Duration) {
    const directory = `${root}/${name}`
    yield* fs.makeDirectory(`${directory}-backend`)
    const run = isDurable
      ? Stream.runDrain(DurableRun.train({ directory, train: train(wait) })).pipe(
        Effect.provide(NodeDurable.layerDirectory(directory))
      )
      : Stream.runDrain(train(wait)(RunLog.directory(directory)))
    return yield* timed(run.pipe(
      Effect.provide(Layer.provideMerge(TinkerLocal.layerDirectory(`${directory}-backend`), NodeContext.layer))
    ))
  })
  // What the first run of a process compiles is nobody's.
  yield* once("first", true, Duration.zero)
  const pairs: Array<readonly [plain: number, durable: number]> = []
  for (let turn = 0; turn < turns; turn++) {
    const plain = once(`plain-${turn}`, false, stepWait)
    const durable = once(`durable-${turn}`, true, stepWait)
    // Each is first in turn.
    pairs.push(
      yield* turn % 2 === 0
        ? Effect.all([plain, durable])
        : Effect.map(Effect.all([durable, plain]), ([durable, plain]) => [plain, durable] as const)
    )
  }
  return pairs
})

// =============================================================================
// workers
// =============================================================================

const concurrency = sized(8, 2)
const perWorker = sized(48, 4)

interface Throughput {
  readonly workers: number
  readonly perSecond: number
  /** Seconds of the server for each rollout. */
  readonly sampling: number
  /** Seconds of the trainer's processor for each rollout. */
  readonly trainer: number
  /** Statements for each rollout: those of the trainer's store, and of messages that go through the database. */
  readonly transactions: number
  /** What the database committed more than while nothing runs; as exact as polling is regular. */
  readonly measured: number
  /** Transactions for each rollout, with those of polling meanwhile. */
  readonly withPolling: number
  /** Transactions per second of each worker that waits. */
  readonly idle: number
  readonly bytes: number
}

/** The store, which says how often it asks the database. */
const counted = (onStatement: () => void) =>
  Layer.effect(
    TrajectoryStore.TrajectoryStore,
    Effect.map(TrajectoryStore.TrajectoryStore, (store) => {
      const note = <A, E>(effect: Effect.Effect<A, E>) => Effect.zipRight(Effect.sync(onStatement), effect)
      return TrajectoryStore.TrajectoryStore.of({
        ...store,
        put: (key, trajectories) => note(store.put(key, trajectories)),
        putMany: (entries) => note(store.putMany(entries)),
        has: (key) => note(store.has(key)),
        get: (key) => note(store.get(key)),
        getMany: (keys) => note(store.getMany(keys))
      })
    })
  )

/** What a message costs that goes through the database: it is saved, read, answered and removed. */
const perMessage = 4

const seconds = ({ system, user }: NodeJS.CpuUsage) => (system + user) / 1e6

/** Rollouts per second of so many workers, and what they cost the database. */
const throughput = Effect.fnUntraced(function*(database: Redacted.Redacted, workers: number) {
  const scope = yield* Effect.scope
  const server = yield* Program.startModule("./cluster/server.js")
  const [baseUrl = "", apiKey = ""] = (yield* server.ask("")).split(" ")
  for (let n = 0; n < workers; n++) {
    const worker = yield* Program.startModule(
      "./cluster/worker.js",
      Redacted.value(database),
      baseUrl,
      apiKey,
      String(concurrency)
    )
    yield* worker.ask("")
  }
  let statements = 0
  const cluster = RolloutCluster.layer({ run: `workers-${workers}`, slots: slotsOf(workers) }).pipe(
    Layer.provideMerge(Layer.merge(
      NodeCluster.layerClient,
      Layer.provide(counted(() => statements++), TrajectoryStore.layerSql)
    )),
    Layer.provideMerge(NodeCluster.layerPostgres({ url: database }))
  )
  return yield* Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const runner = yield* Rollout.Runner
    const renderer = yield* env.renderer
    const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4 })
    const policy = yield* Scope.extend(runner.publish(training, { maxTokens: 4, version: 0 }), scope)
    const problems = yield* Stream.runCollect(
      Dataset.values(RolloutCluster.problems(env.problems(perWorker * workers, env.wait)))
    )
    const roll = (step: number, count: number) =>
      Effect.forEach(
        Chunk.take(problems, count),
        (problem, index) =>
          runner.episode({ policy, problem, settings: { renderer }, member: 0, seed: index, at: { step, index } }),
        { concurrency: "unbounded" }
      )
    // Counters are written with a delay.
    const commits = Effect.zipRight(
      Effect.sleep("1500 millis"),
      Effect.map(
        sql<{ readonly n: string }>`SELECT xact_commit AS n FROM pg_stat_database WHERE datname = current_database()`,
        ([row]) => Number(row?.n)
      )
    )
    // Who waits for others to be sampled first: the server does one after the other.
    const probe = yield* TinkerFuture.await(training.saveWeightsForSampler("probe"))
    const sampler = yield* Scope.extend(training.createSamplingClient(probe.path), scope)
    const sample = sampler.sample({ prompt: [65, 66], maxTokens: 4 })
    const probes = sized(256, 8)
    yield* Effect.replicateEffect(sample, 16, { concurrency: 16, discard: true })
    const [took] = yield* Effect.timed(Effect.replicateEffect(sample, probes, { concurrency: 16, discard: true }))
    const sampling = Duration.toSeconds(took) / probes
    // The first ones wait until all workers have their shards.
    yield* roll(0, concurrency * workers)
    const messages = Effect.map(
      sql<{ readonly n: string }>`SELECT n_tup_ins AS n FROM pg_stat_user_tables WHERE relname = 'cluster_messages'`,
      ([row]) => Number(row?.n ?? 0)
    )
    /** Transactions per second, and seconds of this process, while nothing runs. */
    const quiet = Effect.gen(function*() {
      const used = process.cpuUsage()
      const from = yield* commits
      const [took, to] = yield* Effect.timed(Effect.zipRight(Effect.sleep(Duration.seconds(sized(12, 1))), commits))
      return {
        polls: (to - from) / Duration.toSeconds(took),
        busy: seconds(process.cpuUsage(used)) / (Duration.toSeconds(took) + 1.5)
      }
    })
    const quietBefore = yield* quiet
    const [messagesBefore, statementsBefore] = [yield* messages, statements]
    const before = yield* commits
    const started = process.cpuUsage()
    const [whole, millis] = yield* Effect.timed(timed(roll(1, problems.length)))
    const used = process.cpuUsage(started)
    const after = yield* commits
    const asked = statements - statementsBefore + perMessage * ((yield* messages) - messagesBefore)
    const quietAfter = yield* quiet
    const idle = (quietBefore.polls + quietAfter.polls) / 2
    const quietly = (quietBefore.busy + quietAfter.busy) / 2
    const [size] = yield* sql<{ readonly bytes: number }>`
      SELECT avg(length(trajectories))::int AS bytes FROM tinker_trajectories WHERE run = ${`workers-${workers}`}`
    const found: Throughput = {
      workers,
      perSecond: 1000 * problems.length / millis,
      sampling,
      trainer: Math.max(0, seconds(used) - quietly * millis / 1000) / problems.length,
      transactions: asked / problems.length,
      measured: (after - before - idle * (Duration.toSeconds(whole) + 1.5)) / problems.length,
      withPolling: (after - before) / problems.length,
      idle: Math.max(0, idle - idleOfTrainer) / workers,
      bytes: size?.bytes ?? NaN
    }
    return found
  }).pipe(Effect.provide(cluster), Effect.provide(env.clients(baseUrl, apiKey)))
}, Effect.scoped)

/** Twice as many as run at once. */
const slotsOf = (workers: number) => 2 * concurrency * workers

/** Transactions per second of a trainer that waits: it looks who the workers are. */
const idleOfTrainer = 1

/** What this Postgres does: trajectories stored one by one, ten at once, and 64 in a statement. */
const capacityOf = (database: Redacted.Redacted) =>
  Effect.gen(function*() {
    const store = yield* TrajectoryStore.TrajectoryStore
    let sample = 0
    const key = () => new TrajectoryStore.RolloutKey({ run: "capacity", step: 0, task: "any", sample: sample++ })
    const put = Effect.suspend(() => store.put(key(), []))
    const [took] = yield* Effect.timed(Effect.replicateEffect(put, sized(4000, 40), { concurrency: 10, discard: true }))
    const transactions = sized(4000, 40) / Duration.toSeconds(took)
    const together = Effect.suspend(() =>
      store.putMany(Array.from({ length: 64 }, () => ({ key: key(), trajectories: [] })))
    )
    const [tookTogether] = yield* Effect.timed(
      Effect.replicateEffect(together, sized(200, 2), { concurrency: 4, discard: true })
    )
    // What a statement costs beside its rows.
    const statements = sized(200, 2)
    const rows = Math.max(1e-3, Duration.toSeconds(tookTogether) - statements / transactions)
    return { transactions, rows: 64 * statements / rows }
  }).pipe(
    Effect.provide(TrajectoryStore.layerSql),
    Effect.provide(NodeCluster.layerPostgres({ url: database }))
  )

type Capacity = Effect.Effect.Success<ReturnType<typeof capacityOf>>

const settingOf = (measured: Throughput, capacity: Capacity, workers: number): WorkerPlan.Setting => ({
  workers,
  concurrency,
  seconds: Duration.toSeconds(env.wait),
  slots: slotsOf(workers),
  trainers: 1,
  sampling: measured.sampling,
  trainer: measured.trainer,
  database: { ...capacity, idle: measured.idle }
})

/** The model with what was measured, for numbers of workers that this machine does not have. */
const growth = (measured: Throughput, capacity: Capacity): ReadonlyArray<ReadonlyArray<string>> =>
  [1, 4, 16, 64, 128, 1024].flatMap((workers) =>
    [1, Duration.toSeconds(env.wait), 60].map((seconds) => {
      const setting = settingOf(measured, capacity, workers)
      // As many servers and trainers as it needs: the database is one.
      const trainers = Math.max(1, Math.ceil(workers * concurrency / seconds * measured.trainer / 0.8))
      const { database, perSecond, transactions } = WorkerPlan.simulate({ ...setting, seconds, sampling: 0, trainers })
      return [
        `model: ${workers} workers, rollouts of ${seconds} s, ${trainers} trainers`,
        "",
        perSecond.toFixed(1),
        `${Math.round(100 * database)} %, ${transactions.toFixed(3)} each`,
        `${(perSecond * measured.bytes / 1024).toFixed(1)} KiB/s`
      ]
    })
  )

// =============================================================================
// the bench
// =============================================================================

export const bench: Bench = {
  summary: `a durable run beside a plain one; rollouts that wait ${
    Duration.toSeconds(env.wait)
  } s, ${concurrency} at once per worker`,
  run: Effect.gen(function*() {
    const pairs = yield* durability
    const [plain, durable] = [median(pairs.map(([ms]) => ms)), median(pairs.map(([, ms]) => ms))]
    const rows: Array<ReadonlyArray<string>> = [
      ["variant", "seconds", "rollouts/s", "transactions per rollout", "bytes per rollout"],
      ["plain run", (plain / 1000).toFixed(1), "", "", ""],
      ["durable run", (durable / 1000).toFixed(1), "", "", ""]
    ]
    const ratios: Record<string, number> = {
      durable_to_plain: round(median(pairs.map(([plain, durable]) => durable / plain)))
    }
    const database = yield* NodePostgres.start
    if (Option.isSome(database)) {
      const points: Array<Throughput> = []
      for (const workers of sized([1, 2, 4, 8], [1])) {
        const point = yield* throughput(database.value, workers)
        const { bytes, measured, perSecond, transactions, withPolling } = point
        points.push(point)
        if (workers > 1) ratios[`workers_${workers}`] = round(perSecond / (points[0]?.perSecond ?? NaN))
        const ofIdeal = perSecond / (workers * concurrency / Duration.toSeconds(env.wait))
        rows.push([
          `${workers} workers, ${ofIdeal.toFixed(2)} of what they could`,
          "",
          perSecond.toFixed(2),
          `${transactions.toFixed(2)}; committed ${measured.toFixed(2)}, with polling ${withPolling.toFixed(2)}`,
          String(bytes)
        ])
      }
      const last = points.at(-1)
      if (last !== undefined) {
        // 64 rollouts at once, where there are eight workers.
        ratios["transactions_per_rollout"] = round(last.transactions)
        const capacity = yield* capacityOf(database.value)
        const line = (text: string) => [text, "", "", "", ""]
        rows.push(
          line(""),
          line(`this database: ${capacity.transactions.toFixed(0)} transactions/s, ${capacity.rows.toFixed(0)} rows/s`),
          line(`a worker that waits: ${last.idle.toFixed(2)} transactions/s`),
          line(`the server: ${(1000 * last.sampling).toFixed(1)} ms per rollout`),
          line(`the trainer: ${(1000 * last.trainer).toFixed(1)} ms per rollout`),
          line("")
        )
        // What was measured with one worker tells what more of them do.
        const [first = last] = points
        const errors = points.map((point) => {
          const { perSecond } = WorkerPlan.simulate({
            ...settingOf({ ...first, trainer: last.trainer }, capacity, point.workers),
            count: perWorker * point.workers
          })
          rows.push([`planned: ${point.workers} workers`, "", perSecond.toFixed(2), "", ""])
          return Math.abs(perSecond - point.perSecond) / point.perSecond
        })
        ratios["plan_error"] = round(Math.max(...errors))
        rows.push(line(""))
        rows.push(["", "", "rollouts/s", "of the database", "trajectories"], ...growth(last, capacity))
      }
    }
    return {
      table: rows,
      ratios,
      notes: [
        "`transactions_per_rollout` is of 64 rollouts at once: statements of the trainer's store, and four for each message that " +
        "goes through the database. What was committed beside polling is a difference of two large numbers, and as exact " +
        "as polling is regular. `plan_error` is the largest error of the plan, made with what one worker measured, for 1, 2, " +
        "4 and 8 workers. Of both less is better.",
        `A durable run has an activity every ${saveEvery} steps, about ${
          (plain / 1000 / steps * saveEvery).toFixed(1)
        } s; \`durable_to_plain\` is wall time, lower is better.`,
        Option.isSome(database)
          ? "`workers_N`: rollouts per second of N workers, of those of one. The model is a simulation with what was measured."
          : "There is no Postgres on this machine (apt-get install postgresql): workers are left out."
      ]
    }
  }).pipe(
    Effect.scoped,
    Effect.mapError((error) => error instanceof BenchFailed ? error : failed(error))
  )
}

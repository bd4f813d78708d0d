import { RolloutCluster, RolloutWorker, TrajectoryStore } from "@effect-tinker/cluster"
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import { Dataset, Environment, Reinforce, Rollout } from "@effect-tinker/cookbook"
import { LocalTokenizer } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeContext } from "@effect/platform-node"
import { SqlClient } from "@effect/sql"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Duration, Effect, Fiber, Layer, Logger, LogLevel, Option, Redacted, Schedule, Stream } from "effect"
import { Tinker, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { renderer, small } from "./utils/small.js"

const apiKey = "tml-workers-never-in-a-database"
const count = 96

const problems = (after: Duration.DurationInput = 0) =>
  Dataset.fromIterable(Array.from({ length: count }, (_, n) => small(n % 64, after)))

/** A server with a key, and clients of it. */
const Tinkered = Layer.unwrapScoped(Effect.gen(function*() {
  const local = yield* Layer.build(NodeTinkerLocal.layerServer({ port: 0, apiKeys: [{ key: Redacted.make(apiKey) }] }))
  const { baseUrl } = yield* Effect.provide(NodeTinkerLocal.LocalServerAddress, local)
  return Layer.provide(Tinker.layer({ baseUrl, apiKey, allowInsecure: true }), NodeTinker.layer())
}))

/** A worker of this process; says which rollouts it ran. */
const join = Effect.fnUntraced(function*(options: {
  readonly labels?: ReadonlyArray<RolloutWorker.Label>
  readonly concurrency?: number
  readonly after?: Duration.DurationInput
  readonly problems?: Dataset.Dataset<Environment.Group>
}) {
  const ran: Array<string> = []
  const worker = RolloutWorker.layer({
    problems: options.problems ?? problems(options.after),
    settings: { renderer: yield* renderer },
    concurrency: options.concurrency,
    onRollout: ({ key }) => Effect.sync(() => void ran.push(key.text))
  })
  const cluster = NodeCluster.layerWorker(options)
  yield* Layer.build(Layer.fresh(Layer.provide(worker, cluster)))
  return ran
})

/** Runs one rollout of each of the first problems. */
const roll = Effect.fnUntraced(function*(first: number) {
  const runner = yield* Rollout.Runner
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4 })
  const policy = yield* runner.publish(training, { maxTokens: 4, version: 0 })
  const rows = yield* Stream.runCollect(Dataset.values(Dataset.take(RolloutCluster.problems(problems()), first)))
  const settings = { renderer: yield* renderer }
  return yield* Effect.forEach(
    Chunk.toReadonlyArray(rows),
    (problem, index) => runner.episode({ policy, problem, settings, member: 0, seed: index, at: { step: 0, index } }),
    { concurrency: "unbounded" }
  )
})

/** Everything in the database, as text. */
const dump = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`
    SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`
  const rows = yield* Effect.forEach(tables, ({ name }) => sql`SELECT to_jsonb(t)::text AS row FROM ${sql(name)} t`)
  return { tables: tables.map(({ name }) => name), text: JSON.stringify(rows) }
})

const messages = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly messages: string; readonly replies: string }>`SELECT
      (SELECT count(*) FROM cluster_messages WHERE entity_type = 'RolloutSlot') AS messages,
      (SELECT count(*) FROM cluster_replies) AS replies`,
    ([row]) => ({ messages: Number(row?.messages), replies: Number(row?.replies) })
  ))

/** Until so many workers have shards, and every shard has a worker: each shard is a lock of its worker's connection. */
const spreadOver = (workers: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql<{ readonly shards: string }>`SELECT count(*) AS shards FROM pg_locks
      WHERE locktype = 'advisory' AND granted GROUP BY pid`).pipe(
      Effect.repeat({
        schedule: Schedule.spaced("200 millis"),
        // 128 of each of two groups: the default one, and that of the label
        until: (rows) => rows.length === workers && rows.reduce((sum, { shards }) => sum + Number(shards), 0) === 256
      }),
      Effect.timeout("2 minutes")
    )

/** The rest of the test with a database, where there is a Postgres. */
const withPostgres = <A, E, R>(
  context: { readonly skip: (note: string) => unknown },
  effect: Effect.Effect<A, E, R>
) =>
  Effect.flatMap(
    NodePostgres.start,
    Option.match({
      onNone: () => Effect.sync(() => context.skip("there is no Postgres on this machine: apt-get install postgresql")),
      onSome: (url) =>
        Effect.scoped(effect).pipe(
          Effect.provide(Layer.merge(Tinkered, TrajectoryStore.layerSql)),
          Effect.provide(NodeCluster.layerPostgres({ url, maxConnections: 20 }))
        )
    })
  ).pipe(Effect.provide(NodeContext.layer))

const cluster = (options: Partial<RolloutCluster.Options>) =>
  Layer.provide(RolloutCluster.layer({ run: "rollouts", ...options }), NodeCluster.layerClient)

describe("rollouts by workers over Postgres", { timeout: 300_000 }, () => {
  it.scopedLive("go to all workers, leave no messages behind, and no credentials in the database", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const ran = [yield* join({ concurrency: 4 }), yield* join({ concurrency: 4 }), yield* join({ concurrency: 8 })]
        yield* spreadOver(3)
        yield* Effect.gen(function*() {
          const found = yield* roll(count)
          assert.strictEqual(found.length, count)
          // Most of them are removed on the way.
          const left = yield* messages
          assert.isBelow(left.messages, count / 2)
          assert.isBelow(left.replies, count / 2)
        }).pipe(Effect.provide(cluster({ slots: 8 })), Effect.scoped)
        assert.deepStrictEqual(yield* messages, { messages: 0, replies: 0 })
        assert.strictEqual(new Set(ran.flat()).size, count)
        assert.strictEqual(ran.flat().length, count)
        for (const own of ran) assert.isAbove(own.length, 0)
        const { tables, text } = yield* dump
        assert.includeMembers(tables, ["cluster_messages", "cluster_runners", "tinker_trajectories"])
        assert.include(text, "rollouts")
        assert.notInclude(text, apiKey)
        const again = yield* Effect.scoped(Effect.provide(roll(8), cluster({ slots: 8 })))
        assert.strictEqual(again.length, 8)
        // Their trajectories were in the store: nothing ran again.
        assert.strictEqual(ran.flat().length, count)
      })
    ))

  it.scopedLive("are sent without the database where workers are known, and through it where they come later", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        // Counts every message that is ever saved, also those that are removed.
        const counted = sql<{ readonly n: string }>`SELECT count(*) AS n FROM saved_messages`
        yield* sql`CREATE TABLE saved_messages (id TEXT)`
        yield* sql`CREATE TABLE statements (n INTEGER)`
        const ran = [yield* join({ concurrency: 32 }), yield* join({ concurrency: 32 })]
        yield* spreadOver(2)
        yield* sql`CREATE FUNCTION note_message() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN INSERT INTO saved_messages VALUES (NEW.id::text); RETURN NEW; END'`
        yield* sql`CREATE TRIGGER note AFTER INSERT ON cluster_messages FOR EACH ROW EXECUTE FUNCTION note_message()`
        yield* sql`CREATE FUNCTION note_statement() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END'`
        yield* sql`CREATE TRIGGER note AFTER INSERT ON tinker_trajectories FOR EACH STATEMENT EXECUTE FUNCTION note_statement()`
        yield* Effect.scoped(Effect.provide(roll(64), cluster({ slots: 128 })))
        // None where workers answer at once; one that a busy machine makes wait is asked through the database.
        assert.isAtMost(Number((yield* counted)[0]?.n), 32)
        assert.strictEqual(new Set(ran.flat()).size, 64)
        yield* sql`DELETE FROM saved_messages`
        const [stored] = yield* sql<{ readonly n: string }>`SELECT count(*) AS n FROM statements`
        // A statement has what arrives within 50 ms: half a statement for each would be 32.
        assert.isAtMost(Number(stored?.n), 32)
        // Another label, which no worker has yet: what it is asked waits in the database.
        const late = yield* Effect.fork(
          Effect.scoped(Effect.provide(roll(8), cluster({ run: "late", label: "gpu" })))
        )
        yield* counted.pipe(
          Effect.delay("100 millis"),
          Effect.repeat({ until: ([row]) => Number(row?.n) === 8 }),
          Effect.timeout("1 minute")
        )
        const gpu = yield* join({ labels: ["gpu"] })
        assert.strictEqual((yield* Fiber.join(late)).length, 8)
        assert.strictEqual(gpu.length, 8)
      })
    ))

  it.scopedLive("a worker joins and leaves without a warning, also where messages wait for it", (context) => {
    const warnings: Array<string> = []
    const noted = Logger.make(({ logLevel, message }) => {
      if (LogLevel.greaterThanEqual(logLevel, LogLevel.Warning)) warnings.push(String(message))
    })
    const onWarning = (warning: Error) => void warnings.push(`${warning.name}: ${warning.message}`)
    return withPostgres(
      context,
      Effect.gen(function*() {
        yield* Effect.acquireRelease(
          Effect.sync(() => process.on("warning", onWarning)),
          () => Effect.sync(() => process.off("warning", onWarning))
        )
        const rolled = yield* Effect.fork(Effect.scoped(Effect.provide(roll(16), cluster({ slots: 16 }))))
        // The tables are made when the client starts.
        yield* Effect.orElseSucceed(messages, () => ({ messages: 0, replies: 0 })).pipe(
          Effect.delay("100 millis"),
          Effect.repeat({ until: ({ messages }) => messages === 16 }),
          Effect.timeout("1 minute")
        )
        // It has the shards, and is asked, some seconds before it has anybody to give the messages to.
        yield* Effect.scoped(Effect.gen(function*() {
          const sharding = yield* Layer.build(Layer.fresh(NodeCluster.layerWorker({})))
          yield* spreadOver(1)
          yield* Effect.sleep("3 seconds")
          const worker = RolloutWorker.layer({ problems: problems(), settings: { renderer: yield* renderer } })
          yield* Layer.build(Layer.provide(Layer.fresh(worker), Layer.succeedContext(sharding)))
          assert.strictEqual((yield* Fiber.join(rolled)).length, 16)
        }))
        // Shards go from one to the other, many at once.
        yield* Effect.scoped(Effect.zipRight(join({}), spreadOver(1)))
        yield* Effect.scoped(Effect.zipRight(Effect.zipRight(join({}), join({})), spreadOver(2)))
        assert.deepStrictEqual(warnings, [])
      })
    ).pipe(Effect.provide(Logger.add(noted)))
  })

  // each try counts seconds of the clock, which a machine that stands still loses
  it.scopedLive("are given to another worker when they are late", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const stuck = yield* join({ after: Duration.infinity, concurrency: 64 })
        const quick = yield* join({ concurrency: 64 })
        yield* spreadOver(2)
        const found = yield* Effect.scoped(
          Effect.provide(roll(32), cluster({ stragglerAfter: "1 second", attempts: 20, slots: 64 }))
        )
        assert.strictEqual(found.length, 32)
        assert.strictEqual(quick.length, 32)
        assert.deepStrictEqual(stuck, [])
      })
    ), { timeout: 120_000, retry: 2 })

  it.scopedLive("go to workers with their label only", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const cpu = yield* join({})
        const browser = yield* join({ labels: ["browser", "sandbox"] })
        yield* Effect.scoped(Effect.provide(roll(16), cluster({ label: "browser" })))
        assert.strictEqual(browser.length, 16)
        assert.deepStrictEqual(cpu, [])
        const late = yield* Effect.scoped(
          Effect.flip(
            Effect.provide(roll(1), cluster({ run: "other", label: "gpu", stragglerAfter: "1 second", attempts: 2 }))
          )
        )
        assert.include(late.message, "none of which ended within")
      })
    ))

  it.scopedLive("carry the version of their policy, and are not older than the bound in async mode", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const ran = [yield* join({ after: "50 millis" }), yield* join({ after: "50 millis" })]
        const steps = yield* Reinforce.train({
          model: { baseModel: "local/tiny", rank: 4, seed: 1 },
          problems: RolloutCluster.problems(Dataset.take(problems(), 16)),
          renderer: yield* renderer,
          learningRate: 1e-2,
          // the rate is high, so that every step changes many bits
          guard: false,
          maxTokens: 4,
          groupSize: 2,
          groupsPerBatch: 2,
          mode: Reinforce.async({ maxStepsOffPolicy: 2 })
        }).pipe(Stream.runCollect, Effect.provide(cluster({})))
        assert.strictEqual(steps.length, 8)
        for (const { detail: { groups, staleness }, step } of steps) {
          for (const [n, { trajectories }] of groups.entries()) {
            const versions = trajectories.flatMap(({ turns }) => turns.map(({ action }) => action.policyVersion))
            assert.strictEqual(versions.length, 2)
            const [version = NaN] = versions
            assert.deepStrictEqual(versions, [version, version])
            // `step` counts from one: the weights it changes contain one step less.
            assert.strictEqual(staleness[n], step - 1 - version)
            assert.isAtMost(staleness[n] ?? NaN, 2)
          }
        }
        assert.strictEqual(new Set(ran.flat()).size, 32)
      })
    ))

  it.scopedLive("G24: draw the tokens that one process draws, with its own backend or over HTTP", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const sums = Dataset.fromIterable(Array.from({ length: 6 }, (_, n) =>
          Environment.group(() =>
            Effect.succeed(
              {
                initial: Effect.succeed({
                  _tag: "Continue",
                  observation: { prompt: LocalTokenizer.encode(`${n} + ${n + 3} =`), stop: [] }
                }),
                step: ({ tokens }) =>
                  Effect.succeed({
                    _tag: "Done",
                    reason: "completed",
                    reward: tokens.reduce((sum, token) => sum + token, 0) % 2
                  })
              } satisfies Environment.Environment
            ), { samePrompt: true })))
        const train = Effect.fnUntraced(function*(data: typeof sums) {
          const steps = yield* Stream.runCollect(Reinforce.train({
            model: { baseModel: "local/chat", rank: 8, seed: 1 },
            problems: data,
            renderer: yield* renderer,
            learningRate: 1e-3,
            maxTokens: 6,
            groupSize: 4,
            groupsPerBatch: 2
          }))
          return Chunk.toReadonlyArray(steps).map(({ detail: { groups }, metrics }) => ({
            loss: metrics["loss"],
            reward: metrics["env/all/reward"],
            drawn: groups.map(({ trajectories }) =>
              trajectories.map(({ turns }) =>
                turns.map(({ action: { logprobs, tokens } }) => ({
                  tokens: Array.from(tokens),
                  logprobs: Array.from(logprobs)
                }))
              )
            )
          }))
        })
        const wanted = yield* Effect.provide(train(sums), NodeTinkerLocal.layerInProcess())
        assert.strictEqual(wanted.flatMap(({ drawn }) => drawn.flat(2)).length, 3 * 2 * 4)
        // The weights change: in at least one group some rollouts are better than others.
        assert.isTrue(wanted.some(({ reward = 0 }) => reward % 0.5 !== 0))
        // Members draw by seeds of their own.
        assert.isAbove(new Set(wanted.flatMap(({ drawn }) => drawn.flat(2).map(({ tokens }) => tokens.join()))).size, 8)
        assert.deepStrictEqual(yield* train(sums), wanted)
        yield* join({ problems: sums })
        yield* join({ problems: sums })
        yield* spreadOver(2)
        assert.deepStrictEqual(
          yield* Effect.scoped(Effect.provide(train(RolloutCluster.problems(sums)), cluster({ run: "drawn" }))),
          wanted
        )
      })
    ))
})

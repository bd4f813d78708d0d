import { RolloutCluster, RolloutWorker, RunAuthority, TrajectoryStore } from "@effect-tinker/cluster"
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import { Dataset, Rollout } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { EntityAddress, EntityId, RunnerAddress, Runners, ShardId, Snowflake } from "@effect/cluster"
import { Headers } from "@effect/platform"
import { NodeClusterSocket, NodeContext } from "@effect/platform-node"
import { RpcClient, RpcSerialization } from "@effect/rpc"
import { SqlClient } from "@effect/sql"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, ConfigProvider, Effect, Exit, Layer, Option, Redacted, Schedule, Schema, Stream } from "effect"
import { Tinker, TinkerFuture, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import * as Net from "node:net"
import * as Os from "node:os"
import * as Tls from "node:tls"
import { renderer, small } from "./utils/small.js"

const apiKey = "tml-credentials-of-the-worker"

const problems = Dataset.fromIterable(Array.from({ length: 8 }, (_, n) => small(n)))

const Tinkered = Layer.unwrapScoped(Effect.gen(function*() {
  const local = yield* Layer.build(NodeTinkerLocal.layerServer({ port: 0, apiKeys: [{ key: Redacted.make(apiKey) }] }))
  const { baseUrl } = yield* Effect.provide(NodeTinkerLocal.LocalServerAddress, local)
  return Layer.provide(Tinker.layer({ baseUrl, apiKey, allowInsecure: true }), NodeTinker.layer())
}))

/** A worker of this process; says which rollouts it ran. */
const join = Effect.fnUntraced(function*(options: NodeCluster.WorkerOptions = {}) {
  const ran: Array<string> = []
  const worker = RolloutWorker.layer({
    problems,
    settings: { renderer: yield* renderer },
    onRollout: ({ key }) => Effect.sync(() => void ran.push(key.text))
  })
  yield* Layer.build(Layer.fresh(Layer.provide(worker, NodeCluster.layerWorker(options))))
  return ran
})

/** Where the one worker listens, as it says in the database, when it has all shards. */
const worker = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const locks = sql<{ readonly shards: string }>`SELECT count(*) AS shards FROM pg_locks
    WHERE locktype = 'advisory' AND granted`
  yield* locks.pipe(
    Effect.repeat({ schedule: Schedule.spaced("200 millis"), until: ([row]) => Number(row?.shards) >= 256 }),
    Effect.timeout("2 minutes")
  )
  const [row] = yield* sql<{ readonly address: string }>`SELECT address FROM cluster_runners`
  const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(row?.address ?? "") ?? []
  return RunnerAddress.make(host, Number(port))
})

const stored = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT run, step FROM tinker_trajectories`)

const saved = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4 })
  return yield* TinkerFuture.await(training.saveWeightsForSampler("for-somebody-else"))
})

/** What a stranger does who can reach the port, and knows nothing but the protocol of the cluster. */
const attack = Effect.fnUntraced(
  function*(address: RunnerAddress.RunnerAddress, path: string) {
    const protocol = yield* Effect.flatMap(Runners.RpcClientProtocol, (connect) => connect(address))
    const client = yield* Effect.provideService(Runners.makeRpcClient, RpcClient.Protocol, protocol)
    const pinged = yield* Effect.exit(Effect.timeout(client.Ping(), "5 seconds"))
    const request = new RolloutWorker.RolloutRequest({
      key: new TrajectoryStore.RolloutKey({ run: "victim", step: 0, task: "0:memory#0", sample: 0 }),
      problem: "memory#0",
      policy: { path, version: 0, maxTokens: 4 },
      limits: {}
    })
    // Requests go to slots of a shard that the worker has; not persisted, the worker asks no database.
    const envelope = {
      _tag: "Request" as const,
      requestId: Snowflake.Snowflake("7000000000000000001"),
      address: EntityAddress.make({
        shardId: ShardId.make("cpu", 1),
        entityType: RolloutWorker.Slot.type,
        entityId: EntityId.make("cpu/victim/0")
      }),
      tag: "rollout",
      payload: { request: Schema.encodeSync(RolloutWorker.RolloutRequest)(request) },
      headers: Headers.empty
    }
    const answered = yield* Effect.exit(
      Effect.timeout(client.Effect({ request: envelope, persisted: false }), "15 seconds")
    )
    return { pinged, answered }
  },
  Effect.provide(Layer.provide(NodeClusterSocket.layerClientProtocol, RpcSerialization.layerMsgPack)),
  Effect.scoped
)

/** What a socket is sent until it is closed. */
const received = (address: RunnerAddress.RunnerAddress, open: () => Net.Socket) =>
  Effect.async<string>((resume) => {
    let text = ""
    const socket = open()
    socket.on("data", (chunk) => text += chunk.toString("latin1"))
    socket.on("error", () => undefined)
    socket.on("close", () => resume(Effect.succeed(text)))
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutFail({ duration: "30 seconds", onTimeout: () => new Error(`${address.host} keeps it open`) }))

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

/** One rollout of a trainer with a secret of its own. */
const roll = Effect.fnUntraced(
  function*() {
    const runner = yield* Rollout.Runner
    const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4 })
    const policy = yield* runner.publish(training, { maxTokens: 4, version: 0 })
    const rows = yield* Stream.runCollect(Dataset.values(Dataset.take(RolloutCluster.problems(problems), 1)))
    const settings = { renderer: yield* renderer }
    return yield* Effect.forEach(
      Chunk.toReadonlyArray(rows),
      (problem) => runner.episode({ policy, problem, settings, member: 0, seed: 1, at: { step: 0, index: 0 } })
    )
  }
)

const trainer = (options: NodeCluster.SecretOptions) =>
  Layer.fresh(Layer.provide(RolloutCluster.layer({ run: "mine" }), NodeCluster.layerClientWith(options)))

describe("a worker's port", { timeout: 300_000 }, () => {
  it.scopedLive("takes no orders from strangers, who can neither ping it nor have anything run or stored", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const ran = yield* join()
        const address = yield* worker
        const { path } = yield* saved
        const { answered, pinged } = yield* attack(address, path)
        assert.isTrue(Exit.isFailure(pinged))
        assert.isTrue(Exit.isFailure(answered))
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual(yield* stored, [])
        // It goes on serving those who have the secret.
        assert.strictEqual((yield* Effect.scoped(Effect.provide(roll(), trainer({})))).length, 1)
        assert.deepStrictEqual(ran, ["mine/0/0:memory#0/0"])
      })
    ))

  it.scopedLive("closes on whatever is not the handshake, on another secret, and on silence", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        yield* join({ secret: Redacted.make("s".repeat(32)) })
        const address = yield* worker
        const { host, port } = address
        const http = yield* received(address, () => {
          const socket = Net.connect(port, host)
          socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n")
          return socket
        })
        assert.notInclude(http, "HTTP/")
        const silent = yield* received(address, () => Net.connect(port, host))
        assert.strictEqual(silent, "")
        const tls = { host, port, minVersion: "TLSv1.2", maxVersion: "TLSv1.2", rejectUnauthorized: false } as const
        const ciphers = "ECDHE-PSK-CHACHA20-POLY1305"
        const strangers = [
          () => Tls.connect(tls),
          ...["effect-tinker", "", "another"].map((identity) => () =>
            Tls.connect({
              ...tls,
              ciphers,
              pskCallback: () => ({ psk: Buffer.alloc(32, 7), identity }),
              checkServerIdentity: () => undefined
            })
          )
        ]
        for (const stranger of strangers) {
          let secured = false
          yield* received(address, () => stranger().on("secureConnect", () => secured = true))
          assert.isFalse(secured)
        }
      })
    ))

  it.scopedLive("is on the loopback interface unless another one is given", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        yield* join()
        const { host, port } = yield* worker
        assert.strictEqual(host, "127.0.0.1")
        const others = Object.values(Os.networkInterfaces()).flatMap((found) => found ?? []).filter(({ internal }) =>
          !internal
        )
        for (const { address, family, scopeid } of others) {
          if (family === "IPv6" && scopeid !== 0) continue
          const code = yield* Effect.async<string>((resume) => {
            const socket = Net.connect({ host: address, port, timeout: 5000 })
            socket.on("connect", () => resume(Effect.succeed("connected")))
            socket.on("timeout", () => resume(Effect.succeed("nothing")))
            socket.on("error", () => resume(Effect.succeed("refused")))
            return Effect.sync(() => socket.destroy())
          })
          assert.notStrictEqual(code, "connected", address)
        }
      })
    ))
})

describe("requests over a connection", { timeout: 300_000 }, () => {
  it.scopedLive("are refused without the signature of a trainer, or when they were changed after it", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const ran = yield* join()
        yield* worker
        const { path } = yield* saved
        yield* Effect.gen(function*() {
          const client = yield* RolloutWorker.Slot.client
          const authority = yield* RunAuthority.RunAuthority
          yield* authority.register("mine")
          const requestOf = (sample: number) =>
            new RolloutWorker.RolloutRequest({
              key: new TrajectoryStore.RolloutKey({ run: "mine", step: 0, task: "0:memory#0", sample }),
              problem: "memory#0",
              policy: { path, version: 0, maxTokens: 4 },
              limits: {}
            })
          const signature = yield* authority.sign(
            "mine",
            JSON.stringify(Schema.encodeSync(RolloutWorker.RolloutRequest)(requestOf(0)))
          )
          const play = (sample: number, signature?: string) =>
            client("cpu/mine/0").play({ request: requestOf(sample), signature })
          for (const attempt of [play(0), play(0, "00"), play(1, signature)]) {
            const error = yield* Effect.flip(attempt)
            assert.include(error.message, "is refused")
          }
          assert.deepStrictEqual(ran, [])
          const { trajectories } = yield* play(0, signature)
          assert.isString(trajectories)
          // It is the trainer that stores it, and says so.
          assert.deepStrictEqual(yield* stored, [])
          assert.deepStrictEqual(ran, [])
          yield* client("cpu/mine/0").stored({ kept: ["mine/0/0:memory#0/0"], known: [] })
          assert.deepStrictEqual(ran, ["mine/0/0:memory#0/0"])
        }).pipe(Effect.provide(NodeCluster.layerClient), Effect.scoped)
      })
    ))
})

describe("requests in the database", { timeout: 300_000 }, () => {
  it.scopedLive("are refused when they were signed with another secret", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const ran = yield* join({ secret: Redacted.make("s".repeat(32)) })
        yield* worker
        // It cannot connect to the worker, which reads its request from the database.
        const error = yield* Effect.flip(
          Effect.scoped(Effect.provide(roll(), trainer({ secret: Redacted.make("t".repeat(32)) })))
        )
        assert.include(error.message, "no trainer with the secret of this cluster has signed it")
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual(yield* stored, [])
      })
    ))

  it.scopedLive("need a secret that cannot be guessed, from the environment where there is one", (context) =>
    withPostgres(
      context,
      Effect.gen(function*() {
        const given = (secret: string) => ConfigProvider.fromMap(new Map([["TINKER_CLUSTER_SECRET", secret]]))
        const short = yield* Effect.flip(Effect.withConfigProvider(join(), given("hunter2")))
        assert.include(String(short), "less than 32 characters")
        assert.notInclude(String(short), "hunter2")
        yield* Effect.withConfigProvider(join(), given("s".repeat(32)))
        yield* worker
        const found = yield* Effect.scoped(
          Effect.provide(roll(), trainer({ secret: Redacted.make("s".repeat(32)) }))
        )
        assert.strictEqual(found.length, 1)
      })
    ))
})

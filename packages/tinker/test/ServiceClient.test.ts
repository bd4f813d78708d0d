import { assert, describe, it } from "@effect/vitest"
import { Chunk, ConfigProvider, Deferred, Effect, Exit, Fiber, Layer, Scope, Stream, TestClock } from "effect"
import { ServiceClient } from "../src/index.js"
import * as Server from "./utils/recordingServer.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(100))

const build = (
  server: ReturnType<typeof Server.make>,
  options: ServiceClient.Options = Server.options,
  scope?: Scope.Scope
) =>
  Effect.gen(function*() {
    const layer = ServiceClient.layer(options).pipe(Layer.provide(server.layer))
    const context = yield* Layer.buildWithScope(layer, scope ?? (yield* Effect.scope))
    return yield* Effect.provide(ServiceClient.ServiceClient, context)
  })

describe("ServiceClient", () => {
  it.scoped("building it sends nothing; capabilities need no session", () =>
    Effect.gen(function*() {
      const server = Server.make((seen) =>
        seen.path.endsWith("/get_server_capabilities")
          ? Response.json({ supported_models: [{ model_name: "m" }] })
          : undefined
      )
      const service = yield* build(server)
      assert.deepStrictEqual(server.paths(), [])
      assert.deepStrictEqual(yield* service.health, { _tag: "NotStarted" })
      const { supportedModels } = yield* service.serverCapabilities
      assert.strictEqual(supportedModels[0]?.modelName, "m")
      yield* service.serverCapabilities
      assert.deepStrictEqual(server.paths(), ["client/config", "get_server_capabilities", "get_server_capabilities"])
    }))

  it.scoped("starts in order, once, however many ask, and opens the session with what it was given", () =>
    Effect.gen(function*() {
      const server = Server.make(() => undefined)
      const service = yield* build(server, {
        ...Server.options,
        projectId: "p-1",
        tags: ["a", "b"],
        session: { displayName: "run 7", userMetadata: { who: "me" } }
      })
      const ids = yield* Effect.all(Array.from({ length: 20 }, () => service.sessionId), { concurrency: "unbounded" })
      assert.deepStrictEqual([...new Set<string>(ids)], ["session-1"])
      assert.deepStrictEqual(server.paths(), ["client/config", "client/dynamic_config", "create_session"])
      assert.deepStrictEqual(server.of("create_session")[0]?.json, {
        tags: ["a", "b"],
        user_metadata: { who: "me" },
        sdk_version: "0.38.0",
        project_id: "p-1",
        display_name: "run 7",
        type: "create_session"
      })
      assert.deepStrictEqual(yield* service.health, { _tag: "Alive" })
    }))

  it.scoped("a caller who leaves while the session is opened leaves none behind", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const server = Server.make((seen) =>
        seen.path.endsWith("/create_session")
          ? Effect.as(Deferred.await(gate), Response.json({ session_id: "session-9" }))
          : undefined
      )
      const service = yield* build(server)
      const leaver = yield* Effect.fork(service.sessionId)
      yield* settle
      yield* Fiber.interrupt(leaver)
      const next = yield* Effect.fork(service.sessionId)
      yield* settle
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual<string>(yield* Fiber.join(next), "session-9")
      assert.strictEqual(server.of("create_session").length, 1)
    }))

  it.scoped("a failed start is typed and may be tried again", () =>
    Effect.gen(function*() {
      let healthy = false
      const server = Server.make((seen) =>
        seen.path.endsWith("/client/config") && !healthy ? Server.refuse(401) : undefined
      )
      const service = yield* build(server)
      assert.strictEqual((yield* Effect.flip(service.sessionId))._tag, "Authentication")
      healthy = true
      assert.strictEqual<string>(yield* service.sessionId, "session-1")
    }))

  it.scoped("a server without dynamic configuration has the defaults", () =>
    Effect.gen(function*() {
      const server = Server.make((seen) => seen.path.endsWith("/dynamic_config") ? Server.refuse(404) : undefined)
      const service = yield* build(server)
      assert.strictEqual((yield* service.dynamicConfig).refreshIntervalSec, 300)
      yield* service.sessionId
    }))

  it.scoped("the dynamic configuration is refreshed, never faster than every 10 s, and survives failures", () =>
    Effect.gen(function*() {
      let n = 0
      const server = Server.make((seen) => {
        if (!seen.path.endsWith("/dynamic_config")) return undefined
        n++
        return n === 2
          ? Server.refuse(500)
          : Response.json({ refresh_interval_sec: 1, sample_cancel_max_batch_size: n })
      })
      const service = yield* build(server)
      yield* service.sessionId
      assert.strictEqual((yield* service.dynamicConfig).sampleCancelMaxBatchSize, 1)
      yield* TestClock.adjust("11 seconds")
      assert.strictEqual((yield* service.dynamicConfig).sampleCancelMaxBatchSize, 1)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* service.dynamicConfig).sampleCancelMaxBatchSize, 3)
      assert.strictEqual(n, 3)
    }))

  it.scoped("beats every 10 s; a failing heart is reported early and typed, and recovers", () =>
    Effect.gen(function*() {
      let healthy = true
      const server = Server.make((seen) =>
        seen.path.endsWith("/session_heartbeat") && !healthy ? Server.refuse(503) : undefined
      )
      const service = yield* build(server)
      yield* service.sessionId
      const changes = yield* Effect.fork(Stream.runCollect(Stream.take(service.healthChanges, 4)))
      yield* TestClock.adjust("30 seconds")
      assert.deepStrictEqual(server.of("session_heartbeat").map(({ json }) => json), [
        { session_id: "session-1", type: "session_heartbeat" },
        { session_id: "session-1", type: "session_heartbeat" },
        { session_id: "session-1", type: "session_heartbeat" }
      ])
      healthy = false
      yield* TestClock.adjust("20 seconds")
      const failing = yield* service.health
      assert.isTrue(failing._tag === "Failing" && failing.error._tag === "Unavailable")
      healthy = true
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(
        Chunk.toReadonlyArray(yield* Fiber.join(changes)).map(({ _tag }) => _tag),
        ["Alive", "Failing", "Failing", "Alive"]
      )
    }))

  it.scoped("410 ends the heartbeat for good", () =>
    Effect.gen(function*() {
      const server = Server.make((seen) => seen.path.endsWith("/session_heartbeat") ? Server.refuse(410) : undefined)
      const service = yield* build(server)
      yield* service.sessionId
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual(server.of("session_heartbeat").length, 1)
      assert.deepStrictEqual(yield* service.health, { _tag: "Ended" })
    }))

  it.scoped("G12: closing the scope finishes the session by its exit and stops every fiber", () =>
    Effect.gen(function*() {
      for (
        const [exit, reason] of [
          [Exit.void, "success"],
          [Exit.fail("no"), "errored"],
          [Exit.die("no"), "errored"],
          [Exit.interrupt(yield* Effect.fiberId), "interrupted"]
        ] as const
      ) {
        const server = Server.make(() => undefined)
        const scope = yield* Scope.make()
        const service = yield* build(server, Server.options, scope)
        yield* service.sessionId
        yield* Scope.close(scope, exit)
        const [finish] = server.of("sessions/session-1/finish")
        assert.deepStrictEqual(finish?.json, { reason: { type: reason }, detail: null })
        const before = server.seen.length
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(server.seen.length, before)
        assert.strictEqual((yield* Effect.flip(service.sessionId))._tag, "Closed")
      }
    }))

  it.scoped("G12: a server that does not answer delays the end of the scope by a few seconds at most", () =>
    Effect.gen(function*() {
      const server = Server.make((seen) => seen.path.endsWith("/finish") ? Effect.never : undefined)
      const scope = yield* Scope.make()
      yield* Effect.flatMap(build(server, Server.options, scope), (service) => service.sessionId)
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("6 seconds")
      yield* Fiber.join(closing)
    }))

  it.scoped("finish: a session that was being opened is finished, and nobody gets it", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const server = Server.make((seen) =>
        seen.path.endsWith("/create_session")
          ? Effect.as(Deferred.await(gate), Response.json({ session_id: "session-1" }))
          : undefined
      )
      const service = yield* build(server)
      const opening = yield* Effect.fork(Effect.flip(service.sessionId))
      yield* settle
      yield* service.finish("errored", "changed my mind")
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual((yield* Fiber.join(opening))._tag, "Closed")
      assert.deepStrictEqual(server.of("sessions/session-1/finish").map(({ json }) => json), [
        { reason: { type: "errored" }, detail: "changed my mind" }
      ])
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(server.of("session_heartbeat").length, 0)
    }))

  it.scoped("finish: the first reason counts, nothing is accepted afterwards, and without a session nothing is sent", () =>
    Effect.gen(function*() {
      const server = Server.make(() => undefined)
      const service = yield* build(server)
      yield* service.sessionId
      yield* service.finish("errored", "diverged")
      yield* service.finish("success")
      assert.deepStrictEqual(server.of("sessions/session-1/finish").map(({ json }) => json), [
        { reason: { type: "errored" }, detail: "diverged" }
      ])
      assert.strictEqual((yield* Effect.flip(service.sessionId))._tag, "Closed")
      yield* TestClock.adjust("1 minutes")
      assert.strictEqual(server.of("session_heartbeat").length, 0)
      const idle = Server.make(() => undefined)
      yield* Effect.flatMap(build(idle), (other) => other.finish("success"))
      assert.deepStrictEqual(idle.paths(), [])
    }))

  it.scoped("layerFromEnv reads the environment through the ConfigProvider", () =>
    Effect.gen(function*() {
      const server = Server.make(() => undefined)
      const layer = ServiceClient.layerFromEnv().pipe(Layer.provide(server.layer))
      const environment = ConfigProvider.fromMap(
        new Map([["TINKER_API_KEY", "tml-env"], ["TINKER_BASE_URL", "http://localhost:2/"], ["TINKER_TAGS", "t"]])
      )
      yield* Effect.flatMap(ServiceClient.ServiceClient, (service) => service.sessionId).pipe(
        Effect.provide(layer),
        Effect.withConfigProvider(environment)
      )
      assert.deepStrictEqual(server.of("create_session")[0]?.json["tags"], ["t"])
      assert.strictEqual(server.seen[0]?.headers["x-api-key"], "tml-env")
    }))
})

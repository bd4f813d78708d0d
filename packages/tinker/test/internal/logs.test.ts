import { assert, describe, it } from "@effect/vitest"
import { Cause, ConfigProvider, Effect, HashMap, Layer, Logger, LogLevel, TestClock } from "effect"
import { Progress, ServiceClient, TinkerConfig, TrainingClient } from "../../src/index.js"
import * as Logs from "../../src/internal/observability/logs.js"
import * as Server from "../utils/recordingServer.js"
import * as Training from "../utils/trainingServer.js"

/** What is logged while an effect runs. */
const logged = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => void lines.push(String(message)))
    return effect.pipe(
      Logger.withMinimumLogLevel(LogLevel.All),
      Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
      Effect.as(lines)
    )
  })

describe("what servers say", () => {
  const key = "tml-s3cret-of-mine"
  const forged = `${key}\n2026-01-01 INFO all is well \u001b[2J tml-abcdefgh\u2028 Bearer abcdefghijkl`

  it.effect("is logged in one line, without control characters, our key, or anything that looks like one", () =>
    Effect.gen(function*() {
      let polls = 0
      const server = Training.make({
        result: (request) =>
          request !== undefined && polls++ === 0
            ? Server.json({ type: "try_again", queue_state: "paused_capacity", queue_state_reason: forged })
            : undefined,
        other: (seen) =>
          seen.path === "/api/v1/create_session"
            ? {
              ...Server.json({ session_id: "session-1", info_message: forged, error_message: forged }),
              headers: {
                "content-type": "application/json",
                "x-deprecation-note": `use ${key} \u0080 tml-abcdefgh`,
                "x-deprecation-level": "error"
              }
            }
            : undefined
      })
      const lines = yield* logged(
        Effect.gen(function*() {
          const training = yield* TrainingClient.makeLora({ baseModel: "base" })
          const fiber = yield* Effect.fork(Effect.flatten(training.optimStep()))
          for (let i = 0; i < 10; i++) yield* TestClock.adjust("5 seconds")
          yield* fiber
        }).pipe(
          Effect.scoped,
          Effect.provide(
            ServiceClient.layer({ ...Server.options, apiKey: key }).pipe(Layer.provide(server.layer))
          )
        )
      )
      const said = lines.filter((line) => /redacted/.test(line))
      assert.lengthOf(said, 4, lines.join("\n"))
      for (const line of said) {
        assert.notMatch(line, /s3cret|tml-\w|abcdefghijkl|[\p{Cc}\p{Zl}\u202e]/u)
      }
    }))

  it("secrets are taken out whole, and long texts are cut", () => {
    assert.strictEqual(Logs.said(`a ${key} b`, [key]), "a <redacted> b")
    assert.strictEqual(Logs.said("Authorization: Bearer abcdefgh12345=="), "Authorization: Bearer <redacted>")
    assert.strictEqual(Logs.said("a\r\nb\u0007"), "a  b\ufffd")
    assert.isAtMost(Logs.said("x".repeat(10_000)).length, 2_001)
    assert.strictEqual(Logs.saidLines("a\u001b[1m\nb"), "a\ufffd[1m\nb")
  })

  it.effect("settings that mean nothing are warned of", () =>
    Effect.gen(function*() {
      const environment = ConfigProvider.fromMap(new Map([["TINKER_LOG", "loud"], ["TINKER_TELEMETRY", "maybe"]]))
      const lines = yield* logged(Effect.withConfigProvider(TinkerConfig.fromEnv({ apiKey: "tml-x" }), environment))
      assert.deepStrictEqual(lines.map((line) => line.split(",", 1)[0]), [
        "TINKER_LOG=loud is not understood",
        "TINKER_TELEMETRY=maybe is not understood"
      ])
      const fine = ConfigProvider.fromMap(new Map([["TINKER_LOG", "DEBUG"], ["TINKER_TELEMETRY", "off"]]))
      assert.deepStrictEqual(yield* logged(Effect.withConfigProvider(TinkerConfig.fromEnv(), fine)), [])
    }))
})

describe("logs", () => {
  it.effect("every line of the SDK is marked as its own, with what is known as fields", () =>
    Effect.gen(function*() {
      const lines: Array<{ readonly text: string; readonly fields: Readonly<Record<string, unknown>> }> = []
      const logger = Logger.make(({ annotations, cause, message }) => {
        lines.push({
          text: `${message}${Cause.pretty(cause)}`,
          fields: Object.fromEntries(HashMap.toEntries(annotations))
        })
      })
      let attempts = 0
      let polls = 0
      const server = Training.make({
        accept: ({ seqId }) => {
          if (seqId !== 1) return undefined
          attempts++
          return attempts === 1 ? Server.refuse(503) : attempts === 2 ? Server.refuse(402) : undefined
        },
        result: (request) =>
          request !== undefined && polls++ === 0
            ? Server.json({ type: "try_again", queue_state: "paused_capacity", queue_state_reason: "full" })
            : undefined,
        other: (seen) => {
          if (seen.path === "/api/v1/create_session") {
            return Server.json({ session_id: "session-1", info_message: "hello", warning_message: "careful" })
          }
          if (seen.path === "/api/v1/session_heartbeat") return Server.refuse(500)
          if (seen.path === "/api/v1/telemetry") return Server.refuse(500)
          return undefined
        }
      })
      yield* Effect.gen(function*() {
        const training = yield* TrainingClient.makeLora({ baseModel: "base" })
        const progress = yield* Progress.make({ render: () => Effect.dieMessage("no screen") })
        const fiber = yield* Effect.fork(Effect.flatten(training.optimStep()))
        for (let i = 0; i < 40; i++) yield* TestClock.adjust("5 seconds")
        yield* fiber
        yield* progress.step()
        yield* progress.end
      }).pipe(
        Effect.scoped,
        Effect.provide(
          ServiceClient.layer({ ...Server.options, telemetry: true, log: "info" }).pipe(Layer.provide(server.layer))
        ),
        Logger.withMinimumLogLevel(LogLevel.All),
        Effect.provide(Logger.replace(Logger.defaultLogger, logger))
      )
      for (const { fields, text } of lines) {
        assert.strictEqual(fields["package"], "effect-tinker", text)
        assert.isString(fields["module"], text)
      }
      const said = (what: RegExp) => lines.find(({ text }) => what.test(text))?.fields
      assert.deepInclude(said(/^hello/), { module: "ServiceClient", sessionId: "session-1" })
      assert.deepInclude(said(/^careful/), { module: "ServiceClient" })
      assert.deepInclude(said(/optimStep: retrying in/), {
        module: "ApiClient",
        endpoint: "optimStep",
        attempt: 0,
        error: "Unavailable",
        status: 503
      })
      assert.deepInclude(said(/^Paused by billing/), {
        module: "ApiClient",
        endpoint: "optimStep",
        status: 402
      })
      assert.deepInclude(said(/is paused.*full/), {
        module: "QueueState",
        requestType: "OptimStep",
        state: "paused_capacity"
      })
      assert.deepInclude(said(/no heartbeat succeeded/), { module: "Heartbeat" })
      assert.deepInclude(said(/Telemetry could not be sent/), { module: "Telemetry" })
      assert.deepInclude(said(/^POST .*optim_step: 200/), { module: "Wire" })
      assert.deepInclude(said(/no screen/), { module: "Progress" })
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, HashMap, Layer, Logger, LogLevel, TestClock } from "effect"
import { Progress, ServiceClient, TrainingClient } from "../../src/index.js"
import * as Server from "../utils/recordingServer.js"
import * as Training from "../utils/trainingServer.js"

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

import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Logger, LogLevel, TestClock } from "effect"
import { Datum, ModelInput, SamplingClient, ServiceClient, TrainingClient } from "../../src/index.js"
import * as Server from "../utils/recordingServer.js"
import { recording } from "../utils/tracer.js"
import * as Training from "../utils/trainingServer.js"

const key = "tml-very-secret-key"
const header = "cf-secret-value"
const tokens = [918273, 564738, 192837]
const stop = "the-secret-stop"
const secrets = [key, header, ...tokens.map(String), stop]

/** A server that repeats, in all it says, all it was told. */
const echo = (seen: Server.Seen, status: number) =>
  Server.refuse(status, {
    detail: `you sent ${tokens.join(" ")} ${stop} with ${key} and ${header}`,
    input: seen.json,
    headers: seen.headers
  })

describe("privacy", () => {
  it.effect("keys, headers, prompts and tokens are in no report, span or log line", () =>
    Effect.gen(function*() {
      const { spans, tracer } = recording()
      const logged: Array<string> = []
      let attempts = 0
      const server = Training.make({
        accept: ({ seen, seqId }) =>
          seqId === 1 ? echo(seen, 422) : seqId === 2 && attempts++ === 0 ? echo(seen, 503) : undefined,
        result: (request, seen) => {
          if (request === undefined) return undefined
          switch (request.seqId) {
            case 2:
              return Server.json({ error: `bad token ${tokens[0]} in ${stop}`, category: "user" })
            case 3:
              return echo(seen, 403)
            default:
              return Server.json({ metrics: `${tokens.join(" ")} ${stop}` })
          }
        },
        other: (seen) => {
          if (seen.path === "/api/v1/telemetry") return Server.json({ status: "accepted" })
          if (seen.path === "/api/v1/create_sampling_session") return Server.json({ sampling_session_id: "s-1" })
          return seen.path === "/api/v1/asample" ? echo(seen, 422) : undefined
        }
      })
      yield* Effect.gen(function*() {
        const training = yield* TrainingClient.makeLora({ baseModel: "base" })
        const data = [Either.getOrThrow(Datum.fromTokens(tokens))]
        const failed: Array<string> = []
        for (let i = 0; i < 4; i++) {
          const run = i < 3
            ? Effect.flatten(training.forwardBackward(data, "cross_entropy"))
            : Effect.flatten(training.optimStep())
          const fiber = yield* Effect.fork(Effect.flip(run))
          yield* Effect.yieldNow().pipe(Effect.repeatN(200))
          yield* TestClock.adjust("5 seconds")
          failed.push((yield* fiber)._tag)
        }
        assert.deepStrictEqual(failed, ["BadRequest", "RequestFailed", "PermissionDenied", "MalformedResponse"])
        const sampler = yield* SamplingClient.make({ baseModel: "base" })
        const refused = yield* Effect.flip(sampler.sample({ prompt: ModelInput.fromInts(tokens), stop }))
        assert.strictEqual(refused._tag, "BadRequest")
        yield* TestClock.adjust("10 seconds")
      }).pipe(
        Effect.scoped,
        Effect.provide(
          ServiceClient.layer({
            ...Server.options,
            apiKey: key,
            headers: { "CF-Access-Client-Secret": header },
            telemetry: true,
            traceContext: true
          }).pipe(Layer.provide(server.layer))
        ),
        Effect.withTracer(tracer),
        Logger.withMinimumLogLevel(LogLevel.All),
        Effect.provide(Logger.replace(
          Logger.defaultLogger,
          Logger.make((options) => logged.push(Logger.jsonLogger.log(options), Logger.logfmtLogger.log(options)))
        ))
      )
      const reports = server.of("telemetry").map(({ body }) => new TextDecoder().decode(body)).join("\n")
      const shown = JSON.stringify(spans, (_, value: unknown) => typeof value === "bigint" ? String(value) : value)
      const lines = logged.join("\n")
      // The server did repeat them, and what was said is not empty.
      assert.include(JSON.stringify(server.of("asample")[0]?.json), stop)
      assert.isAbove(server.of("telemetry").length, 0)
      assert.include(reports, "UNHANDLED_EXCEPTION")
      assert.include(shown, "MalformedResponse")
      assert.include(lines, "retrying")
      for (const secret of secrets) {
        assert.notInclude(reports, secret, "reports")
        assert.notInclude(shown, secret, "spans")
        assert.notInclude(lines, secret, "logs")
      }
      assert.notMatch(reports, /x-api-key|authorization|headers/i)
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Either, Fiber, Layer, TestClock } from "effect"
import type { Scope } from "effect"
import type { TinkerError, TinkerTransport } from "effect-tinker"
import {
  Datum,
  ModelInput,
  OpenAiCompat,
  RestClient,
  RetryPolicy,
  SamplingClient,
  ServiceClient,
  TrainingClient
} from "effect-tinker"
import type { Api } from "effect-tinker/wire"
import * as Faults from "../src/Faults.js"
import * as TinkerLocal from "../src/TinkerLocal.js"

/** Everything a server, or the way to it, may answer with instead of a result; `poll` where it differs for polls. */
const faults: ReadonlyArray<readonly [name: string, fault: Faults.Fault, tag: string, poll?: string]> = [
  ["429", { _tag: "Status", status: 429 }, "RateLimited"],
  ["429 with a hint", { _tag: "Status", status: 429, headers: { "retry-after": "1" } }, "RateLimited"],
  ["402", { _tag: "Status", status: 402 }, "BillingBlocked"],
  ["503", { _tag: "Status", status: 503 }, "Unavailable"],
  ["400", { _tag: "Status", status: 400 }, "BadRequest"],
  ["408", { _tag: "Status", status: 408 }, "Unavailable", "waits on"],
  ["409", { _tag: "Status", status: 409 }, "Conflict"],
  ["410", { _tag: "Status", status: 410 }, "NotFound", "FutureExpired"],
  ["dropped before it is carried out", { _tag: "Drop", when: "before" }, "TransportFailed"],
  ["dropped after it is carried out", { _tag: "Drop", when: "after" }, "TransportFailed"],
  ["half a response", { _tag: "Truncate", bytes: 1 }, "TransportFailed"]
]

interface Row {
  readonly class: RetryPolicy.Class
  readonly endpoint: Api.Name
  /** Its response has no body that could be cut in half. */
  readonly isEmpty?: true
  /** Gets ready without faults, and yields the step under test. */
  readonly prepare: Effect.Effect<
    Effect.Effect<unknown, TinkerError.TinkerError>,
    TinkerError.TinkerError,
    | Scope.Scope
    | ServiceClient.ServiceClient
    | RestClient.RestClient
    | OpenAiCompat.OpenAiCompat
    | TinkerTransport.TinkerTransport
  >
}

const batch = Effect.map(Datum.fromTokens([3, 1, 4, 1, 5]), (datum) => [datum])
const training = TrainingClient.makeLora({ baseModel: "local/tiny", rank: 4, seed: 1 })
const sample = Effect.map(
  SamplingClient.make({ baseModel: "local/tiny" }),
  (sampler) => sampler.sample({ prompt: ModelInput.fromInts([3, 1, 4]), maxTokens: 2 })
)

const saved = Effect.gen(function*() {
  const client = yield* training
  const { path } = yield* Effect.flatten(client.saveState("final"))
  return { path, rest: yield* RestClient.RestClient }
})

const rows: ReadonlyArray<Row> = [
  {
    class: "startup",
    endpoint: "createSession",
    prepare: Effect.gen(function*() {
      const own = yield* Layer.build(
        ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey, telemetry: false })
      )
      const service = Context.get(own, ServiceClient.ServiceClient)
      yield* service.dynamicConfig
      return service.sessionId
    })
  },
  { class: "submit", endpoint: "optimStep", prepare: Effect.map(training, (client) => client.optimStep()) },
  {
    class: "submit",
    endpoint: "forwardBackward",
    prepare: Effect.zipWith(training, batch, (client, data) => client.forwardBackward(data, "cross_entropy"))
  },
  { class: "poll", endpoint: "retrieveFuture", prepare: Effect.flatMap(training, (client) => client.optimStep()) },
  { class: "sample", endpoint: "asample", prepare: sample },
  { class: "resubmit", endpoint: "retrieveFuture", prepare: sample },
  {
    class: "restRead",
    endpoint: "listTrainingRuns",
    prepare: Effect.map(RestClient.RestClient, (rest) => rest.listTrainingRuns())
  },
  {
    class: "restRead",
    endpoint: "oaiModels",
    prepare: Effect.map(OpenAiCompat.OpenAiCompat, (openai) => openai.models)
  },
  {
    class: "restWrite",
    endpoint: "publishCheckpoint",
    isEmpty: true,
    prepare: Effect.map(saved, ({ path, rest }) => rest.publishCheckpoint(path))
  },
  {
    class: "archive",
    endpoint: "checkpointArchive",
    prepare: Effect.map(saved, ({ path, rest }) => rest.getCheckpointArchiveUrl(path))
  }
]

const Backend = TinkerLocal.layer({ client: { telemetry: false } }).pipe(Layer.provideMerge(Faults.layer()))

describe("withoutRetries: each request is sent once (G7)", () => {
  for (const row of rows) {
    it.scoped(
      `${row.class}: ${row.endpoint}`,
      () =>
        Effect.gen(function*() {
          const { set, struck } = yield* Faults.Faults
          const isPoll = row.endpoint === "retrieveFuture"
          let before = 0
          for (const [name, fault, tag, ofPoll] of faults) {
            if (row.isEmpty === true && fault._tag === "Truncate") continue
            yield* set([])
            const step = yield* row.prepare
            const expected = isPoll ? ofPoll ?? tag : tag
            const goesOn = expected === "waits on"
            yield* set([{ endpoints: [row.endpoint], fault, ...(goesOn ? { times: 2 } : {}) }])
            const fiber = yield* Effect.fork(Effect.either(step))
            // Every policy would have tried again by then.
            yield* TestClock.adjust("1 minute")
            const result = yield* Fiber.join(fiber)
            assert.strictEqual(Either.isLeft(result) ? result.left._tag : "waits on", expected, name)
            const strikes = (yield* struck).get(row.endpoint) ?? 0
            assert.strictEqual(strikes - before, goesOn ? 2 : 1, name)
            before = strikes
          }
        }).pipe(RetryPolicy.withoutRetries, Effect.provide(Backend)),
      60_000
    )
  }
})

describe("with the usual policies, the same faults pass", () => {
  for (const row of rows.filter(({ class: name }) => name === "sample" || name === "resubmit" || name === "poll")) {
    it.scoped(`${row.class} ${row.endpoint}`, () =>
      Effect.gen(function*() {
        const { set, struck } = yield* Faults.Faults
        const step = yield* row.prepare
        const statuses = row.class === "resubmit" ? [410] : row.class === "sample" ? [429, 402, 503] : [400, 402, 503]
        yield* set(
          statuses.map((status) => ({ endpoints: [row.endpoint], times: 1, fault: { _tag: "Status", status } }))
        )
        const fiber = yield* Effect.fork(Effect.either(step))
        yield* TestClock.adjust("2 minutes")
        assert.isTrue(Either.isRight(yield* Fiber.join(fiber)))
        assert.isAtLeast((yield* struck).get(row.endpoint) ?? 0, 1)
      }).pipe(Effect.provide(Backend)))
  }
})

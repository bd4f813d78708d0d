import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Either, Fiber, Layer, Option, Redacted, TestClock } from "effect"
import { LoraConfig } from "effect-tinker/LoraConfig"
import * as Api from "effect-tinker/wire/Api"
import { CancelFutureRequest, FuturesRetrieveRequest, SamplingSessionTarget } from "effect-tinker/wire/Future"
import { CreateModelRequest, UnloadModelRequest } from "effect-tinker/wire/Model"
import { JoinSamplingSessionRequest } from "effect-tinker/wire/Sampler"
import { SessionHeartbeatRequest } from "effect-tinker/wire/Session"
import {
  LoadWeightsRequest,
  SaveWeightsForSamplerRequest,
  SaveWeightsRequest,
  WeightsInfoRequest
} from "effect-tinker/wire/Weights"
import * as Engine from "../src/Engine.js"
import * as auditLog from "../src/internal/server/auditLog.js"
import * as LocalServer from "../src/LocalServer.js"
import * as Storage from "../src/Storage.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import {
  call,
  createModel,
  openSampler,
  openSession,
  pass,
  passResult,
  poll,
  requestId,
  resultOf,
  sample,
  sampleResult,
  send,
  step
} from "./server/support.js"

const local = Effect.provide(TinkerLocal.layer())
const texts = ["cat: meow\n"]

describe("LocalServer", () => {
  it.effect("serves every endpoint of the SDK's table", () =>
    Effect.gen(function*() {
      const { endpoints } = yield* LocalServer.LocalServer
      assert.deepStrictEqual(Api.all.map(({ name }) => name).filter((name) => !endpoints.includes(name)), [])
    }).pipe(local))

  describe("order", () => {
    it.effect("holds a request until those before it have come, and says what it waits for", () =>
      Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        const late = yield* step(modelId, 2)
        const waiting = yield* Effect.fork(poll(late.requestId))
        yield* TestClock.adjust("30 seconds")
        const answer = (yield* Fiber.join(waiting)).json()
        assert.strictEqual(answer["type"], "try_again")
        assert.strictEqual(answer["queue_state"], "active")
        assert.match(String(answer["queue_state_reason"]), /seq_id 1 /)
        const first = yield* pass(modelId, 1, texts)
        assert.property((yield* resultOf(late))["metrics"], "grad_norm")
        assert.isAbove((yield* passResult(first)).metrics["loss:sum"] ?? 0, 0)
      }).pipe(local))

    it.effect("a repeated request is not carried out twice; another under the same number is refused", () =>
      Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        const first = yield* pass(modelId, 1, texts)
        const again = yield* pass(modelId, 1, texts)
        assert.strictEqual(again.requestId, first.requestId)
        const other = yield* Effect.flip(pass(modelId, 1, ["dog: woof\n"]))
        assert.propertyVal(other, "status", 409)
        const once = yield* resultOf(yield* step(modelId, 2))
        const twice = yield* createModel(yield* openSession)
        yield* passResult(yield* pass(twice, 1, texts))
        yield* passResult(yield* pass(twice, 2, texts))
        const doubled = yield* resultOf(yield* step(twice, 3))
        const norm = (result: { readonly [key: string]: unknown }) => Object(result["metrics"])["grad_norm"]
        assert.approximately(norm(doubled) / norm(once), 2, 1e-3)
      }).pipe(local))

    it.effect("a request that is turned away does not hold up the next", () =>
      Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        yield* passResult(yield* pass(modelId, 1, texts))
        const refused = yield* Effect.flip(
          call(
            Api.loadWeights,
            new LoadWeightsRequest({ modelId, seqId: 2, path: "tinker://a/weights/b", optimizer: false })
          )
        )
        assert.propertyVal(refused, "status", 400)
        assert.property((yield* resultOf(yield* step(modelId, 3)))["metrics"], "grad_norm")
      }).pipe(local))

    it.effect("a failed operation says so and the next one runs", () =>
      Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        const failed = yield* resultOf(yield* pass(modelId, 1, ["x".repeat(2000)]))
        assert.strictEqual(failed["category"], "user")
        assert.match(String(failed["error"]), /1024/)
        assert.property((yield* resultOf(yield* step(modelId, 2)))["metrics"], "grad_norm")
      }).pipe(local))

    it.effect("creating a model twice with one request makes one model", () =>
      Effect.gen(function*() {
        const sessionId = yield* openSession
        const request = new CreateModelRequest({
          sessionId,
          modelSeqId: 3,
          baseModel: "local/tiny",
          loraConfig: new LoraConfig({ rank: 4 })
        })
        const [first, second] = yield* Effect.all([call(Api.createModel, request), call(Api.createModel, request)])
        assert.strictEqual(first.requestId, second.requestId)
        const runs = yield* call(Api.listTrainingRuns, { limit: 10, offset: 0, accessScope: "owned" })
        yield* resultOf(first)
        assert.isAtMost(runs.trainingRuns.length, 1)
      }).pipe(local))
  })

  describe("futures", () => {
    it.effect("a poll is held until there is a result, or told to try again", () =>
      Effect.gen(function*() {
        const server = yield* LocalServer.LocalServer
        const sampler = yield* openSampler(yield* openSession, 0, { baseModel: "local/tiny" })
        yield* server.pause({ state: "paused_capacity", reason: "all busy" })
        const future = yield* sample(sampler, 0, "a", { maxTokens: 2, stop: [] })
        const held = yield* Effect.fork(poll(future.requestId))
        yield* TestClock.adjust("29 seconds")
        assert.isNull(yield* Fiber.poll(held).pipe(Effect.map((exit) => exit._tag === "None" ? null : exit)))
        yield* TestClock.adjust("1 seconds")
        const answer = (yield* Fiber.join(held)).json()
        assert.deepStrictEqual(answer, {
          type: "try_again",
          request_id: future.requestId,
          queue_state: "paused_capacity",
          queue_state_reason: "all busy"
        })
        const next = yield* Effect.fork(sampleResult(future))
        yield* server.resume
        assert.strictEqual((yield* Fiber.join(next)).sequences[0]?.tokens.length, 2)
      }).pipe(local))

    it.effect("large results are announced by their size", () =>
      Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        const future = yield* pass(modelId, 1, texts)
        const options = { headers: { accept: "application/x-protobuf" } }
        const announced = (yield* poll(future.requestId, { ...options, allowMetadataOnly: true })).json()
        assert.strictEqual(announced["status"], "complete_metadata")
        const whole = yield* poll(future.requestId, options)
        assert.strictEqual(announced["response_payload_size"], whole.bytes.length)
      }).pipe(Effect.provide(TinkerLocal.layer({ inlineResultBytes: 16 }))))

    it.effect("results are kept for a time, and are gone afterwards", () =>
      Effect.gen(function*() {
        const sampler = yield* openSampler(yield* openSession, 0, { baseModel: "local/tiny" })
        const future = yield* sample(sampler, 0, "a", { maxTokens: 1 })
        yield* sampleResult(future)
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual((yield* poll(future.requestId)).status, 410)
        assert.strictEqual((yield* poll("nothing")).status, 404)
      }).pipe(Effect.provide(TinkerLocal.layer({ resultRetention: "1 minute" }))))

    it.effect("JSON and protobuf say the same", () =>
      Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        const future = yield* pass(modelId, 1, texts, { forwardOnly: true })
        const proto = yield* passResult(future)
        const json = yield* resultOf(future)
        assert.deepStrictEqual(json["metrics"], proto.metrics)
        assert.deepStrictEqual(
          Object(json["loss_fn_outputs"])[0]["logprobs"]["data"],
          Array.from(proto.lossFnOutputs[0]?.["logprobs"]?.data ?? [], Number)
        )
      }).pipe(local))

    it.effect("one poll reports what a sampler finished, from where the last one ended", () =>
      Effect.gen(function*() {
        const sampler = yield* openSampler(yield* openSession, 0, { baseModel: "local/tiny" })
        const target = new SamplingSessionTarget({ samplingSessionId: sampler })
        const read = (prevCursor: number) =>
          call(Api.retrieveFutures, new FuturesRetrieveRequest({ target, prevCursor }))
        const empty = yield* Effect.fork(read(0))
        yield* TestClock.adjust("30 seconds")
        assert.deepStrictEqual((yield* Fiber.join(empty)).completions, [])
        const waiting = yield* Effect.fork(read(0))
        const first = yield* sample(sampler, 0, "a", { maxTokens: 1 })
        const seen = yield* Fiber.join(waiting)
        assert.deepStrictEqual(seen.completions.map((c) => [c.requestId, c.state]), [[first.requestId, "finished"]])
        assert.isAbove(seen.completions[0]?.responsePayloadUncompressedSize ?? 0, 0)
        assert.deepStrictEqual((yield* read(0)).completions.length, 1)
        const failed = yield* sample(sampler, 1, "a", { maxTokens: -1 })
        assert.deepStrictEqual(
          (yield* read(seen.cursor)).completions.map((c) => [c.requestId, c.state]),
          [[failed.requestId, "failed"]]
        )
        // a cursor from before a restart: all there is to say, and a lower one
        const anew = yield* read(999)
        assert.deepStrictEqual([anew.cursor, anew.completions.length], [2, 1])
        assert.strictEqual(
          (yield* call(Api.joinSamplingSession, new JoinSamplingSessionRequest({ samplingSessionId: sampler })))
            .clientCounter,
          1
        )
      }).pipe(local))

    it.effect("a cancelled sample is not computed", () =>
      Effect.gen(function*() {
        const server = yield* LocalServer.LocalServer
        const sampler = yield* openSampler(yield* openSession, 0, { baseModel: "local/tiny" })
        yield* server.pause({ state: "paused_rate_limit" })
        const future = yield* sample(sampler, 0, "a", { maxTokens: 900 })
        yield* call(Api.cancelFuture, new CancelFutureRequest({ requestId: requestId(future.requestId) }))
        yield* server.resume
        assert.strictEqual((yield* poll(future.requestId)).status, 410)
      }).pipe(local))

    it.effect("too many waiting samples are refused with a hint", () =>
      Effect.gen(function*() {
        const server = yield* LocalServer.LocalServer
        const sampler = yield* openSampler(yield* openSession, 0, { baseModel: "local/tiny" })
        yield* server.pause({ state: "paused_capacity" })
        yield* sample(sampler, 0, "a", { maxTokens: 1 })
        yield* Effect.yieldNow()
        yield* sample(sampler, 1, "a", { maxTokens: 1 })
        const refused = yield* Effect.flip(sample(sampler, 2, "a", { maxTokens: 1 }))
        assert.propertyVal(refused, "status", 429)
      }).pipe(Effect.provide(TinkerLocal.layer({ maxQueuedSamples: 1, sampleConcurrency: 1 }))))
  })

  describe("sessions", () => {
    it.effect("live by heartbeats and end with silence", () =>
      Effect.gen(function*() {
        const sessionId = yield* openSession
        const modelId = yield* createModel(sessionId)
        const held = yield* step(modelId, 2)
        const beat = call(Api.heartbeat, new SessionHeartbeatRequest({ sessionId }))
        yield* TestClock.adjust("4 minutes")
        yield* beat
        yield* TestClock.adjust("4 minutes")
        yield* beat
        yield* TestClock.adjust("6 minutes")
        assert.propertyVal(yield* Effect.flip(beat), "status", 410)
        // what it had accepted will never be done
        assert.strictEqual((yield* poll(held.requestId)).status, 410)
        assert.propertyVal(yield* Effect.flip(pass(modelId, 1, texts)), "status", 410)
      }).pipe(local))

    it.effect("that sent no heartbeat for half a minute make room for new models; those that still train do not", () =>
      Effect.gen(function*() {
        const gone = yield* openSession
        const first = yield* createModel(gone)
        yield* TestClock.adjust("20 seconds")
        const sessionId = yield* openSession
        for (let seq = 0; seq < 47; seq++) yield* createModel(sessionId, { seq })
        const create = (seq: number) =>
          Effect.either(call(
            Api.createModel,
            new CreateModelRequest({
              sessionId,
              modelSeqId: seq,
              baseModel: "local/tiny",
              loraConfig: new LoraConfig({ rank: 8 })
            })
          ))
        assert.propertyVal(Either.getLeft(yield* create(47)).pipe(Option.getOrThrow), "status", 429)
        yield* TestClock.adjust("10 seconds")
        assert.isTrue(Either.isRight(yield* create(47)))
        assert.propertyVal(yield* Effect.flip(step(first, 1)), "status", 410)
        assert.propertyVal(Either.getLeft(yield* create(48)).pipe(Option.getOrThrow), "status", 429)
      }).pipe(local))

    it.effect("end when their client says so; the first reason counts", () =>
      Effect.gen(function*() {
        const sessionId = yield* openSession
        yield* call(Api.finishSession, { sessionId, reason: { type: "errored" }, detail: "boom" })
        yield* call(Api.finishSession, { sessionId, reason: { type: "success" }, detail: null })
        const status = yield* Effect.flip(call(Api.heartbeat, new SessionHeartbeatRequest({ sessionId })))
        assert.propertyVal(status, "status", 410)
        const found = (yield* send("POST", "/api/v1/sessions/search", { session_id: sessionId })).json()
        assert.deepStrictEqual(Object(found["sessions"])[0]?.["status"], {
          type: "client_finished",
          reason: { type: "errored" },
          detail: "boom"
        })
      }).pipe(local))
  })

  describe("checkpoints", () => {
    it.effect(
      "survive the process with their optimizer, and load only as a first request or as a new model",
      () =>
        Effect.gen(function*() {
          const fs = yield* FileSystem.FileSystem
          const root = yield* fs.makeTempDirectoryScoped()
          const path = yield* Effect.gen(function*() {
            const modelId = yield* createModel(yield* openSession)
            yield* pass(modelId, 1, texts)
            yield* step(modelId, 2)
            const saved = yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId: 3, path: "a" }))
            return String((yield* resultOf(saved))["path"])
          }).pipe(Effect.provide(TinkerLocal.layerDirectory(root)))

          yield* Effect.gen(function*() {
            const info = yield* call(Api.weightsInfo, new WeightsInfoRequest({ tinkerPath: path }))
            assert.strictEqual(info.baseModel, "local/tiny")
            assert.strictEqual(info.loraRank, 8)
            const old = path.slice("tinker://".length).split("/")[0] ?? ""
            assert.propertyVal(yield* Effect.flip(pass(old, 4, texts)), "status", 410)
            const sessionId = yield* openSession
            const into = yield* createModel(sessionId, { seq: 0, seed: 5 })
            const loaded = yield* resultOf(
              yield* call(Api.loadWeights, new LoadWeightsRequest({ modelId: into, seqId: 1, path, optimizer: true }))
            )
            assert.strictEqual(loaded["path"], path)
            const created = yield* resultOf(
              yield* call(Api.loadWeights, new LoadWeightsRequest({ sessionId, modelSeqId: 1, path, optimizer: true }))
            )
            const born = String(created["model_id"])
            assert.strictEqual(born, `${sessionId}:train:1`)
            const losses = [
              yield* passResult(yield* pass(into, 2, texts, { forwardOnly: true })),
              yield* passResult(yield* pass(born, 1, texts, { forwardOnly: true }))
            ].map(({ metrics }) => metrics["loss:sum"])
            assert.strictEqual(losses[0], losses[1])
          }).pipe(Effect.provide(TinkerLocal.layerDirectory(root)))
        }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)),
      60_000
    )

    it.effect("a request to load that arrives twice at once is one request", () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const root = yield* fs.makeTempDirectoryScoped()
        yield* Effect.gen(function*() {
          const sessionId = yield* openSession
          const saving = yield* createModel(sessionId)
          const saved = yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId: saving, seqId: 1, path: "a" }))
          const path = String((yield* resultOf(saved))["path"])
          const modelId = yield* createModel(sessionId, { seq: 1 })
          const load = call(Api.loadWeights, new LoadWeightsRequest({ modelId, seqId: 1, path, optimizer: true }))
          const [first, second] = yield* Effect.all([load, load], { concurrency: 2 })
          assert.strictEqual(first.requestId, second.requestId)
          assert.strictEqual((yield* resultOf(second))["path"], path)
        }).pipe(Effect.provide(TinkerLocal.layerDirectory(root)))
      }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))

    it.effect("are named once, expire, are published, copied and removed", () =>
      Effect.gen(function*() {
        const sessionId = yield* openSession
        const modelId = yield* createModel(sessionId)
        const save = (
          seqId: number,
          more?: { readonly overwrite?: boolean; readonly ttlSeconds?: number; readonly path?: string }
        ) => call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId, path: "a", ...more }))
        const path = String((yield* resultOf(yield* save(1)))["path"])
        assert.propertyVal(yield* Effect.flip(save(2)), "status", 400)
        assert.strictEqual((yield* resultOf(yield* save(3, { overwrite: true })))["path"], path)
        assert.propertyVal(yield* Effect.flip(save(4, { path: "../b" })), "status", 400)
        assert.propertyVal(yield* Effect.flip(save(5, { path: "c", ttlSeconds: 10 })), "status", 400)
        yield* resultOf(yield* save(6, { path: "short", ttlSeconds: 3600 }))
        const list = Effect.map(
          call(Api.listCheckpoints, { trainingRunId: modelId }),
          ({ checkpoints }) => checkpoints.map(({ checkpointId }) => String(checkpointId)).sort()
        )
        assert.deepStrictEqual(yield* list, ["weights/a", "weights/short"])
        yield* TestClock.adjust("61 minutes")
        assert.deepStrictEqual(yield* list, ["weights/a"])

        const at = `/api/v1/training_runs/${modelId}/checkpoints/weights/a`
        assert.strictEqual((yield* send("POST", `${at}/publish`)).status, 204)
        assert.strictEqual((yield* send("POST", `${at}/publish`)).status, 409)
        assert.strictEqual((yield* send("PUT", `${at}/ttl`, { ttl_seconds: 5 })).status, 400)
        assert.strictEqual((yield* send("PUT", `${at}/ttl`, { ttl_seconds: 7200 })).status, 204)
        const archive = (yield* send("GET", `${at}/archive`)).json()
        const tar = yield* send("GET", String(archive["url"]), undefined, { key: "" })
        assert.include(new TextDecoder("latin1").decode(tar.bytes), "adapter_model.safetensors")
        const rest = yield* send("GET", String(archive["url"]), undefined, { headers: { range: "bytes=512-1023" } })
        assert.strictEqual(rest.status, 206)
        assert.deepStrictEqual(rest.bytes, tar.bytes.slice(512, 1024))

        const copy = (yield* send("POST", "/api/v1/copy_weights", { source_path: path, destination_project_id: "p" }))
          .json()
        assert.match(String(copy["tinker_path"]), /\/weights\/a$/)
        assert.strictEqual((yield* send("DELETE", at)).status, 204)
        assert.strictEqual((yield* send("DELETE", at)).status, 404)
        const left = yield* call(Api.listUserCheckpoints, { limit: 10, offset: 0 })
        assert.deepStrictEqual(left.checkpoints.map(({ tinkerPath }) => tinkerPath), [String(copy["tinker_path"])])
      }).pipe(local))

    it.effect("for one sampler only are never listed", () =>
      Effect.gen(function*() {
        const sessionId = yield* openSession
        const modelId = yield* createModel(sessionId)
        const saved = yield* resultOf(
          yield* call(
            Api.saveWeightsForSampler,
            new SaveWeightsForSamplerRequest({ modelId, seqId: 1, samplingSessionSeqId: 4 })
          )
        )
        assert.strictEqual(saved["sampling_session_id"], `${sessionId}:sample:4`)
        const { sequences } = yield* sampleResult(
          yield* sample(String(saved["sampling_session_id"]), 0, "a", { maxTokens: 3, stop: [] })
        )
        assert.strictEqual(sequences[0]?.tokens.length, 3)
        assert.deepStrictEqual((yield* call(Api.listUserCheckpoints, { limit: 10, offset: 0 })).checkpoints, [])
      }).pipe(local))
  })

  describe("callers", () => {
    const keys = {
      apiKeys: [
        { key: Redacted.make("tml-a"), email: "a@x.org", name: "first" },
        { key: Redacted.make("tml-b"), email: "b@x.org" }
      ]
    }

    it.effect("need a key they were given, see only their own, and can exchange or revoke it", () =>
      Effect.gen(function*() {
        const models = "/api/v1/get_server_capabilities"
        assert.strictEqual((yield* send("GET", models, undefined, { key: "" })).status, 401)
        assert.strictEqual((yield* send("GET", models, undefined, { key: "tml-c" })).status, 401)
        assert.strictEqual((yield* send("GET", models, undefined, { key: "tml-a" })).status, 200)
        const me = (yield* send("GET", "/api/v1/auth/apikey/me", undefined, { key: "tml-a" })).json()
        assert.strictEqual(me["name"], "first")

        const opened = (yield* send("POST", "/api/v1/create_session", { tags: [], sdk_version: "1" }, { key: "tml-a" }))
          .json()
        const session = `/api/v1/sessions/${opened["session_id"]}`
        assert.strictEqual((yield* send("GET", session, undefined, { key: "tml-a" })).status, 200)
        assert.strictEqual((yield* send("GET", session, undefined, { key: "tml-b" })).status, 404)

        const { jwt } = (yield* send("POST", "/api/v1/auth/token", {}, { key: "tml-a" })).json()
        assert.strictEqual((yield* send("GET", session, undefined, { key: String(jwt) })).status, 200)
        assert.strictEqual((yield* send("GET", session, undefined, { key: `${jwt}x` })).status, 401)
        yield* TestClock.adjust("61 minutes")
        assert.strictEqual((yield* send("GET", session, undefined, { key: String(jwt) })).status, 401)

        assert.strictEqual((yield* send("DELETE", "/api/v1/auth/apikey/me", undefined, { key: "tml-a" })).status, 204)
        assert.strictEqual((yield* send("GET", models, undefined, { key: "tml-a" })).status, 401)
      }).pipe(Effect.provide(TinkerLocal.layer(keys))))
  })

  it.effect("answers bad input as the service does", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const status = (path: string, body: unknown) => Effect.map(send("POST", path, body), (answer) => answer.status)
      assert.strictEqual(yield* status("/api/v1/create_session", { tags: [] }), 422)
      assert.strictEqual(yield* status("/api/v1/create_session", "{"), 422)
      assert.strictEqual(
        yield* status("/api/v1/create_model", {
          session_id: "x",
          model_seq_id: 0,
          base_model: "local/tiny",
          lora_config: { rank: 8 }
        }),
        404
      )
      const create = (base: string, rank: number) =>
        status("/api/v1/create_model", {
          session_id: sessionId,
          model_seq_id: 9,
          base_model: base,
          lora_config: { rank }
        })
      assert.strictEqual(yield* create("no/model", 8), 400)
      assert.strictEqual(yield* create("local/tiny", 3), 400)
      const nonsense = yield* send("POST", "/api/v1/forward_backward", Uint8Array.of(255, 255), {
        headers: { "content-type": "application/x-protobuf" }
      })
      assert.strictEqual(nonsense.status, 422)
      assert.strictEqual((yield* send("GET", "/api/v1/nothing")).status, 404)
      assert.strictEqual((yield* send("GET", "/api/v1/create_model")).status, 405)
      assert.deepStrictEqual((yield* send("GET", "/api/v1/samplers/none")).json(), { detail: "Sampler none not found" })
    }).pipe(local))

  it.effect("counts what was used, by the hour, and writes down who did what", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const modelId = yield* createModel(sessionId)
      yield* passResult(yield* pass(modelId, 1, texts))
      yield* resultOf(yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId: 2, path: "a" })))
      const sampler = yield* openSampler(sessionId, 0, { baseModel: "local/tiny" })
      yield* sampleResult(yield* sample(sampler, 0, "abc", { maxTokens: 5, stop: [] }))
      yield* TestClock.adjust("10 minutes")
      const usage = (yield* send(
        "GET",
        "/api/v1/billing/usage/events?starting_on=1970-01-01T00:00:00Z&ending_before=1970-01-01T01:00:00Z"
      )).json()
      const rows: ReadonlyArray<{ readonly event_info: { readonly type: string; readonly [key: string]: unknown } }> =
        Object(usage["data"])
      const counts = Object.fromEntries(
        rows.map(({ event_info: info }) => [info.type, info["token_count"] ?? info["count"]])
      )
      assert.strictEqual(counts["training"], "cat: meow\n".length - 1)
      assert.strictEqual(counts["sampling_prefill"], 3)
      assert.strictEqual(counts["sampling_sample"], 5)
      assert.strictEqual(counts["checkpoint"], 1)
      assert.strictEqual(
        (yield* send(
          "GET",
          "/api/v1/billing/usage/events?starting_on=1970-01-01T00:30:00Z&ending_before=1970-01-01T01:00:00Z"
        )).status,
        400
      )
      const { entries } = yield* call(Api.audit, { eventType: "checkpoints", day: "1970-01-01" })
      assert.deepStrictEqual(entries.map(({ event, tinkerPath }) => [event, tinkerPath]), [
        ["checkpoint_create", `tinker://${modelId}/weights/a`]
      ])
    }).pipe(local))

  it.effect("remembers who did what, however much is done in a day", () =>
    Effect.gen(function*() {
      const storage = yield* Storage.memory
      const make = Effect.map(
        Layer.build(Layer.provide(auditLog.layer, Layer.succeed(Storage.Storage, storage))),
        Context.get(auditLog.AuditLog)
      )
      const caller = { urn: "me", email: "me@localhost" }
      const note = (log: auditLog.AuditLogShape, from: number, to: number) =>
        Effect.forEach(
          Array.from({ length: to - from }, (_, i) => `tinker://r/weights/${from + i}`),
          (path) => log.note(caller, { resource: "checkpoint", action: "read", path }),
          { discard: true }
        )
      yield* note(yield* make, 0, 300)
      // in another process
      const log = yield* make
      yield* note(log, 300, 600)
      const entries = yield* log.day("1970-01-01")
      assert.deepStrictEqual(
        entries.map(({ path }) => path),
        Array.from({ length: 600 }, (_, i) => `tinker://r/weights/${i}`)
      )
      yield* TestClock.adjust("1 day")
      yield* note(log, 0, 1)
      assert.strictEqual((yield* log.day("1970-01-02")).length, 1)
      assert.strictEqual((yield* log.day("1970-01-01")).length, 600)
    }).pipe(Effect.scoped))

  it.effect("usage is visible with its result, and on the disk with a checkpoint and soon after anything else", () =>
    Effect.gen(function*() {
      const storage = yield* Storage.memory
      const server = Layer.provide(LocalServer.layer(), [Engine.layer(), Layer.succeed(Storage.Storage, storage)])
      const client = TinkerLocal.layerClient.pipe(Layer.provide(server))
      const window = "starting_on=1970-01-01T00:00:00Z&ending_before=1970-01-01T01:00:00Z"
      const counts = Effect.map(send("GET", `/api/v1/billing/usage/events?${window}`), (answer) => {
        const rows: ReadonlyArray<{ readonly event_info: { readonly type: string; readonly token_count?: number } }> =
          Object(answer.json()["data"])
        const counted = rows.filter(({ event_info: info }) => info.type !== "storage")
        return Object.fromEntries(counted.map(({ event_info: info }) => [info.type, info.token_count ?? 1]))
      })
      // what another process would find, were this one killed now
      const left = Effect.provide(counts, client)
      yield* Effect.gen(function*() {
        const modelId = yield* createModel(yield* openSession)
        yield* passResult(yield* pass(modelId, 1, texts))
        assert.deepStrictEqual(yield* counts, { training: 9 })
        yield* resultOf(yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId: 2, path: "a" })))
        assert.deepStrictEqual(yield* left, { training: 9, checkpoint: 1 })
        yield* passResult(yield* pass(modelId, 3, texts))
        assert.deepStrictEqual(yield* counts, { training: 18, checkpoint: 1 })
        yield* TestClock.adjust("250 millis")
        assert.deepStrictEqual(yield* left, { training: 18, checkpoint: 1 })
      }).pipe(Effect.provide(client))
    }))

  it.effect("unloads a model on request", () =>
    Effect.gen(function*() {
      const modelId = yield* createModel(yield* openSession)
      const done = yield* resultOf(yield* call(Api.unloadModel, new UnloadModelRequest({ modelId })))
      assert.strictEqual(done["model_id"], modelId)
      yield* Effect.yieldNow()
      assert.propertyVal(yield* Effect.flip(pass(modelId, 2, texts)), "status", 410)
    }).pipe(local))

  it.effect("runs a loss that was uploaded as a graph, with its gradient", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const node = (op: string, name: string, target: string, ...args: ReadonlyArray<unknown>) => ({
        op,
        name,
        target,
        args,
        kwargs: {}
      })
      const upload = (...nodes: ReadonlyArray<unknown>) =>
        send("POST", "/api/v1/create_custom_loss", {
          session_id: sessionId,
          custom_loss_seq_id: 0,
          name: "mine",
          inputs: [{ name: "logprobs", rank: 1 }, { name: "weights", rank: 1 }],
          graph: { format: 1, nodes },
          type: "create_custom_loss"
        })
      const product = [
        node("placeholder", "logprobs", "logprobs"),
        node("placeholder", "weights", "weights"),
        node("call_function", "mul", "operator.mul", { ref: "logprobs" }, { ref: "weights" }),
        node("call_method", "sum_1", "sum", { ref: "mul" }),
        node("call_function", "neg", "operator.neg", { ref: "sum_1" }),
        node("output", "output", "output", {
          tuple: [{ ref: "neg" }, { dict: { "custom/total:sum": { ref: "sum_1" } } }]
        })
      ]
      const lossId = String(
        (yield* resultOf({ requestId: String((yield* upload(...product)).json()["request_id"]) }))["loss_id"]
      )
      const mine = yield* createModel(sessionId, { seq: 0 })
      const theirs = yield* createModel(sessionId, { seq: 1 })
      const custom = yield* passResult(
        yield* pass(mine, 1, texts, { lossFn: "custom", lossFnConfig: { loss_id: lossId } })
      )
      const plain = yield* passResult(yield* pass(theirs, 1, texts))
      assert.approximately(custom.metrics["loss:sum"] ?? 0, plain.metrics["loss:sum"] ?? 1, 1e-4)
      assert.approximately(custom.metrics["custom/total:sum"] ?? 0, -(plain.metrics["loss:sum"] ?? 1), 1e-4)
      const norms = yield* Effect.all([step(mine, 2), step(theirs, 2)]).pipe(
        Effect.flatMap(Effect.forEach((future) => resultOf(future)))
      )
      assert.approximately(Object(norms[0]?.["metrics"]).grad_norm, Object(norms[1]?.["metrics"]).grad_norm, 1e-4)
      const unknown = yield* upload(node("call_function", "x", "torch.linalg.svd"))
      assert.strictEqual(unknown.status, 400)
      assert.match(String(unknown.json()["detail"]), /torch\.linalg\.svd/)
      const missing = yield* resultOf(yield* pass(mine, 3, texts, { lossFn: "custom" }))
      assert.strictEqual(missing["category"], "user")
    }).pipe(local))
})

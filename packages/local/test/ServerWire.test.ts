import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Redacted, Ref, Stream } from "effect"
import { ModelInput, OpenAiCompat, SamplingClient, ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import * as Api from "effect-tinker/wire/Api"
import { SaveWeightsRequest } from "effect-tinker/wire/Weights"
import { makeRoundRobin } from "../src/internal/server/samplers.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as NodeTinkerLocal from "../src/NodeTinkerLocal.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import {
  call,
  createModel,
  openSampler,
  openSession,
  pass,
  passResult,
  poll,
  resultOf,
  sample,
  sampleResult,
  send,
  step
} from "./server/support.js"

const http = Effect.provide(FetchHttpClient.layer)
const local = Effect.provide(TinkerLocal.layer())

/** A server whose engine computes nothing until it is let, and says when its work is interrupted. */
const heldServer = (options?: NodeTinkerLocal.Options) =>
  Effect.gen(function*() {
    const go = yield* Effect.makeLatch(false)
    const started = yield* Deferred.make<void>()
    const stopped = yield* Deferred.make<void>()
    const running = yield* NodeTinkerLocal.serve({
      ...options,
      engine: {
        sliceMillis: 0,
        pause: Effect.zipRight(Deferred.succeed(started, undefined), go.await).pipe(
          Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
        )
      }
    })
    return { ...running, go, started, stopped }
  })

const clients = ({ apiKey, baseUrl }: NodeTinkerLocal.Running) =>
  Layer.provide(ServiceClient.layer({ baseUrl, apiKey }), NodeTinker.layer())

describe("polls over a socket", () => {
  it.scopedLive("are held, then answered with try_again and why", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl, server } = yield* NodeTinkerLocal.serve({ hold: "150 millis" })
      const key = Redacted.value(apiKey)
      const post = (path: string, body: unknown) => send("POST", `${baseUrl}/api/v1${path}`, body, { key })
      yield* server.pause({ state: "paused_capacity", reason: "no room" })
      const accepted = yield* post("/asample", {
        base_model: "local/tiny",
        prompt: { chunks: [{ type: "encoded_text", tokens: [1] }] },
        sampling_params: { max_tokens: 1 },
        num_samples: 1
      })
      const request_id = accepted.json()["request_id"]
      const held = (yield* post("/retrieve_future", { request_id })).json()
      assert.deepInclude(held, { type: "try_again", queue_state: "paused_capacity", queue_state_reason: "no room" })
      yield* server.resume
      const done = Effect.repeat(post("/retrieve_future", { request_id }), {
        until: (answer) => "sequences" in answer.json()
      })
      assert.property((yield* done).json(), "sequences")
    }).pipe(http))

  it.scopedLive("tell the SDK what its sample waits for", () =>
    Effect.gen(function*() {
      const running = yield* NodeTinkerLocal.serve({ hold: "150 millis" })
      const seen = yield* Ref.make<ReadonlyArray<string>>([])
      yield* running.server.pause({ state: "paused_capacity", reason: "no room" })
      yield* Effect.gen(function*() {
        const sampler = yield* SamplingClient.make({ baseModel: "local/tiny" })
        yield* Effect.forkScoped(
          Stream.runForEach(sampler.events, (event) =>
            Effect.zipRight(
              Ref.update(seen, (all) => [...all, JSON.stringify(event)]),
              running.server.resume
            ))
        )
        const { sequences } = yield* sampler.sample({ prompt: ModelInput.fromInts([1]), maxTokens: 1 })
        assert.lengthOf(sequences, 1)
      }).pipe(Effect.provide(clients(running)))
      assert.match((yield* Ref.get(seen)).join("\n"), /paused_capacity.*no room/)
    }))
})

describe("a client that leaves", () => {
  it.scopedLive("interrupts the work for its request", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl, started, stopped } = yield* heldServer()
      const aborting = new AbortController()
      const asking = yield* Effect.fork(Effect.ignore(Effect.tryPromise(() =>
        fetch(`${baseUrl}/oai/api/v1/completions`, {
          method: "POST",
          headers: { authorization: `Bearer ${Redacted.value(apiKey)}`, "content-type": "application/json" },
          body: JSON.stringify({ model: "local/tiny", prompt: "hello", max_tokens: 400, stop: [] }),
          signal: aborting.signal
        })
      )))
      yield* Deferred.await(started)
      aborting.abort()
      yield* Deferred.await(stopped)
      yield* Fiber.join(asking)
    }))

  it.scopedLive("of the SDK does so by being interrupted", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl, started, stopped } = yield* heldServer()
      const asking = yield* Effect.flatMap(OpenAiCompat.OpenAiCompat, (oai) =>
        oai.complete({ model: "local/tiny", prompt: "hello", max_tokens: 400 })).pipe(
          Effect.provide(OpenAiCompat.layer({ baseUrl, apiKey }).pipe(Layer.provide(NodeTinker.layer()))),
          Effect.fork
        )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(asking)
      yield* Deferred.await(stopped)
    }))

  it.scopedLive("in the middle of its poll can come back for the result", () =>
    Effect.gen(function*() {
      const { apiKey, baseUrl, go, started } = yield* heldServer()
      const key = Redacted.value(apiKey)
      const post = (path: string, body: unknown) => send("POST", `${baseUrl}/api/v1${path}`, body, { key })
      const accepted = yield* post("/asample", {
        base_model: "local/tiny",
        prompt: { chunks: [{ type: "encoded_text", tokens: [1] }] },
        sampling_params: { max_tokens: 1 },
        num_samples: 1
      })
      const ask = post("/retrieve_future", { request_id: accepted.json()["request_id"] })
      const first = yield* Effect.fork(ask)
      yield* Deferred.await(started)
      yield* Fiber.interrupt(first)
      yield* go.open
      assert.property((yield* ask).json(), "sequences")
    }).pipe(http))

  it.effect("for good, by finishing its session, takes its samples along", () =>
    Effect.gen(function*() {
      const session = yield* openSession
      const { request_id } = (yield* send("POST", "/api/v1/create_sampling_session", {
        session_id: session,
        sampling_session_seq_id: 0,
        base_model: "local/tiny"
      }).pipe(Effect.flatMap((answer) =>
        send("POST", "/api/v1/asample", {
          sampling_session_id: answer.json()["sampling_session_id"],
          seq_id: 0,
          prompt: { chunks: [{ type: "encoded_text", tokens: [1] }] },
          sampling_params: { max_tokens: 1000 },
          num_samples: 64
        })
      ))).json()
      yield* send("POST", `/api/v1/sessions/${session}/finish`, { reason: { type: "success" }, detail: null })
      assert.strictEqual((yield* poll(String(request_id))).status, 410)
    }).pipe(local))
})

describe("beside a long pass", () => {
  const texts = (count: number) => Array.from({ length: count }, (_, i) => String.fromCharCode(97 + i % 26).repeat(500))

  it.live(
    "a small sample and a small pass of another model on the same base model do not wait for its end",
    () =>
      Effect.gen(function*() {
        const sessionId = yield* openSession
        const [long, short] = [yield* createModel(sessionId), yield* createModel(sessionId, { seq: 1 })]
        const sampler = yield* openSampler(sessionId, 0, { baseModel: "local/tiny" })
        const endless = yield* pass(long, 1, texts(100))
        const waiting = yield* Effect.fork(passResult(endless))
        yield* sampleResult(yield* sample(sampler, 0, "cat:", { maxTokens: 4, stop: [] }))
        assert.isTrue(Option.isNone(yield* Fiber.poll(waiting)), "the sample waited for the pass")
        yield* passResult(yield* pass(short, 1, ["cat: meow\n"]))
        assert.isTrue(Option.isNone(yield* Fiber.poll(waiting)), "the small pass waited for the long one")
        yield* Fiber.join(waiting)
      }).pipe(local),
    120_000
  )
})

describe("turns", () => {
  it("groups take turns, however much each has waiting", () => {
    const queue = makeRoundRobin<string>()
    for (let i = 0; i < 4; i++) queue.offer("a", `a${i}`)
    queue.offer("b", "b0")
    assert.deepStrictEqual(Array.from({ length: 6 }, () => queue.take()), ["a0", "b0", "a1", "a2", "a3", undefined])
    assert.strictEqual(queue.size(), 0)
  })

  it.effect("a request that does not fit its schema does not hold up the next, in JSON and in protobuf", () =>
    Effect.gen(function*() {
      const modelId = yield* createModel(yield* openSession)
      const bad = yield* send("POST", "/api/v1/optim_step", { model_id: modelId, seq_id: 1, adam_params: "fast" })
      assert.strictEqual(bad.status, 422)
      const proto = yield* send(
        "POST",
        "/api/v1/forward_backward",
        // fields 1 and 2 are the model and the number; field 3 is cut off
        Uint8Array.of(10, modelId.length, ...new TextEncoder().encode(modelId), 16, 2, 26, 99, 1),
        { headers: { "content-type": "application/x-protobuf" } }
      )
      assert.strictEqual(proto.status, 422)
      assert.isAbove((yield* passResult(yield* pass(modelId, 3, ["cat: meow\n"]))).metrics["loss:sum"] ?? 0, 0)
    }).pipe(local))
})

describe("what is refused", () => {
  it.effect("a name that is taken, with the 400 that clients do not retry; overwrite replaces it", () =>
    Effect.gen(function*() {
      const modelId = yield* createModel(yield* openSession)
      const save = (seqId: number, overwrite: boolean) =>
        call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId, path: "a", overwrite }))
      yield* resultOf(yield* save(1, false))
      const taken = yield* Effect.flip(save(2, false))
      assert.propertyVal(taken, "status", 400)
      assert.match(JSON.stringify(taken), /already exists/)
      assert.property(yield* resultOf(yield* save(3, true)), "path")
    }).pipe(local))

  it.effect("parameters of a step that are no numbers, by their names on the wire, and never the default instead", () =>
    Effect.gen(function*() {
      const modelId = yield* createModel(yield* openSession)
      yield* passResult(yield* pass(modelId, 1, ["cat: meow\n"]))
      const params = [
        ["learning_rate", "null"],
        ["learning_rate", "1e999"],
        ["learning_rate", "1e39"],
        ["learning_rate", "-1"],
        ["learning_rate", "\"0.1\""],
        ["beta1", "1"],
        ["grad_clip_norm", "null"]
      ] as const
      let seq = 1
      for (const [name, value] of params) {
        const body = `{"model_id": ${
          JSON.stringify(modelId)
        }, "seq_id": ${++seq}, "adam_params": {"${name}": ${value}}}`
        const answer = yield* send("POST", "/api/v1/optim_step", body)
        assert.strictEqual(answer.status, 422, `${name} ${value}`)
        assert.deepStrictEqual(Object(answer.json()["detail"])[0].loc, ["body", "adam_params", name], value)
      }
      const nan = `{"model_id": ${JSON.stringify(modelId)}, "seq_id": 99, "adam_params": {"learning_rate": NaN}}`
      assert.strictEqual((yield* send("POST", "/api/v1/optim_step", nan)).status, 422)
      assert.property((yield* resultOf(yield* step(modelId, ++seq, 0)))["metrics"], "grad_norm")
    }).pipe(local))

  it.effect("a step that would end in infinity fails and is undone; a diverged state is not saved over a good one", () =>
    Effect.gen(function*() {
      const modelId = yield* createModel(yield* openSession)
      const texts = ["cat: meow\n"]
      const save = (seqId: number) =>
        call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId, path: "a", overwrite: true }))
      yield* passResult(yield* pass(modelId, 1, texts))
      yield* resultOf(yield* step(modelId, 2))
      yield* resultOf(yield* save(3))
      const before = (yield* passResult(yield* pass(modelId, 4, texts))).metrics["loss:sum"]
      const failed = yield* resultOf(yield* step(modelId, 5, 1e38))
      assert.match(String(failed["error"]), /learning_rate 1e\+38 is too large.*undone/)
      const after = (yield* passResult(yield* pass(modelId, 6, texts, { forwardOnly: true }))).metrics["loss:sum"]
      assert.strictEqual(after, before)
      // small enough for one step not to be suspicious, again and again
      const decay = `{"model_id": ${
        JSON.stringify(modelId)
      }, "seq_id": SEQ, "adam_params": {"learning_rate": 1, "weight_decay": 1e30}}`
      yield* passResult(yield* pass(modelId, 7, texts))
      yield* send("POST", "/api/v1/optim_step", decay.replace("SEQ", "8"))
      const refused = yield* resultOf(yield* save(9))
      assert.match(String(refused["error"]), /diverged/)
      const other = yield* createModel(yield* openSession)
      const load = yield* send("POST", "/api/v1/load_weights", {
        model_id: other,
        seq_id: 1,
        path: `tinker://${modelId}/weights/a`,
        optimizer: false
      })
      yield* poll(String(load.json()["request_id"]))
      assert.approximately(
        (yield* passResult(yield* pass(other, 2, texts))).metrics["loss:sum"] ?? NaN,
        before ?? 0,
        1e-4
      )
    }).pipe(local))

  it.effect("with the name of the field and what is wrong with it, not with a schema", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const answer = yield* send("POST", "/api/v1/create_model", {
        session_id: sessionId,
        model_seq_id: 0,
        base_model: "local/tiny",
        lora_config: { rank: "large" }
      })
      assert.strictEqual(answer.status, 422)
      const [{ loc, msg }] = Object(answer.json()["detail"])
      assert.deepStrictEqual(loc, ["body", "lora_config", "rank"])
      assert.match(msg, /^Expected .*, actual "large"$/)
      assert.notMatch(JSON.stringify(answer.json()), /readonly|Encoded side|└/)
      const missing = yield* send("POST", "/api/v1/asample", { num_samples: 1 })
      assert.notMatch(JSON.stringify(missing.json()), /readonly|Encoded side|└/)
    }).pipe(local))
})

describe("tokenizers under the hub's paths", () => {
  it.scoped("are found by any client of the hub, without a key", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* NodeTinkerLocal.serve()
      const get = (path: string, method: "GET" | "HEAD" = "GET") =>
        Effect.promise(() => fetch(`${baseUrl}${path}`, { method }))
      for (const name of ["local/tiny", "local/small", LocalTokenizer.tokenizerId]) {
        const head = yield* get(`/${name}/resolve/main/tokenizer.json`, "HEAD")
        assert.strictEqual(head.status, 200)
        assert.match(head.headers.get("x-repo-commit") ?? "", /^[0-9a-f]{40}$/)
        assert.isNotNull(head.headers.get("etag"))
        const file = yield* get(`/${name}/resolve/main/tokenizer.json`)
        const text = yield* Effect.promise(() => file.text())
        assert.strictEqual(Number(head.headers.get("content-length")), new TextEncoder().encode(text).length)
        assert.deepStrictEqual(JSON.parse(text), LocalTokenizer.huggingFaceFiles.tokenizerJson)
      }
      assert.strictEqual((yield* get("/other/model/resolve/main/tokenizer.json")).status, 404)
      const absent = yield* get("/local/tiny/resolve/main/vocab.txt")
      assert.strictEqual(absent.headers.get("x-error-code"), "EntryNotFound")
    }))
})

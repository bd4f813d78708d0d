import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Either, Exit, Fiber, Layer, Option, Scope, Stream, TestClock } from "effect"
import { ModelInput, RetryPolicy, SamplerHandle, SamplingClient, ServiceClient, TensorData } from "../src/index.js"
import { Sample } from "../src/wire.js"
import * as Server from "./utils/recordingServer.js"

const settle = Effect.yieldNow().pipe(Effect.repeatN(200))

const prompt = ModelInput.fromInts([1, 2, 3])

const answer = { sequences: [{ stop_reason: "stop", tokens: [7, 8], logprobs: [-0.5, -0.25] }] }

/** A sampler that accepts and answers everything, unless the handler says otherwise. */
const sampler = (handler: Server.Handler = () => undefined, config: object = {}, dynamic: object = {}) =>
  Server.make((seen) => {
    const own = handler(seen)
    if (own !== undefined) return own
    switch (seen.path) {
      case "/api/v1/client/config":
        return Response.json(config)
      case "/api/v1/client/dynamic_config":
        return Response.json(dynamic)
      case "/api/v1/create_sampling_session":
        return Response.json({ sampling_session_id: `session-1:sample:${seen.json["sampling_session_seq_id"]}` })
      case "/api/v1/asample":
        return Response.json({
          request_id: `${seen.json["sampling_session_id"]}:${seen.json["seq_id"]}`,
          sample_sequence_ids: [`seq-${seen.json["seq_id"]}`]
        })
      case "/api/v1/retrieve_future":
        return Response.json(answer)
      default:
        return undefined
    }
  })

type Server = ReturnType<typeof Server.make>

const connect = (server: Server, scope?: Scope.Scope) =>
  Effect.gen(function*() {
    const layer = ServiceClient.layer(Server.options).pipe(Layer.provide(server.layer))
    return yield* Layer.buildWithScope(layer, scope ?? (yield* Effect.scope))
  })

const open = (server: Server, options: SamplingClient.Options = { baseModel: "m" }) =>
  Effect.flatMap(connect(server), (context) => Effect.provide(SamplingClient.make(options), context))

describe("SamplingClient", () => {
  it.scoped("opens a sampler in the session and sends what was asked, in the wire's words", () =>
    Effect.gen(function*() {
      const server = sampler()
      const client = yield* open(server, { modelPath: "tinker://run/sampler_weights/0001" })
      const response = yield* client.sample({ prompt, maxTokens: 5, stop: "\n", temperature: 0, seed: 3 })
      assert.deepStrictEqual(server.of("create_sampling_session")[0]?.json, {
        session_id: "session-1",
        sampling_session_seq_id: 0,
        model_path: "tinker://run/sampler_weights/0001",
        type: "create_sampling_session"
      })
      assert.deepStrictEqual(server.of("asample")[0]?.json, {
        num_samples: 1,
        prompt: { chunks: [{ tokens: [1, 2, 3], type: "encoded_text" }] },
        sampling_params: { max_tokens: 5, seed: 3, stop: ["\n"], temperature: 0, top_k: -1, top_p: 1 },
        sampling_session_id: "session-1:sample:0",
        seq_id: 0,
        prompt_logprobs: false,
        topk_prompt_logprobs: 0,
        type: "sample"
      })
      assert.strictEqual(server.of("asample")[0]?.headers["x-tinker-sampling-backpressure"], "1")
      assert.deepStrictEqual(Array.from(response.sequences[0]?.tokens ?? []), [7, 8])
      assert.strictEqual<string | undefined>(response.sequences[0]?.sequenceId, "seq-0")
    }))

  it.scoped("sends the newer fields only when they are set, and an empty stop list as such", () =>
    Effect.gen(function*() {
      const server = sampler((seen) =>
        seen.path.endsWith("/retrieve_future")
          ? Response.json({
            ...answer,
            prompt_logprobs: [null, null, -1],
            prompt_alt_tokens: {
              tokens: { data: [1, 2], dtype: "int64", shape: [2, 1] },
              logprobs: { data: [-1, -1], dtype: "float32", shape: [2, 1] }
            }
          })
          : undefined
      )
      const client = yield* open(server)
      const targets = yield* TensorData.fromArray([[4], [-1]], { dtype: "int64" })
      yield* client.sample({
        prompt,
        stop: [],
        promptLogprobs: true,
        promptLogprobsLastN: 1,
        topkSampleLogprobs: 2,
        targetPromptLogprobs: targets,
        promptAltTokensK: 1
      })
      const json = server.of("asample")[0]?.json
      assert.deepInclude(json, {
        topk_sample_logprobs: 2,
        prompt_alt_tokens_k: 1,
        prompt_logprobs_last_n: 1,
        prompt_logprobs: true,
        target_prompt_logprobs: { data: [4, -1], dtype: "int64", shape: [2, 1] }
      })
      assert.deepInclude(json?.["sampling_params"], { stop: [] })
    }))

  it.scoped("refuses bad input before anything is sent", () =>
    Effect.gen(function*() {
      const server = sampler()
      const client = yield* open(server)
      const floats = yield* TensorData.fromArray([[0.5]], { dtype: "float32" })
      const bad: ReadonlyArray<SamplingClient.SampleOptions> = [
        { prompt: ModelInput.empty },
        { prompt, numSamples: 0 },
        { prompt, maxTokens: 1.5 },
        { prompt, temperature: Number.NaN },
        { prompt, seed: 0.5 },
        { prompt, promptLogprobsLastN: 1 },
        { prompt, promptAltTokensK: -1 },
        { prompt, targetPromptLogprobs: floats }
      ]
      for (const options of bad) {
        const error = yield* Effect.flip(client.sample(options))
        assert.strictEqual(error._tag, "InvalidInput", JSON.stringify(options))
      }
      assert.strictEqual(server.of("asample").length, 0)
    }))

  it.scoped("refuses to open a sampler of nothing, or of a path that is none", () =>
    Effect.gen(function*() {
      const server = sampler()
      // @ts-expect-error: nothing to sample from
      assert.strictEqual((yield* Effect.flip(open(server, {})))._tag, "InvalidInput")
      assert.strictEqual((yield* Effect.flip(open(server, { modelPath: "/tmp/x" })))._tag, "InvalidInput")
      assert.deepStrictEqual(server.of("create_sampling_session"), [])
    }))

  it.scoped("numbers requests from 0, densely, also when many start at once", () =>
    Effect.gen(function*() {
      const server = sampler()
      const client = yield* open(server)
      yield* Effect.forEach(Array.from({ length: 100 }), () => client.sample({ prompt }), { concurrency: "unbounded" })
      assert.deepStrictEqual(
        server.of("asample").map(({ json }) => json["seq_id"]),
        Array.from({ length: 100 }, (_, i) => i)
      )
    }))

  it.scoped("computeLogprobs scores the prompt with one token drawn", () =>
    Effect.gen(function*() {
      const server = sampler((seen) =>
        seen.path.endsWith("/retrieve_future")
          ? Response.json({ ...answer, prompt_logprobs: [null, -1, -2] })
          : undefined
      )
      const client = yield* open(server)
      const logprobs = yield* client.computeLogprobs(prompt)
      assert.deepStrictEqual(Sample.logprobsToList(logprobs), [null, -1, -2])
      assert.deepInclude(server.of("asample")[0]?.json, { num_samples: 1, prompt_logprobs: true })
    }))

  it.scoped("says so when a server ignored what was asked for", () =>
    Effect.gen(function*() {
      const server = sampler()
      const client = yield* open(server)
      const error = yield* Effect.flip(client.sample({ prompt, promptAltTokensK: 2 }))
      assert.strictEqual(error._tag, "MalformedResponse")
    }))

  it.scoped("G7: a rate limit is waited out with the same number, and slows the tenant's other clients", () =>
    Effect.gen(function*() {
      let refused = 0
      const server = sampler((seen) =>
        seen.path.endsWith("/asample") && refused++ === 0 ? Server.refuse(429) : undefined
      )
      const context = yield* connect(server)
      const first = yield* Effect.provide(SamplingClient.make({ baseModel: "a" }), context)
      const second = yield* Effect.provide(SamplingClient.make({ baseModel: "b" }), context)
      const one = yield* Effect.fork(first.sample({ prompt }))
      yield* settle
      const two = yield* Effect.fork(second.sample({ prompt }))
      yield* settle
      assert.strictEqual(server.of("asample").length, 1)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(one)
      yield* Fiber.join(two)
      const sent = server.of("asample").map(({ json }) => [json["sampling_session_id"], json["seq_id"]])
      assert.deepStrictEqual(sent[0], ["session-1:sample:0", 0])
      assert.sameDeepMembers(sent.slice(1), [["session-1:sample:0", 0], ["session-1:sample:1", 0]])
    }))

  it.scoped("G8: tenants do not slow each other down", () =>
    Effect.gen(function*() {
      const busy = sampler((seen) => seen.path.endsWith("/asample") ? Server.refuse(429) : undefined)
      const free = sampler()
      const one = yield* open(busy)
      const two = yield* open(free)
      const waiting = yield* Effect.fork(one.sample({ prompt }))
      yield* settle
      yield* two.sample({ prompt })
      assert.isTrue((yield* Fiber.poll(waiting))._tag === "None")
      yield* Fiber.interrupt(waiting)
    }))

  it.scoped("a result the server has lost is drawn anew, with a new number", () =>
    Effect.gen(function*() {
      let polls = 0
      const server = sampler((seen) =>
        seen.path.endsWith("/retrieve_future") && polls++ === 0 ? Server.refuse(410) : undefined
      )
      const client = yield* open(server)
      const fiber = yield* Effect.fork(client.sample({ prompt }))
      yield* TestClock.adjust("1 second")
      const response = yield* Fiber.join(fiber)
      assert.deepStrictEqual(server.of("asample").map(({ json }) => json["seq_id"]), [0, 1])
      assert.strictEqual<string | undefined>(response.sequences[0]?.sequenceId, "seq-1")
    }))

  it.scoped("with retries switched off by the server a lost result is the caller's", () =>
    Effect.gen(function*() {
      const server = sampler(
        (seen) => seen.path.endsWith("/retrieve_future") ? Server.refuse(410) : undefined,
        { sample_no_retries: true }
      )
      const client = yield* open(server)
      assert.strictEqual((yield* Effect.flip(client.sample({ prompt })))._tag, "FutureExpired")
      assert.strictEqual(server.of("asample").length, 1)
    }))

  it.scoped("G14: queue states reach the caller as a stream", () =>
    Effect.gen(function*() {
      let polls = 0
      const server = sampler((seen) =>
        seen.path.endsWith("/retrieve_future") && polls++ === 0
          ? Response.json({
            type: "try_again",
            request_id: "x",
            queue_state: "paused_capacity",
            queue_state_reason: "full"
          })
          : undefined
      )
      const client = yield* open(server)
      const heard = yield* Effect.fork(Stream.runHead(client.events))
      yield* settle
      yield* client.sample({ prompt })
      const event = yield* Fiber.join(heard)
      assert.deepInclude(event, { _tag: "Some" })
      assert.deepInclude(event._tag === "Some" ? event.value : {}, { state: "paused_capacity", reason: "full" })
    }))

  it.scoped("samples that wait too long without any answer are stuck, and say how many", () =>
    Effect.gen(function*() {
      const server = sampler((seen) =>
        seen.path.endsWith("/retrieve_future")
          ? Effect.as(
            Effect.sleep("40 seconds"),
            Response.json({ type: "try_again", request_id: "x", queue_state: "active" })
          )
          : undefined
      )
      const client = yield* open(server, { baseModel: "m", progressTimeout: "4 minutes" })
      const fiber = yield* Effect.fork(Effect.flip(Effect.all([client.sample({ prompt }), client.sample({ prompt })], {
        concurrency: 2
      })))
      yield* TestClock.adjust("4 minutes")
      assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
      yield* TestClock.adjust("1 minute")
      const error = yield* Fiber.join(fiber)
      assert.strictEqual(error._tag, "Stuck")
      assert.include(error.message, "2 samples")
    }))

  it.scoped("G3: a cancelled sample aborts its poll at once and, where the server allows it, is cancelled there", () =>
    Effect.gen(function*() {
      const server = sampler(
        (seen) =>
          seen.path.endsWith("/retrieve_future")
            ? Effect.never
            : seen.path.endsWith("/cancel_future")
            ? Response.json({})
            : undefined,
        {},
        { sample_cancel_enabled: true }
      )
      const client = yield* open(server)
      const fiber = yield* Effect.fork(client.sample({ prompt }))
      yield* settle
      assert.strictEqual(server.of("retrieve_future").length, 1)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(server.of("retrieve_future")[0]?.aborted)
      yield* settle
      assert.deepStrictEqual(server.of("cancel_future")[0]?.json, { request_id: "session-1:sample:0:0" })
    }))

  it.scoped("G3: samples that fail or are cancelled while they are submitted leave their places to others", () =>
    Effect.gen(function*() {
      let submission: Effect.Effect<Response> | Response | undefined = Effect.never
      const server = sampler((seen) => seen.path.endsWith("/asample") ? submission : undefined)
      const client = yield* open(server)
      const crowd = Effect.forEach(Array.from({ length: 500 }), () => Effect.exit(client.sample({ prompt })), {
        concurrency: "unbounded"
      })
      const cancelled = yield* Effect.fork(crowd)
      yield* settle
      yield* Fiber.interrupt(cancelled)
      submission = Response.json({ detail: "no" }, { status: 422 })
      assert.isTrue((yield* crowd).every(Exit.isFailure))
      submission = undefined
      assert.isTrue((yield* crowd).every(Exit.isSuccess))
    }))

  it.scoped("sampleMany yields every result once, failures too, in the order they end", () =>
    Effect.gen(function*() {
      const server = sampler((seen) => {
        if (!seen.path.endsWith("/retrieve_future")) return undefined
        const seq = Number(String(seen.json["request_id"]).split(":").at(-1))
        if (seq === 3) return Response.json({ error: "no", category: "user" })
        return Effect.as(Effect.sleep(1_000 - seq * 10), Response.json(answer))
      })
      const client = yield* open(server)
      const requests = Stream.range(0, 49).pipe(Stream.map((i) => ({ prompt: ModelInput.fromInts([i]) })))
      const fiber = yield* Effect.fork(Stream.runCollect(client.sampleMany(requests, { concurrency: 50 })))
      yield* TestClock.adjust("2 seconds")
      const results = Chunk.toReadonlyArray(yield* Fiber.join(fiber))
      assert.sameMembers(results.map(({ index }) => index), Array.from({ length: 50 }, (_, i) => i))
      assert.strictEqual(results[0]?.index, 3)
      assert.deepStrictEqual(results.filter(({ result }) => Either.isLeft(result)).map(({ index }) => index), [3])
      assert.strictEqual(results[1]?.index, 49)
    }))

  it.scoped("sampleMany asks for no more requests than it has places", () =>
    Effect.gen(function*() {
      const server = sampler((seen) => seen.path.endsWith("/retrieve_future") ? Effect.never : undefined)
      const client = yield* open(server)
      let pulled = 0
      const requests = Stream.range(0, 99_999, 1).pipe(Stream.map((i) => {
        pulled++
        return { prompt: ModelInput.fromInts([i]) }
      }))
      const fiber = yield* Effect.fork(Stream.runDrain(client.sampleMany(requests, { concurrency: 5 })))
      yield* settle
      assert.isBelow(pulled, 20)
      yield* Fiber.interrupt(fiber)
    }))

  describe("handle", () => {
    it.scoped("carries the address and no credential, and a copy numbers apart and keeps the session alive", () =>
      Effect.gen(function*() {
        const server = sampler(
          (seen) => seen.path.endsWith("/join_sampling_session") ? Response.json({ client_counter: 2 }) : undefined,
          { sample_join_sampling_session: true }
        )
        const context = yield* connect(server)
        const original = yield* Effect.provide(SamplingClient.make({ baseModel: "m" }), context)
        const text = SamplerHandle.toText(original.handle)
        assert.notInclude(Buffer.from(text, "base64url").toString(), "tml-")
        const other = yield* connect(server)
        const handle = yield* SamplerHandle.fromText(text)
        const copy = yield* Effect.provide(SamplingClient.fromHandle(handle), other)
        yield* copy.sample({ prompt })
        yield* copy.sample({ prompt })
        assert.deepStrictEqual(
          server.of("asample").map(({ json }) => json["seq_id"]),
          [2_000_000_000, 2_000_000_001]
        )
        assert.strictEqual(server.of("join_sampling_session").length, 1)
        assert.strictEqual(server.of("create_session").length, 1)
        yield* TestClock.adjust("10 seconds")
        yield* settle
        assert.strictEqual(server.of("session_heartbeat").length, 2)
      }))

    it.scoped("is refused by a client of another service", () =>
      Effect.gen(function*() {
        const server = sampler()
        const context = yield* connect(server)
        const { handle } = yield* Effect.provide(SamplingClient.make({ baseModel: "m" }), context)
        const moved = new SamplerHandle.SamplerHandle({ ...handle, holder: { baseUrl: "https://elsewhere.test" } })
        const error = yield* Effect.flip(Effect.provide(SamplingClient.fromHandle(moved), context))
        assert.strictEqual(error._tag, "InvalidInput")
        assert.strictEqual(Either.getOrThrow(Either.flip(SamplerHandle.fromText("%%")))._tag, "InvalidInput")
      }))
  })

  describe("with one poll for the whole sampler", () => {
    const flag = { sample_use_retrieve_futures: true }

    it.scoped("G3: an interrupted sample leaves nothing to poll for, and the next one starts the poll again", () =>
      Effect.gen(function*() {
        const gate = yield* Deferred.make<void>()
        const empty = Server.json({ cursor: 0, completions: [] })
        const done = { state: "finished", request_id: "session-1:sample:0:1", response_payload_uncompressed_size: 10 }
        let interrupted = true
        const server = sampler((seen) => {
          if (!seen.path.endsWith("/retrieve_futures")) return undefined
          return interrupted
            ? Effect.as(Deferred.await(gate), empty)
            : Server.json({ cursor: 1, completions: [done] })
        }, flag)
        const client = yield* open(server)
        const first = yield* Effect.fork(client.sample({ prompt }))
        yield* settle
        assert.strictEqual(server.of("retrieve_futures").length, 1)
        yield* Fiber.interrupt(first)
        yield* Deferred.succeed(gate, undefined)
        yield* settle
        yield* TestClock.adjust("5 minutes")
        assert.strictEqual(server.of("retrieve_futures").length, 1)
        interrupted = false
        yield* client.sample({ prompt })
        assert.strictEqual(server.of("retrieve_futures").length, 2)
      }))

    it.scoped("polls while someone waits, fetches what ended, and acknowledges it", () =>
      Effect.gen(function*() {
        let cursor = 0
        const server = sampler((seen) => {
          if (!seen.path.endsWith("/retrieve_futures")) return undefined
          if (seen.json["timeout"] === 0) return Response.json({ cursor, completions: [] })
          cursor++
          return Response.json({
            cursor,
            completions: cursor === 1
              ? [
                { state: "new-state", request_id: "session-1:sample:0:0" },
                { state: "finished", request_id: "session-1:sample:0:1", response_payload_uncompressed_size: 10 }
              ]
              : [{ state: "finished", request_id: "session-1:sample:0:0", response_payload_uncompressed_size: 10 }]
          })
        }, flag)
        const client = yield* open(server)
        yield* Effect.all([client.sample({ prompt }), client.sample({ prompt })], { concurrency: 2 })
        const polls = server.of("retrieve_futures").map(({ json }) => json)
        assert.deepStrictEqual(polls[0], {
          target: { type: "sampling_session", sampling_session_id: "session-1:sample:0", cloned_sampler_id: 0 },
          prev_cursor: 0
        })
        assert.deepInclude(polls[1], { prev_cursor: 1 })
        assert.deepStrictEqual(
          server.of("retrieve_future").map(({ json }) => json["allow_metadata_only"]),
          [false, false]
        )
        yield* settle
        // Nobody waits any more: what was fetched is acknowledged by polls that are answered at once.
        const [, , ...acknowledging] = server.of("retrieve_futures")
        assert.isTrue(acknowledging.every(({ json }) => json["timeout"] === 0))
        assert.sameMembers(
          server.of("retrieve_futures").flatMap(({ json }) => Array.from(Object(json["retrieved_request_ids"] ?? []))),
          ["session-1:sample:0:0", "session-1:sample:0:1"]
        )
        assert.isTrue(server.of("retrieve_futures").every(({ headers }) => headers["x-sdk-method"] === undefined))
      }))

    it.scoped("what was not acknowledged is acknowledged once more when the scope closes", () =>
      Effect.gen(function*() {
        let refused = true
        const server = sampler((seen) => {
          if (!seen.path.endsWith("/retrieve_futures")) return undefined
          if (seen.json["timeout"] === 0 && refused) return Server.refuse(503)
          return Response.json({
            cursor: 4,
            completions: [{ state: "finished", request_id: "session-1:sample:0:0" }]
          })
        }, flag)
        const scope = yield* Scope.make()
        const context = yield* connect(server)
        const client = yield* SamplingClient.make({ baseModel: "m" }).pipe(Effect.provide(context), Scope.extend(scope))
        yield* client.sample({ prompt })
        yield* settle
        refused = false
        const before = server.of("retrieve_futures").length
        yield* Scope.close(scope, Exit.void)
        const after = server.of("retrieve_futures").slice(before).map(({ json }) => json)
        assert.lengthOf(after, 1)
        assert.deepInclude(after[0], {
          prev_cursor: 4,
          timeout: 0,
          retrieved_request_ids: ["session-1:sample:0:0"]
        })
      }))

    it.scoped("a sample that has ended before its receipt arrives is not waited for", () =>
      Effect.gen(function*() {
        const receipt = yield* Deferred.make<void>()
        let polls = 0
        const server = sampler((seen) => {
          if (seen.path.endsWith("/retrieve_futures") && seen.json["timeout"] === 0) {
            return Server.json({ cursor: 1, completions: [] })
          }
          if (seen.path.endsWith("/retrieve_futures")) {
            // Said once: the second sample has ended. The first never does.
            return ++polls > 1 ? Effect.never : Server.json({
              cursor: 1,
              completions: [{ state: "finished", request_id: "session-1:sample:0:1" }]
            })
          }
          if (!seen.path.endsWith("/asample") || seen.json["seq_id"] === 0) return undefined
          return Effect.as(Deferred.await(receipt), Server.json({ request_id: "session-1:sample:0:1" }))
        }, flag)
        const client = yield* open(server)
        yield* Effect.fork(client.sample({ prompt }))
        const second = yield* Effect.fork(client.sample({ prompt }))
        yield* settle
        assert.strictEqual(polls, 2)
        yield* Deferred.succeed(receipt, undefined)
        yield* settle
        assert.isTrue(Option.isSome(yield* Fiber.poll(second)))
        assert.lengthOf((yield* Fiber.join(second)).sequences, 1)
      }))

    it.scoped("a server that counts anew has lost what it had to say: everyone looks for their own result", () =>
      Effect.gen(function*() {
        let polls = 0
        const server = sampler((seen) => {
          if (seen.path.endsWith("/retrieve_futures") && seen.json["timeout"] === 0) {
            return Server.json({ cursor: 0, completions: [] })
          }
          if (seen.path.endsWith("/retrieve_futures")) {
            polls++
            if (polls > 2) return Effect.never
            const completions = polls === 1 ? [{ state: "finished", request_id: "session-1:sample:0:0" }] : []
            return Response.json({ cursor: polls === 1 ? 7 : 0, completions })
          }
          if (!seen.path.endsWith("/retrieve_future")) return undefined
          return seen.json["request_id"] === "session-1:sample:0:1" ? Server.refuse(404) : undefined
        }, flag)
        const client = yield* open(server)
        const [first, second] = yield* Effect.all(
          [Effect.exit(client.sample({ prompt })), Effect.flip(client.sample({ prompt }))],
          { concurrency: 2 }
        )
        assert.isTrue(Exit.isSuccess(first))
        assert.strictEqual(second._tag, "NotFound")
      }))

    it.scoped("a server that does not hold the poll is asked once a second", () =>
      Effect.gen(function*() {
        const nothing = Server.json({ cursor: 0, completions: [] })
        const server = sampler((seen) => seen.path.endsWith("/retrieve_futures") ? nothing : undefined, flag)
        const client = yield* open(server)
        yield* Effect.fork(client.sample({ prompt }))
        yield* settle
        // The first quick answer may be chance.
        assert.strictEqual(server.of("retrieve_futures").length, 2)
        for (const polls of [3, 4, 5]) {
          yield* TestClock.adjust("1 seconds")
          yield* settle
          assert.strictEqual(server.of("retrieve_futures").length, polls)
        }
      }))

    it.scoped("a final failure fails those who wait, and the next one starts it again", () =>
      Effect.gen(function*() {
        let broken = true
        const server = sampler((seen) => {
          if (!seen.path.endsWith("/retrieve_futures")) return undefined
          return broken
            ? Server.refuse(403)
            : Response.json({ cursor: 1, completions: [{ state: "failed", request_id: "session-1:sample:0:1" }] })
        }, flag)
        const client = yield* open(server)
        assert.strictEqual((yield* Effect.flip(client.sample({ prompt })))._tag, "PermissionDenied")
        broken = false
        yield* client.sample({ prompt })
        assert.strictEqual(server.of("retrieve_future").length, 1)
      }))

    it.scoped("G7: failures follow the policy of polls and the server's hints, and a held request is none", () =>
      Effect.gen(function*() {
        const answers = [
          Server.refuse(408),
          Server.refuse(503, { detail: "busy" }, { "retry-after": "40" }),
          Server.json({ cursor: 1, completions: [{ state: "finished", request_id: "session-1:sample:0:0" }] })
        ]
        const server = sampler((seen) => seen.path.endsWith("/retrieve_futures") ? answers.shift() : undefined, flag)
        const client = yield* open(server)
        const fiber = yield* Effect.fork(client.sample({ prompt }))
        yield* settle
        assert.strictEqual(server.of("retrieve_futures").length, 2)
        yield* TestClock.adjust("39 seconds")
        assert.strictEqual(server.of("retrieve_futures").length, 2)
        yield* TestClock.adjust("1 seconds")
        yield* Fiber.join(fiber)
      }))

    it.scoped("G7: a policy that gives up fails those who wait", () =>
      Effect.gen(function*() {
        const server = sampler((seen) => seen.path.endsWith("/retrieve_futures") ? Server.refuse(503) : undefined, flag)
        const client = yield* RetryPolicy.provide({ poll: RetryPolicy.never })(open(server))
        const error = yield* Effect.flip(client.sample({ prompt }))
        assert.strictEqual(error._tag, "Unavailable")
        assert.strictEqual(server.of("retrieve_futures").length, 1)
      }))

    it.scoped("closing the scope ends the wait with a typed error", () =>
      Effect.gen(function*() {
        const server = sampler(
          (seen) => seen.path.endsWith("/retrieve_futures") ? Effect.never : undefined,
          flag
        )
        const scope = yield* Scope.make()
        const context = yield* connect(server)
        const client = yield* SamplingClient.make({ baseModel: "m" }).pipe(Effect.provide(context), Scope.extend(scope))
        const fiber = yield* Effect.fork(Effect.flip(client.sample({ prompt })))
        yield* settle
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "Closed")
      }))
  })
})

import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as Api from "effect-tinker/wire/Api"
import type { ModelId } from "effect-tinker/wire/Id"
import { UnloadModelRequest } from "effect-tinker/wire/Model"
import type { SampleResponse } from "effect-tinker/wire/Sample"
import { SaveWeightsForSamplerRequest } from "effect-tinker/wire/Weights"
import * as NodeTinkerLocal from "../src/NodeTinkerLocal.js"
import {
  call,
  createModel,
  openSession,
  pass,
  passResult,
  resultOf,
  sample,
  sampleResult,
  send,
  step
} from "./server/support.js"

/** A server behind a socket; requests to any host go there. */
const socket = Layer.unwrapScoped(
  Effect.map(NodeTinkerLocal.serve({ open: true, hold: "60 seconds" }), ({ baseUrl }) =>
    Layer.effect(
      HttpClient.HttpClient,
      Effect.map(
        HttpClient.HttpClient,
        HttpClient.mapRequest((request) =>
          HttpClientRequest.setUrl(request, request.url.replace("http://tinker.local/services/test", baseUrl))
        )
      )
    ))
).pipe(Layer.provide(FetchHttpClient.layer))

const texts = ["cat: meow\n", "dog: woof\n"]

/** A model with a counter for its requests and one for its samplers. */
const start = Effect.gen(function*() {
  const modelId = yield* createModel(yield* openSession)
  return { modelId, seq: 1, sampler: 0 }
})

type Run = Effect.Effect.Success<typeof start>

const train = Effect.fnUntraced(function*(run: Run, steps = 4) {
  for (let i = 0; i < steps; i++) {
    yield* passResult(yield* pass(run.modelId, run.seq++, texts))
    yield* resultOf(yield* step(run.modelId, run.seq++, 5e-3))
  }
})

const saveAs = (modelId: ModelId, options: Partial<ConstructorParameters<typeof SaveWeightsForSamplerRequest>[0]>) =>
  call(Api.saveWeightsForSampler, new SaveWeightsForSamplerRequest({ modelId, ...options }))

const save = Effect.fnUntraced(function*(run: Run, kind: "snapshot" | "inflight") {
  const future = yield* saveAs(run.modelId, { seqId: run.seq++, samplingSessionSeqId: run.sampler++, kind })
  return { id: String((yield* resultOf(future))["sampling_session_id"]), seq: 1 }
})

type Sampler = Effect.Effect.Success<ReturnType<typeof save>>

const drawn = { maxTokens: 12, seed: 7, stop: [] }

const ask = (sampler: Sampler, prompt: string, params = drawn, numSamples = 1) =>
  sample(sampler.id, sampler.seq++, prompt, params, { numSamples })

/** Tokens and logprobs, to the bit. */
const bitsOf = ({ sequences }: SampleResponse) =>
  sequences.map(({ logprobs, tokens }) => ({ tokens: Array.from(tokens), logprobs: Array.from(logprobs ?? []) }))

const draw = Effect.fnUntraced(function*(sampler: Sampler, prompt: string) {
  return bitsOf(yield* sampleResult(yield* ask(sampler, prompt)))
})

const it_ = (name: string, test: Effect.Effect<void, unknown, HttpClient.HttpClient>) =>
  it.live(name, () => Effect.provide(test, socket), 60_000)

describe("in-flight weights, over a socket", () => {
  it_(
    "a later save moves the samplers there are and the one it makes, to the bits of a snapshot of the same weights",
    Effect.gen(function*() {
      const run = yield* start
      const first = yield* save(run, "inflight")
      const untrained = yield* draw(first, "one: ")
      yield* train(run)
      const second = yield* save(run, "inflight")
      const snapshot = yield* save(run, "snapshot")
      const expected = yield* draw(snapshot, "two: ")
      assert.deepStrictEqual(yield* draw(second, "two: "), expected)
      assert.deepStrictEqual(yield* draw(first, "two: "), expected)
      assert.notDeepEqual(yield* draw(snapshot, "one: "), untrained)
    })
  )

  it_(
    "a snapshot stays as it is, whatever is published",
    Effect.gen(function*() {
      const run = yield* start
      const snapshot = yield* save(run, "snapshot")
      const before = yield* draw(snapshot, "one: ")
      yield* save(run, "inflight")
      yield* train(run)
      yield* save(run, "inflight")
      assert.deepStrictEqual(yield* draw(snapshot, "one: "), before)
    })
  )

  it_(
    "training alone changes no sampler: weights move with a save",
    Effect.gen(function*() {
      const run = yield* start
      const first = yield* save(run, "inflight")
      const snapshot = yield* save(run, "snapshot")
      yield* train(run)
      assert.deepStrictEqual(yield* draw(first, "one: "), yield* draw(snapshot, "one: "))
    })
  )

  it_(
    "the samplers of another model have a target of their own",
    Effect.gen(function*() {
      const [run, other] = [yield* start, yield* start]
      const mine = yield* save(run, "inflight")
      const theirs = yield* save(other, "inflight")
      const before = yield* draw(theirs, "one: ")
      yield* train(run)
      yield* save(run, "inflight")
      assert.deepStrictEqual(yield* draw(theirs, "one: "), before)
      assert.notDeepEqual(yield* draw(mine, "one: "), before)
    })
  )

  it_(
    "a session keeps what it read under earlier weights; a new one has read nothing",
    Effect.gen(function*() {
      const run = yield* start
      const first = yield* save(run, "inflight")
      const prompt = "a prompt that is read under the weights of its time: "
      yield* draw(first, prompt)
      yield* train(run)
      const second = yield* save(run, "inflight")
      const expected = yield* draw(yield* save(run, "snapshot"), prompt)
      assert.deepStrictEqual(yield* draw(second, prompt), expected)
      // the new weights over the keys and values of the earlier ones
      const mixed = yield* draw(first, prompt)
      assert.notDeepEqual(mixed, expected)
      // and again: what was read with a prompt that was taken over was taken over, too
      assert.deepStrictEqual(yield* draw(first, prompt), mixed)
      assert.deepStrictEqual(yield* draw(second, prompt), expected)
    })
  )

  it_(
    "a running generation goes on with the newer weights, and the save waits for none",
    Effect.gen(function*() {
      const run = yield* start
      const snapshot = yield* save(run, "snapshot")
      const sampler = yield* save(run, "inflight")
      yield* train(run)
      const newer = yield* save(run, "snapshot")
      const long = { maxTokens: 900, seed: 3, stop: [] }
      const running = yield* ask(sampler, "long: ", long, 4)
      const ended = yield* Effect.fork(sampleResult(running))
      // samples take turns: the long one has had some when this one is done
      yield* draw(sampler, "short: ")
      yield* save(run, "inflight")
      assert.isNull(ended.unsafePoll())
      const crossed = bitsOf(yield* Fiber.join(ended))
      const before = bitsOf(yield* sampleResult(yield* ask(snapshot, "long: ", long, 4)))
      const after = bitsOf(yield* sampleResult(yield* ask(newer, "long: ", long, 4)))
      const common = crossed.map(({ logprobs }, i) => {
        const other = before[i]?.logprobs ?? []
        const at = logprobs.findIndex((value, j) => value !== other[j])
        return at < 0 ? logprobs.length : at
      })
      // the bits of the earlier weights, then others: from one token on in all sequences, which are drawn in step
      assert.strictEqual(new Set(common).size, 1, common.join())
      const [switched = 0] = common
      assert.isAbove(switched, 0)
      assert.isBelow(switched, 900)
      assert.notDeepEqual(crossed, after)
      assert.isTrue(crossed.every(({ tokens }) => tokens.length === 900))
    })
  )

  it_(
    "the samplers outlive the model they follow, and end with its session",
    Effect.gen(function*() {
      const run = yield* start
      const sampler = yield* save(run, "inflight")
      const before = yield* draw(sampler, "one: ")
      yield* resultOf(yield* call(Api.unloadModel, new UnloadModelRequest({ modelId: run.modelId })))
      assert.deepStrictEqual(yield* draw(sampler, "one: "), before)
      const session = run.modelId.split(":")[0]
      yield* send("POST", `/api/v1/sessions/${session}/finish`, { reason: { type: "success" } })
      const refused = yield* Effect.flip(ask(sampler, "one: "))
      assert.propertyVal(refused, "status", 410)
    })
  )

  it_(
    "a save in flight has no path; a save under a name is refused, and the next one goes on",
    Effect.gen(function*() {
      const run = yield* start
      const named = yield* Effect.flip(saveAs(run.modelId, { seqId: run.seq++, path: "name", kind: "inflight" }))
      assert.deepInclude(named, { status: 400 })
      assert.match(JSON.stringify(named), /inflight have no path/)
      yield* draw(yield* save(run, "inflight"), "one: ")
    })
  )
})

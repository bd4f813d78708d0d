import * as HttpClient from "@effect/platform/HttpClient"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer } from "effect"
import {
  Datum,
  ModelInput,
  RestClient,
  ServiceClient,
  TinkerFuture,
  TinkerTransport,
  TrainingClient
} from "effect-tinker"
import * as LocalServer from "../src/LocalServer.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import { send } from "./server/support.js"

const batch = [Either.getOrThrow(Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6]))]
const prompt = ModelInput.fromInts([3, 1, 4, 1])

/** What a program does, and what came out. */
const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
  const before = yield* training.forward(batch, "cross_entropy").pipe(TinkerFuture.await)
  const losses: Array<number> = []
  for (let step = 0; step < 3; step++) {
    const { loss } = yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-3 }).pipe(TinkerFuture.await)
    losses.push(loss.sum)
  }
  const { path } = yield* training.saveState("three").pipe(TinkerFuture.await)
  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  const { sequences } = yield* sampler.sample({ prompt, maxTokens: 5, temperature: 0, seed: 1 })
  const scores = yield* sampler.computeLogprobs(prompt)
  const resumed = yield* TrainingClient.makeFromState({ path, withOptimizer: true })
  const after = yield* resumed.forward(batch, "cross_entropy").pipe(TinkerFuture.await)
  return {
    before: before.metrics["loss:sum"],
    losses,
    tokens: Array.from(sequences[0]?.tokens ?? []),
    scores: Array.from(scores),
    after: after.metrics["loss:sum"]
  }
}).pipe(Effect.scoped)

interface Seen {
  readonly path: string
  readonly contentType: string
  readonly status: number
}

/** The program on a server of that time, and the requests that reached it. */
const on = (profile: LocalServer.Profile) =>
  Effect.gen(function*() {
    const seen: Array<Seen> = []
    const server = yield* LocalServer.LocalServer
    const client = TinkerLocal.makeClient({
      ...server,
      handle: (request) =>
        Effect.tap(server.handle(request), ({ status }) => {
          const path = request.url.pathname.replace(/^.*\/api\/v1\//, "")
          seen.push({ path, contentType: request.headers["content-type"] ?? "", status })
        })
    })
    const result = yield* Effect.provide(
      program,
      ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey, telemetry: false }).pipe(
        Layer.provide(TinkerTransport.layer()),
        Layer.provide(Layer.succeed(HttpClient.HttpClient, client))
      )
    )
    return { result, seen }
  }).pipe(Effect.provide(TinkerLocal.layer({ profile })))

const formsOf = (seen: ReadonlyArray<Seen>) =>
  Array.from(
    new Set(
      seen.filter(({ path }) => path.startsWith("forward")).map(({ contentType, path, status }) =>
        `${path} ${contentType} ${status}`
      )
    )
  ).sort()

describe("LocalServer profiles", () => {
  it.live("a program computes the same on a server of either era, each in the form of its time", () =>
    Effect.gen(function*() {
      const today = yield* on("0.36")
      const early = yield* on("0.24")
      assert.deepStrictEqual(early.result, today.result)
      // No form was tried in vain: each server was recognised before the first pass.
      assert.deepStrictEqual(formsOf(today.seen), ["forward_backward application/x-protobuf 200"])
      assert.deepStrictEqual(formsOf(early.seen), [
        "forward application/json 200",
        "forward_backward application/json 200"
      ])
    }))

  it.live("the early era refuses protobuf, answers in JSON, and does not know what came later", () =>
    Effect.gen(function*() {
      const refused = yield* send("POST", "/api/v1/forward_backward", new Uint8Array([10, 1, 255]), {
        headers: { "content-type": "application/x-protobuf" }
      })
      assert.strictEqual(refused.status, 422)
      assert.deepStrictEqual(refused.json()["detail"], [{
        type: "model_attributes_type",
        loc: ["body"],
        msg: "Input should be a valid dictionary or object to extract fields from"
      }])
      const absent = yield* send("POST", "/api/v1/client/dynamic_config", { sdk_version: "0.24.1" })
      assert.deepStrictEqual([absent.status, absent.json()["detail"]], [404, "Not Found"])
      const flags = (yield* send("POST", "/api/v1/client/config", { sdk_version: "0.24.1" })).json()
      assert.property(flags, "parallel_fwdbwd_chunks")
      assert.notProperty(flags, "sample_use_retrieve_futures")
    }).pipe(Effect.provide(TinkerLocal.layer({ profile: "0.24" }))))

  it.live("what the early era does not offer is a typed failure", () =>
    Effect.gen(function*() {
      const rest = yield* RestClient.RestClient
      const error = yield* Effect.flip(rest.getApiKey)
      assert.strictEqual(error._tag, "Unsupported")
      assert.include(error.message, "Keys are not managed there.")
    }).pipe(Effect.provide(TinkerLocal.layer({ profile: "0.24" }))))
})

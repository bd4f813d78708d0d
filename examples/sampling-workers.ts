/**
 * What is drawn is scored by code that keeps a CPU busy: in threads of its own, each with a client of the same sampler.
 * This file is both, the program and what its workers run.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { WorkerRunner } from "@effect/platform"
import { NodeRuntime, NodeWorker, NodeWorkerRunner } from "@effect/platform-node"
import { Array, Config, Console, Effect, Layer, Redacted, Schema } from "effect"
import { ModelInput, SamplingClient, SamplingWorker, ServiceClient, TinkerError } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { isMainThread, Worker } from "node:worker_threads"

/** Where to work instead of on this machine. */
const baseUrl = Config.withDefault(Config.string("TINKER_BASE_URL"), "")

/** What a worker is asked, and what it answers. */
class Rollout extends Schema.TaggedRequest<Rollout>()("Rollout", {
  payload: { seed: Schema.Int },
  success: Schema.Struct({ tokens: Schema.Int, score: Schema.Number }),
  failure: TinkerError.TinkerError
}) {}

/** A judge that thinks for a while, as a compiler or a test suite would. */
const judge = (tokens: Int32Array): number => {
  let hash = 0
  for (let n = 0; n < 10_000_000; n++) hash = (Math.imul(hash, 31) + (tokens[n % tokens.length] ?? 0)) | 0
  return (hash >>> 0) / 2 ** 32
}

/** In the worker: a client of the sampler it was started with, over its own service. */
const Runner = WorkerRunner.layerSerialized(Schema.Union(SamplingWorker.Start, Rollout), {
  InitialMessage: SamplingWorker.start(Layer.provide(ServiceClient.layerFromEnv(), NodeTinker.layerFromEnv())),
  Rollout: ({ seed }) =>
    Effect.gen(function*() {
      const sampler = yield* SamplingClient.SamplingClient
      const { sequences } = yield* sampler.sample({
        prompt: ModelInput.fromInts([72, 105]),
        maxTokens: 16,
        stop: [],
        seed
      })
      const tokens = sequences[0]?.tokens ?? new Int32Array(0)
      return { tokens: tokens.length, score: judge(tokens) }
    })
})

/** Here: two workers, and eight rollouts for them. */
const rollouts = Effect.gen(function*() {
  const pool = yield* SamplingWorker.makePool<Rollout>({ size: 2 })
  const results = yield* Effect.forEach(
    Array.range(1, 8),
    (seed) => pool.executeEffect(new Rollout({ seed })),
    { concurrency: "unbounded" }
  )
  const tokens = results.reduce((sum, result) => sum + result.tokens, 0)
  const best = Math.max(...results.map(({ score }) => score))
  yield* Console.log(`${results.length} rollouts with ${tokens} tokens, the best scored ${best.toFixed(2)}`)
}).pipe(Effect.scoped)

const program = Effect.gen(function*() {
  // A backend in this process would be out of the workers' reach: it gets a port.
  const running = (yield* baseUrl) === "" ? yield* NodeTinkerLocal.serve() : undefined
  const local = running === undefined
    ? {}
    : { TINKER_BASE_URL: running.baseUrl, TINKER_API_KEY: Redacted.value(running.apiKey) }
  const Sampler = SamplingClient.layer({ baseModel: "local/small" }).pipe(
    Layer.provide(ServiceClient.layerFromEnv({ baseUrl: local.TINKER_BASE_URL, apiKey: local.TINKER_API_KEY })),
    Layer.provide(NodeTinker.layerFromEnv())
  )
  const Threads = NodeWorker.layer(() => new Worker(new URL(import.meta.url), { env: { ...process.env, ...local } }))
  yield* Effect.provide(rollouts, Layer.merge(Sampler, Threads))
}).pipe(Effect.scoped)

NodeRuntime.runMain(isMainThread ? program : NodeWorkerRunner.launch(Layer.provide(Runner, NodeWorkerRunner.layer)))

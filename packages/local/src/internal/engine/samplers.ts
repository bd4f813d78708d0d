/**
 * Samplers: weights and completions drawn from them, as the engine's callers see them.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as EngineError from "../../EngineError.js"
import type { Snapshot } from "../../LocalAdapter.js"
import type { Request, Result, Sampler, Target } from "../../LocalSampler.js"
import { nextKey, snapshotFactors } from "./adapters.js"
import type { Executor, LoadedModel } from "./executor.js"
import type { Query } from "./requests.js"
import { checkQuery } from "./requests.js"
import type { AdapterJob, SampleJob } from "./thread.js"

/** A sampler that draws with the weights of the moment a request starts, or that its requests follow. */
const samplerOf = (loaded: LoadedModel, weights: () => Pick<SampleJob, "adapter" | "live">): Sampler => {
  const { architecture: { model } } = loaded

  const prepare = Effect.fnUntraced(function*(request: Request) {
    const query = yield* checkQuery(model, request)
    return { query, seed: query.seed ?? (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)) }
  })

  /** Runs a request to its end. */
  const complete = (
    query: Query,
    seed: number
  ): Effect.Effect<Result, EngineError.NotFinite | EngineError.ThreadLost> =>
    Effect.flatMap(
      Effect.suspend(() => loaded.sample({ ...weights(), query, seed })),
      (result) =>
        result === undefined
          ? new EngineError.NotFinite({
            description: "the weights give no probabilities any more; training has diverged"
          })
          : Effect.succeed(result)
    )

  return {
    baseModel: model.name,
    sample: (request) => Effect.flatMap(prepare(request), ({ query, seed }) => complete(query, seed)),
    stream: (request) =>
      Effect.gen(function*() {
        const { query, seed } = yield* prepare(request)
        // Reads the prompt and keeps nothing but its keys and values, which the stream takes over when it is run: a
        // stream that nobody runs costs nothing.
        yield* complete({ ...query, samples: 1, maxTokens: 0 }, seed)
        return Stream.suspend(() => loaded.stream({ ...weights(), query, seed }))
      })
  }
}

const adapterJob = (
  executor: Executor,
  loaded: LoadedModel,
  snapshot: Snapshot
): Effect.Effect<AdapterJob, EngineError.EngineError> =>
  Effect.map(
    snapshotFactors(executor, loaded, snapshot),
    ({ lora, values }) => ({ key: nextKey(), lora: lora.settings, values })
  )

/** @internal */
export const makeSampler = (
  executor: Executor,
  loaded: LoadedModel,
  snapshot: Snapshot | undefined
): Effect.Effect<Sampler, EngineError.EngineError> =>
  snapshot === undefined
    ? Effect.succeed(samplerOf(loaded, () => ({ adapter: undefined })))
    : Effect.map(adapterJob(executor, loaded, snapshot), (adapter) => samplerOf(loaded, () => ({ adapter })))

/** @internal */
export const makeTarget = Effect.fnUntraced(function*(
  executor: Executor,
  loaded: LoadedModel,
  snapshot: Snapshot
): Effect.fn.Return<Target, EngineError.EngineError> {
  const { architecture: { model } } = loaded
  const target = nextKey()
  let adapter = yield* adapterJob(executor, loaded, snapshot)
  return {
    baseModel: model.name,
    publish: Effect.fnUntraced(function*(snapshot) {
      if (snapshot.baseModel !== model.name) {
        return yield* new EngineError.InvalidRequest({
          description: `the snapshot belongs to ${snapshot.baseModel}, the samplers to ${model.name}`
        })
      }
      adapter = yield* adapterJob(executor, loaded, snapshot)
      yield* loaded.publish(target, adapter)
    }),
    sampler: Effect.sync(() => {
      const live = { target, namespace: nextKey() }
      return samplerOf(loaded, () => ({ adapter, live }))
    })
  }
})

/**
 * Samplers: frozen weights and completions drawn from them, as the engine's callers see them.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as EngineError from "../../EngineError.js"
import type { Snapshot } from "../../LocalAdapter.js"
import type { Request, Result, Sampler } from "../../LocalSampler.js"
import { nextKey, snapshotFactors } from "./adapters.js"
import type { Executor, LoadedModel } from "./executor.js"
import type { Query } from "./requests.js"
import { checkQuery } from "./requests.js"
import type { AdapterJob } from "./thread.js"

/** @internal */
export const makeSampler = Effect.fnUntraced(function*(
  executor: Executor,
  loaded: LoadedModel,
  snapshot: Snapshot | undefined
): Effect.fn.Return<Sampler, EngineError.EngineError> {
  const { architecture: { model } } = loaded
  const made = snapshot === undefined ? undefined : yield* snapshotFactors(executor, loaded, snapshot)
  const adapter: AdapterJob | undefined = made === undefined
    ? undefined
    : { key: nextKey(), lora: made.lora.settings, values: made.values }

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
      loaded.sample({ adapter, query, seed }),
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
        return loaded.stream({ adapter, query, seed })
      })
  }
})

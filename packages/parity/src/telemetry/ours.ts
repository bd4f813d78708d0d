/**
 * Our side of `python/telemetry.py`: the same calls, failing in the same ways.
 */
import { Console, Effect, Either, Layer } from "effect"
import { ModelInput, RestClient, SamplingClient, ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

const failing = <A, E extends { readonly _tag: string }, R>(name: string, self: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Effect.either(self),
    (result) => Console.log(`${name}: ${Either.isRight(result) ? "ok" : result.left._tag}`)
  )

const steps = ["refused", "user", "server", "forbidden", "expired", "malformed", "busy"]

export const session = (baseUrl: string) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.makeLora({ baseModel: "base", rank: 8 })
    for (const step of steps) yield* failing(step, Effect.flatten(training.optimStep()))
    const sampler = yield* SamplingClient.make({ baseModel: "base" })
    for (const name of ["sample", "lost sample"]) {
      yield* failing(name, sampler.sample({ prompt: ModelInput.fromInts([1, 2, 3]), maxTokens: 1 }))
    }
  }).pipe(
    Effect.scoped,
    Effect.provide(ServiceClient.layer({ baseUrl, apiKey: "tml-parity" }).pipe(Layer.provide(NodeTinker.layer())))
  )

export const rest = (baseUrl: string) =>
  Effect.gen(function*() {
    const client = yield* RestClient.RestClient
    yield* failing("rest", client.getTrainingRun("missing"))
  }).pipe(Effect.provide(
    RestClient.layer({ baseUrl, apiKey: "tml-parity" }).pipe(Layer.provide(NodeTinker.layer()))
  ))

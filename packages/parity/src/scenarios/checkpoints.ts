/**
 * Saving, loading and sampling from what was saved; its twin is `python/scenarios/checkpoints.py`.
 */
import { Effect } from "effect"
import type { SamplingClient } from "effect-tinker"
import { SamplingClient as Sampling, TrainingClient } from "effect-tinker"
import { few, model, prompt, scenario, training as client, waited } from "./common.js"
import type { Scenario } from "./Scenario.js"

const age = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

const inOneRequest = { server: { clientConfig: { createModelViaLoadWeights: true } } } as const

const draw = (sampling: SamplingClient.Service) => sampling.sample({ prompt: prompt(), ...few })

const savedState = Effect.map(waited((training) => training.saveState("one")), ({ path }) => path)

const loaded = (
  load: (training: TrainingClient.Service) => (path: string) => TrainingClient.Operation<unknown>
): Scenario["run"] =>
  Effect.gen(function*() {
    const path = yield* savedState
    yield* Effect.flatten(load(yield* client)(path))
  })

const resumed = (options: Omit<TrainingClient.StateOptions, "path"> = {}): Scenario["run"] =>
  Effect.flatMap(savedState, (path) => TrainingClient.makeFromState({ path, ...options }))

const everyOption = { baseModel: model, userMetadata: { from: "one" }, weightsAccessToken: "tml-reader" } as const

export const checkpoints: ReadonlyArray<Scenario> = [
  scenario("save_state", savedState),
  scenario(
    "save_state_every_option",
    Effect.gen(function*() {
      const training = yield* client
      yield* Effect.flatten(training.saveState("one", { ttlSeconds: 3600, userMetadata: { step: "1" } }))
      yield* Effect.flatten(training.saveState("one", { ttlSeconds: 7200, overwrite: true }))
    })
  ),
  scenario(
    "save_state_refused",
    Effect.gen(function*() {
      const training = yield* client
      const refused = yield* Effect.either(training.saveState("one", { ttlSeconds: 5 }))
      yield* Effect.flatten(training.optimStep({ learningRate: 1e-4 }))
      yield* refused
    })
  ),
  scenario("save_sampler", waited((training) => training.saveWeightsForSampler("one"))),
  scenario(
    "save_sampler_every_option",
    waited((training) => training.saveWeightsForSampler("one", { ttlSeconds: 3600, userMetadata: { step: "1" } }))
  ),
  scenario("save_external", waited((training) => training.saveWeightsExternal("one"))),
  scenario(
    "save_external_every_option",
    waited((training) => training.saveWeightsExternal("one", { ttlSeconds: 3600, ageEncryptionRecipients: [age] }))
  ),
  scenario(
    "sample_ephemeral",
    Effect.gen(function*() {
      const training = yield* client
      yield* draw(yield* training.saveWeightsAndGetSamplingClient())
      yield* Effect.flatten(training.optimStep({ learningRate: 1e-4 }))
      yield* draw(yield* training.saveWeightsAndGetSamplingClient({ recordStabilityInfo: true }))
    })
  ),
  scenario(
    "sample_checkpoint",
    Effect.gen(function*() {
      const training = yield* client
      const { path } = yield* Effect.flatten(training.saveWeightsForSampler("one"))
      yield* draw(yield* Sampling.make({ modelPath: path }))
      yield* draw(yield* training.createSamplingClient(path))
    })
  ),
  scenario(
    "sample_checkpoint_with_base",
    Effect.flatMap(
      waited((training) => training.saveWeightsForSampler("one")),
      // @ts-expect-error: the types want one of them; the wire takes both
      ({ path }) => Sampling.make({ modelPath: path, baseModel: model })
    )
  ),
  scenario("load_state", loaded((training) => training.loadState)),
  scenario("load_state_with_optimizer", loaded((training) => training.loadStateWithOptimizer)),
  scenario(
    "load_state_late",
    Effect.gen(function*() {
      const training = yield* client
      const { path } = yield* Effect.flatten(training.saveState("one"))
      yield* Effect.flatten(training.loadState(path))
    })
  ),
  scenario("resume", resumed()),
  scenario("resume_in_one_request", resumed(), inOneRequest),
  scenario("resume_with_optimizer", resumed({ withOptimizer: true })),
  scenario("resume_with_optimizer_in_one_request", resumed({ withOptimizer: true }), inOneRequest),
  scenario("resume_every_option", resumed(everyOption)),
  scenario("resume_every_option_in_one_request", resumed(everyOption), inOneRequest)
]

/**
 * Models, passes and optimizers; its twin is `python/scenarios/training.py`.
 */
import { Effect, Either } from "effect"
import {
  Autodiff,
  CustomLoss,
  Datum,
  Loss,
  ModelInput,
  Optimizer,
  TensorData,
  TinkerFuture,
  TrainingClient
} from "effect-tinker"
import type { ForwardBackward } from "effect-tinker/wire"
import { both, bytes, datum, model, scenario, training as client, waited } from "./common.js"
import type { Scenario } from "./Scenario.js"

const data = [datum("cat: meow"), datum("dog: woof"), datum("cow: moo"), datum("hen: cluck"), datum("ape: ook")]
const adam = { learningRate: 1e-4 } as const

const pass = (batch: ReadonlyArray<Datum.Datum>, loss: string = "cross_entropy") =>
  waited((training) => training.forwardBackward(batch, Loss.other(loss)))

const made = (options: Parameters<typeof Datum.make>[0]): Datum.Datum => Either.getOrThrow(Datum.make(options))

const rl = (advantage: number): Datum.Datum =>
  made({
    modelInput: bytes("ab"),
    lossFnInputs: { target_tokens: [98, 99], logprobs: [-1.5, -0.25], advantages: [0, advantage] }
  })

const configured = (config: ForwardBackward.LossConfig) =>
  waited((training) => training.forwardBackward([rl(1)], Loss.other("ppo", config)))

const many = Effect.gen(function*() {
  const training = yield* client
  yield* Effect.flatten(training.forwardBackward(data, "cross_entropy"))
  yield* Effect.flatten(training.optimStep(adam))
})

const sparse = (values: Float32Array | BigInt64Array): TensorData.TensorData =>
  Either.getOrThrow(
    TensorData.fromSparse({ values, crowIndices: [0, 1, 3], colIndices: [2, 0, 3], shape: [2, 4] })
  )

/** Half the sum of the logprobs, whose gradient is one half everywhere. */
const half = CustomLoss.perDatum((logprobs) => Autodiff.mul(Autodiff.sum(logprobs), 0.5))

const custom = (one: Datum.Datum) => waited((training) => training.forwardBackwardCustom([one], half))

const png = Uint8Array.of(137, 80, 78, 71, 13, 10, 26, 10, 0, 1, 2)

export const training: ReadonlyArray<Scenario> = [
  scenario("lora_defaults", TrainingClient.makeLora({ baseModel: model })),
  scenario(
    "lora_every_option",
    TrainingClient.makeLora({
      baseModel: model,
      rank: 4,
      seed: 7,
      trainMlp: false,
      trainAttn: true,
      trainUnembed: false,
      userMetadata: { run: "1" }
    })
  ),
  scenario(
    "lora_two_models",
    Effect.zipRight(
      TrainingClient.makeLora({ baseModel: model, rank: 4, seed: 1 }),
      waited((training) => training.optimStep(adam))
    )
  ),
  scenario("lora_unknown_model", TrainingClient.makeLora({ baseModel: "no/such-model" })),
  scenario(
    "lora_dimuon",
    TrainingClient.makeLora({ baseModel: model, rank: 8, optimizer: new Optimizer.DimuonOptimizerConfig() })
  ),
  scenario("optim_adam_defaults", waited((training) => training.optimStep())),
  scenario(
    "optim_adam_every_option",
    waited((training) =>
      training.optimStep({
        learningRate: 0.5,
        beta1: 0.8,
        beta2: 0.99,
        eps: 1e-8,
        weightDecay: 0.25,
        gradClipNorm: 1.5
      })
    )
  ),
  scenario(
    "optim_dimuon",
    waited((training) =>
      training.optimStep(new Optimizer.DimuonParams({ learningRate: 0.5, gradClipNorm: 1, beta1: 0.5 }))
    )
  ),
  scenario(
    "train_steps",
    Effect.gen(function*() {
      const training = yield* client
      const step = both(training.forwardBackward(data.slice(0, 2), "cross_entropy"), training.optimStep(adam))
      yield* step
      yield* step
    })
  ),
  scenario(
    "train_pipelined",
    Effect.gen(function*() {
      const training = yield* client
      const futures: Array<Effect.Effect<unknown, Effect.Effect.Error<Scenario["run"]>>> = []
      for (let i = 0; i < 4; i++) {
        futures.push(yield* training.forwardBackward(data.slice(0, 1), "cross_entropy"))
        futures.push(yield* training.optimStep(adam))
      }
      yield* Effect.all(futures)
    })
  ),
  scenario("forward", waited((training) => training.forward(data.slice(0, 1), "cross_entropy"))),
  scenario("forward_backward_nothing", pass([])),
  scenario("loss_configured", configured({ clip_low_threshold: 0.8, clip_high_threshold: 1.2 })),
  scenario("loss_configured_with_text", configured({ clip_low_threshold: 0, mode: "x" })),
  scenario(
    "losses",
    Effect.flatMap(
      client,
      (training) =>
        Effect.forEach(
          ["importance_sampling", "ppo", "cispo", "dro"] as const,
          (loss) => Effect.flatten(training.forwardBackward([rl(-0.5)], loss))
        )
    )
  ),
  scenario("chunks_side_by_side", many, { server: { clientConfig: { fwdbwdMaxChunkLen: 1 } }, sideBySide: true }),
  scenario("chunks_in_order", many, {
    server: { clientConfig: { fwdbwdMaxChunkLen: 2, parallelFwdbwdChunks: false } }
  }),
  scenario("chunks_by_size", many, {
    server: { clientConfig: { fwdbwdMaxChunkBytesCount: 300, parallelFwdbwdChunks: false } }
  }),
  scenario("chunks_forward_of_two", many, { server: { clientConfig: { fwdbwdMaxChunkLen: 3 } } }),
  scenario(
    "targets_two_dimensional",
    pass([made({
      modelInput: bytes("ab"),
      lossFnInputs: { target_tokens: [[98, 99], [100, 101]], weights: [[0.5, 0.5], [1, 0]] }
    })])
  ),
  scenario(
    "targets_sparse",
    pass([made({
      modelInput: bytes("ab"),
      lossFnInputs: {
        target_tokens: sparse(BigInt64Array.of(98n, 99n, 100n)),
        weights: sparse(Float32Array.of(1, 0.5, 0.25))
      }
    })])
  ),
  scenario(
    "tensors_of_numpy",
    pass([made({
      modelInput: bytes("ab"),
      lossFnInputs: { target_tokens: BigInt64Array.of(98n, 99n), weights: Float32Array.of(1, 0.5) }
    })])
  ),
  scenario(
    "image_in_training",
    pass([made({
      modelInput: ModelInput.fromChunks([
        new ModelInput.EncodedText({ tokens: Int32Array.of(97) }),
        new ModelInput.Image({ data: png, format: "png", expectedTokens: 2 }),
        new ModelInput.EncodedText({ tokens: Int32Array.of(98) })
      ]),
      lossFnInputs: { target_tokens: [1, 2, 3, 4], weights: [0, 0, 0, 1] }
    })])
  ),
  scenario(
    "provenance",
    pass([
      Either.getOrThrow(Datum.withProvenance(datum("abcde"), {
        modelInput: [
          { source: "prompt", sequenceId: "s:0", offset: 0, length: 3 },
          { source: "sampled", sequenceId: "s:0", offset: 1, length: 1 }
        ],
        lossFnInputs: [{ source: "sampled", sequenceId: "s:0", length: 4 }]
      }))
    ])
  ),
  scenario(
    "failed_pass_then_another",
    Effect.gen(function*() {
      const training = yield* client
      const bad = made({ modelInput: [70000], lossFnInputs: { target_tokens: [1], weights: [1] } })
      const failing = yield* training.forwardBackward([bad], "cross_entropy")
      yield* training.forwardBackward(data.slice(0, 1), "cross_entropy").pipe(TinkerFuture.await)
      yield* failing
    })
  ),
  scenario(
    "custom_loss",
    Effect.gen(function*() {
      const training = yield* client
      yield* Effect.flatten(training.forwardBackwardCustom(data.slice(0, 2), half))
      yield* Effect.flatten(training.optimStep(adam))
    })
  ),
  scenario(
    "custom_loss_of_targets_alone",
    custom(made({ modelInput: bytes("ab"), lossFnInputs: { target_tokens: [98, 99] } }))
  ),
  scenario("custom_loss_with_inputs_of_its_own", custom(rl(0.5))),
  scenario("get_info", Effect.flatMap(client, (training) => training.getInfo)),
  scenario("large_results", waited((training) => training.forward(data, "cross_entropy")), {
    server: { inlineResultBytes: 0 }
  })
]

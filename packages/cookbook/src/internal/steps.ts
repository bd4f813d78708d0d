/**
 * Parts of a training step: settings of the optimizer, sizes of a batch, a step of cross-entropy, samplers of references.
 */
import type * as Datum from "effect-tinker/Datum"
import * as SamplingClient from "effect-tinker/SamplingClient"
import * as TensorData from "effect-tinker/TensorData"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Cost from "../Cost.js"
import type * as Trainer from "../Trainer.js"
import type * as StepPipeline from "./loop/stepPipeline.js"

/** The optimizer's settings for a step. @internal */
export const adamParams = ({ beta1, beta2, clip, eps, weightDecay }: Trainer.Adam, learningRate: number) => ({
  learningRate,
  beta1,
  beta2,
  eps,
  weightDecay,
  gradClipNorm: clip
})

/** Tokens data hold, images and audio included where they say how many. @internal */
export const lengthOf = (data: ReadonlyArray<Datum.Datum>): number =>
  data.reduce((sum, datum) => sum + datum.modelInput.chunks.reduce((of, chunk) => of + (chunk.length ?? 0), 0), 0)

/** The weight of data: what a summed loss is divided by. @internal */
export const weightOf = (data: ReadonlyArray<Datum.Datum>): number => {
  let sum = 0
  for (const datum of data) {
    const weights = datum.lossFnInputs["weights"]
    if (weights !== undefined) { for (const weight of TensorData.toFloat32Array(weights)) sum += weight }
  }
  return sum
}

/** Tokens that were sampled and count: what a summed policy loss is divided by. */
const advantagedOf = (data: ReadonlyArray<Datum.Datum>): number => {
  let count = 0
  for (const datum of data) {
    const advantages = datum.lossFnInputs["advantages"]
    if (advantages === undefined) continue
    for (const advantage of TensorData.toFloat32Array(advantages)) if (advantage !== 0) count++
  }
  return count
}

/** A step on data as they are. @internal */
export const supervised = Effect.fnUntraced(function*(
  training: TrainingClient.Service,
  batch: ReadonlyArray<Datum.Datum>,
  adam: Trainer.Adam,
  learningRate: number,
  loss: "cross_entropy" | "importance_sampling" = "cross_entropy"
) {
  const future = yield* training.trainStep(batch, loss, adamParams(adam, learningRate))
  const weight = loss === "cross_entropy" ? weightOf(batch) : advantagedOf(batch)
  const tokens = lengthOf(batch)
  return {
    tokens,
    usage: { used: Cost.trained(tokens) },
    result: Effect.map(
      future,
      ({ pass, step }): StepPipeline.Outcome<undefined> => ({
        loss: (pass.metrics["loss:sum"] ?? NaN) / weight,
        metrics: { ...pass.metrics, ...step.metrics, weight },
        detail: undefined
      })
    )
  }
})

/** The sampler of a `tinker://` path, or of a base model by its name. @internal */
export const samplerOf = (name: string) =>
  SamplingClient.make(name.startsWith("tinker://") ? { modelPath: name } : { baseModel: name })

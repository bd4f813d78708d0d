/**
 * Clients whose operations go on a budget. They reserve before they take their turn, so the order stays that in which
 * the operations start.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as CostLedger from "../../CostLedger.js"
import type * as Datum from "../../Datum.js"
import * as ModelInput from "../../ModelInput.js"
import type * as Sample from "../../Sample.js"
import type * as SamplingClient from "../../SamplingClient.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TrainingClient from "../../TrainingClient.js"
import { sampleMany } from "../sampling/sampleMany.js"

const tokensOf = (data: ReadonlyArray<Datum.Datum>): Either.Either<number, TinkerError.InvalidInput> => {
  let total = 0
  for (const { modelInput } of data) {
    const length = ModelInput.length(modelInput)
    if (Either.isLeft(length)) return length
    total += length.right
  }
  return Either.right(total)
}

/** @internal */
export const training = (
  ledger: CostLedger.Service,
  client: TrainingClient.Service,
  model: string,
  bounded: boolean
): TrainingClient.Service => {
  const paid = <A, E, R>(
    data: ReadonlyArray<Datum.Datum>,
    usage: (tokens: number) => CostLedger.Usage,
    operation: Effect.Effect<A, E, R>
  ) => Effect.flatMap(tokensOf(data), (tokens) => ledger.guard<A>({ model, atMost: usage(tokens) })(operation))
  return {
    ...client,
    forward: (data, ...rest) => paid(data, (forward) => ({ forward }), client.forward(data, ...rest)),
    forwardBackward: (data, ...rest) => paid(data, (train) => ({ train }), client.forwardBackward(data, ...rest)),
    forwardBackwardCustom: (data, loss) =>
      paid(data, (tokens) => ({ forward: tokens, train: tokens }), client.forwardBackwardCustom(data, loss)),
    trainStep: (data, ...rest) => paid(data, (train) => ({ train }), client.trainStep(data, ...rest)),
    saveWeightsAndGetSamplingClient: (settings) =>
      Effect.map(
        client.saveWeightsAndGetSamplingClient(settings),
        (sampler) => sampling(ledger, sampler, model, bounded)
      ),
    createSamplingClient: (path, settings) =>
      Effect.map(client.createSamplingClient(path, settings), (sampler) => sampling(ledger, sampler, model, bounded))
  }
}

/** @internal */
export const sampling = (
  ledger: CostLedger.Service,
  client: SamplingClient.Service,
  model: string,
  bounded: boolean
): SamplingClient.Service => {
  const sample: SamplingClient.Service["sample"] = (options) => {
    if (bounded && options.maxTokens === undefined) {
      return new TinkerError.InvalidInput({
        module: "CostLedger",
        method: "sampling",
        description: "on a budget a sample needs maxTokens: without it nobody knows what it may cost"
      })
    }
    return Effect.flatMap(
      ModelInput.length(ModelInput.from(options.prompt)),
      (prefill) =>
        ledger.guard<Sample.SampleResponse>({
          model,
          atMost: { prefill, sample: (options.numSamples ?? 1) * (options.maxTokens ?? 0) },
          used: ({ sequences }) => ({
            prefill,
            sample: sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
          })
        })(client.sample(options))
    )
  }
  return {
    ...client,
    sample,
    sampleMany: sampleMany(sample),
    computeLogprobs: (prompt, options) =>
      Effect.flatMap(ModelInput.length(ModelInput.from(prompt)), (prefill) =>
        // The service draws one token along with the scores.
        ledger.guard<Float32Array>({ model, atMost: { prefill, sample: 1 } })(client.computeLogprobs(prompt, options)))
  }
}

/**
 * Samplers, samples and log probabilities.
 *
 * @since 0.1.0
 */
import * as Api from "effect-tinker/Api"
import * as Future from "effect-tinker/Future"
import * as Sampler from "effect-tinker/Sampler"
import * as Effect from "effect/Effect"
import type { Check } from "./support.js"
import { check, how, need, no, option, sample, samplingSession, tokens } from "./support.js"

/** @internal */
export const sampling: ReadonlyArray<Check> = [
  check("sampler of a checkpoint", (probe, known) =>
    Effect.gen(function*() {
      const modelPath = yield* need(known, "samplerPath")
      known.samplingSessionId = yield* samplingSession(probe, known, { modelPath })
    })),
  option(
    "sampler of a base model",
    (probe, known) =>
      Effect.flatMap(need(known, "model"), (baseModel) => Effect.asVoid(samplingSession(probe, known, { baseModel })))
  ),
  check("sample", (probe, known) =>
    Effect.gen(function*() {
      const { future, protobuf, value } = yield* sample(probe, known, 0, { numSamples: 2 })
      if (value.sequences.length !== 2) return yield* no(`2 samples were asked for, ${value.sequences.length} given`)
      for (const { logprobs, tokens } of value.sequences) {
        if (tokens.length === 0 || tokens.length > 3) {
          return yield* no(`${tokens.length} tokens, at most 3 were asked for`)
        }
        if (logprobs !== undefined && logprobs.length !== tokens.length) {
          return yield* no(`${logprobs.length} logprobs for ${tokens.length} tokens`)
        }
      }
      const ids = future.sampleSequenceIds
      // Without them the official client fails.
      if (ids?.length !== 2) return yield* no(`the receipt names ${ids?.length ?? 0} of the 2 sequences`)
      return `result in ${how(protobuf)}`
    })),
  check("log probabilities", (probe, known) =>
    Effect.gen(function*() {
      const { promptLogprobs } = (yield* sample(probe, known, 1, { promptLogprobs: true })).value
      if (promptLogprobs?.length !== tokens.length) {
        return yield* no(`${promptLogprobs?.length ?? 0} logprobs for a prompt of ${tokens.length} tokens`)
      }
      if (promptLogprobs.subarray(1).some((logprob) => !(logprob <= 0))) return yield* no("a logprob above zero")
    })),
  option("one poll for all samples", (probe, known) =>
    Effect.gen(function*() {
      const samplingSessionId = yield* need(known, "samplingSessionId")
      const { completions } = yield* probe.call(
        Api.retrieveFutures,
        new Future.FuturesRetrieveRequest({
          target: new Future.SamplingSessionTarget({ samplingSessionId, clonedSamplerId: 0 }),
          prevCursor: 0
        })
      )
      return `${completions.length} completions`
    })),
  option("copies of a sampler", (probe, known) =>
    Effect.gen(function*() {
      const samplingSessionId = yield* need(known, "samplingSessionId")
      const request = new Sampler.JoinSamplingSessionRequest({ samplingSessionId })
      const { clientCounter } = yield* probe.call(Api.joinSamplingSession, request)
      if (clientCounter < 1) return yield* no(`the copy is number ${clientCounter}, which is the original's`)
    }))
]

/**
 * Source of an agent's tokens: a sampling client, or whatever is behind an `Effect` at the moment.
 *
 * @since 0.1.0
 */
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import * as TinkerError from "effect-tinker/TinkerError"
import type { Stop } from "effect-tinker/wire/SamplingParams"
import * as TopkLogprobs from "effect-tinker/wire/TopkLogprobs"
import * as Effect from "effect/Effect"

/**
 * Prompt and settings of a draw.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly prompt: Int32Array
  /** Texts or ids to end at; the model's own end when absent. */
  readonly stop: Stop | undefined
  /** Sequences to draw. */
  readonly count: number
  readonly maxTokens: number | undefined
  readonly temperature: number | undefined
  readonly topK: number | undefined
  readonly topP: number | undefined
  readonly seed: number | undefined
  /** Likeliest tokens to report at each position. */
  readonly topLogprobs: number | undefined
}

/**
 * A sampled sequence.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sample extends Trajectory.Action {
  /** The likeliest tokens at each position, when asked for. */
  readonly topLogprobs?: ReadonlyArray<ReadonlyArray<TopkLogprobs.Candidate>> | undefined
}

/**
 * Source of tokens that knows the version of its weights.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sampler {
  readonly sample: (request: Request) => Effect.Effect<ReadonlyArray<Sample>, TinkerError.TinkerError>
}

/**
 * A sampling client with weights of a version, the number of optimizer steps in them. Defaults to 0.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromClient = (
  client: SamplingClient.Service,
  options?: { readonly version?: number | undefined }
): Sampler => ({
  sample: Effect.fnUntraced(function*({ count, topLogprobs, ...request }) {
    const { sequences } = yield* client.sample({
      ...request,
      numSamples: count,
      topkSampleLogprobs: topLogprobs === undefined || topLogprobs === 0 ? undefined : topLogprobs
    })
    return yield* Effect.forEach(sequences, ({ logprobs, stopReason, tokens, topkLogprobs }) =>
      logprobs === undefined
        ? Effect.fail(
          new TinkerError.MalformedResponse({
            module: "Sampler",
            method: "fromClient",
            description: "the server gave no logprobs"
          })
        )
        : Effect.succeed<Sample>({
          tokens,
          logprobs,
          stopReason: stopReason === "length" ? "length" : "stop",
          policyVersion: options?.version ?? 0,
          topLogprobs: topkLogprobs === undefined
            ? undefined
            : TopkLogprobs.toLists(topkLogprobs).map((candidates) => candidates ?? [])
        }))
  })
})

/**
 * A sampler that is looked up for every call: from a `Ref` it can be replaced between training steps. A call that has
 * started ends with the sampler it started with.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromEffect = (current: Effect.Effect<Sampler, TinkerError.TinkerError>): Sampler => ({
  sample: (request) => Effect.flatMap(current, ({ sample }) => sample(request))
})

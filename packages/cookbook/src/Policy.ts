/**
 * Who acts in an environment: a model, a script, a person.
 *
 * @since 0.1.0
 */
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as ModelInput from "effect-tinker/ModelInput"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import * as TinkerError from "effect-tinker/TinkerError"
import type { Stop } from "effect-tinker/wire/SamplingParams"
import * as Effect from "effect/Effect"
import type * as Trajectory from "./Trajectory.js"

/**
 * Prompt and settings of an action.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly prompt: Int32Array
  readonly stop: Stop
  /** Who acts, in an environment with several seats. */
  readonly seat?: number | undefined
  /** Most tokens of this action, on top of the policy's own limit. */
  readonly maxTokens?: number | undefined
  /** Makes the draw repeatable. */
  readonly seed?: number | undefined
}

/**
 * Who acts.
 *
 * @since 0.1.0
 * @category models
 */
export interface Policy<out E = never, out R = never> {
  readonly act: (request: Request) => Effect.Effect<Trajectory.Action, E, R>
  /**
   * So many different actions on the same prompt, where the policy can draw them in one request. The action at `n` is the one
   * that `act` draws with the request's seed plus `n`.
   */
  readonly actMany?:
    | ((request: Request, count: number) => Effect.Effect<ReadonlyArray<Trajectory.Action>, E, R>)
    | undefined
}

/**
 * A policy from a function.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <E, R>(
  act: (request: Request) => Effect.Effect<Trajectory.Action, E, R>
): Policy<E, R> => ({ act })

/**
 * A policy for each seat, the last one for all others: a model against a fixed opponent.
 *
 * @since 0.1.0
 * @category combinators
 */
export const perSeat = <E, R>(policies: readonly [Policy<E, R>, ...ReadonlyArray<Policy<E, R>>]): Policy<E, R> => {
  const [first] = policies
  const of = ({ seat = 0 }: Request) => policies[Math.min(seat, policies.length - 1)] ?? first
  return {
    act: (request) => of(request).act(request),
    actMany: (request, count) => {
      const { act, actMany } = of(request)
      return actMany === undefined
        ? Effect.all(
          Array.from(
            { length: count },
            (_, n) => act({ ...request, seed: request.seed === undefined ? undefined : request.seed + n })
          ),
          { concurrency: "unbounded" }
        )
        : actMany(request, count)
    }
  }
}

/**
 * How a model acts.
 *
 * @since 0.1.0
 * @category models
 */
export interface SamplerOptions {
  /** Most tokens of an action. */
  readonly maxTokens: number
  /** Defaults to 1. */
  readonly temperature?: number | undefined
  /** Tokens a prompt and its answer may have together. Defaults to no limit of ours. */
  readonly contextWindow?: number | undefined
  /** Optimizer steps in the sampler's weights. Defaults to 0. */
  readonly version?: number | undefined
  /** For weights that change while they are sampled from: the optimizer steps in them now. Defaults to `version`. */
  readonly versions?: Effect.Effect<Versions> | undefined
}

/**
 * Versions of weights that may be changing: they contain so many optimizer steps.
 *
 * @since 0.2.0
 * @category models
 */
export interface Versions {
  readonly atLeast: number
  readonly atMost: number
}

/**
 * A model as a policy.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromSampler = (
  sampler: SamplingClient.Service,
  options: SamplerOptions
): Policy<TinkerError.TinkerError> => {
  const malformed = (description: string) =>
    new TinkerError.MalformedResponse({ module: "Policy", method: "fromSampler", description })
  const actMany = Effect.fnUntraced(function*({ maxTokens = Infinity, prompt, seed, stop }: Request, count: number) {
    const fixed = { atLeast: options.version ?? 0, atMost: options.version ?? 0 }
    const versions = options.versions ?? Effect.succeed(fixed)
    const before = yield* versions
    const room = (options.contextWindow ?? Infinity) - prompt.length
    const { promptCacheHitTokens, sequences } = yield* sampler.sample({
      prompt: ModelInput.fromInts(prompt),
      numSamples: count,
      maxTokens: Math.max(1, Math.min(options.maxTokens, maxTokens, room)),
      temperature: options.temperature,
      stop,
      seed
    })
    if (sequences.length !== count) {
      return yield* malformed(`the server sampled ${sequences.length} sequences instead of ${count}`)
    }
    const after = yield* versions
    const cached = Math.min(promptCacheHitTokens, prompt.length)
    return yield* Effect.forEach(sequences, ({ logprobs, sequenceId, stopReason, tokens }, n) => {
      if (logprobs === undefined) return malformed("the server gave no logprobs")
      const action: Trajectory.Action = {
        tokens,
        logprobs,
        stopReason: stopReason === "length" ? "length" : "stop",
        policyVersion: before.atLeast,
        policyVersionAtMost: after.atMost === before.atLeast ? undefined : after.atMost,
        sequenceId,
        // The prompt of a request is read once, whatever is drawn from it.
        prefill: n === 0 ? { cached, uncached: prompt.length - cached } : { cached: 0, uncached: 0 }
      }
      return Effect.succeed(action)
    })
  })
  return {
    actMany,
    act: (request) =>
      Effect.flatMap(
        actMany(request, 1),
        ([action]) => action === undefined ? malformed("the server sampled nothing") : Effect.succeed(action)
      )
  }
}

/**
 * A person as a policy: reads the prompt as text, and what is written back ends as the format ends an answer. To try an
 * environment before a model does, or to play against one with {@link perSeat}.
 *
 * @example
 * ```ts
 * import { Policy } from "@effect-tinker/cookbook"
 * import type { Renderer } from "@effect-tinker/tokenizer"
 * import { Terminal } from "@effect/platform"
 * import { Effect } from "effect"
 *
 * const atTheTerminal = (renderer: Renderer.Renderer) =>
 *   Policy.fromPerson(renderer, (prompt) =>
 *     Effect.gen(function*() {
 *       const terminal = yield* Terminal.Terminal
 *       yield* terminal.display(`${prompt}\n> `)
 *       return yield* terminal.readLine
 *     }))
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromPerson = <E, R>(
  renderer: Renderer.Renderer,
  ask: (prompt: string, request: Request) => Effect.Effect<string, E, R>
): Policy<E, R> => {
  const { tokenizer } = renderer
  return make((request) =>
    Effect.map(ask(tokenizer.decode(request.prompt), request), (text) => {
      const [end] = request.stop
      const tail = end === undefined ? [] : typeof end === "number" ? [end] : tokenizer.encode(end)
      const tokens = Int32Array.from([...tokenizer.encode(text), ...tail])
      return { tokens, logprobs: new Float32Array(tokens.length), stopReason: "stop" as const, policyVersion: 0 }
    })
  )
}

/**
 * A policy that gives these answers in turn, and repeats the last one. For tests.
 *
 * @since 0.1.0
 * @category testing
 */
export const fromScript = (
  answers: readonly [ArrayLike<number>, ...ReadonlyArray<ArrayLike<number>>],
  options?: { readonly stopReason?: "stop" | "length" | undefined }
): Policy => {
  let at = 0
  return make(({ maxTokens = Infinity }) =>
    Effect.sync(() => {
      const answer = answers[Math.min(at++, answers.length - 1)] ?? []
      const cut = answer.length > maxTokens
      const tokens = Int32Array.from(answer).subarray(0, cut ? maxTokens : answer.length)
      return {
        tokens,
        logprobs: new Float32Array(tokens.length),
        stopReason: cut ? "length" : options?.stopReason ?? "stop",
        policyVersion: 0
      }
    })
  )
}

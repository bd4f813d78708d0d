/**
 * Measures weights during a run: by the loss on held-out data, or by anything a sampler's answers can be judged by.
 *
 * @since 0.1.0
 */
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type * as Datum from "effect-tinker/Datum"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import * as TensorData from "effect-tinker/TensorData"
import type * as TinkerError from "effect-tinker/TinkerError"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import type * as ForwardBackward from "effect-tinker/wire/ForwardBackward"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Dataset from "./Dataset.js"
import type * as Environment from "./Environment.js"
import * as Example from "./Example.js"
import * as random from "./internal/random.js"
import * as Policy from "./Policy.js"
import * as Rollout from "./Rollout.js"
import type * as RunEntry from "./RunEntry.js"
import * as Trainer from "./Trainer.js"
import * as Trajectory from "./Trajectory.js"

/**
 * Weights to be measured.
 *
 * @since 0.1.0
 * @category models
 */
export interface Weights {
  /** Optimizer steps they contain. */
  readonly step: number
  readonly training: TrainingClient.Service
  /** A sampler of exactly these weights, made when it is first asked for. */
  readonly sampler: Effect.Effect<SamplingClient.Service, TinkerError.TinkerError, Scope.Scope>
}

/**
 * Measures weights.
 *
 * @since 0.1.0
 * @category models
 */
export interface Evaluator<out E = never, out R = never> {
  readonly name: string
  readonly evaluate: (weights: Weights) => Effect.Effect<RunEntry.Metrics, E, R | Scope.Scope>
}

/**
 * An evaluator from a function.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <E, R>(
  name: string,
  evaluate: (weights: Weights) => Effect.Effect<RunEntry.Metrics, E, R>
): Evaluator<E, Exclude<R, Scope.Scope>> => ({
  name,
  evaluate: evaluate as (weights: Weights) => Effect.Effect<RunEntry.Metrics, E, Exclude<R, Scope.Scope> | Scope.Scope>
})

/**
 * The weighted negative log-likelihood of data, and the weight it is of.
 *
 * @since 0.1.0
 * @category models
 */
export interface Likelihood {
  readonly nll: number
  readonly weight: number
  /** Nats and UTF-8 bytes of the trained tokens that are text. */
  readonly nats: number
  readonly bytes: number
}

/**
 * Likelihood of data by a pass over them. The bytes are counted where a tokenizer is given.
 *
 * @since 0.1.0
 * @category combinators
 */
export const likelihood = (
  data: ReadonlyArray<Datum.Datum>,
  outputs: ReadonlyArray<ForwardBackward.LossFnOutput>,
  tokenizer?: Tokenizer.Tokenizer
): Likelihood => {
  let sum = 0
  let weight = 0
  let nats = 0
  let bytes = 0
  const special = new Set(tokenizer?.addedTokens.filter((token) => token.special).map(({ id }) => id))
  const encoder = new TextEncoder()
  data.forEach((datum, n) => {
    const weights = datum.lossFnInputs["weights"]
    const targets = datum.lossFnInputs["target_tokens"]
    const logprobs = outputs[n]?.["logprobs"]
    if (weights === undefined || targets === undefined || logprobs === undefined) return
    const w = TensorData.toFloat32Array(weights)
    const lp = TensorData.toFloat32Array(logprobs)
    const ids = TensorData.toArray(targets)
    let run: Array<number> = []
    const flush = () => {
      if (tokenizer !== undefined && run.length > 0) bytes += encoder.encode(tokenizer.decode(run)).length
      run = []
    }
    for (let i = 0; i < w.length; i++) {
      const [one, logprob, token] = [w[i] ?? 0, lp[i] ?? 0, ids[i] ?? 0]
      if (one !== 0) sum -= one * logprob
      weight += one
      // Special tokens have no text, and how many there are is the template's choice: they count on neither side.
      if (one > 0 && !special.has(token)) {
        nats -= logprob
        run.push(token)
      } else flush()
    }
    flush()
  })
  return { nll: sum, weight, nats, bytes }
}

/**
 * Negative log-likelihood per token of held-out data (`nll`), and bits per byte (`bpb`), which compares across
 * tokenizers, where one is given.
 *
 * @since 0.1.0
 * @category constructors
 */
export const nll = <E, R>(
  data: Dataset.Dataset<Datum.Datum, E, R>,
  options?: {
    /** Defaults to `test`. */
    readonly name?: string | undefined
    /** Examples of one pass. Defaults to 32. */
    readonly batchSize?: number | undefined
    readonly tokenizer?: Tokenizer.Tokenizer | undefined
  }
): Evaluator<E | TinkerError.TinkerError, R> => ({
  name: options?.name ?? "test",
  evaluate: ({ training }) =>
    Dataset.batches(data, { size: options?.batchSize ?? 32, partial: "keep" }).pipe(
      Stream.filter(({ items }) => items.length > 0),
      Stream.mapEffect(({ items }) =>
        Effect.map(
          Trainer.result(training.forward(items, "cross_entropy")),
          ({ lossFnOutputs }) => likelihood(items, lossFnOutputs, options?.tokenizer)
        )
      ),
      Stream.runFold({ nll: 0, weight: 0, nats: 0, bytes: 0 }, (total, part) => ({
        nll: total.nll + part.nll,
        weight: total.weight + part.weight,
        nats: total.nats + part.nats,
        bytes: total.bytes + part.bytes
      })),
      Effect.map(({ bytes, nats, nll, weight }): RunEntry.Metrics => ({
        nll: nll / weight,
        ...(bytes > 0 ? { bpb: nats / (Math.LN2 * bytes) } : {})
      }))
    )
})

/**
 * Rollouts over all problems of a test set: rewards, lengths and stop reasons, as `Trajectory.metricsOf` gives them. The
 * draws are the same each time, so that only the weights differ.
 *
 * @since 0.1.0
 * @category constructors
 */
export const rollouts = <E, R, ED, RD>(
  problems: Dataset.Dataset<Environment.Group<E, R>, ED, RD>,
  options: Omit<Policy.SamplerOptions, "version"> & {
    readonly settings: Environment.Settings
    /** Defaults to `rollouts`. */
    readonly name?: string | undefined
    /** Rollouts of each problem. Defaults to 1. */
    readonly groupSize?: number | undefined
    readonly limits?: Rollout.Limits | undefined
    /** Problems at once. Defaults to 64. */
    readonly concurrency?: number | undefined
    /** Of all draws. Defaults to 0. */
    readonly seed?: number | undefined
  }
): Evaluator<E | ED | TinkerError.TinkerError | Rollout.ActionTimedOut | Rollout.GroupFailed, R | RD> => ({
  name: options.name ?? "rollouts",
  evaluate: Effect.fnUntraced(function*(weights) {
    const policy = Policy.fromSampler(yield* weights.sampler, { ...options, version: weights.step })
    const groups = yield* Dataset.values(problems).pipe(
      Stream.zipWithIndex,
      Stream.mapEffect(([problem, index]) =>
        Rollout.group(policy, problem, {
          size: options.groupSize ?? 1,
          settings: options.settings,
          limits: options.limits,
          seed: random.seedOf(options.seed ?? 0, index)
        }), { concurrency: options.concurrency ?? 64 }),
      Stream.runCollect
    )
    return Trajectory.metricsOf(Chunk.toReadonlyArray(groups))
  })
})

/**
 * How often the chosen answer of a preference is the likelier one (`accuracy`), and by how many nats on average (`margin`).
 * Pairs that cannot be rendered are counted as `skipped`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const preferences = <E, R>(
  pairs: Dataset.Dataset<Example.Preference, E, R>,
  options: Pick<Example.RenderOptions, "renderer" | "maxLength"> & {
    /** Defaults to `preferences`. */
    readonly name?: string | undefined
    /** Pairs of one pass. Defaults to 16. */
    readonly batchSize?: number | undefined
  }
): Evaluator<E | TinkerError.TinkerError, R> => ({
  name: options.name ?? "preferences",
  evaluate: ({ training }) =>
    Dataset.batches(Dataset.mapEffect(pairs, (pair) => Example.toPair(pair, options)), {
      size: options.batchSize ?? 16,
      partial: "keep"
    }).pipe(
      Stream.mapEffect(({ items, skipped }) => {
        if (items.length === 0) return Effect.succeed({ margins: [], skipped: skipped.length })
        const data = items.flatMap(({ chosen, rejected }) => [chosen, rejected])
        return Effect.map(Trainer.result(training.forward(data, "cross_entropy")), ({ lossFnOutputs }) => {
          const loss = (n: number) => likelihood(data.slice(n, n + 1), lossFnOutputs.slice(n, n + 1)).nll
          return { margins: items.map((_, n) => loss(2 * n + 1) - loss(2 * n)), skipped: skipped.length }
        })
      }),
      Stream.runFold({ right: 0, margin: 0, count: 0, skipped: 0 }, (total, { margins, skipped }) => ({
        right: total.right + margins.filter((margin) => margin > 0).length,
        margin: margins.reduce((sum, margin) => sum + margin, total.margin),
        count: total.count + margins.length,
        skipped: total.skipped + skipped
      })),
      Effect.map(({ count, margin, right, skipped }): RunEntry.Metrics => ({
        accuracy: right / count,
        margin: margin / count,
        skipped
      }))
    )
})

/**
 * Costs of training and sampling: tokens of each model and kind times the prices you give, and a budget that refuses
 * an operation before it could overspend.
 *
 * The most an operation may cost is reserved before it starts; what it did cost is settled when it ends. An operation
 * that was never sent, or that the server refused, gives its reservation back. One that may have run on the server
 * though no result came (interrupted on the wire, timed out) is paid in full: the ledger errs on the safe side.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import type * as Datum from "./Datum.js"
import * as Observer from "./internal/observability/observer.js"
import { sampleMany } from "./internal/sampling/sampleRequest.js"
import * as ApiRequest from "./internal/transport/apiRequest.js"
import * as ModelInput from "./ModelInput.js"
import * as SamplingClient from "./SamplingClient.js"
import * as TinkerError from "./TinkerError.js"
import * as TrainingClient from "./TrainingClient.js"
import type * as Sample from "./wire/Sample.js"

// -----------------------------------------------------------------------------
// Clients under a budget. They reserve before taking their turn, so operations keep the order in which they start.
// -----------------------------------------------------------------------------

const tokensOf = (data: ReadonlyArray<Datum.Datum>): Either.Either<number, TinkerError.InvalidInput> => {
  let total = 0
  for (const { modelInput } of data) {
    const length = ModelInput.length(modelInput)
    if (Either.isLeft(length)) return length
    total += length.right
  }
  return Either.right(total)
}

const guardTraining = (
  ledger: Service,
  client: TrainingClient.Service,
  model: string,
  bounded: boolean
): TrainingClient.Service => {
  const paid = <A, E, R>(
    data: ReadonlyArray<Datum.Datum>,
    usage: (tokens: number) => Usage,
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
        (sampler) => guardSampling(ledger, sampler, model, bounded)
      ),
    createSamplingClient: (path, settings) =>
      Effect.map(
        client.createSamplingClient(path, settings),
        (sampler) => guardSampling(ledger, sampler, model, bounded)
      )
  }
}

const guardSampling = (
  ledger: Service,
  client: SamplingClient.Service,
  model: string,
  bounded: boolean
): SamplingClient.Service => {
  const sample: SamplingClient.Service["sample"] = (options) => {
    if (bounded && options.maxTokens === undefined) {
      return new TinkerError.InvalidInput({
        module: "CostLedger",
        method: "sampling",
        description: "sampling under a budget requires maxTokens: without it the cost is unbounded"
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

// -----------------------------------------------------------------------------
// The ledger.
// -----------------------------------------------------------------------------

/**
 * Uses of tokens: trained on, passed through without gradients, read as a prompt, generated.
 *
 * @since 0.1.0
 * @category models
 */
export type Kind = "train" | "forward" | "prefill" | "sample"

/**
 * Prices of a million tokens, in the currency of the budget, exact to a millionth.
 *
 * @since 0.1.0
 * @category models
 */
export interface Price {
  readonly train?: number | undefined
  /** Defaults to that of `train`. */
  readonly forward?: number | undefined
  readonly prefill?: number | undefined
  readonly sample?: number | undefined
}

/**
 * Tokens by what they are used for.
 *
 * @since 0.1.0
 * @category models
 */
export type Usage = { readonly [K in Kind]?: number | undefined }

/**
 * Prices, and how much may be spent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** By model. A model or a kind without a price is refused, not taken as free. */
  readonly prices: Readonly<Record<string, Price>>
  /** The most to spend. Without it the ledger only counts. */
  readonly budget?: number | undefined
}

/**
 * The tokens of one model and kind.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry {
  readonly model: string
  readonly kind: Kind
  readonly operations: number
  readonly tokens: number
  readonly cost: number
}

/**
 * Amounts spent, by use.
 *
 * @since 0.1.0
 * @category models
 */
export interface Totals {
  readonly budget: number | undefined
  readonly spent: number
  /** The part of `spent` that operations without a result may have cost. */
  readonly unconfirmed: number
  /** Set aside for operations in flight. */
  readonly reserved: number
  readonly entries: ReadonlyArray<Entry>
}

/**
 * An operation on the budget.
 *
 * @since 0.1.0
 * @category models
 */
export interface Guard<in A> {
  readonly model: string
  /** The most it may use. */
  readonly atMost: Usage
  /** Tokens it used, read from its result. Defaults to `atMost`. */
  readonly used?: ((result: A) => Usage) | undefined
}

/**
 * A ledger: guards operations, and adds up.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** Price of a number of tokens. */
  readonly cost: (model: string, usage: Usage) => Either.Either<number, TinkerError.InvalidInput>
  /** Runs an effect if the budget has room for the most it may use, and counts what it did use. */
  readonly guard: <A>(options: Guard<A>) => <E, R>(
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | TinkerError.BudgetExceeded | TinkerError.InvalidInput, R>
  /** Counts what was used elsewhere. It has happened, so it is never refused. */
  readonly charge: (model: string, usage: Usage) => Effect.Effect<void, TinkerError.InvalidInput>
  /** The same client, on the budget; samplers made from it are on the budget too. */
  readonly training: (client: TrainingClient.Service, model: string) => TrainingClient.Service
  /** The same client, on the budget. With a budget, samples need `maxTokens`. */
  readonly sampling: (client: SamplingClient.Service, model: string) => SamplingClient.Service
  readonly totals: Effect.Effect<Totals>
  /** The totals, then again after every change. */
  readonly changes: Stream.Stream<Totals>
}

/**
 * The ledger as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class CostLedger extends Context.Tag("effect-tinker/CostLedger")<CostLedger, Service>() {}

const kinds: ReadonlyArray<Kind> = ["train", "forward", "prefill", "sample"]

/** Money is counted in whole units of 1e-12, so that sums are exact: one token at a price of 1e-6 a million. */
const unit = 1e12
const toUnits = (amount: number) => BigInt(Math.round(amount * unit))
const toAmount = (units: bigint) => Number(units) / unit

const invalid = (method: string, description: string) =>
  new TinkerError.InvalidInput({ module: "CostLedger", method, description })

const isAmount = (n: number) => Number.isFinite(n) && n >= 0

/** Whether the server has said that it did not do it. */
const wasRefused = (cause: Cause.Cause<unknown>): boolean =>
  Option.match(Cause.failureOption(cause), {
    onNone: () => false,
    onSome: (error) => {
      if (!TinkerError.isTinkerError(error)) return false
      switch (error._tag) {
        case "TimedOut":
        case "TransportFailed":
        case "Unavailable":
        case "MalformedResponse":
        case "FutureExpired":
        case "Stuck":
        case "Closed":
          return false
        default:
          return true
      }
    }
  })

interface Line {
  readonly model: string
  readonly kind: Kind
  operations: number
  tokens: number
  cost: bigint
}

/**
 * A ledger that has spent nothing yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options: Options) => Effect.Effect<Service, TinkerError.InvalidInput> = Effect.fnUntraced(
  function*(options) {
    const { budget } = options
    if (budget !== undefined && !isAmount(budget)) return yield* invalid("make", `a budget cannot be ${budget}`)
    for (const [model, price] of Object.entries(options.prices)) {
      for (const kind of kinds) {
        const amount = price[kind]
        if (amount !== undefined && !isAmount(amount)) {
          return yield* invalid("make", `the price of ${model}, ${kind}, cannot be ${amount}`)
        }
      }
    }
    const prices = new Map(Object.entries(options.prices))
    const limit = budget === undefined ? undefined : toUnits(budget)
    const lines = new Map<string, Line>()
    let spent = 0n
    let unconfirmed = 0n
    let reserved = 0n

    const look = (): Totals => ({
      budget,
      spent: toAmount(spent),
      unconfirmed: toAmount(unconfirmed),
      reserved: toAmount(reserved),
      entries: Array.from(lines.values(), (line) => ({ ...line, cost: toAmount(line.cost) }))
    })
    const readers = Observer.makeLatest<Totals>()
    const tell = () => readers.push(look())

    const units = (method: string, model: string, usage: Usage): Either.Either<bigint, TinkerError.InvalidInput> => {
      const price = prices.get(model)
      let total = 0n
      for (const kind of kinds) {
        const tokens = usage[kind] ?? 0
        if (!Number.isSafeInteger(tokens) || tokens < 0) {
          return Either.left(invalid(method, `${tokens} is not a number of tokens`))
        }
        if (tokens === 0) continue
        const amount = kind === "forward" ? price?.forward ?? price?.train : price?.[kind]
        if (amount === undefined) {
          return Either.left(
            invalid(
              method,
              price === undefined
                ? `there is no price for ${JSON.stringify(model)}; there are prices for ${
                  Array.from(prices.keys()).join(", ") || "no model"
                }`
                : `${model} has no price for ${kind}`
            )
          )
        }
        total += BigInt(tokens) * toUnits(amount / 1e6)
      }
      return Either.right(total)
    }

    const record = (model: string, usage: Usage) => {
      for (const kind of kinds) {
        const tokens = usage[kind] ?? 0
        if (tokens === 0) continue
        const cost = Either.getOrElse(units("record", model, { [kind]: tokens }), () => 0n)
        const key = `${kind} ${model}`
        const line = lines.get(key) ?? { model, kind, operations: 0, tokens: 0, cost: 0n }
        line.operations++
        line.tokens += tokens
        line.cost += cost
        lines.set(key, line)
        spent += cost
      }
    }

    const reserve = (model: string, atMost: Usage) =>
      Either.flatMap(
        units("guard", model, atMost),
        (most): Either.Either<bigint, TinkerError.BudgetExceeded> => {
          if (limit !== undefined && spent + reserved + most > limit) {
            return Either.left(
              new TinkerError.BudgetExceeded({
                module: "CostLedger",
                method: "guard",
                budget: toAmount(limit),
                spent: toAmount(spent),
                reserved: toAmount(reserved),
                cost: toAmount(most),
                description: model
              })
            )
          }
          reserved += most
          tell()
          return Either.right(most)
        }
      )

    const guard: Service["guard"] = <A>({ atMost, model, used }: Guard<A>) => <E, R>(effect: Effect.Effect<A, E, R>) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Effect.suspend(() => reserve(model, atMost)), (most) => {
          let sent = false
          const settle = (exit: Exit.Exit<A, E>) => {
            reserved -= most
            if (exit._tag === "Success") {
              const actual = used?.(exit.value) ?? atMost
              record(model, Either.isRight(units("guard", model, actual)) ? actual : atMost)
            } else if (sent && !wasRefused(exit.cause)) {
              record(model, atMost)
              unconfirmed += most
            }
            tell()
          }
          const listen = ApiRequest.onSent(() => {
            sent = true
          })
          return Effect.onExit(restore(listen(effect)), (exit) => Effect.sync(() => settle(exit)))
        })
      )

    const ledger: Service = {
      cost: (model, usage) => Either.map(units("cost", model, usage), toAmount),
      guard,
      charge: (model, usage) =>
        Effect.flatMap(units("charge", model, usage), () => {
          record(model, usage)
          tell()
          return Effect.void
        }),
      training: (client, model) => guardTraining(ledger, client, model, limit !== undefined),
      sampling: (client, model) => guardSampling(ledger, client, model, limit !== undefined),
      totals: Effect.sync(look),
      changes: readers.stream(Effect.sync(look))
    }
    return ledger
  }
)

/**
 * A ledger for all who ask for one.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<CostLedger, TinkerError.InvalidInput> =>
  Layer.effect(CostLedger, make(options))

/**
 * Puts the training client of a layer on the budget.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerTraining = (
  model: string
): Layer.Layer<TrainingClient.TrainingClient, never, TrainingClient.TrainingClient | CostLedger> =>
  Layer.effect(
    TrainingClient.TrainingClient,
    Effect.zipWith(CostLedger, TrainingClient.TrainingClient, (ledger, client) => ledger.training(client, model))
  )

/**
 * Puts the sampling client of a layer on the budget.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerSampling = (
  model: string
): Layer.Layer<SamplingClient.SamplingClient, never, SamplingClient.SamplingClient | CostLedger> =>
  Layer.effect(
    SamplingClient.SamplingClient,
    Effect.zipWith(CostLedger, SamplingClient.SamplingClient, (ledger, client) => ledger.sampling(client, model))
  )

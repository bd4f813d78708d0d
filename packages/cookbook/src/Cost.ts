/**
 * Costs of a run: the tokens of its steps by what they were used for, and money where their prices are known.
 *
 * A sampled token is paid for when it is generated and again when it is trained on; a prompt is paid for at every turn, for
 * less where the server finds it in its cache. A step counts what was sampled, read and trained on for it. What was sampled
 * for groups that are not trained on is counted in the totals, and apart as discarded. Evaluations, requests that failed and
 * rollouts that were running when a run was stopped are not counted: `RestClient.getBillingUsage` has the bill.
 *
 * @since 0.2.0
 */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import type * as CostLedger from "effect-tinker/CostLedger"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Trajectory from "./Trajectory.js"

// =============================================================================
// tokens
// =============================================================================

const Count = Schema.NonNegativeInt

/**
 * Tokens that are paid for, by what they were used for.
 *
 * @since 0.2.0
 * @category schemas
 */
export const Usage = Schema.Struct({
  sampled: Count,
  /** Tokens of prompts that the server had in its cache. */
  prefillCached: Count,
  prefillUncached: Count,
  /** Tokens of passes, with gradients or without. */
  trained: Count
})

/**
 * Tokens that are paid for, by what they were used for.
 *
 * @since 0.2.0
 * @category models
 */
export type Usage = typeof Usage.Type

/**
 * No tokens.
 *
 * @since 0.2.0
 * @category constructors
 */
export const none: Usage = { sampled: 0, prefillCached: 0, prefillUncached: 0, trained: 0 }

/**
 * Tokens of a pass.
 *
 * @since 0.2.0
 * @category constructors
 */
export const trained = (tokens: number): Usage => ({ ...none, trained: tokens })

/**
 * A request for the logprobs of a text: the server reads it, and draws one token.
 *
 * @since 0.2.0
 * @category constructors
 */
export const scored = (tokens: number): Usage => ({ ...none, prefillUncached: tokens, sampled: 1 })

/**
 * Tokens of sampling an action on a prompt of that length.
 *
 * @since 0.2.0
 * @category constructors
 */
export const sampled = (
  { prefill, tokens }: Pick<Trajectory.Action, "prefill" | "tokens">,
  promptLength: number
): Usage => ({
  sampled: tokens.length,
  prefillCached: prefill?.cached ?? 0,
  prefillUncached: prefill?.uncached ?? promptLength,
  trained: 0
})

/**
 * The sum.
 *
 * @since 0.2.0
 * @category combinators
 */
export const sum = (usages: Iterable<Usage>): Usage => {
  const total = { ...none }
  for (const usage of usages) {
    total.sampled += usage.sampled
    total.prefillCached += usage.prefillCached
    total.prefillUncached += usage.prefillUncached
    total.trained += usage.trained
  }
  return total
}

/**
 * Tokens of sampling groups.
 *
 * @since 0.2.0
 * @category constructors
 */
export const ofGroups = (groups: Iterable<Trajectory.Group>): Usage =>
  sum(
    Array.from(groups).flatMap(({ trajectories }) =>
      trajectories.flatMap(({ turns }) => turns.map(({ action, prompt }) => sampled(action, prompt.length)))
    )
  )

// =============================================================================
// money
// =============================================================================

/**
 * Prices of a million tokens. There is money only where all four are known.
 *
 * @since 0.2.0
 * @category models
 */
export interface Price extends Pick<CostLedger.Price, "train" | "prefill" | "sample"> {
  /** Of prompts that the server has in its cache. */
  readonly cachedPrefill?: number | undefined
}

/**
 * Prices of a run, and its budget.
 *
 * @since 0.2.0
 * @category models
 */
export interface Options {
  /** Without all of them, tokens are counted and no money. */
  readonly price?: Price | undefined
  /** Of the prices, as the names of metrics say it. Defaults to `usd`. */
  readonly currency?: string | undefined
  /**
   * Most the run may cost from its beginning, earlier processes included. It stops, with a checkpoint, before a step that
   * would exceed it if it cost as much as the most expensive one so far.
   */
  readonly budget?: number | undefined
}

/**
 * Price of tokens; `None` where a price is not known.
 *
 * @since 0.2.0
 * @category combinators
 */
export const amount = (usage: Usage, price: Price | undefined): Option.Option<number> => {
  const { cachedPrefill, prefill, sample, train } = price ?? {}
  return prefill === undefined || cachedPrefill === undefined || sample === undefined || train === undefined
    ? Option.none()
    : Option.some(
      (usage.prefillUncached * prefill + usage.prefillCached * cachedPrefill + usage.sampled * sample +
        usage.trained * train) / 1e6
    )
}

/**
 * Where the hosted service publishes its prices.
 *
 * @since 0.2.0
 * @category configuration
 */
export const publishedAt = "https://tinker-docs.thinkingmachines.ai/tinker/models.json"

const Published = Schema.Array(Schema.Record({ key: Schema.String, value: Schema.Unknown }))

/** `"$1.87"` is 1.87. */
const dollars = (value: unknown): number | undefined => {
  const text = String(value ?? "").trim().replace(/^\$/, "").replaceAll(",", "")
  const parsed = Number(text)
  return text === "" || !Number.isFinite(parsed) || parsed < 0 ? undefined : parsed
}

/**
 * The published prices of a model, in US dollars; `None` where they cannot be had within five seconds, the model is not
 * listed, or one of its four prices is missing. The model is looked up by its exact name: variants have prices of their own.
 *
 * @since 0.2.0
 * @category constructors
 */
export const published = (
  model: string,
  options?: { readonly url?: string | undefined }
): Effect.Effect<Option.Option<Price>, never, HttpClient.HttpClient> =>
  HttpClient.get(options?.url ?? publishedAt).pipe(
    Effect.flatMap(HttpClientResponse.filterStatusOk),
    Effect.flatMap(HttpClientResponse.schemaBodyJson(Published)),
    Effect.scoped,
    Effect.timeout("5 seconds"),
    Effect.map((entries) => {
      const entry = entries.find(({ tinker_id: id }) => id === model)
      const price: Price = {
        prefill: dollars(entry?.["prefill"]),
        cachedPrefill: dollars(entry?.["cached_prefill"]),
        sample: dollars(entry?.["sample"]),
        train: dollars(entry?.["train"])
      }
      return Option.as(amount(none, price), price)
    }),
    Effect.catchAll((error) =>
      Effect.as(Effect.logWarning(`prices are not known, tokens are counted alone: ${error.message}`), Option.none())
    )
  )

// =============================================================================
// a run's meter
// =============================================================================

/**
 * Costs of a run so far, as its checkpoints keep them.
 *
 * @since 0.2.0
 * @category schemas
 */
export const Totals = Schema.Struct({
  total: Usage,
  /** The part of it that was sampled for groups that were not trained on. */
  discarded: Usage,
  /** The most expensive step. */
  largest: Usage
})

/**
 * Costs of a run so far, as its checkpoints keep them.
 *
 * @since 0.2.0
 * @category models
 */
export type Totals = typeof Totals.Type

/**
 * Usage of a step.
 *
 * @since 0.2.0
 * @category models
 */
export interface StepUsage {
  readonly used: Usage
  /** Sampled for groups that are not trained on. Defaults to none. */
  readonly discarded?: Usage | undefined
}

type Metrics = Readonly<Record<string, number>>

const named = (prefix: string, usage: Usage): Metrics => ({
  [`${prefix}/sampled`]: usage.sampled,
  [`${prefix}/prefill_cached`]: usage.prefillCached,
  [`${prefix}/prefill_uncached`]: usage.prefillUncached,
  [`${prefix}/trained`]: usage.trained
})

/** Counts the steps of a run. @internal */
export const makeMeter = (options: Options | undefined, before: Totals | undefined) => {
  const { budget, currency = "usd", price } = options ?? {}
  let totals: Totals = before ?? { total: none, discarded: none, largest: none }
  const money = (name: string, usage: Usage): Metrics =>
    Option.match(amount(usage, price), {
      onNone: () => ({}),
      onSome: (cost) => ({ [`cost/${name}_${currency}`]: cost })
    })
  const costOf = (usage: Usage) => Option.getOrElse(amount(usage, price), () => 0)
  return {
    /** Adds a step, and returns its metrics. */
    record: ({ discarded = none, used }: StepUsage): Metrics => {
      const step = sum([used, discarded])
      totals = {
        total: sum([totals.total, step]),
        discarded: sum([totals.discarded, discarded]),
        largest: costOf(step) > costOf(totals.largest) ? step : totals.largest
      }
      return {
        ...named("tokens", used),
        ...named("tokens/discarded", discarded),
        ...named("tokens/cumulative", totals.total),
        ...money("step", step),
        ...money("discarded", discarded),
        ...money("cumulative", totals.total)
      }
    },
    totals: () => totals,
    /** Whether another step might cost more than is left. */
    isSpent: () => budget !== undefined && costOf(totals.total) + costOf(totals.largest) > budget,
    /** Amount paid, for people. */
    spent: () => `${Number(costOf(totals.total).toPrecision(6))} ${currency.toUpperCase()}`
  }
}

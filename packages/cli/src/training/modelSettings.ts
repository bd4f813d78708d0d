/**
 * Settings that follow from a model: tokenizers and renderers by model, learning rates, and clients that keep to
 * a budget.
 *
 * @since 0.1.0
 */
import type * as Cost from "@effect-tinker/cookbook/Cost"
import * as Hyperparameters from "@effect-tinker/cookbook/Hyperparameters"
import * as HuggingFaceHub from "@effect-tinker/tokenizer/HuggingFaceHub"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Renderers from "@effect-tinker/tokenizer/Renderers"
import type { ChatTemplateFailed, RenderFailed, TokenizerError } from "@effect-tinker/tokenizer/TokenizerError"
import { TokenizerNotFound } from "@effect-tinker/tokenizer/TokenizerError"
import * as TokenizerFiles from "@effect-tinker/tokenizer/TokenizerFiles"
import * as Tokenizers from "@effect-tinker/tokenizer/Tokenizers"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as CostLedger from "effect-tinker/CostLedger"
import * as ServiceClient from "effect-tinker/ServiceClient"
import type { InvalidInput } from "effect-tinker/TinkerError"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { CliFailure } from "../internal/CliFailure.js"
import { usage } from "../internal/CliFailure.js"
import { isLocal } from "../internal/connection.js"
import * as LocalModels from "../internal/LocalModels.js"
import { nearest } from "../internal/nearest.js"

const built = <E, R>(layer: Layer.Layer<TokenizerFiles.TokenizerFiles, E, R>) =>
  Effect.map(Layer.build(layer), Context.get(TokenizerFiles.TokenizerFiles))

/** Loaded on demand: it brings in the engine. */
const localFiles = Effect.gen(function*() {
  const { tokenizerFiles } = yield* Effect.promise(() => import("../internal/localBackend.js"))
  const files = yield* Effect.orDie(tokenizerFiles)
  const names = Object.keys(files)
  const found = yield* built(TokenizerFiles.layerMemory(files))
  return TokenizerFiles.TokenizerFiles.of({
    get: (ref, file, options) => {
      if (names.includes(ref.repo)) return found.get(ref, file, options)
      const meant = nearest(ref.repo, names)
      return new TokenizerNotFound({
        repo: ref.repo,
        description: `the embedded backend has no such model; ${
          meant === undefined ? `it has ${names.join(", ")}` : `did you mean ${meant}?`
        }`
      })
    }
  })
}).pipe(Effect.scoped)

/** Whether the embedded backend has the model itself: those that come with it, and those it was given by name. */
const isServedHere = Effect.fnUntraced(function*(model: string) {
  if (model.startsWith("local/")) return true
  const known = [...(yield* LocalModels.references), ...(yield* LocalModels.Requested)]
  return known.includes(model)
})

/** Tokenizer files where they are: with the embedded backend, in a directory, on the Hugging Face hub. */
const files = Layer.scoped(
  TokenizerFiles.TokenizerFiles,
  Effect.gen(function*() {
    const path = yield* Path.Path
    const hub = yield* built(Layer.provide(HuggingFaceHub.layerFromEnv(), FetchHttpClient.layer))
    const directories = yield* built(TokenizerFiles.layerDirectory(path.sep))
    const local = yield* Effect.cached(localFiles)
    return TokenizerFiles.TokenizerFiles.of({
      get: (ref, file, options) =>
        Effect.flatMap(isServedHere(ref.repo), (here) =>
          here
            ? Effect.flatMap(local, (files) => files.get(ref, file, options))
            : (path.isAbsolute(ref.repo) ? directories : hub).get(ref, file, options))
    })
  })
)

/** @internal */
export const tokenizers: Layer.Layer<
  Tokenizers.Tokenizers,
  ConfigError.ConfigError,
  FileSystem.FileSystem | Path.Path
> = Layer.provide(Tokenizers.layer(), files)

/**
 * How conversations with a model are written.
 *
 * @internal
 */
export const rendererFor: (
  model: string,
  options: {
    readonly renderer: Option.Option<string>
    /** A repository of the hub, or a directory. */
    readonly tokenizer: Option.Option<string>
  }
) => Effect.Effect<
  Renderer.Renderer,
  TokenizerError | RenderFailed | ChatTemplateFailed,
  Tokenizers.Tokenizers | FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*(model, options) {
  const { forModel, load } = yield* Tokenizers.Tokenizers
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { tokenizer: given } = options
  const isDirectory = Option.isSome(given) && (yield* Effect.orElseSucceed(fs.exists(given.value), () => false))
  const tokenizer = Option.isNone(given)
    ? yield* forModel(model)
    : yield* load({ repo: isDirectory ? path.resolve(given.value) : given.value })
  return yield* Option.match(options.renderer, {
    onNone: () => Renderers.forModel(model, tokenizer),
    onSome: (name) => Renderers.byName(name, tokenizer)
  })
})

/** Right for the small models of the embedded backend. */
const localRate = 5e-4

/**
 * The learning rate asked for, or the one advised for the model.
 *
 * @internal
 */
export const learningRateFor = Effect.fnUntraced(function*(given: Option.Option<number>, model: string) {
  const known = given.pipe(
    Option.orElse(() => Hyperparameters.learningRate(model)),
    Option.orElse(() => model.startsWith("local/") ? Option.some(localRate) : Option.none())
  )
  if (Option.isSome(known)) return known.value
  // whatever fits into the memory of this machine is small
  if (yield* isLocal) return localRate
  return yield* usage(`No learning rate is known for ${model}`, "Give one: --learning-rate 1e-4, and try others.")
})

// =============================================================================
// budgets
// =============================================================================

const priced: ReadonlyArray<string> = ["train", "prefill", "sample", "cached"]

/** @internal */
export interface Priced extends CostLedger.Price {
  /** Of prompts that the server has in its cache. */
  readonly cached?: number | undefined
}

/**
 * Prices of a million tokens, such as `train=1.2,prefill=0.4,sample=1`.
 *
 * @internal
 */
export const parsePrice = (text: string): Either.Either<Priced, CliFailure> => {
  const price: Record<string, number> = {}
  for (const part of text.split(",")) {
    const [kind = "", amount = ""] = part.trim().split("=")
    const value = Number(amount)
    if (!priced.includes(kind) || amount.trim() === "" || !(value >= 0 && value < Infinity)) {
      return Either.left(
        usage(
          `--price does not take ${JSON.stringify(part)}`,
          "Write train=1.2,prefill=0.4,sample=1: per million tokens."
        )
      )
    }
    price[kind] = value
  }
  return Either.right(price)
}

/**
 * The prices as a run records them. Without a price of its own, what the server has in its cache costs what it costs to read.
 *
 * @internal
 */
export const costOf = (flags: {
  readonly price: Option.Option<string>
  readonly currency: string
}): Effect.Effect<Cost.Options, CliFailure> =>
  Option.match(flags.price, {
    onNone: () => Effect.succeed({}),
    onSome: (text) =>
      Effect.gen(function*() {
        if (!/^[a-z]{3}$/i.test(flags.currency)) {
          return yield* usage(
            `--currency does not take ${JSON.stringify(flags.currency)}`,
            "Write its three letters: usd, eur."
          )
        }
        const { cached, prefill, sample, train }: Priced = yield* parsePrice(text)
        return {
          price: { train, prefill, sample, cachedPrefill: cached ?? prefill },
          currency: flags.currency.toLowerCase()
        }
      })
  })

/** @internal */
export interface BudgetFlags {
  readonly budget: Option.Option<number>
  readonly price: Option.Option<string>
  readonly tokenBudget: Option.Option<number>
}

/** A token costs one, so that the budget is a number of tokens. */
const perToken: CostLedger.Price = { train: 1e6, forward: 1e6, prefill: 1e6, sample: 1e6 }

/**
 * The ledger that the flags ask for, if they do.
 *
 * @internal
 */
export const ledgerFor: (
  model: string,
  flags: BudgetFlags
) => Effect.Effect<Option.Option<CostLedger.Service>, CliFailure | InvalidInput> = Effect.fnUntraced(
  function*(model, { budget, price, tokenBudget }) {
    if (Option.isSome(tokenBudget)) {
      return Option.isSome(budget)
        ? yield* usage("Give either --budget or --token-budget", "One of them ends the run.")
        : Option.some(yield* CostLedger.make({ prices: { [model]: perToken }, budget: tokenBudget.value }))
    }
    if (Option.isNone(price)) {
      return Option.isSome(budget)
        ? yield* usage("--budget needs prices", "Add --price train=1.2,prefill=0.4,sample=1: per million tokens.")
        : Option.none()
    }
    const prices = { [model]: yield* parsePrice(price.value) }
    return Option.some(yield* CostLedger.make({ prices, budget: Option.getOrUndefined(budget) }))
  }
)

/**
 * The service with every client it makes on the budget.
 *
 * @internal
 */
export const layerBudget = (
  ledger: Option.Option<CostLedger.Service>,
  model: string
): Layer.Layer<ServiceClient.ServiceClient, never, ServiceClient.ServiceClient> =>
  Layer.effect(
    ServiceClient.ServiceClient,
    Effect.map(ServiceClient.ServiceClient, (service) =>
      Option.match(ledger, {
        onNone: () => service,
        onSome: ({ sampling, training }): ServiceClient.Service => ({
          ...service,
          createLoraTrainingClient: (options) =>
            Effect.map(service.createLoraTrainingClient(options), (client) => training(client, model)),
          createTrainingClientFromState: (options) =>
            Effect.map(service.createTrainingClientFromState(options), (client) => training(client, model)),
          createSamplingClient: (options) =>
            Effect.map(service.createSamplingClient(options), (client) => sampling(client, model))
        })
      }))
  )

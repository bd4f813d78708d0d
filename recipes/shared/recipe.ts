/**
 * What the recipes have in common: where the model is, how its conversations are written, and one number before and after.
 */
import type { Trainer } from "@effect-tinker/cookbook"
import { LocalCheckpoint, LocalTokenizer } from "@effect-tinker/local"
import * as NodeModels from "@effect-tinker/local/NodeModels"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import type { Renderer } from "@effect-tinker/tokenizer"
import { HuggingFaceHub, Message, Renderers, Tokenizer, Tokenizers } from "@effect-tinker/tokenizer"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { Chunk, Config, Console, Context, Effect, Layer, Option, Stream } from "effect"
import type { SamplingClient } from "effect-tinker"
import { ModelInput, Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { availableParallelism } from "node:os"

/** How a recipe is run. */
export interface Settings {
  readonly seed: number
  /** The model to train. */
  readonly model: string
  readonly learningRate: number
  /** How its conversations are written. */
  readonly renderer: Renderer.Renderer
  /** Less of everything, for a test of whether it learns; recipes that take long have such a form. */
  readonly short?: boolean | undefined
}

/** What came of it: the recipe's own measure, before and after. */
export interface Outcome {
  readonly before: number
  readonly after: number
}

/** A recipe: what it runs, on which model by default, and what it must reach. */
export interface Recipe<E = unknown> {
  /** What the two numbers are, in a few words. */
  readonly measure: string
  readonly model: string
  readonly learningRate: number
  readonly passes: (outcome: Outcome) => boolean
  readonly run: (settings: Settings) => Effect.Effect<Outcome, E, Services>
}

export type Services = Tinker.Tinker | NodeContext.NodeContext

export const define = <E>(recipe: Recipe<E>): Recipe<E> => recipe

/** Lines for people to read, which `--json` leaves out. */
export class Narrator extends Context.Reference<Narrator>()("recipes/Narrator", {
  defaultValue: () => ({ say: (line: string) => Console.log(line) })
}) {}

export const say = (line: string) => Effect.flatMap(Narrator, (narrator) => narrator.say(line))

/** Runs a trainer to its end, and gives its first report, its last one, and where the weights are. */
export const trained = <Detail, E, R>(run: Stream.Stream<Trainer.StepReport<Detail>, E, R>) =>
  Effect.gen(function*() {
    const reports = yield* run.pipe(
      Stream.tap(({ loss, metrics, step }) => {
        const reward = metrics["env/all/reward"]
        return say(
          `step ${step}: loss ${loss.toFixed(3)}${reward === undefined ? "" : `, reward ${reward.toFixed(3)}`}`
        )
      }),
      Stream.runCollect
    )
    const last = Option.getOrThrow(Chunk.last(reports))
    const { checkpoint, evaluations } = Option.getOrThrow(last.final)
    return {
      first: Option.getOrThrow(Chunk.head(reports)),
      last,
      evaluations,
      statePath: checkpoint.statePath,
      samplerPath: checkpoint.samplerPath ?? ""
    }
  })

/** Runs a trainer; the measure is a metric of an evaluator, before the first step and after the last one. */
export const measured =
  (evaluator: string, metric: string) =>
  <Detail, E, R>(run: Stream.Stream<Trainer.StepReport<Detail>, E, R>): Effect.Effect<Outcome, E, R> =>
    Effect.map(trained(run), ({ evaluations, first }) => ({
      before: first.evaluations[evaluator]?.[metric] ?? NaN,
      after: evaluations[evaluator]?.[metric] ?? NaN
    }))

/** The answers of a model to questions, greedily by default. */
export const answers = (
  sampler: SamplingClient.Service,
  renderer: Renderer.Renderer,
  questions: ReadonlyArray<ReadonlyArray<Message.Message>>,
  options?: { readonly maxTokens?: number; readonly temperature?: number; readonly seed?: number }
) =>
  Effect.forEach(questions, (messages, i) =>
    Effect.gen(function*() {
      const { sequences } = yield* sampler.sample({
        prompt: ModelInput.fromInts(yield* renderer.generationPrompt(messages)),
        maxTokens: options?.maxTokens ?? 24,
        temperature: options?.temperature ?? 0,
        stop: renderer.stop,
        seed: (options?.seed ?? 0) + i
      })
      return Message.text(renderer.parse(sequences[0]?.tokens ?? []).message).trim()
    }), { concurrency: "unbounded" })

/** Whether a service is named: then it has the models that are not bundled. */
const hasService = Effect.map(
  Config.all([Config.option(Config.string("TINKER_BASE_URL")), Config.option(Config.string("TINKER_API_KEY"))]),
  ([url, key]) => Option.isSome(url) || Option.isSome(key)
)

/** The backend in this process, or the service that `TINKER_BASE_URL` and `TINKER_API_KEY` name. */
export const layerClients = (model: string): Layer.Layer<Tinker.Tinker, unknown> =>
  model.startsWith("local/")
    ? NodeTinkerLocal.layerInProcess()
    : Layer.unwrapEffect(Effect.gen(function*(): Effect.fn.Return<Layer.Layer<Tinker.Tinker, unknown>, unknown> {
      if (yield* hasService) return Tinker.layerFromEnv().pipe(Layer.provide(NodeTinker.layerFromEnv()))
      const found = yield* NodeModels.resolve(model, { name: model })
      return NodeTinkerLocal.layerInProcess({ engine: { models: [found] }, threads: availableParallelism() })
    }))

const LocalRandom = Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles)

const layerTokenizers = Tokenizers.layer({
  registry: {
    "local/tiny": LocalRandom,
    "local/small": LocalRandom,
    "local/chat": LocalCheckpoint.chat.pipe(
      Effect.flatMap(({ tokenizer }) => tokenizer === undefined ? LocalRandom : Effect.succeed(tokenizer)),
      Effect.orDie,
      Effect.provide(NodeContext.layer)
    )
  }
}).pipe(Layer.provide(HuggingFaceHub.layerFromEnv()), Layer.provide([NodeContext.layer, NodeHttpClient.layerUndici]))

/** The format a model was trained on; the random local models have none, and take Qwen's. */
export const rendererOf = Effect.fnUntraced(function*(model: string) {
  if (!model.startsWith("local/") && !(yield* hasService)) {
    const { tokenizer } = yield* NodeModels.resolve(model, { name: model })
    if (tokenizer !== undefined) return yield* Renderers.forModel(model, tokenizer)
  }
  const tokenizer = yield* Effect.flatMap(Tokenizers.Tokenizers, (tokenizers) => tokenizers.forModel(model))
  return yield* model === "local/tiny" || model === "local/small"
    ? Renderers.qwen3Instruct(tokenizer)
    : Renderers.forModel(model, tokenizer)
}, Effect.provide(layerTokenizers))

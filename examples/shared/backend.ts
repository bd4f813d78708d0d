/**
 * Where the examples do their work: in this process, or on the server that `TINKER_BASE_URL` names.
 */
import { LocalCheckpoint, LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { HuggingFaceHub, Renderers, Tokenizer, Tokenizers } from "@effect-tinker/tokenizer"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { Config, Effect, Layer } from "effect"
import type { TrainingClient } from "effect-tinker"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

/** The model to train. Another server than the embedded one has other models: set EXAMPLE_MODEL. */
export const model = Config.withDefault(Config.string("EXAMPLE_MODEL"), "local/small")

/** Right for the small local models, too fast for large ones: set EXAMPLE_LEARNING_RATE with the model. */
export const learningRate = Config.withDefault(Config.number("EXAMPLE_LEARNING_RATE"), 4e-4)

/** Where to work instead of in this process. */
export const baseUrl = Config.withDefault(Config.string("TINKER_BASE_URL"), "")

/** A backend in this process, or the server that the environment names: TINKER_BASE_URL, TINKER_API_KEY. */
const clients = (local: Layer.Layer<Tinker.Tinker, unknown>) =>
  Layer.unwrapEffect(
    Effect.map(
      baseUrl,
      (url): Layer.Layer<Tinker.Tinker, unknown> =>
        url === "" ? local : Tinker.layerEnv().pipe(Layer.provide(NodeTinker.layerEnv()))
    )
  )

/** Tokenizers of any model by name: the hub's, and those of the local models. */
const Vocabularies = Tokenizers.layer({
  registry: {
    [LocalTokenizer.tokenizerId]: Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
    "local/chat": LocalCheckpoint.chat.pipe(
      Effect.flatMap(({ tokenizer }) => Effect.fromNullable(tokenizer)),
      Effect.orDie,
      Effect.provide(NodeContext.layer)
    )
  }
}).pipe(
  Layer.provide(HuggingFaceHub.layerConfig()),
  Layer.provide([NodeContext.layer, NodeHttpClient.layerUndici])
)

/** Everything an example asks for, with a backend in this process of its own choice. */
export const backend = (local: Layer.Layer<Tinker.Tinker, unknown>) => Layer.merge(clients(local), Vocabularies)

/** Everything an example asks for. */
export const Backend = backend(TinkerLocal.layer())

/** The tokenizer the server names for a model. */
export const tokenizerOf = (training: TrainingClient.Service) =>
  Effect.gen(function*() {
    const tokenizers = yield* Tokenizers.Tokenizers
    return yield* tokenizers.forModel(yield* model, { tokenizerId: yield* training.tokenizerId })
  })

/** How a model wants its conversations written. The local models take Qwen's format. */
export const rendererOf = (training: TrainingClient.Service) =>
  Effect.gen(function*() {
    const name = yield* model
    const tokenizer = yield* tokenizerOf(training)
    return yield* name.startsWith("local/")
      ? Renderers.qwen3Instruct(tokenizer)
      : Renderers.forModel(name, tokenizer)
  })

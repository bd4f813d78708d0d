/**
 * Where the examples do their work: in this process, or on the server that `TINKER_BASE_URL` names.
 */
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizers } from "@effect-tinker/tokenizer"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
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

const Hosted = Layer.merge(Tinker.layerFromEnv(), NodeTokenizers.layer({ registry: LocalTokenizer.registry })).pipe(
  Layer.provide(NodeTinker.layerFromEnv())
)

/** The clients and tokenizers of a backend in this process, or of the server that `TINKER_BASE_URL` names. */
export const backend = (local: Layer.Layer<Tinker.Tinker | Tokenizers.Tokenizers, unknown>) =>
  Layer.unwrapEffect(
    Effect.map(
      baseUrl,
      (url): Layer.Layer<Tinker.Tinker | Tokenizers.Tokenizers, unknown> => url === "" ? local : Hosted
    )
  )

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

/**
 * Where training takes place: on this machine, or at the hosted service once TINKER_API_KEY is set.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import type { Tokenizers } from "@effect-tinker/tokenizer"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import { Config, Effect, Layer } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

const isHosted = Effect.isSuccess(Config.string("TINKER_API_KEY"))

/** A small model that comes with the package; "HuggingFaceTB/SmolLM2-135M-Instruct" is a real one for this machine. */
const localModel = "local/chat"

/** The model to train. Large models want a learning rate of about 1e-4. */
export const model = Effect.map(isHosted, (hosted) => hosted ? "Qwen/Qwen3-8B" : localModel)

const layer = (hosted: boolean): Layer.Layer<Tinker.Tinker | Tokenizers.Tokenizers, unknown> =>
  hosted
    ? Layer.merge(Tinker.layerFromEnv(), NodeTokenizers.layer()).pipe(Layer.provide(NodeTinker.layerFromEnv()))
    : NodeTinkerLocal.layerInProcess({
      directory: ".tinker", // keeps the checkpoints
      ...(localModel.startsWith("local/") ? {} : { models: [localModel] })
    })

/** The clients, and the tokenizers of the models. */
export const Backend = Layer.unwrapEffect(Effect.map(isHosted, layer))

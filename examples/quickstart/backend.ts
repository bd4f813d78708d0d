/**
 * Where the quickstart does its work: in this process, or on the server that `TINKER_BASE_URL` names.
 */
import { LocalTokenizer } from "@effect-tinker/local"
import type { Tokenizers } from "@effect-tinker/tokenizer"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import { Config, Effect, Layer } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

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

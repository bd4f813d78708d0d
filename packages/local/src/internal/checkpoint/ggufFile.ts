/**
 * A GGUF file as a model: its metadata as a configuration, its tensors under the names of Hugging Face checkpoints and in
 * their order of rows.
 */
import * as GgufModel from "@effect-tinker/weights/GgufModel"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import { ModelUnavailable } from "../../EngineError.js"
import { ModelConfig } from "./config.js"
import type { Services, Source } from "./source.js"

const decodeConfig = ParseResult.decodeUnknown(ModelConfig)

// Values read at a time: some milliseconds of work, which is worth opening the file.
const chunkValues = 1 << 21

/** Opens a file; `name` is what errors call the model. @internal */
export const fromGguf: (file: string, name: string) => Effect.Effect<Source, ModelUnavailable, Services> = Effect
  .fnUntraced(function*(file, name) {
    const refuse = (description: string) => new ModelUnavailable({ model: name, description })
    const reason = (error: { readonly message: string }) => refuse(error.message)
    const withServices = Effect.provide(yield* Effect.context<Services>())
    const gguf = yield* Effect.mapError(GgufModel.open(file), reason)
    const config = yield* Effect.mapError(
      decodeConfig(gguf.config),
      (issue) => refuse(`the metadata is incomplete: ${ParseResult.TreeFormatter.formatIssueSync(issue)}`)
    )
    const { divisors, file: { metadata }, tensors, tokenizer } = gguf
    const headSize = config.head_dim ?? config.hidden_size / config.num_attention_heads
    const token = (kind: string): number | undefined => {
      const value = metadata.get(`tokenizer.ggml.${kind}_token_id`)
      return typeof value === "number" ? value : undefined
    }
    return {
      config,
      endTokens: [token("eos"), token("eot")].filter((token) => token !== undefined),
      tokenizer,
      tokenizerFiles: gguf.files,
      shapes: new Map(Array.from(tensors, ([tensor, { shape }]) => [tensor, shape])),
      precision: precisionOf(tensors),
      divisors,
      read: (tensor, receive) =>
        Effect.gen(function*() {
          const shape = tensors.get(tensor)?.shape
          if (shape === undefined) return yield* refuse(`the tensor ${tensor} is missing`)
          const columns = shape.at(-1) ?? 1
          const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1)
          // whole heads: those of queries and keys are read as wholes
          const heads = Math.max(1, Math.floor(chunkValues / columns / headSize))
          for (let from = 0; from < rows; from += heads * headSize) {
            const count = Math.min(heads * headSize, rows - from)
            receive(yield* Effect.mapError(gguf.floats(tensor, from, count), reason), from * columns)
            yield* Effect.yieldNow()
          }
        }).pipe(withServices)
    } satisfies Source
  })

const precisionOf = (tensors: GgufModel.GgufModel["tensors"]): Source["precision"] => {
  const stored = tensors.get("model.layers.0.mlp.down_proj.weight")?.format
  // what was rounded to few bits is not made worse by rounding the result to sixteen
  return stored === "F32" ? "f32" : stored === "F16" ? "f16" : "bf16"
}

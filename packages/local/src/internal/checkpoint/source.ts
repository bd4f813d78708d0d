/**
 * The files of a model behind one interface: its configuration, tokenizer, and tensors by the names of Hugging Face
 * checkpoints, whether they lie in a directory or in one GGUF file.
 */
import * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ModelUnavailable } from "../../EngineError.js"
import type * as LocalModel from "../../LocalModel.js"
import type { ModelConfig } from "./config.js"
import { measure } from "./config.js"

/** @internal */
export type Services = FileSystem.FileSystem | Path.Path

/** @internal */
export interface Source {
  readonly config: ModelConfig
  /** Tokens that end a sequence, as far as the files name them. */
  readonly endTokens: ReadonlyArray<number>
  readonly tokenizer: {
    readonly tokenizerJson: unknown
    readonly tokenizerConfig: unknown
    readonly chatTemplate: string | undefined
  }
  /** Files of the tokenizer for clients that load it themselves. */
  readonly tokenizerFiles: ReadonlyMap<string, string>
  /** Shapes of the tensors that are there. */
  readonly shapes: ReadonlyMap<string, ReadonlyArray<number>>
  /** Format in which most of the weights are stored. */
  readonly precision: LocalModel.Weights["precision"]
  readonly read: LocalModel.Weights["read"]
  /** Divisors of the frequencies, where a file has them instead of a rule. */
  readonly divisors?: ReadonlyArray<number> | undefined
}

// Models this small take the learning rates of large ones only with large steps.
const smallModel = 20e6

/** The model of a source, when all that the engine will ask for is there in the right shape. @internal */
export const assemble = Effect.fnUntraced(function*(
  name: string,
  source: Source,
  options: { readonly contextLength?: number | undefined; readonly quantize?: "int8" | undefined } = {}
): Effect.fn.Return<LocalModel.LocalModel, ModelUnavailable> {
  const refuse = (description: string) => new ModelUnavailable({ model: name, description })
  const measures = yield* Effect.mapError(measure(source.config, options.contextLength), (problem) => refuse(problem))
  const { chatTemplate, tokenizerConfig, tokenizerJson } = source.tokenizer
  const tokenizer = yield* Tokenizer.fromHuggingFace({
    id: name,
    tokenizerJson,
    tokenizerConfig,
    ...(chatTemplate === undefined ? {} : { chatTemplates: { default: chatTemplate } })
  }).pipe(Effect.mapError((error) => refuse(`the tokenizer cannot be loaded: ${error.message}`)))
  if (tokenizer.vocabSize > measures.vocabularySize) {
    return yield* refuse(`the tokenizer has ${tokenizer.vocabSize} tokens, the model ${measures.vocabularySize}`)
  }
  const ends = new Set(source.endTokens)
  for (const spelling of [tokenizer.specialTokens.eos, ...turnEnds.map(Option.some)]) {
    const token = Option.flatMap(spelling, tokenizer.tokenToId)
    if (Option.isSome(token)) ends.add(token.value)
  }
  const model: LocalModel.LocalModel = {
    ...measures,
    ...(source.divisors === undefined
      ? {}
      : { rotation: { theta: measures.rotation.theta, divisors: source.divisors } }),
    name,
    endTokens: Array.from(ends),
    tokenizer,
    tokenizerFiles: source.tokenizerFiles,
    lora: { alpha: 32, rankStabilized: false },
    weights: { precision: source.precision, read: source.read },
    quantize: options.quantize
  }
  const expected = expectedTensors(model)
  for (const [tensor, shape] of expected) {
    const found = source.shapes.get(tensor)
    if (found === undefined) return yield* refuse(`the tensor ${tensor} is missing`)
    if (found.length !== shape.length || found.some((size, axis) => size !== shape[axis])) {
      return yield* refuse(`${tensor} has shape [${found.join(", ")}], expected [${shape.join(", ")}]`)
    }
  }
  const parameters = expected.reduce((sum, [, shape]) => sum + shape.reduce((product, n) => product * n, 1), 0)
  return parameters < smallModel ? { ...model, lora: { alpha: 181, rankStabilized: true } } : model
})

/** Tokens that end a turn in the chat templates of the families, which some configurations forget. */
const turnEnds = ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"]

/** The tensors of a model with their shapes. */
const expectedTensors = (
  model: LocalModel.LocalModel
): ReadonlyArray<readonly [name: string, shape: ReadonlyArray<number>]> => {
  const { headSize, heads, hidden, keyValueHeads, layers, vocabularySize, width } = model
  const queries = heads * headSize
  const keys = keyValueHeads * headSize
  const block = (at: string): ReadonlyArray<readonly [string, ReadonlyArray<number>]> => [
    [`${at}.input_layernorm.weight`, [width]],
    [`${at}.post_attention_layernorm.weight`, [width]],
    ...(model.resultNorms
      ? [
        [`${at}.pre_feedforward_layernorm.weight`, [width]],
        [`${at}.post_feedforward_layernorm.weight`, [width]]
      ] as const
      : []),
    ...(model.layout === "fused"
      ? [
        [`${at}.self_attn.qkv_proj.weight`, [queries + 2 * keys, width]],
        [`${at}.mlp.gate_up_proj.weight`, [2 * hidden, width]]
      ] as const
      : [
        [`${at}.self_attn.q_proj.weight`, [queries, width]],
        [`${at}.self_attn.k_proj.weight`, [keys, width]],
        [`${at}.self_attn.v_proj.weight`, [keys, width]],
        [`${at}.mlp.gate_proj.weight`, [hidden, width]],
        [`${at}.mlp.up_proj.weight`, [hidden, width]]
      ] as const),
    ...(model.queryKeyValueBiases
      ? [
        [`${at}.self_attn.q_proj.bias`, [queries]],
        [`${at}.self_attn.k_proj.bias`, [keys]],
        [`${at}.self_attn.v_proj.bias`, [keys]]
      ] as const
      : []),
    [`${at}.self_attn.o_proj.weight`, [width, queries]],
    [`${at}.mlp.down_proj.weight`, [width, hidden]],
    ...(model.queryKeyNorms
      ? [[`${at}.self_attn.q_norm.weight`, [headSize]], [`${at}.self_attn.k_norm.weight`, [headSize]]] as const
      : [])
  ]
  return [
    ["model.embed_tokens.weight", [vocabularySize, width]],
    ["model.norm.weight", [width]],
    ...(model.tiedEmbeddings ? [] : [["lm_head.weight", [vocabularySize, width]] as const]),
    ...Array.from({ length: layers }, (_, layer) => block(`model.layers.${layer}`)).flat()
  ]
}

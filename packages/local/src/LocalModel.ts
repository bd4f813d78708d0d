/**
 * The models the embedded backend can train: two tiny ones with frozen random weights for tests, and any checkpoint of
 * a supported family that `LocalCheckpoint` reads.
 *
 * @since 0.1.0
 */
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type * as Effect from "effect/Effect"
import type * as EngineError from "./EngineError.js"
import * as LocalTokenizer from "./LocalTokenizer.js"

/**
 * How positions turn queries and keys.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rotation {
  /** Base of the frequencies. */
  readonly theta: number
  /** Divisor of each pair's frequency, where the model scales them to longer contexts. Defaults to 1 for all. */
  readonly divisors?: ReadonlyArray<number> | undefined
  /** How many dimensions of each head are rotated, the first ones; a multiple of eight. Defaults to all. */
  readonly dimensions?: number | undefined
  /** Factor of the rotated dimensions. Defaults to 1. */
  readonly scale?: number | undefined
}

/**
 * The weights of a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export interface Weights {
  /** Precision in which they are stored, and kept in memory. */
  readonly precision: "f32" | "bf16" | "f16"
  /**
   * Gives the values of a tensor in pieces of bounded size, with their position in the tensor. Numbers of 16 bits are given
   * as their bits, in the precision above.
   */
  readonly read: (
    tensor: string,
    receive: (values: Float32Array | Uint16Array, offset: number) => void
  ) => Effect.Effect<void, EngineError.ModelUnavailable>
}

/**
 * A model by its measurements.
 *
 * @since 0.1.0
 * @category models
 */
export interface LocalModel {
  /** The name clients ask for. */
  readonly name: string
  /** Kind of the model: `local` for the random ones, else the family of the checkpoint. */
  readonly family: "local" | "llama" | "mistral" | "qwen2" | "qwen3" | "phi3" | "gemma3_text"
  /** The longest sequence, prompt and completion together, in tokens. */
  readonly contextLength: number
  readonly vocabularySize: number
  /** Width of the residual stream. */
  readonly width: number
  readonly layers: number
  readonly heads: number
  /** Heads of keys and values; each serves the same number of query heads. */
  readonly keyValueHeads: number
  readonly headSize: number
  /** Width of the hidden layer of each block. */
  readonly hidden: number
  readonly activation: "swiglu" | "geglu" | "relu2"
  /** Whether queries and keys are normalized per head. */
  readonly queryKeyNorms: boolean
  /** Whether the projections of queries, keys and values have biases. */
  readonly queryKeyValueBiases: boolean
  /** Whether a checkpoint has `qkv_proj` and `gate_up_proj` in one matrix each, which adapters then train as a whole. */
  readonly layout: "separate" | "fused"
  /** Whether the results of attention and of the hidden layer are normalized before they are added. */
  readonly resultNorms: boolean
  readonly normEpsilon: number
  /** Factor of the products of queries and keys. */
  readonly attentionScale: number
  /** Factor of the embeddings. */
  readonly embeddingScale: number
  readonly rotation: Rotation
  /** Another rotation for some layers, by layer. Defaults to none. */
  readonly local?: { readonly rotation: Rotation; readonly layers: ReadonlyArray<boolean> } | undefined
  /** Layers that attend to the last `size` tokens only, by layer. Defaults to none. */
  readonly window?: { readonly size: number; readonly layers: ReadonlyArray<boolean> } | undefined
  /** Whether the unembedding is the embedding table. */
  readonly tiedEmbeddings: boolean
  /** The scale of adapters: alpha over the rank, or over its square root. */
  readonly lora: { readonly alpha: number; readonly rankStabilized: boolean }
  /** The tokens that end a sequence when a request names no stops. */
  readonly endTokens: ReadonlyArray<number>
  /** The tokenizer; absent for the models that read bytes, whose tokenizer is `LocalTokenizer`. */
  readonly tokenizer?: Tokenizer.Tokenizer | undefined
  /** The files of that tokenizer by name, for clients that load it themselves. */
  readonly tokenizerFiles?: ReadonlyMap<string, string> | undefined
  /** Where the weights come from; absent for random ones. */
  readonly weights?: Weights | undefined
  /** Keeps frozen matrices in eight bits, with a scale for each output. Defaults to the precision of the weights. */
  readonly quantize?: "int8" | undefined
}

/**
 * A model with random weights that reads bytes. The same measurements always give the same weights.
 *
 * @since 0.1.0
 * @category constructors
 */
export const random = (
  measures: Pick<LocalModel, "name" | "contextLength" | "width" | "layers" | "heads" | "hidden">
): LocalModel => ({
  ...measures,
  family: "local",
  vocabularySize: LocalTokenizer.vocabularySize,
  keyValueHeads: measures.heads,
  headSize: measures.width / measures.heads,
  activation: "relu2",
  queryKeyNorms: false,
  queryKeyValueBiases: false,
  layout: "separate",
  resultNorms: false,
  normEpsilon: 1e-5,
  attentionScale: (measures.width / measures.heads) ** -0.5,
  embeddingScale: 1,
  rotation: { theta: 10000 },
  tiedEmbeddings: false,
  // The square root keeps the size of a step the same for every rank; the constant makes the learning rates of large
  // models (1e-4 and up) work for small ones.
  lora: { alpha: 181, rankStabilized: true },
  endTokens: LocalTokenizer.endTokens
})

/**
 * The smallest model: for tests and for a first try of a training loop.
 *
 * @since 0.1.0
 * @category models
 */
export const tiny: LocalModel = random({
  name: "local/tiny",
  contextLength: 1024,
  width: 64,
  layers: 2,
  heads: 2,
  hidden: 256
})

/**
 * The larger random model, about three times slower than `tiny`: learns faster and remembers more.
 *
 * @since 0.1.0
 * @category models
 */
export const small: LocalModel = random({
  name: "local/small",
  contextLength: 1024,
  width: 96,
  layers: 3,
  heads: 3,
  hidden: 384
})

/**
 * The models that need no files, smallest first.
 *
 * @since 0.1.0
 * @category models
 */
export const all: ReadonlyArray<LocalModel> = [tiny, small]

/**
 * The number of frozen weights.
 *
 * @since 0.1.0
 * @category combinators
 */
export const parameterCount = (model: LocalModel): number => {
  const { activation, headSize, heads, hidden, keyValueHeads, layers, tiedEmbeddings, vocabularySize, width } = model
  const attention = 2 * width * headSize * (heads + keyValueHeads)
  return (tiedEmbeddings ? 1 : 2) * vocabularySize * width +
    layers * (attention + (activation === "relu2" ? 2 : 3) * width * hidden)
}

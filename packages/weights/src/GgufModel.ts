/**
 * A GGUF file as the Hugging Face directory of the same model would be: a configuration, the files of the tokenizer, and
 * tensors under their names there, with rows in their order.
 *
 * @since 0.2.0
 */
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as GgufFile from "./GgufFile.js"
import * as names from "./internal/ggufNames.js"
import { llama3Factors } from "./internal/rope.js"
import { type InvalidFile, UnsupportedFormat } from "./WeightsError.js"

/**
 * A model whose header has been read. No handle stays open.
 *
 * @since 0.2.0
 * @category models
 */
export interface GgufModel {
  readonly file: GgufFile.GgufFile
  /** llama.cpp's name of the architecture. */
  readonly architecture: string
  /** Fields of `config.json`, as far as the metadata has them. */
  readonly config: Readonly<Record<string, unknown>>
  readonly tokenizer: GgufFile.TokenizerFiles
  /** Text files of a directory: the configuration, the tokenizer and the chat template. */
  readonly files: ReadonlyMap<string, string>
  /** By their names in a directory; those of `GgufFile` are in `name`. */
  readonly tensors: ReadonlyMap<string, GgufFile.TensorInfo>
  /** Divisors of the rotary frequencies, where the file has them in place of a rule. */
  readonly divisors: ReadonlyArray<number> | undefined
  /**
   * Rows of a tensor in the order of a directory. Gains of normalizations are as the file has them: Gemma's are one more
   * than in a directory.
   */
  readonly floats: (
    tensor: string,
    firstRow: number,
    rows: number
  ) => Effect.Effect<Float32Array, PlatformError.PlatformError | InvalidFile, FileSystem.FileSystem>
}

/** Names in configurations, by llama.cpp's names of architectures. */
const families: Readonly<Record<string, { readonly modelType: string; readonly model: string }>> = {
  llama: { modelType: "llama", model: "LlamaForCausalLM" },
  qwen2: { modelType: "qwen2", model: "Qwen2ForCausalLM" },
  qwen3: { modelType: "qwen3", model: "Qwen3ForCausalLM" },
  phi3: { modelType: "phi3", model: "Phi3ForCausalLM" },
  gemma3: { modelType: "gemma3_text", model: "Gemma3ForCausalLM" }
}

type Metadata = GgufFile.GgufFile["metadata"]

const numberOf = (metadata: Metadata, key: string): number | undefined => {
  const value = metadata.get(key)
  // some architectures have one value for each layer; where all are equal, it is as good as one
  if (Array.isArray(value)) {
    const [first] = value
    return typeof first === "number" && value.every((one) => one === first) ? first : undefined
  }
  return typeof value === "number" ? value : undefined
}

/** Llama 3's rule, where it gives these divisors: files keep what follows from it, directories keep the rule. */
const llama3Scaling = (divisors: ReadonlyArray<number>, base: number, headSize: number) => {
  const rule = {
    rope_type: "llama3",
    factor: Math.max(...divisors),
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 8192
  }
  const expected = llama3Factors(rule, base, headSize)
  const same = expected.length === divisors.length &&
    expected.every((divisor, i) => Math.abs(divisor / (divisors[i] ?? NaN) - 1) < 1e-3)
  return same ? rule : undefined
}

const configOf = (
  architecture: string,
  { metadata, tensors }: GgufFile.GgufFile,
  divisors: ReadonlyArray<number> | undefined
): Readonly<Record<string, unknown>> => {
  const own = (key: string) => numberOf(metadata, `${architecture}.${key}`)
  const family = families[architecture]
  const scaling = metadata.get(`${architecture}.rope.scaling.type`)
  const heads = own("attention.head_count")
  const rotated = own("rope.dimension_count")
  // Phi-4-mini rotates a part of each head
  const whole = architecture === "phi3" ? undefined : rotated
  const headSize = own("attention.key_length") ?? whole ?? (own("embedding_length") ?? NaN) / (heads ?? NaN)
  const theta = own("rope.freq_base")
  const rule = divisors === undefined ? undefined : llama3Scaling(divisors, theta ?? 10_000, headSize)
  const token = (name: string) => numberOf(metadata, `tokenizer.ggml.${name}_token_id`)
  return {
    model_type: family?.modelType,
    architectures: family === undefined ? [] : [family.model],
    vocab_size: tensors.get("token_embd.weight")?.shape[0],
    hidden_size: own("embedding_length"),
    intermediate_size: own("feed_forward_length"),
    num_hidden_layers: own("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: own("attention.head_count_kv") ?? heads,
    head_dim: headSize,
    ...(architecture === "phi3" && rotated !== undefined && rotated !== headSize
      ? { partial_rotary_factor: rotated / headSize }
      : {}),
    max_position_embeddings: own("context_length"),
    rms_norm_eps: own("attention.layer_norm_rms_epsilon"),
    tie_word_embeddings: !tensors.has("output.weight"),
    ...(own("attention.sliding_window") === undefined ? {} : { sliding_window: own("attention.sliding_window") }),
    rope_theta: theta,
    ...(architecture === "gemma3" ? { rope_local_base_freq: 10_000 } : {}),
    ...(typeof scaling === "string" && scaling !== "none"
      ? {
        rope_scaling: {
          rope_type: scaling,
          factor: own("rope.scaling.factor"),
          ...(own("rope.scaling.original_context_length") === undefined
            ? {}
            : { original_max_position_embeddings: own("rope.scaling.original_context_length") })
        }
      }
      : rule === undefined
      ? {}
      : { rope_scaling: rule }),
    ...(token("bos") === undefined ? {} : { bos_token_id: token("bos") }),
    ...(token("eos") === undefined ? {} : { eos_token_id: token("eos") })
  }
}

/** Where a row of a directory is in the file, whose rotary halves alternate head by head. */
const interleaved = (row: number, headSize: number): number => {
  const within = row % headSize
  const half = headSize / 2
  return row - within + 2 * (within % half) + (within < half ? 0 : 1)
}

/**
 * Opens a file. Architectures are those of the embedded backend: Llama and models of its shape, Qwen 2 and 3, Phi-3,
 * Gemma 3.
 *
 * @since 0.2.0
 * @category constructors
 */
export const open: (
  path: string
) => Effect.Effect<
  GgufModel,
  PlatformError.PlatformError | InvalidFile | UnsupportedFormat,
  FileSystem.FileSystem
> = Effect.fnUntraced(function*(path) {
  const file = yield* GgufFile.open(path)
  const architecture = String(file.metadata.get("general.architecture"))
  if (families[architecture] === undefined) {
    return yield* new UnsupportedFormat({
      description: `the architecture is ${JSON.stringify(architecture)}; supported are ${
        Object.keys(families).join(", ")
      }`
    })
  }
  if (file.tensors.has("rope_factors_short.weight")) {
    return yield* new UnsupportedFormat({
      description: `${path}: Phi-3's scaling to long contexts is read from a Hugging Face directory, not from GGUF`
    })
  }
  const tokenizer = yield* file.tokenizer
  const divisors = file.tensors.has("rope_freqs.weight")
    ? Array.from(yield* file.floats("rope_freqs.weight", 0, 1))
    : undefined
  const config = configOf(architecture, file, divisors)
  const headSize = Number(config["head_dim"])
  const tensors = new Map<string, GgufFile.TensorInfo>()
  for (const [stored, info] of file.tensors) {
    const name = names.huggingFaceName(architecture, stored)
    if (name !== undefined) tensors.set(name, info)
  }
  return {
    file,
    architecture,
    config,
    tokenizer,
    files: new Map([
      ["config.json", JSON.stringify(config, null, 2)],
      ["tokenizer.json", JSON.stringify(tokenizer.tokenizerJson)],
      ["tokenizer_config.json", JSON.stringify(tokenizer.tokenizerConfig, null, 2)],
      ...(tokenizer.chatTemplate === undefined ? [] : [["chat_template.jinja", tokenizer.chatTemplate] as const])
    ]),
    tensors,
    divisors,
    floats: Effect.fnUntraced(function*(name, firstRow, rows) {
      const info = tensors.get(name)
      const stored = info?.name ?? name
      const columns = info?.shape.at(-1) ?? 1
      if (info === undefined || info.shape.length < 2 || !names.isInterleaved(architecture, stored)) {
        return yield* file.floats(stored, firstRow, rows)
      }
      // whole heads, since the rows of each are in another order
      const from = firstRow - firstRow % headSize
      const to = Math.min(info.shape[0] ?? 0, Math.ceil((firstRow + rows) / headSize) * headSize)
      const values = yield* file.floats(stored, from, Math.max(to - from, firstRow + rows - from))
      const out = new Float32Array(rows * columns)
      for (let row = 0; row < rows; row++) {
        const source = (interleaved(firstRow + row, headSize) - from) * columns
        out.set(values.subarray(source, source + columns), row * columns)
      }
      return out
    })
  }
})

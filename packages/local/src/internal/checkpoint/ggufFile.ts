/**
 * A GGUF file as a model: its metadata as a configuration, its tensors under the names of Hugging Face checkpoints and in
 * their order of rows.
 */
import * as GgufFile from "@effect-tinker/weights/GgufFile"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import { ModelUnavailable } from "../../EngineError.js"
import { ModelConfig } from "./config.js"
import type { Services, Source } from "./source.js"

/** Names of the families by llama.cpp's names of architectures. */
const modelTypes: Readonly<Record<string, string>> = {
  llama: "llama",
  qwen2: "qwen2",
  qwen3: "qwen3",
  phi3: "phi3",
  gemma3: "gemma3_text"
}

const decodeConfig = ParseResult.decodeUnknown(ModelConfig)

// Values read at a time: some milliseconds of work, which is worth opening the file.
const chunkValues = 1 << 21

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

/** What `config.json` of the same model would say. */
const configOf = (
  architecture: string,
  modelType: string,
  { metadata, tensors }: Pick<GgufFile.GgufFile, "metadata" | "tensors">
): unknown => {
  const own = (key: string) => numberOf(metadata, `${architecture}.${key}`)
  const scaling = metadata.get(`${architecture}.rope.scaling.type`)
  const heads = own("attention.head_count")
  return {
    model_type: modelType,
    vocab_size: tensors.get("token_embd.weight")?.shape[0],
    hidden_size: own("embedding_length"),
    intermediate_size: own("feed_forward_length"),
    num_hidden_layers: own("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: own("attention.head_count_kv") ?? heads,
    head_dim: own("attention.key_length") ?? own("rope.dimension_count"),
    max_position_embeddings: own("context_length"),
    rms_norm_eps: own("attention.layer_norm_rms_epsilon"),
    tie_word_embeddings: !tensors.has("output.weight"),
    sliding_window: own("attention.sliding_window"),
    rope_theta: own("rope.freq_base"),
    ...(architecture === "gemma3" ? { rope_local_base_freq: 10000 } : {}),
    ...(typeof scaling === "string" && scaling !== "none"
      ? { rope_scaling: { rope_type: scaling, factor: own("rope.scaling.factor") } }
      : {})
  }
}

/** Opens a file; `name` is what errors call the model. @internal */
export const fromGguf: (file: string, name: string) => Effect.Effect<Source, ModelUnavailable, Services> = Effect
  .fnUntraced(function*(file, name) {
    const refuse = (description: string) => new ModelUnavailable({ model: name, description })
    const reason = (error: { readonly message: string }) => refuse(error.message)
    const withServices = Effect.provide(yield* Effect.context<Services>())
    const gguf = yield* Effect.mapError(GgufFile.open(file), reason)
    const { metadata, tensors } = gguf
    const architecture = String(metadata.get("general.architecture"))
    const modelType = modelTypes[architecture]
    if (modelType === undefined) {
      return yield* refuse(
        `the architecture is ${JSON.stringify(architecture)}; supported are ${Object.keys(modelTypes).join(", ")}`
      )
    }
    const config = yield* Effect.mapError(
      decodeConfig(configOf(architecture, modelType, gguf)),
      (issue) => refuse(`the metadata is incomplete: ${ParseResult.TreeFormatter.formatIssueSync(issue)}`)
    )
    const tokenizer = yield* Effect.mapError(gguf.tokenizer, reason)
    const headSize = config.head_dim ?? config.hidden_size / config.num_attention_heads

    const shapes = new Map<string, ReadonlyArray<number>>()
    const stored = new Map<string, string>()
    for (const tensor of tensorNames(config)) {
      const found = tensors.get(GgufFile.tensorName(architecture, tensor) ?? "")
      if (found === undefined) continue
      shapes.set(tensor, found.shape)
      stored.set(tensor, found.name)
    }
    const divisors = tensors.has("rope_freqs.weight")
      ? Array.from(yield* Effect.mapError(gguf.floats("rope_freqs.weight", 0, 1), reason))
      : undefined
    const end = numberOf(metadata, "tokenizer.ggml.eos_token_id")
    const turnEnd = numberOf(metadata, "tokenizer.ggml.eot_token_id")
    return {
      config,
      endTokens: [end, turnEnd].filter((token) => token !== undefined),
      tokenizer,
      tokenizerFiles: new Map([
        ["config.json", JSON.stringify(config)],
        ["tokenizer.json", JSON.stringify(tokenizer.tokenizerJson)],
        ["tokenizer_config.json", JSON.stringify(tokenizer.tokenizerConfig)],
        ...(tokenizer.chatTemplate === undefined ? [] : [["chat_template.jinja", tokenizer.chatTemplate] as const])
      ]),
      shapes,
      precision: precisionOf(tensors),
      divisors,
      read: (tensor, receive) =>
        Effect.gen(function*() {
          const source = stored.get(tensor)
          const shape = shapes.get(tensor)
          if (source === undefined || shape === undefined) return yield* refuse(`the tensor ${tensor} is missing`)
          const columns = shape.at(-1) ?? 1
          const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1)
          const interleaved = shape.length > 1 && GgufFile.isInterleaved(architecture, source)
          const fitting = Math.max(1, Math.floor(chunkValues / columns))
          for (let from = 0; from < rows; from += fitting) {
            const count = Math.min(fitting, rows - from)
            const values = yield* Effect.mapError(gguf.floats(source, from, count), reason)
            if (!interleaved) receive(values, from * columns)
            else {
              for (let row = 0; row < count; row++) {
                const to = straightened(from + row, headSize)
                receive(values.subarray(row * columns, (row + 1) * columns), to * columns)
              }
            }
            yield* Effect.yieldNow()
          }
        }).pipe(withServices)
    } satisfies Source
  })

/** Where a row of queries or keys, whose halves alternate in the file, is in a Hugging Face checkpoint. */
const straightened = (row: number, headSize: number): number => {
  const within = row % headSize
  return row - within + (within >> 1) + (within & 1) * headSize / 2
}

const precisionOf = (tensors: GgufFile.GgufFile["tensors"]): Source["precision"] => {
  const embedding = tensors.get("blk.0.ffn_down.weight")?.format
  // what was rounded to few bits is not made worse by rounding the result to sixteen
  return embedding === "F32" ? "f32" : embedding === "F16" ? "f16" : "bf16"
}

/** All names that a model of the configuration may have. */
const tensorNames = (config: ModelConfig): ReadonlyArray<string> => [
  "model.embed_tokens.weight",
  "model.norm.weight",
  "lm_head.weight",
  ...Array.from({ length: config.num_hidden_layers }, (_, layer) =>
    [
      "input_layernorm.weight",
      "post_attention_layernorm.weight",
      ...(config.model_type === "gemma3_text"
        ? ["pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"]
        : []),
      "self_attn.q_norm.weight",
      "self_attn.k_norm.weight",
      ...["q_proj", "k_proj", "v_proj"].flatMap((name) => [`self_attn.${name}.weight`, `self_attn.${name}.bias`]),
      "self_attn.qkv_proj.weight",
      "self_attn.o_proj.weight",
      ...["gate_proj", config.model_type === "phi3" ? "gate_up_proj" : "up_proj", "down_proj"].map((name) =>
        `mlp.${name}.weight`
      )
    ].map((name) => `model.layers.${layer}.${name}`)).flat()
]

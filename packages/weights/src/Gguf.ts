/**
 * GGUF files for llama.cpp and what is built on it (Ollama, LM Studio): a model with its vocabulary and chat template,
 * or a LoRA adapter to load beside one. Llama, Mistral, Qwen2 and Qwen3, dense and mixture of experts.
 *
 * Smaller formats than q8_0 are made from these files by llama.cpp itself: `llama-quantize model-f16.gguf Q4_K_M`.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Adapter from "./Adapter.js"
import * as files from "./internal/files.js"
import * as format from "./internal/ggufFormat.js"
import { ggufName, isInterleaved } from "./internal/ggufNames.js"
import * as ggufTokenizer from "./internal/ggufTokenizer.js"
import * as numbers from "./internal/numbers.js"
import { llama3Factors, type Llama3Scaling } from "./internal/rope.js"
import * as MergedModel from "./MergedModel.js"
import type { AdapterMismatch, InvalidFile } from "./WeightsError.js"
import { OutputExists, UnsupportedFormat } from "./WeightsError.js"

/**
 * Format of the matrices; vectors are always float32.
 *
 * @since 0.1.0
 * @category models
 */
export type Format = "f32" | "f16" | "bf16" | "q8_0"

/**
 * Which model, and where to.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface ModelOptions extends MergedModel.Options {
  /** File to write; must not exist. */
  readonly output: string
  /** Defaults to `f16`. */
  readonly format?: Format | undefined
  /** Shown by programs that load the file. Defaults to the name of the base directory. */
  readonly name?: string | undefined
  /** Name llama.cpp has for the tokenizer's pre-tokenizer, where it is not recognised. */
  readonly preTokenizer?: string | undefined
}

/**
 * How far it is.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  | { readonly _tag: "Planned"; readonly tensors: number; readonly bytes: number }
  | { readonly _tag: "Progress"; readonly written: number; readonly bytes: number; readonly tensor: string }
  | { readonly _tag: "Completed"; readonly file: string; readonly bytes: number }

/**
 * Failures of writing.
 *
 * @since 0.1.0
 * @category errors
 */
export type Failure = MergedModel.ReadError | AdapterMismatch | InvalidFile | UnsupportedFormat | OutputExists

type Services = FileSystem.FileSystem | Path.Path

type Architecture = "llama" | "qwen2" | "qwen3" | "qwen3moe"

const architectures: Readonly<Record<string, Architecture>> = {
  llama: "llama",
  // llama.cpp makes no difference between the two
  mistral: "llama",
  qwen2: "qwen2",
  qwen3: "qwen3",
  qwen3_moe: "qwen3moe"
}

const fileTypes: Readonly<Record<Format, { readonly ggml: format.GgmlType; readonly fileType: number }>> = {
  f32: { ggml: "F32", fileType: 0 },
  f16: { ggml: "F16", fileType: 1 },
  q8_0: { ggml: "Q8_0", fileType: 7 },
  bf16: { ggml: "BF16", fileType: 32 }
}

type Config = Readonly<Record<string, unknown>>

const numberOf = (config: Config, key: string): number | undefined => {
  const value = config[key]
  return typeof value === "number" ? value : undefined
}

const recordOf = (config: Config, key: string): Config => {
  const value = config[key]
  return typeof value === "object" && value !== null ? { ...value } : {}
}

interface Shape {
  readonly architecture: Architecture
  readonly headSize: number
  readonly metadata: Readonly<Record<string, format.Value>>
  /** Per-frequency factors of Llama 3's rope scaling. */
  readonly ropeFactors: ReadonlyArray<number> | undefined
}

/** The scaling of a configuration, with Llama 3.1's values where it says nothing. */
const llama3Of = (scaling: Config, base: number, headSize: number): ReadonlyArray<number> => {
  const setting = (key: keyof Llama3Scaling, fallback: number) => numberOf(scaling, key) ?? fallback
  return llama3Factors(
    {
      factor: setting("factor", 8),
      low_freq_factor: setting("low_freq_factor", 1),
      high_freq_factor: setting("high_freq_factor", 4),
      original_max_position_embeddings: setting("original_max_position_embeddings", 8192)
    },
    base,
    headSize
  )
}

const shapeOf = (config: Config, name: string, fileType: number): Effect.Effect<Shape, UnsupportedFormat> => {
  const modelType = String(config["model_type"])
  const architecture = architectures[modelType]
  if (architecture === undefined) {
    return new UnsupportedFormat({
      description: `GGUF of ${modelType} models is not supported (only ${Object.keys(architectures).join(", ")}); ` +
        "merge to safetensors and use llama.cpp's convert_hf_to_gguf.py"
    })
  }
  const need = (key: string): number => numberOf(config, key) ?? NaN
  const heads = need("num_attention_heads")
  const keyHeads = numberOf(config, "num_key_value_heads") ?? heads
  const hidden = need("hidden_size")
  const headSize = numberOf(config, "head_dim") ?? hidden / heads
  const parameters = recordOf(config, "rope_parameters")
  const scaling = Object.keys(parameters).length > 0 ? parameters : recordOf(config, "rope_scaling")
  const base = numberOf(config, "rope_theta") ?? numberOf(parameters, "rope_theta") ?? 10_000
  const kind = String(scaling["rope_type"] ?? scaling["type"] ?? "default")
  if (!["default", "llama3", "linear", "yarn"].includes(kind)) {
    return new UnsupportedFormat({ description: `rope scaling of type ${kind} cannot be written yet` })
  }
  const experts = numberOf(config, "num_experts") ?? numberOf(config, "num_local_experts")
  if (architecture === "qwen3moe" && config["norm_topk_prob"] === false) {
    return new UnsupportedFormat({
      description: "llama.cpp normalises the weights of the chosen experts, this model does not (norm_topk_prob)"
    })
  }
  const u32 = (value: number) => format.u32(value)
  const values: Record<string, format.Value> = {
    context_length: u32(need("max_position_embeddings")),
    embedding_length: u32(hidden),
    block_count: u32(need("num_hidden_layers")),
    feed_forward_length: u32(need("intermediate_size")),
    "attention.head_count": u32(heads),
    "attention.head_count_kv": u32(keyHeads),
    "attention.key_length": u32(headSize),
    "attention.value_length": u32(headSize),
    "attention.layer_norm_rms_epsilon": format.f32(need("rms_norm_eps")),
    "rope.freq_base": format.f32(base),
    vocab_size: u32(need("vocab_size")),
    ...(architecture === "llama" ? { "rope.dimension_count": u32(headSize) } : {}),
    ...(experts === undefined || architecture !== "qwen3moe" ? {} : {
      expert_count: u32(experts),
      expert_used_count: u32(need("num_experts_per_tok")),
      expert_feed_forward_length: u32(need("moe_intermediate_size"))
    }),
    ...(kind === "linear" || kind === "yarn"
      ? {
        "rope.scaling.type": format.string(kind),
        "rope.scaling.factor": format.f32(numberOf(scaling, "factor") ?? 1)
      }
      : {}),
    ...(kind === "yarn"
      ? { "rope.scaling.original_context_length": u32(numberOf(scaling, "original_max_position_embeddings") ?? 0) }
      : {})
  }
  const missing = Object.entries(values).find(([, entry]) =>
    typeof entry.value === "number" && Number.isNaN(entry.value)
  )
  if (missing !== undefined) {
    return new UnsupportedFormat({ description: `config.json does not say the model's ${missing[0]}` })
  }
  return Effect.succeed({
    architecture,
    headSize,
    metadata: {
      "general.architecture": format.string(architecture),
      "general.type": format.string("model"),
      "general.name": format.string(name),
      "general.file_type": format.u32(fileType),
      "general.quantization_version": format.u32(2),
      ...Object.fromEntries(Object.entries(values).map(([key, value]) => [`${architecture}.${key}`, value]))
    },
    ropeFactors: kind === "llama3" ? llama3Of(scaling, base, headSize) : undefined
  })
}

/**
 * Llama's rotary halves lie apart in Hugging Face files and side by side in GGUF, head by head. `values` are the rows of
 * whole heads.
 */
const interleaveHeads = (values: Float32Array, headSize: number, columns: number): Float32Array => {
  const out = new Float32Array(values.length)
  for (let head = 0; head * columns < values.length; head += headSize) {
    for (let row = 0; row < headSize; row++) {
      const source = head + (row % 2) * headSize / 2 + (row >> 1)
      out.set(values.subarray(source * columns, (source + 1) * columns), (head + row) * columns)
    }
  }
  return out
}

const encode = (type: format.GgmlType, values: Float32Array): Uint8Array =>
  type === "Q8_0" ? numbers.toQ8(values) : numbers.fromFloat32(type, values)

/** One tensor of the file: rows of one or, for experts, several tensors of the model. */
interface Planned {
  readonly header: format.TensorHeader
  readonly sources: ReadonlyArray<MergedModel.Tensor>
  /** Rows that must stay together: a head, where its rows are reordered. */
  readonly headSize: number | undefined
}

const blockValues = 1 << 20

const content = (planned: Planned): Stream.Stream<Uint8Array, MergedModel.ReadError> => {
  const { header, headSize, sources } = planned
  const bytes = format.tensorBytes(header)
  return Stream.fromIterable(sources).pipe(
    Stream.flatMap((source) => {
      const fitting = Math.max(1, Math.floor(blockValues / Math.max(1, source.columns)))
      const step = headSize === undefined ? fitting : Math.ceil(fitting / headSize) * headSize
      const count = Math.ceil(source.rows / step)
      return Stream.mapEffect(
        Stream.range(0, count - 1),
        (i) =>
          Effect.map(
            source.floats(i * step, Math.min(step, source.rows - i * step)),
            (values) =>
              encode(header.type, headSize === undefined ? values : interleaveHeads(values, headSize, source.columns))
          )
      )
    }),
    Stream.concat(Stream.suspend(() => Stream.make(new Uint8Array(format.padding(bytes)))))
  )
}

const planModel = (
  model: MergedModel.MergedModel,
  shape: Shape,
  matrices: format.GgmlType
): Effect.Effect<ReadonlyArray<Planned>, UnsupportedFormat> => {
  const groups = new Map<string, Array<MergedModel.Tensor>>()
  for (const tensor of model.tensors) {
    const name = ggufName(shape.architecture, tensor.name)
    if (name === undefined) {
      if (tensor.name.endsWith("rotary_emb.inv_freq")) continue
      return new UnsupportedFormat({ description: `${tensor.name} has no place in a GGUF file of this architecture` })
    }
    groups.set(name, [...(groups.get(name) ?? []), tensor])
  }
  const expert = (tensor: MergedModel.Tensor) => Number(/\.experts\.(\d+)\./.exec(tensor.name)?.[1] ?? 0)
  const planned = [...groups].map(([name, tensors]): Planned => {
    const sources = tensors.sort((a, b) => expert(a) - expert(b))
    const [first] = sources
    const own = first?.shape ?? []
    const full = name.includes("_exps.") ? [sources.length, ...own] : own
    const columns = own.at(-1) ?? 1
    const plain = full.length < 2 || name.includes("ffn_gate_inp")
    const type = plain ? "F32" : matrices === "Q8_0" && columns % 32 !== 0 ? "F16" : matrices
    const rotary = isInterleaved(shape.architecture, name)
    return { header: { name, type, shape: full }, sources, headSize: rotary ? shape.headSize : undefined }
  })
  return Effect.succeed(planned)
}

const writeModelWith = Effect.fnUntraced(
  function*(options: ModelOptions, emit: (event: Event) => Effect.Effect<void>) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const output = path.resolve(options.output)
    if (yield* fs.exists(output)) return yield* new OutputExists({ path: output })
    const { fileType, ggml } = fileTypes[options.format ?? "f16"]
    const model = yield* MergedModel.open(options)
    const name = options.name ?? path.basename(path.resolve(options.base))
    const shape = yield* shapeOf(model.config, name, fileType)
    const tokenizer = model.gguf !== undefined
      ? ggufTokenizer.carried(model.gguf.file.metadata)
      : yield* ggufTokenizer.metadata({
        directory: options.base,
        vocabularySize: model.tensors.find((tensor) => tensor.name === "model.embed_tokens.weight")?.rows ?? 0,
        preTokenizer: options.preTokenizer
      })
    const planned = yield* planModel(model, shape, ggml)
    const rope = model.gguf?.divisors ?? shape.ropeFactors
    const headers = [
      ...(rope === undefined
        ? []
        : [{ name: "rope_freqs.weight", type: "F32" as const, shape: [rope.length] }]),
      ...planned.map(({ header }) => header)
    ]
    const total = headers.reduce((sum, header) => sum + format.tensorBytes(header), 0)
    yield* emit({ _tag: "Planned", tensors: headers.length, bytes: total })
    let written = 0
    const ropeBytes = rope === undefined ? new Uint8Array(0) : encode("F32", Float32Array.from(rope))
    yield* fs.makeDirectory(path.dirname(output), { recursive: true })
    yield* files.writeWhole(
      output,
      Stream.make(
        format.encodeHeader({ ...shape.metadata, ...tokenizer }, headers),
        ropeBytes,
        new Uint8Array(format.padding(ropeBytes.length))
      ).pipe(
        Stream.concat(Stream.flatMap(Stream.fromIterable(planned), (one) =>
          Stream.tap(content(one), (bytes) => {
            written += bytes.length
            return emit({ _tag: "Progress", written: Math.min(written, total), bytes: total, tensor: one.header.name })
          })))
      )
    )
    yield* emit({ _tag: "Completed", file: output, bytes: total })
  },
  Effect.scoped
)

/**
 * Writes a model, with an adapter merged into it if one is given, and reports how far it is.
 *
 * @since 0.1.0
 * @category constructors
 */
export const streamModel = (options: ModelOptions): Stream.Stream<Event, Failure, Services> =>
  files.events<Event, Failure, Services>((emit) => writeModelWith(options, emit))

/**
 * Writes a model; yields the file.
 *
 * @since 0.1.0
 * @category constructors
 */
export const writeModel = (options: ModelOptions): Effect.Effect<string, Failure, Services> =>
  Effect.map(Stream.runLast(streamModel(options)), (last) =>
    Option.match(last, {
      onNone: () => options.output,
      onSome: (event) => event._tag === "Completed" ? event.file : options.output
    }))

/**
 * Writes an adapter that llama.cpp loads beside its base model (`--lora FILE`).
 *
 * @since 0.1.0
 * @category constructors
 */
export const writeAdapter: (options: {
  /** Directory or GGUF file of the base model; only its configuration, and names and shapes of its weights, are read. */
  readonly base: string
  readonly adapter: string
  /** File to write; must not exist. */
  readonly output: string
  /** Defaults to `f32`. */
  readonly format?: "f32" | "f16" | undefined
}) => Effect.Effect<string, Failure, Services> = Effect.fnUntraced(function*(options) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const output = path.resolve(options.output)
  if (yield* fs.exists(output)) return yield* new OutputExists({ path: output })
  const type = options.format === "f16" ? "F16" : "F32"
  // Opening the merged model checks that the adapter fits.
  const { config, family, untied } = yield* MergedModel.open(options)
  const shape = yield* shapeOf(config, path.basename(options.base), 0)
  const adapter = yield* Adapter.open(options.adapter)
  if (untied) {
    return yield* new UnsupportedFormat({
      description: "the adapter changes an output head that the model shares with its input embedding, " +
        "which llama.cpp cannot do with an adapter; write a merged model instead"
    })
  }
  const planned: Array<
    { readonly header: format.TensorHeader; readonly bytes: Effect.Effect<Uint8Array, MergedModel.ReadError> }
  > = []
  for (const pair of adapter.pairs) {
    const name = ggufName(shape.architecture, family.rename(pair.name))
    if (name === undefined || pair.a.shape.length !== 2) {
      return yield* new UnsupportedFormat({
        description: `${pair.name} cannot be part of a GGUF adapter; write a merged model`
      })
    }
    const rotary = isInterleaved(shape.architecture, name)
    for (const [side, tensor] of [["lora_a", pair.a], ["lora_b", pair.b]] as const) {
      planned.push({
        header: { name: `${name}.${side}`, type, shape: tensor.shape },
        bytes: Effect.map(
          adapter.matrix(tensor),
          (values) =>
            encode(
              type,
              rotary && side === "lora_b" ? interleaveHeads(values, shape.headSize, tensor.shape[1] ?? 1) : values
            )
        )
      })
    }
  }
  const header = format.encodeHeader({
    "general.architecture": format.string(shape.architecture),
    "general.type": format.string("adapter"),
    "adapter.type": format.string("lora"),
    "adapter.lora.alpha": format.f32(adapter.alpha),
    "general.file_type": format.u32(type === "F16" ? 1 : 0)
  }, planned.map((one) => one.header))
  yield* fs.makeDirectory(path.dirname(output), { recursive: true })
  yield* files.writeWhole(
    output,
    Stream.concat(
      Stream.make(header),
      Stream.mapEffect(
        Stream.fromIterable(planned),
        ({ bytes }) => Effect.map(bytes, (own) => files.concat([own, new Uint8Array(format.padding(own.length))]))
      )
    )
  )
  return output
}, Effect.scoped)

/**
 * The measurements of a model from the `config.json` of its directory, or the name of the first thing in it that the
 * engine cannot compute.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type * as LocalModel from "../../LocalModel.js"

const Settings = Schema.Record({ key: Schema.String, value: Schema.Unknown })

const maybe = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true })

const flag = (fallback: boolean) => Schema.optionalWith(Schema.Boolean, { nullable: true, default: () => fallback })

/** The part of a configuration that decides what is computed. @internal */
export const ModelConfig = Schema.Struct({
  model_type: Schema.String,
  vocab_size: Schema.Int,
  hidden_size: Schema.Int,
  intermediate_size: Schema.Int,
  num_hidden_layers: Schema.Int,
  num_attention_heads: Schema.Int,
  num_key_value_heads: maybe(Schema.Int),
  head_dim: maybe(Schema.Int),
  max_position_embeddings: Schema.Int,
  original_max_position_embeddings: maybe(Schema.Int),
  rms_norm_eps: Schema.Number,
  hidden_act: maybe(Schema.String),
  hidden_activation: maybe(Schema.String),
  tie_word_embeddings: maybe(Schema.Boolean),
  attention_bias: flag(false),
  mlp_bias: flag(false),
  use_sliding_window: maybe(Schema.Boolean),
  sliding_window: maybe(Schema.Int),
  layer_types: maybe(Schema.Array(Schema.String)),
  sliding_window_pattern: maybe(Schema.Int),
  query_pre_attn_scalar: maybe(Schema.Number),
  partial_rotary_factor: maybe(Schema.Number),
  attn_logit_softcapping: maybe(Schema.Number),
  final_logit_softcapping: maybe(Schema.Number),
  rope_theta: maybe(Schema.Number),
  rope_local_base_freq: maybe(Schema.Number),
  // newer configurations keep theta and scaling together
  rope_scaling: maybe(Settings),
  rope_parameters: maybe(Settings),
  eos_token_id: maybe(Schema.Union(Schema.Int, Schema.Array(Schema.Int))),
  quantization_config: maybe(Settings)
})

/** @internal */
export type ModelConfig = typeof ModelConfig.Type

/** Measurements that a configuration determines. @internal */
export type Measures = Omit<LocalModel.LocalModel, "name" | "endTokens" | "tokenizer" | "weights" | "lora">

/** How a family differs from Llama. */
interface Family {
  readonly activation: "swiglu" | "geglu"
  /** The activation's names in a configuration. */
  readonly activationNames: ReadonlyArray<string>
  readonly queryKeyNorms: boolean
  /** Whether queries, keys and values have biases, unless the configuration says so. */
  readonly biases: boolean
  readonly layout: LocalModel.LocalModel["layout"]
  /** Whether each block normalizes its results too, and gains are stored less one. */
  readonly gemma: boolean
  readonly tied: boolean
}

const llama: Family = {
  activation: "swiglu",
  activationNames: ["silu", "swish"],
  queryKeyNorms: false,
  biases: false,
  layout: "separate",
  gemma: false,
  tied: false
}

const families: Readonly<Record<string, Family>> = {
  llama,
  mistral: llama,
  qwen2: { ...llama, biases: true },
  qwen3: { ...llama, queryKeyNorms: true },
  phi3: { ...llama, layout: "fused" },
  gemma3_text: {
    ...llama,
    activation: "geglu",
    activationNames: ["gelu_pytorch_tanh"],
    queryKeyNorms: true,
    gemma: true,
    tied: true
  }
}

const isFamily = (name: string): name is Exclude<LocalModel.LocalModel["family"], "local"> => name in families

/** Llama 3's scaling: low frequencies are divided by a factor, high ones kept, those between interpolated. */
const llama3Divisors = (
  scaling: {
    readonly factor: number
    readonly lowFrequencyFactor: number
    readonly highFrequencyFactor: number
    readonly originalContext: number
  },
  theta: number,
  headSize: number
): ReadonlyArray<number> =>
  Array.from({ length: headSize / 2 }, (_, pair) => {
    const { factor, highFrequencyFactor, lowFrequencyFactor, originalContext } = scaling
    const wavelength = 2 * Math.PI * theta ** (2 * pair / headSize)
    if (wavelength < originalContext / highFrequencyFactor) return 1
    if (wavelength > originalContext / lowFrequencyFactor) return factor
    const smooth = (originalContext / wavelength - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor)
    return 1 / ((1 - smooth) / factor + smooth)
  })

const numberOf = (value: unknown): number | undefined => typeof value === "number" ? value : undefined

/** The context that a model with Phi-3's scaling was first trained with. */
const originalContext = (config: ModelConfig): number | undefined => {
  const settings = config.rope_scaling ?? config.rope_parameters ?? {}
  return (settings["rope_type"] ?? settings["type"]) === "longrope"
    ? numberOf(settings["original_max_position_embeddings"]) ?? config.original_max_position_embeddings
    : undefined
}

/**
 * Phi-3's scaling to long contexts. Up to the context that the model was first trained with, its short factors are used, and
 * a factor of what is rotated; beyond, other divisors, also for what was read before.
 */
const longRopeOf = (
  settings: typeof Settings.Type,
  config: ModelConfig,
  contextLength: number,
  rotation: LocalModel.Rotation,
  pairs: number
): Either.Either<LocalModel.Rotation, string> => {
  const original = originalContext(config)
  const short = settings["short_factor"]
  if (original === undefined) return Either.left("the longrope scaling has no original_max_position_embeddings")
  if (
    !Array.isArray(short) || short.length !== pairs || !short.every((value) => typeof value === "number" && value > 0)
  ) {
    return Either.left(`the longrope scaling has no short_factor of ${pairs} numbers`)
  }
  if (contextLength > original) {
    return Either.left(`contexts beyond ${original} tokens are not supported (long_factor of the longrope scaling)`)
  }
  const factor = numberOf(settings["factor"]) ?? config.max_position_embeddings / original
  const computed = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original))
  return Either.right({ ...rotation, divisors: short, scale: numberOf(settings["attention_factor"]) ?? computed })
}

const rotationOf = (
  settings: typeof Settings.Type,
  config: ModelConfig,
  contextLength: number,
  theta: number,
  headSize: number
): Either.Either<LocalModel.Rotation, string> => {
  const part = config.partial_rotary_factor ?? numberOf(settings["partial_rotary_factor"]) ?? 1
  const dimensions = Math.trunc(headSize * part)
  if (dimensions % 8 !== 0 || dimensions <= 0 || dimensions > headSize) {
    return Either.left(`${dimensions} of ${headSize} dimensions of a head are rotated, expected a multiple of 8`)
  }
  const plain: LocalModel.Rotation = dimensions === headSize ? { theta } : { theta, dimensions }
  const type = settings["rope_type"] ?? settings["type"] ?? "default"
  return type === "longrope" && config.model_type === "phi3"
    ? longRopeOf(settings, config, contextLength, plain, dimensions / 2)
    : Either.map(scaledRotation(settings, theta, dimensions), (scaled) => ({ ...plain, ...scaled }))
}

const scaledRotation = (
  settings: typeof Settings.Type,
  theta: number,
  headSize: number
): Either.Either<LocalModel.Rotation, string> => {
  const number = (key: string): number => typeof settings[key] === "number" ? settings[key] : NaN
  const type = settings["rope_type"] ?? settings["type"] ?? "default"
  if (type === "default") return Either.right({ theta })
  if (type === "linear") {
    const factor = number("factor")
    return factor > 0
      ? Either.right({ theta, divisors: Array.from({ length: headSize / 2 }, () => factor) })
      : Either.left("the linear rope scaling has no factor")
  }
  if (type !== "llama3") return Either.left(`rope scaling ${JSON.stringify(type)} is not supported`)
  const scaling = {
    factor: number("factor"),
    lowFrequencyFactor: number("low_freq_factor"),
    highFrequencyFactor: number("high_freq_factor"),
    originalContext: number("original_max_position_embeddings")
  }
  return Object.values(scaling).some(Number.isNaN)
    ? Either.left("the llama3 rope scaling is incomplete")
    : Either.right({ theta, divisors: llama3Divisors(scaling, theta, headSize) })
}

/** Rotations of the layers: the same for all, or others for those that attend to a window only. */
const rotationsOf = (config: ModelConfig, contextLength: number, headSize: number) =>
  Either.gen(function*() {
    const nested = (key: string): typeof Settings.Type | undefined => {
      const value = config.rope_parameters?.[key]
      return Schema.is(Settings)(value) ? value : undefined
    }
    const settings = nested("full_attention") ?? config.rope_scaling ?? config.rope_parameters ?? {}
    const own = typeof settings["rope_theta"] === "number" ? settings["rope_theta"] : undefined
    const rotation = yield* rotationOf(settings, config, contextLength, config.rope_theta ?? own ?? 10000, headSize)
    const local = nested("sliding_attention")
    const localTheta = config.rope_local_base_freq ??
      (typeof local?.["rope_theta"] === "number" ? local["rope_theta"] : undefined)
    return { rotation, localRotation: localTheta === undefined ? undefined : { theta: localTheta } }
  })

/** Which layers attend to the last tokens only, where some do. */
const windowOf = (config: ModelConfig): LocalModel.LocalModel["window"] => {
  const size = config.sliding_window
  if (size === undefined || config.use_sliding_window === false) return undefined
  // Qwen's configurations name a window that they switch off
  if (config.use_sliding_window === undefined && config.model_type.startsWith("qwen")) return undefined
  const every = config.sliding_window_pattern ?? 6
  const isLocal = (layer: number): boolean =>
    config.layer_types !== undefined
      ? config.layer_types[layer] === "sliding_attention"
      : config.model_type === "gemma3_text"
      ? (layer + 1) % every !== 0
      : true
  const layers = Array.from({ length: config.num_hidden_layers }, (_, layer) => isLocal(layer))
  return layers.includes(true) ? { size, layers } : undefined
}

// Bytes of keys and values of one sequence, unless a context is asked for.
const contextBytes = 256 * 2 ** 20

/** The measurements of a model, or the reason why the engine cannot compute it. @internal */
export const measure = (config: ModelConfig, wanted: number | undefined): Either.Either<Measures, string> =>
  Either.gen(function*() {
    const { model_type: name } = config
    const family = families[name]
    if (family === undefined || !isFamily(name)) {
      return yield* Either.left(
        `model_type is ${JSON.stringify(name)}; supported are ${Object.keys(families).join(", ")}`
      )
    }
    if (config.quantization_config !== undefined) {
      return yield* Either.left("the weights are quantized; take the original model, or its GGUF file")
    }
    const activation = config.hidden_activation ?? config.hidden_act ?? family.activationNames[0]
    if (!family.activationNames.some((known) => known === activation)) {
      return yield* Either.left(
        `the activation is ${JSON.stringify(activation)}, expected ${JSON.stringify(family.activationNames[0])}`
      )
    }
    if (config.mlp_bias) return yield* Either.left("biases of the hidden layers are not supported (mlp_bias)")
    if (config.attention_bias && !family.biases) {
      return yield* Either.left("a bias of the attention's output is not supported (attention_bias)")
    }
    if (config.attn_logit_softcapping !== undefined || config.final_logit_softcapping !== undefined) {
      return yield* Either.left("soft caps of logits are not supported")
    }
    const heads = config.num_attention_heads
    const keyValueHeads = config.num_key_value_heads ?? heads
    const headSize = config.head_dim ?? config.hidden_size / heads
    const sizes = { hidden_size: config.hidden_size, intermediate_size: config.intermediate_size, head_dim: headSize }
    for (const [key, size] of Object.entries(sizes)) {
      if (!Number.isInteger(size) || size % 8 !== 0 || size <= 0) {
        return yield* Either.left(`${key} is ${size}, expected a multiple of 8`)
      }
    }
    if (heads % keyValueHeads !== 0) {
      return yield* Either.left(`${heads} query heads cannot share ${keyValueHeads} key/value heads`)
    }
    const cached = config.num_hidden_layers * 2 * keyValueHeads * headSize * 4
    const affordable = 2 ** Math.floor(Math.log2(contextBytes / cached))
    const first = originalContext(config) ?? config.max_position_embeddings
    const contextLength = wanted ?? Math.min(config.max_position_embeddings, first, 4096, affordable)
    if (!Number.isInteger(contextLength) || contextLength < 1 || contextLength > config.max_position_embeddings) {
      return yield* Either.left(
        `a context of ${contextLength} was asked for, expected 1 to ${config.max_position_embeddings}`
      )
    }
    const { localRotation, rotation } = yield* rotationsOf(config, contextLength, headSize)
    const found = windowOf(config)
    // a window that holds the whole context changes nothing
    const window = found !== undefined && found.size < contextLength ? found : undefined
    return {
      family: name,
      contextLength,
      vocabularySize: config.vocab_size,
      width: config.hidden_size,
      layers: config.num_hidden_layers,
      heads,
      keyValueHeads,
      headSize,
      hidden: config.intermediate_size,
      activation: family.activation,
      queryKeyNorms: family.queryKeyNorms,
      queryKeyValueBiases: family.biases,
      layout: family.layout,
      resultNorms: family.gemma,
      normEpsilon: config.rms_norm_eps,
      attentionScale: (config.query_pre_attn_scalar ?? headSize) ** -0.5,
      embeddingScale: family.gemma ? Math.sqrt(config.hidden_size) : 1,
      rotation,
      ...(localRotation !== undefined && found !== undefined
        ? { local: { rotation: localRotation, layers: found.layers } }
        : {}),
      window,
      tiedEmbeddings: config.tie_word_embeddings ?? family.tied
    }
  })

/** Whether gains are stored less one, as Gemma's are in Hugging Face directories. @internal */
export const storesGainsLessOne = (config: ModelConfig): boolean => families[config.model_type]?.gemma ?? false

/**
 * Models from the files of a Hugging Face directory: `config.json`, safetensors in 16 or 32 bits, `tokenizer.json` and a
 * chat template. The families are Llama and Qwen3.
 *
 * @since 0.1.0
 */
import * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { ModelUnavailable } from "./EngineError.js"
import type * as LocalModel from "./LocalModel.js"
import * as Safetensors from "./Safetensors.js"

/**
 * How a directory is read; all of it may be left out.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** The name clients ask for. Defaults to the name of the directory. */
  readonly name?: string | undefined
  /**
   * The longest sequence. Defaults to what the model was made for, at most 4096 tokens and 256 MiB of keys and values.
   */
  readonly contextLength?: number | undefined
}

const Config = Schema.parseJson(Schema.Struct({
  model_type: Schema.String,
  vocab_size: Schema.Int,
  hidden_size: Schema.Int,
  intermediate_size: Schema.Int,
  num_hidden_layers: Schema.Int,
  num_attention_heads: Schema.Int,
  num_key_value_heads: Schema.optionalWith(Schema.Int, { nullable: true }),
  head_dim: Schema.optionalWith(Schema.Int, { nullable: true }),
  max_position_embeddings: Schema.Int,
  rms_norm_eps: Schema.Number,
  hidden_act: Schema.optional(Schema.String),
  tie_word_embeddings: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  attention_bias: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  mlp_bias: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  use_sliding_window: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  rope_theta: Schema.optionalWith(Schema.Number, { nullable: true }),
  // newer configurations keep theta and scaling together
  rope_scaling: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Unknown }), { nullable: true }),
  rope_parameters: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Unknown }), {
    nullable: true
  }),
  eos_token_id: Schema.optionalWith(Schema.Union(Schema.Int, Schema.Array(Schema.Int)), { nullable: true })
}))

const GenerationConfig = Schema.parseJson(Schema.Struct({
  eos_token_id: Schema.optionalWith(Schema.Union(Schema.Int, Schema.Array(Schema.Int)), { nullable: true })
}))

const Index = Schema.parseJson(Schema.Struct({
  weight_map: Schema.Record({ key: Schema.String, value: Schema.String })
}))

const Json = Schema.parseJson(Schema.Unknown)

const describe = (error: ParseResult.ParseError): string => ParseResult.TreeFormatter.formatErrorSync(error)

// Models this small take the learning rates of large ones only with large steps.
const smallModel = 20e6

const listed = (tokens: number | ReadonlyArray<number> | undefined): ReadonlyArray<number> =>
  tokens === undefined ? [] : typeof tokens === "number" ? [tokens] : tokens

const rotationOf = (config: typeof Config.Type): Either.Either<LocalModel.Rotation, string> => {
  const settings = config.rope_scaling ?? config.rope_parameters ?? {}
  const number = (key: string): number => typeof settings[key] === "number" ? settings[key] : NaN
  const theta = config.rope_theta ?? (Number.isNaN(number("rope_theta")) ? 10000 : number("rope_theta"))
  const type = settings["rope_type"] ?? settings["type"] ?? "default"
  if (type === "default") return Either.right({ theta })
  if (type !== "llama3") return Either.left(`rope scaling ${JSON.stringify(type)} is not supported`)
  const scaling = {
    factor: number("factor"),
    lowFrequencyFactor: number("low_freq_factor"),
    highFrequencyFactor: number("high_freq_factor"),
    originalContext: number("original_max_position_embeddings")
  }
  return Object.values(scaling).some(Number.isNaN)
    ? Either.left("the llama3 rope scaling is incomplete")
    : Either.right({ theta, scaling })
}

type Measures = Omit<LocalModel.LocalModel, "name" | "endTokens" | "tokenizer" | "weights" | "lora">

/** The measurements of a model, or why the engine cannot compute it. */
const measure = (
  config: typeof Config.Type,
  wanted: number | undefined
): Either.Either<Measures, string> =>
  Either.gen(function*() {
    const family = config.model_type
    if (family !== "llama" && family !== "qwen3") {
      return yield* Either.left(`model_type is ${JSON.stringify(family)}; llama and qwen3 are supported`)
    }
    if ((config.hidden_act ?? "silu") !== "silu") {
      return yield* Either.left(`hidden_act is ${JSON.stringify(config.hidden_act)}, expected "silu"`)
    }
    if (config.attention_bias || config.mlp_bias) return yield* Either.left("biases are not supported")
    if (config.use_sliding_window) return yield* Either.left("sliding windows are not supported")
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
    const affordable = 2 ** Math.floor(Math.log2(256 * 2 ** 20 / cached))
    const contextLength = wanted ?? Math.min(config.max_position_embeddings, 4096, affordable)
    if (!Number.isInteger(contextLength) || contextLength < 1 || contextLength > config.max_position_embeddings) {
      return yield* Either.left(
        `a context of ${contextLength} was asked for, expected 1 to ${config.max_position_embeddings}`
      )
    }
    return {
      family,
      contextLength,
      vocabularySize: config.vocab_size,
      width: config.hidden_size,
      layers: config.num_hidden_layers,
      heads,
      keyValueHeads,
      headSize,
      hidden: config.intermediate_size,
      activation: "swiglu",
      queryKeyNorms: family === "qwen3",
      normEpsilon: config.rms_norm_eps,
      rotation: yield* rotationOf(config),
      tiedEmbeddings: config.tie_word_embeddings
    }
  })

// Values read at a time: a millisecond of work.
const chunkValues = 1 << 17

/**
 * The model of a directory. Its weights stay on the disk until the engine needs them; everything else is checked here.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromDirectory: (
  directory: string,
  options?: Options
) => Effect.Effect<LocalModel.LocalModel, ModelUnavailable, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directory, options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const name = options?.name ?? path.basename(path.resolve(directory))
    const refuse = (description: string) => new ModelUnavailable({ model: name, description })
    const at = (file: string) => path.join(directory, file)
    const text = (file: string) =>
      Effect.mapError(fs.readFileString(at(file)), (error) => refuse(`${at(file)} cannot be read: ${error.message}`))
    const optionalText = (file: string) =>
      Effect.flatMap(
        Effect.orElseSucceed(fs.exists(at(file)), () => false),
        (exists) => exists ? Effect.asSome(text(file)) : Effect.succeedNone
      )
    const decode = <A>(schema: Schema.Schema<A, string>, file: string, content: string) =>
      Effect.mapError(Schema.decode(schema)(content), (error) => refuse(`${file}: ${describe(error)}`))
    const json = (file: string) =>
      Effect.flatMap(
        optionalText(file),
        Option.match({
          onNone: () => Effect.succeed(undefined),
          onSome: (content) => decode(Json, file, content)
        })
      )

    const config = yield* decode(Config, "config.json", yield* text("config.json"))
    const measures = yield* Effect.mapError(
      measure(config, options?.contextLength),
      (problem) => refuse(`config.json: ${problem}`)
    )
    const generation = yield* optionalText("generation_config.json")
    const ends = new Set([
      ...listed(config.eos_token_id),
      ...listed(
        Option.isNone(generation)
          ? undefined
          : (yield* decode(GenerationConfig, "generation_config.json", generation.value)).eos_token_id
      )
    ])

    const tokenizerFiles = new Map<string, string>()
    for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]) {
      const content = yield* optionalText(file)
      if (Option.isSome(content)) tokenizerFiles.set(file, content.value)
    }
    const tokenizerJson = yield* json("tokenizer.json")
    const template = yield* optionalText("chat_template.jinja")
    const tokenizer = tokenizerJson === undefined ? undefined : yield* Tokenizer.fromHuggingFace({
      id: name,
      tokenizerJson,
      tokenizerConfig: yield* json("tokenizer_config.json"),
      ...(Option.isNone(template) ? {} : { chatTemplates: { default: template.value } })
    }).pipe(Effect.mapError((error) => refuse(`tokenizer.json: ${error.message}`)))
    if (tokenizer === undefined) return yield* refuse(`${at("tokenizer.json")} is missing`)
    if (tokenizer.vocabSize > measures.vocabularySize) {
      return yield* refuse(
        `the tokenizer has ${tokenizer.vocabSize} tokens, the model ${measures.vocabularySize}`
      )
    }
    for (const spelling of [tokenizer.specialTokens.eos, Option.some("<|im_end|>")]) {
      const token = Option.flatMap(spelling, tokenizer.tokenToId)
      if (Option.isSome(token)) ends.add(token.value)
    }

    // Which file holds which tensor.
    const index = yield* optionalText("model.safetensors.index.json")
    const files = Option.isNone(index)
      ? ["model.safetensors"]
      : Array.from(
        new Set(Object.values((yield* decode(Index, "model.safetensors.index.json", index.value)).weight_map))
      )
    const tensors = new Map<string, Safetensors.Entry & { readonly file: string }>()
    const unreadable = (file: string) => (error: { readonly message: string }) =>
      refuse(`${at(file)} cannot be read: ${error.message}`)
    /** Bytes of a file from `offset`; fails when it is too short. */
    const bytesOf = Effect.fnUntraced(function*(handle: FileSystem.File, file: string, offset: number, size: number) {
      const bytes = new Uint8Array(size)
      yield* handle.seek(FileSystem.Size(offset), "start")
      let filled = 0
      while (filled < size) {
        const read = Number(yield* Effect.mapError(handle.read(bytes.subarray(filled)), unreadable(file)))
        if (read === 0) return yield* refuse(`${at(file)} is shorter than its header says`)
        filled += read
      }
      return bytes
    })
    const open = (file: string) => Effect.mapError(fs.open(at(file), { flag: "r" }), unreadable(file))
    for (const file of files) {
      const entries = yield* Effect.scoped(Effect.gen(function*() {
        const handle = yield* open(file)
        const prefix = yield* bytesOf(handle, file, 0, Safetensors.prefixBytes)
        const size = yield* Effect.mapError(Safetensors.headerBytes(prefix), (problem) => refuse(`${file}: ${problem}`))
        const header = yield* bytesOf(handle, file, Safetensors.prefixBytes, size)
        return yield* Effect.mapError(Safetensors.decodeHeader(header), (problem) => refuse(`${file}: ${problem}`))
      }))
      for (const entry of entries.tensors) tensors.set(entry.name, { ...entry, file })
    }

    const model: LocalModel.LocalModel = {
      ...measures,
      name,
      endTokens: Array.from(ends),
      tokenizer,
      tokenizerFiles,
      lora: { alpha: 32, rankStabilized: false },
      weights: {
        read: (tensor, receive) =>
          Effect.scoped(Effect.gen(function*() {
            const entry = tensors.get(tensor)
            if (entry === undefined) return yield* refuse(`no file has the tensor ${tensor}`)
            const handle = yield* open(entry.file)
            const width = Safetensors.bytesPerValue(entry.dtype)
            if (width === undefined) {
              return yield* refuse(`${tensor} has dtype ${entry.dtype}, expected F32, F16 or BF16`)
            }
            const count = (entry.end - entry.start) / width
            for (let from = 0; from < count; from += chunkValues) {
              const values = Math.min(chunkValues, count - from)
              const bytes = yield* bytesOf(handle, entry.file, entry.start + from * width, values * width)
              receive(Safetensors.toFloats(entry.dtype, bytes), from)
              yield* Effect.yieldNow()
            }
          }))
      }
    }
    // everything the engine will ask for is there, in the right shape
    const expected = expectedTensors(model)
    for (const [tensor, shape] of expected) {
      const entry = tensors.get(tensor)
      if (entry === undefined) return yield* refuse(`no file has the tensor ${tensor}`)
      if (entry.shape.length !== shape.length || entry.shape.some((size, axis) => size !== shape[axis])) {
        return yield* refuse(
          `${tensor} has shape [${entry.shape.join(", ")}], expected [${shape.join(", ")}]`
        )
      }
      if (Safetensors.bytesPerValue(entry.dtype) === undefined) {
        return yield* refuse(`${tensor} has dtype ${entry.dtype}, expected F32, F16 or BF16`)
      }
    }
    const parameters = expected.reduce((sum, [, shape]) => sum + shape.reduce((product, n) => product * n, 1), 0)
    return parameters < smallModel ? { ...model, lora: { alpha: 181, rankStabilized: true } } : model
  }
)

/** The tensors of a model with their shapes. */
const expectedTensors = (
  model: LocalModel.LocalModel
): ReadonlyArray<readonly [name: string, shape: ReadonlyArray<number>]> => {
  const { headSize, heads, hidden, keyValueHeads, layers, vocabularySize, width } = model
  const queries = heads * headSize
  const keys = keyValueHeads * headSize
  return [
    ["model.embed_tokens.weight", [vocabularySize, width]],
    ["model.norm.weight", [width]],
    ...(model.tiedEmbeddings ? [] : [["lm_head.weight", [vocabularySize, width]] as const]),
    ...Array.from({ length: layers }, (_, layer) => `model.layers.${layer}`).flatMap((at) =>
      [
        [`${at}.input_layernorm.weight`, [width]],
        [`${at}.post_attention_layernorm.weight`, [width]],
        [`${at}.self_attn.q_proj.weight`, [queries, width]],
        [`${at}.self_attn.k_proj.weight`, [keys, width]],
        [`${at}.self_attn.v_proj.weight`, [keys, width]],
        [`${at}.self_attn.o_proj.weight`, [width, queries]],
        [`${at}.mlp.gate_proj.weight`, [hidden, width]],
        [`${at}.mlp.up_proj.weight`, [hidden, width]],
        [`${at}.mlp.down_proj.weight`, [width, hidden]],
        ...(model.queryKeyNorms
          ? [[`${at}.self_attn.q_norm.weight`, [headSize]], [`${at}.self_attn.k_norm.weight`, [headSize]]] as const
          : [])
      ] as const
    )
  ]
}

/**
 * Where the files of `local/chat` are: in this package.
 *
 * @since 0.1.0
 * @category constants
 */
export const chatDirectory = new URL("../models/chat/", import.meta.url)

/**
 * The pretrained model of this package, `local/chat`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const chat: Effect.Effect<LocalModel.LocalModel, ModelUnavailable, FileSystem.FileSystem | Path.Path> = Effect
  .flatMap(Path.Path, (path) =>
    Effect.flatMap(
      Effect.orDie(path.fromFileUrl(chatDirectory)),
      (directory) => fromDirectory(directory, { name: "local/chat" })
    ))

/**
 * `local/chat` where its files are installed, or nothing.
 *
 * @since 0.1.0
 * @category constructors
 */
export const bundledChat: Effect.Effect<
  ReadonlyArray<LocalModel.LocalModel>,
  ModelUnavailable,
  FileSystem.FileSystem | Path.Path
> = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const config = path.join(yield* Effect.orDie(path.fromFileUrl(chatDirectory)), "config.json")
  return (yield* Effect.orElseSucceed(fs.exists(config), () => false)) ? [yield* chat] : []
})

/**
 * A base model and an adapter written as one model, in the layout every Hugging Face compatible server loads.
 *
 * Memory does not grow with the model: files are copied by the operating system and only the weights that change pass
 * through this process, block by block. The result appears under its name only when it is complete; until then it lies in
 * `OUTPUT.partial`, and a second call with the same input continues with the first file that is missing.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as files from "./internal/files.js"
import * as float8 from "./internal/float8.js"
import * as numbers from "./internal/numbers.js"
import * as MergedModel from "./MergedModel.js"
import type * as ModelFamily from "./ModelFamily.js"
import * as SafetensorsHeader from "./SafetensorsHeader.js"
import type { AdapterMismatch } from "./WeightsError.js"
import { OutputExists, UnsupportedFormat } from "./WeightsError.js"

/**
 * Base and adapter to merge, and where to write the result.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends Omit<MergedModel.Options, "adapter" | "dequantize"> {
  readonly adapter: string
  /** Directory to write; must not exist. */
  readonly output: string
  /** Type of the floats written. Defaults to that of each tensor in the base model. */
  readonly dtype?: "F32" | "F16" | "BF16" | undefined
  /**
   * `fp8` writes routed experts as float8 with a scale for each block of 128 by 128, as vLLM takes them
   * (compressed-tensors). For models in bfloat16, and for DeepSeek's in float8, whose other weights become bfloat16.
   */
  readonly experts?: "fp8" | undefined
  /** Text files to put beside the weights, such as a model card, by name. */
  readonly files?: Readonly<Record<string, string>> | undefined
}

/**
 * How far a merge is.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  | { readonly _tag: "Planned"; readonly tensors: number; readonly changed: number; readonly bytes: number }
  | { readonly _tag: "Progress"; readonly written: number; readonly bytes: number; readonly tensor: string }
  | { readonly _tag: "Completed"; readonly directory: string; readonly bytes: number }

/**
 * Failures of a merge.
 *
 * @since 0.1.0
 * @category errors
 */
export type Failure = MergedModel.ReadError | AdapterMismatch | UnsupportedFormat | OutputExists

type Services = FileSystem.FileSystem | Path.Path

/** Values in one block. A few blocks are in memory at a time: one is computed while the other is written. */
const blockValues = 1 << 20

/** Files beside the weights that a server needs to load the model. */
const isCompanion = (name: string): boolean =>
  /^(generation_config|tokenizer(_config)?|special_tokens_map|added_tokens|vocab|chat_template|preprocessor_config|processor_config|video_preprocessor_config)\.json$/
    .test(name) ||
  /^(tokenizer\.model|tiktoken\.model|merges\.txt|chat_template\.jinja)$/.test(name) || name.endsWith(".py")

const outputType = (tensor: MergedModel.Tensor, dtype: Options["dtype"]): string =>
  dtype !== undefined && numbers.isFloatType(tensor.dtype) ? dtype : tensor.dtype

const blocks = (tensor: MergedModel.Tensor): ReadonlyArray<readonly [firstRow: number, rows: number]> => {
  const step = Math.max(1, Math.floor(blockValues / Math.max(1, tensor.columns)))
  return Array.from(
    { length: Math.ceil(tensor.rows / step) },
    (_, i) => [i * step, Math.min(step, tensor.rows - i * step)]
  )
}

/** DeepSeek's checkpoints have a layer for training alone, and frequencies that servers compute. */
const isSkipped = (family: ModelFamily.ModelFamily, name: string): boolean =>
  family.name === "deepseek" && /\.layers\.61\.|\.rotary_emb\.inv_freq$/.test(name)

const isRoutedExpert = ({ name, shape }: MergedModel.Tensor): boolean =>
  name.includes(".mlp.experts.") && !name.includes(".mlp.shared_experts.") && shape.length >= 2

const scaleName = (name: string): string => `${name.replace(/\.weight$/, "")}.weight_scale`

/** A tensor of the output. */
interface Written {
  readonly name: string
  readonly dtype: string
  readonly shape: ReadonlyArray<number>
}

/** An expert's weight and the scales of its blocks. */
const float8Entries = ({ name, shape }: MergedModel.Tensor): ReadonlyArray<Written> => {
  const [rows = 0, columns = 0] = shape.slice(-2)
  return [
    { name, dtype: "F8_E4M3", shape },
    { name: scaleName(name), dtype: "F32", shape: [...shape.slice(0, -2), float8.blocks(rows), float8.blocks(columns)] }
  ]
}

/** Codes band by band, then all scales. */
const float8Content = (tensor: MergedModel.Tensor): Stream.Stream<Uint8Array, MergedModel.ReadError> => {
  const [perMatrix = 1] = tensor.shape.slice(-2)
  const bands: Array<readonly [firstRow: number, rows: number]> = []
  for (let matrix = 0; matrix < tensor.rows; matrix += perMatrix) {
    for (let row = 0; row < perMatrix; row += float8.block) {
      bands.push([matrix + row, Math.min(float8.block, perMatrix - row)])
    }
  }
  const scales: Array<Float32Array> = []
  return Stream.mapEffect(
    Stream.fromIterable(bands),
    ([firstRow, rows]) =>
      Effect.map(tensor.floats(firstRow, rows), (values) => {
        const band = float8.quantizeBand(values.map(float8.brain), tensor.columns)
        scales.push(band.scales)
        return band.codes
      })
  ).pipe(
    Stream.concat(Stream.suspend(() => Stream.make(files.concat(scales.map((own) => numbers.fromFloat32("F32", own))))))
  )
}

/** Settings that tell vLLM which weights are float8: those that have scales. */
const compressionConfig = (names: ReadonlyArray<string>) => {
  const quantized = new Set(names.filter((name) => name.endsWith(".weight_scale")))
  const eightBits = { num_bits: 8, type: "float", symmetric: true }
  return {
    quant_method: "compressed-tensors",
    format: "float-quantized",
    quantization_status: "compressed",
    global_compression_ratio: null,
    config_groups: {
      group_0: {
        targets: ["Linear"],
        weights: { ...eightBits, strategy: "block", block_structure: [float8.block, float8.block], dynamic: false },
        input_activations: { ...eightBits, strategy: "tensor", dynamic: true }
      }
    },
    ignore: names.filter((name) => name.endsWith(".weight") && !quantized.has(scaleName(name)))
      .map((name) => name.replace(/\.weight$/, ""))
      .sort()
  }
}

const encode = (
  tensor: MergedModel.Tensor,
  dtype: string,
  firstRow: number,
  rows: number
): Effect.Effect<Uint8Array, MergedModel.ReadError> =>
  dtype !== tensor.dtype && numbers.isFloatType(dtype)
    ? Effect.map(tensor.floats(firstRow, rows), (values) => numbers.fromFloat32(dtype, values))
    : tensor.bytes(firstRow, rows)

/** Tensors written over the copy of a file that keeps its layout. */
const patches = (tensor: MergedModel.Tensor): ReadonlyArray<files.Patch<MergedModel.ReadError>> => {
  const rowBytes = tensor.columns * (SafetensorsHeader.dtypeBytes[tensor.dtype] ?? 0)
  return blocks(tensor).map(([firstRow, rows]) => ({
    tensor: tensor.name,
    start: tensor.start + firstRow * rowBytes,
    length: rows * rowBytes,
    bytes: (into) => tensor.bytes(firstRow, rows, into)
  }))
}

const merge = Effect.fnUntraced(function*(options: Options, emit: (event: Event) => Effect.Effect<void>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const output = path.resolve(options.output)
  if (yield* fs.exists(output)) return yield* new OutputExists({ path: output })
  const fp8 = options.experts === "fp8"
  if (fp8 && options.dtype !== undefined && options.dtype !== "BF16") {
    return yield* new UnsupportedFormat({
      description: "a model with experts in float8 has its other weights in bfloat16"
    })
  }
  const model = yield* MergedModel.open({ ...options, dequantize: fp8 })
  const plan = model.tensors.filter(({ name }) => !fp8 || !isSkipped(model.family, name)).map((tensor) => {
    const dtype = outputType(tensor, options.dtype)
    const quantized = fp8 && isRoutedExpert(tensor)
    const written = quantized ? float8Entries(tensor) : [{ name: tensor.name, dtype, shape: tensor.shape }]
    return { tensor, dtype, quantized, written }
  })
  if (fp8 && !plan.some(({ quantized }) => quantized)) {
    return yield* new UnsupportedFormat({ description: "the model has no routed experts to write as float8" })
  }
  const size = ({ written }: (typeof plan)[number]) =>
    written.reduce(
      (sum, own) => sum + SafetensorsHeader.elements(own.shape) * (SafetensorsHeader.dtypeBytes[own.dtype] ?? 0),
      0
    )
  const total = plan.reduce((sum, entry) => sum + size(entry), 0)
  yield* emit({
    _tag: "Planned",
    tensors: plan.length,
    changed: plan.filter(({ tensor }) => tensor.changed).length,
    bytes: total
  })

  const partial = `${output}.partial`
  yield* files.claim(
    partial,
    yield* files.fingerprint([options.base, options.adapter], {
      dtype: options.dtype ?? "same",
      tiedEmbeddings: options.tiedEmbeddings ?? "untie",
      experts: options.experts ?? "same"
    })
  )
  const names = [...new Set(plan.map(({ tensor }) => tensor.shard))]
  let written = 0
  const wrote = (bytes: number, tensor: string) => {
    written += bytes
    return emit({ _tag: "Progress", written, bytes: total, tensor })
  }
  for (const shard of names) {
    const own = plan.filter(({ tensor }) => tensor.shard === shard)
    const ownBytes = own.reduce((sum, entry) => sum + size(entry), 0)
    const source = path.join(options.base, shard)
    const target = path.join(partial, shard)
    // The layout stays where no tensor gets another type and none is added: an untied head starts where its embedding does.
    const sameLayout = !fp8 && model.gguf === undefined && own.every(({ dtype, tensor }) => dtype === tensor.dtype) &&
      new Set(own.map(({ tensor }) => tensor.start)).size === own.length
    const header = SafetensorsHeader.encode(own.flatMap(({ written }) => written), { format: "pt" })
    const expected = sameLayout ? Number((yield* fs.stat(source)).size) : header.length + ownBytes
    if (yield* files.isComplete(target, expected)) {
      yield* wrote(ownBytes, shard)
    } else if (sameLayout) {
      const changed = own.filter(({ tensor }) => tensor.changed)
      const copied = ownBytes - changed.reduce((sum, entry) => sum + size(entry), 0)
      yield* files.copyPatched(source, target, {
        patches: changed.flatMap(({ tensor }) => patches(tensor)),
        onCopied: wrote(copied, shard),
        onPatched: ({ length, tensor }) => wrote(length, tensor)
      })
    } else {
      const content = Stream.flatMap(Stream.fromIterable(own), ({ dtype, quantized, tensor }) => {
        const bytes: Stream.Stream<Uint8Array, MergedModel.ReadError> = quantized
          ? float8Content(tensor)
          : Stream.mapEffect(
            Stream.fromIterable(blocks(tensor)),
            ([firstRow, rows]) => encode(tensor, dtype, firstRow, rows)
          )
        return Stream.tap(bytes, ({ length }) => wrote(length, tensor.name))
      })
      yield* files.writeWhole(target, Stream.concat(Stream.make(header), content))
    }
  }

  const weightMap = Object.fromEntries(
    plan.flatMap(({ tensor, written }) => written.map(({ name }) => [name, tensor.shard]))
  )
  if (names.length > 1) {
    yield* fs.writeFileString(
      path.join(partial, "model.safetensors.index.json"),
      `${JSON.stringify({ metadata: { total_size: total }, weight_map: weightMap }, null, 2)}\n`
    )
  }
  const found = model.gguf === undefined ? yield* fs.readDirectory(options.base) : []
  for (const name of found) {
    if (isCompanion(name)) yield* files.copyWritable(fs, path.join(options.base, name), path.join(partial, name))
  }
  yield* files.writeTexts(partial, Object.fromEntries(model.gguf?.files ?? []))
  const unquantized = Object.entries(model.config).filter(([key]) => key !== "quantization_config")
  const config: Readonly<Record<string, unknown>> = fp8
    ? { ...Object.fromEntries(unquantized), compression_config: compressionConfig(Object.keys(weightMap)) }
    : model.config
  const names16 = { F32: "float32", F16: "float16", BF16: "bfloat16" }
  yield* fs.writeFileString(
    path.join(partial, "config.json"),
    `${
      JSON.stringify(
        {
          ...config,
          ...(model.untied ? { tie_word_embeddings: false } : {}),
          ...(options.dtype !== undefined && "torch_dtype" in config ? { torch_dtype: names16[options.dtype] } : {}),
          ...(options.dtype !== undefined && "dtype" in config ? { dtype: names16[options.dtype] } : {})
        },
        null,
        2
      )
    }\n`
  )
  yield* files.writeTexts(partial, options.files ?? {})
  yield* files.publish(partial, output)
  yield* emit({ _tag: "Completed", directory: output, bytes: total })
}, Effect.scoped)

/**
 * Merges, and reports how far it is. The last event is `Completed`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stream = (options: Options): Stream.Stream<Event, Failure, Services> =>
  files.events<Event, Failure, Services>((emit) => merge(options, emit))

/**
 * Merges; yields the directory that was written.
 *
 * @since 0.1.0
 * @category constructors
 */
export const run = (options: Options): Effect.Effect<string, Failure, Services> =>
  Effect.map(Stream.runLast(stream(options)), (last) =>
    Option.match(last, {
      onNone: () => options.output,
      onSome: (event) => event._tag === "Completed" ? event.directory : options.output
    }))

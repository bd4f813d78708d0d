/**
 * A base model with an adapter applied, as a view: tensors are read by blocks of rows, and the adapter's delta is added
 * to a block when it is read. Nothing larger than a block and one pair of LoRA matrices is ever in memory.
 *
 * @since 0.1.0
 */
import * as Permits from "@effect-tinker/platform/Permits"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Adapter from "./Adapter.js"
import * as GgufModel from "./GgufModel.js"
import * as Block from "./internal/block.js"
import * as float8 from "./internal/float8.js"
import * as ggufView from "./internal/ggufView.js"
import * as numbers from "./internal/numbers.js"
import * as ModelFamily from "./ModelFamily.js"
import * as Safetensors from "./Safetensors.js"
import * as SafetensorsHeader from "./SafetensorsHeader.js"
import { AdapterMismatch, InvalidFile, UnsupportedFormat } from "./WeightsError.js"

/**
 * Failures of reading a model.
 *
 * @since 0.1.0
 * @category errors
 */
export type ReadError = PlatformError.PlatformError | InvalidFile

/**
 * A tensor of the merged model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tensor {
  readonly name: string
  readonly dtype: string
  readonly shape: ReadonlyArray<number>
  /** Product of all dimensions but the last; 1 for a vector. */
  readonly rows: number
  /** The last dimension. */
  readonly columns: number
  /** Whether the adapter changes it. */
  readonly changed: boolean
  /** Name of the file it comes from. */
  readonly shard: string
  /** Offset of its first byte in that file. */
  readonly start: number
  /**
   * Rows in the tensor's own type, the adapter's delta added; as they are stored where it is not changed. `into` is memory
   * that may be used for them.
   */
  readonly bytes: (firstRow: number, rows: number, into?: Uint8Array) => Effect.Effect<Uint8Array, ReadError>
  /** Rows as float32, the adapter's delta added. */
  readonly floats: (firstRow: number, rows: number) => Effect.Effect<Float32Array, ReadError>
}

/**
 * A base model, and the adapter that is applied to it.
 *
 * @since 0.1.0
 * @category models
 */
export interface MergedModel {
  /** Directory or GGUF file it was read from. */
  readonly base: string
  /** The file, where the base is one. */
  readonly gguf: GgufModel.GgufModel | undefined
  readonly config: Readonly<Record<string, unknown>>
  readonly family: ModelFamily.ModelFamily
  /** In the order of the files and of their bytes. */
  readonly tensors: ReadonlyArray<Tensor>
  /** True where the output head had to be separated from the input embedding, which it shares in the base model. */
  readonly untied: boolean
}

/**
 * Which model, and which adapter.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /**
   * The base model: a directory with `config.json` and safetensors files, or a GGUF file. Weights of a file in fewer than
   * 16 bits are read as bfloat16, as the embedded backend computes with them.
   */
  readonly base: string
  /** Directory of the adapter. Without one, the model is read as it is. */
  readonly adapter?: string | undefined
  /**
   * Treatment of an adapter that changes the output head where the model shares it with its input embedding: `untie` gives
   * the head its own weight (the model computes what was trained), `merge` changes the shared weight (what the
   * Python cookbook does). Defaults to `untie`.
   */
  readonly tiedEmbeddings?: "untie" | "merge" | undefined
  /** Read weights that are stored as float8 in blocks as bfloat16; without it, such a model is refused. */
  readonly dequantize?: boolean | undefined
}

/** Where a delta goes: rows of the target, and within them columns. `transposed`: target rows run over inputs. */
interface Patch {
  readonly pair: Adapter.Pair
  readonly expert: number | undefined
  readonly transposed: boolean
  readonly firstRow: number
  readonly rows: number
  readonly firstColumn: number
  readonly columnStride: number
  readonly columns: number
}

const decodeConfig = ParseResult.decodeUnknownEither(
  Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
)

const show = (shape: ReadonlyArray<number>): string => `[${shape.join(", ")}]`

interface Planned {
  readonly target: string
  readonly patch: Patch
}

type Shapes = ReadonlyMap<string, ReadonlyArray<number>>

/** The patches of one LoRA pair. */
const plan = (
  pair: Adapter.Pair,
  pairs: ReadonlyMap<string, Adapter.Pair>,
  family: ModelFamily.ModelFamily,
  shapes: Shapes
): Either.Either<ReadonlyArray<Planned>, AdapterMismatch> => {
  const mismatch = (description: string) => Either.left(new AdapterMismatch({ tensor: pair.name, description }))
  const shapeOf = (target: string) => shapes.get(target)
  const missing = (target: string) => mismatch(`it changes ${target}, which the base model does not have`)
  const inputs = pair.a.shape.at(-1) ?? 0
  const outputs = pair.b.shape.at(-2) ?? 0
  const plain = { pair, expert: undefined, transposed: false, firstColumn: 0, columnStride: 1, columns: inputs }
  const unfit = (target: string, shape: ReadonlyArray<number>) =>
    mismatch(`its delta of ${show([outputs, inputs])} does not fit ${target} of ${show(shape)}`)

  if (!pair.name.includes(".experts")) {
    const target = family.rename(pair.name)
    const leaf = target.replace(/\.weight$/, "").split(".").at(-1) ?? ""
    for (const [fused, components] of Object.entries(family.fused)) {
      const index = components.indexOf(leaf)
      const fusedTarget = target.replace(new RegExp(`\\.${leaf}\\.weight$`), `.${fused}.weight`)
      const shape = shapeOf(fusedTarget)
      if (index < 0 || shape === undefined) continue
      let firstRow = 0
      for (const sibling of components.slice(0, index)) {
        const before = pairs.get(pair.name.replace(`.${leaf}.weight`, `.${sibling}.weight`))
        if (before === undefined) {
          return mismatch(`${fused} needs its sibling ${sibling}, which is missing from the adapter`)
        }
        firstRow += before.b.shape.at(-2) ?? 0
      }
      if (shape.at(-1) !== inputs || firstRow + outputs > (shape[0] ?? 0)) return unfit(fusedTarget, shape)
      return Either.right([{ target: fusedTarget, patch: { ...plain, firstRow, rows: outputs } }])
    }
    const shape = shapeOf(target)
    if (shape === undefined) return missing(target)
    return shape.length === 2 && shape[0] === outputs && shape[1] === inputs
      ? Either.right([{ target, patch: { ...plain, firstRow: 0, rows: outputs } }])
      : unfit(target, shape)
  }

  // A placeholder for a projection the model does not have.
  if (pair.a.bytes === 0 && pair.b.bytes === 0) return Either.right([])
  const [expertsA = 0] = pair.a.shape
  const [expertsB = 0] = pair.b.shape
  if (pair.a.shape.length !== 3) return mismatch("matrices of experts need three dimensions")
  if (expertsA !== expertsB && expertsA !== 1 && expertsB !== 1) {
    return mismatch(`${expertsA} experts in lora_A and ${expertsB} in lora_B`)
  }
  const experts = Math.max(expertsA, expertsB)
  const renamed = family.renameExpert(family.rename(pair.name))
  const each = (make: (expert: number) => Planned): ReadonlyArray<Planned> =>
    Array.from({ length: experts }, (_, i) => make(i))
  if (family.experts === "separate") {
    const planned = each((expert) => ({
      target: renamed.replaceAll(".experts", `.experts.${expert}`),
      patch: { ...plain, expert, firstRow: 0, rows: outputs }
    }))
    for (const { target } of planned) {
      const shape = shapeOf(target)
      if (shape === undefined) return missing(target)
      if (shape[0] !== outputs || shape[1] !== inputs) return unfit(target, shape)
    }
    return Either.right(planned)
  }
  const half = renamed.endsWith(".gate_proj.weight") ? 0 : renamed.endsWith(".up_proj.weight") ? 1 : undefined
  const target = half === undefined
    ? renamed.replace(".down_proj.weight", ".down_proj")
    : renamed.replace(/\.(gate|up)_proj\.weight$/, ".gate_up_proj")
  const shape = shapeOf(target)
  if (shape === undefined) return missing(target)
  const [count = 0, d1 = 0, d2 = 0] = shape
  const parts = half === undefined ? 1 : 2
  if (count !== experts) return unfit(target, shape)
  // Stacked experts are kept either as [experts, out, in] or, transposed, as [experts, in, out].
  if (d1 === inputs && d2 === outputs * parts) {
    const interleaved = family.experts === "interleaved" && half !== undefined
    return Either.right(each((expert) => ({
      target,
      patch: {
        pair,
        expert,
        transposed: true,
        firstRow: expert * d1,
        rows: inputs,
        firstColumn: interleaved ? half : (half ?? 0) * outputs,
        columnStride: interleaved ? 2 : 1,
        columns: outputs
      }
    })))
  }
  if (d1 === outputs * parts && d2 === inputs) {
    return Either.right(each((expert) => ({
      target,
      patch: { ...plain, expert, firstRow: expert * d1 + (half ?? 0) * outputs, rows: outputs }
    })))
  }
  return unfit(target, shape)
}

const transpose = (matrix: Float32Array, rows: number, columns: number): Float32Array => {
  const out = new Float32Array(matrix.length)
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[j * rows + i] = matrix[i * columns + j] ?? 0
  return out
}

/**
 * A function that adds deltas to a tensor. Keeps the matrices of the last patch, which the next block most likely needs, and
 * the memory it works in.
 */
const patcher = Effect.fnUntraced(function*(adapter: Adapter.Adapter) {
  const block = Block.make()
  let buffer = new Uint8Array(0)
  // One block at a time, since they share this memory.
  const lock = yield* Permits.make(1)
  const scale = Math.fround(adapter.alpha / adapter.rank)
  let current: { readonly patch: Patch; readonly left: Float32Array; readonly rank: number } | undefined
  const load = Effect.fnUntraced(function*(patch: Patch) {
    if (current?.patch === patch) return current
    const { expert, pair, transposed } = patch
    const rank = pair.a.shape.at(-2) ?? 1
    const a = yield* adapter.matrix(pair.a, expert)
    const b = yield* adapter.matrix(pair.b, expert)
    for (let i = 0; i < b.length; i++) b[i] = (b[i] ?? 0) * scale
    block.use(transposed ? transpose(b, b.length / rank, rank) : a, rank)
    return (current = { patch, rank, left: transposed ? transpose(a, rank, a.length / rank) : b })
  })
  return (tensor: Tensor, dtype: numbers.FloatType, patches: ReadonlyArray<Patch>): Tensor => {
    const { columns } = tensor
    const add = Effect.fnUntraced(function*(firstRow: number, rows: number) {
      const size = rows * columns * numbers.bytesOf(dtype)
      if (buffer.length < size) buffer = new Uint8Array(size)
      block.load(dtype, yield* tensor.bytes(firstRow, rows, buffer))
      for (const patch of patches) {
        const from = Math.max(firstRow, patch.firstRow)
        const to = Math.min(firstRow + rows, patch.firstRow + patch.rows)
        if (from >= to) continue
        const { left, rank } = yield* load(patch)
        block.add(left.subarray((from - patch.firstRow) * rank, (to - patch.firstRow) * rank), {
          first: (from - firstRow) * columns + patch.firstColumn,
          columnStride: patch.columnStride,
          rowStride: columns
        })
      }
    })
    return {
      ...tensor,
      bytes: (firstRow, rows, into) =>
        lock.withPermits(1)(Effect.map(add(firstRow, rows), () => block.bytes(dtype, into))),
      floats: (firstRow, rows) => lock.withPermits(1)(Effect.map(add(firstRow, rows), block.floats))
    }
  }
})

const scaleSuffix = ".weight_scale_inv"

const headNames = ["lm_head.weight", "language_model.lm_head.weight"]

/** A file of weights: safetensors, or GGUF seen as such. */
type Shard = Pick<Safetensors.SafetensorsFile, "path" | "tensors" | "read">

interface Base {
  readonly config: Readonly<Record<string, unknown>>
  readonly gguf: GgufModel.GgufModel | undefined
  readonly shards: ReadonlyArray<{ readonly name: string; readonly file: Shard }>
}

const openBase: (
  base: string
) => Effect.Effect<
  Base,
  ReadError | UnsupportedFormat,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> = Effect.fnUntraced(function*(base) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const info = yield* Effect.option(fs.stat(base))
  if (Option.isSome(info) && info.value.type === "File") {
    const gguf = yield* GgufModel.open(base)
    if (gguf.architecture.startsWith("gemma")) {
      return yield* new UnsupportedFormat({
        description: `${base}: a ${gguf.architecture} model is exported from its Hugging Face directory, not from GGUF`
      })
    }
    return { config: gguf.config, gguf, shards: [yield* ggufView.shard(gguf)] }
  }
  const configPath = path.join(base, "config.json")
  const config = yield* Either.mapLeft(
    decodeConfig(yield* fs.readFileString(configPath)),
    () => new InvalidFile({ path: configPath, description: "not a JSON object" })
  )
  const shards = yield* Effect.forEach(
    yield* Safetensors.shardNames(base),
    (name) => Effect.map(Safetensors.open(path.join(base, name)), (file) => ({ name, file }))
  )
  return { config, gguf: undefined, shards }
})

/**
 * Opens a model, with an adapter applied if one is given, for as long as the scope lasts. The adapter is checked against
 * the model here: what does not fit is found before anything is written.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open: (
  options: Options
) => Effect.Effect<
  MergedModel,
  ReadError | AdapterMismatch | UnsupportedFormat,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> = Effect.fnUntraced(function*(options) {
  const { config, gguf, shards } = yield* openBase(options.base)
  const float8Blocks = options.dequantize === true ? ModelFamily.float8Blocks(config) : undefined
  if (options.adapter !== undefined && float8Blocks === undefined && ModelFamily.isQuantized(config)) {
    return yield* new UnsupportedFormat({
      description: "the base model's weights are quantized (quantization_config in config.json); " +
        "merge into its 16-bit original, or serve the PEFT adapter beside the quantized model"
    })
  }
  const shapes = new Map(shards.flatMap(({ file }) => file.tensors.map(({ name, shape }) => [name, shape] as const)))
  const family = ModelFamily.detect(config, new Set(shapes.keys()))

  const patches = new Map<string, Array<Patch>>()
  let untieFrom: string | undefined
  const adapter = options.adapter === undefined ? undefined : yield* Adapter.open(options.adapter)
  if (adapter !== undefined) {
    const hasHead = headNames.some((name) => shapes.has(name))
    const pairs = new Map(adapter.pairs.map((pair) => [pair.name, pair]))
    for (const pair of adapter.pairs) {
      const embedding = family.rename("base_model.model.model.embed_tokens.weight")
      const changesHead = /(^|\.)(unembed_tokens|lm_head)\.weight$/.test(pair.name)
      if (changesHead && !hasHead) {
        const shape = shapes.get(embedding)
        if (shape === undefined) {
          return yield* new AdapterMismatch({ tensor: pair.name, description: "the base model has no output head" })
        }
        if (options.tiedEmbeddings !== "merge") untieFrom = embedding
      }
      const renamed = changesHead && !hasHead ? { ...pair, name: "base_model.model.model.embed_tokens.weight" } : pair
      for (const { patch, target } of yield* plan(renamed, pairs, family, shapes)) {
        const key = changesHead && untieFrom !== undefined ? "lm_head.weight" : target
        const list = patches.get(key) ?? []
        list.push(patch)
        patches.set(key, list)
      }
    }
  }
  const patched = adapter === undefined ? undefined : yield* patcher(adapter)

  const scales = new Map(
    shards.flatMap(({ file }) =>
      file.tensors.flatMap((info) => info.name.endsWith(scaleSuffix) ? [[info.name, { file, info }] as const] : [])
    )
  )
  /** The scales that were read last: the next block most likely needs them too. */
  let current: { readonly of: string; readonly values: Float32Array } | undefined
  /** Rows of a tensor as they are stored, and as floats. */
  const readerOf = (file: Shard, info: SafetensorsHeader.TensorInfo, columns: number) => {
    const rowBytes = info.bytes / Math.max(1, SafetensorsHeader.elements(info.shape) / Math.max(columns, 1))
    const bytes: Tensor["bytes"] = (firstRow, count, into) =>
      file.read(info.start + firstRow * rowBytes, count * rowBytes, into)
    const stored: Tensor["floats"] = Effect.fnUntraced(function*(firstRow, count) {
      return numbers.toFloat32(info.dtype, yield* bytes(firstRow, count)) ?? (yield* new InvalidFile({
        path: file.path,
        description: `${info.name} is ${info.dtype}, not a float`
      }))
    })
    if (float8Blocks === undefined || info.dtype !== "F8_E4M3") return { dtype: info.dtype, bytes, floats: stored }
    const [blockRows, blockColumns] = float8Blocks
    const floats: Tensor["floats"] = Effect.fnUntraced(function*(firstRow, count) {
      const scale = scales.get(info.name.replace(/\.weight$/, scaleSuffix))
      if (scale === undefined) {
        return yield* new InvalidFile({ path: file.path, description: `${info.name} has no scales` })
      }
      if (current?.of !== info.name) {
        const values = numbers.toFloat32(scale.info.dtype, yield* scale.file.read(scale.info.start, scale.info.bytes))
        current = { of: info.name, values: values ?? new Float32Array(0) }
      }
      return float8.dequantize(yield* bytes(firstRow, count), {
        scales: current.values,
        firstRow,
        columns,
        blockRows,
        blockColumns
      })
    })
    return {
      dtype: "BF16",
      bytes: (firstRow: number, count: number) =>
        Effect.map(floats(firstRow, count), (values) => numbers.fromFloat32("BF16", values)),
      floats
    }
  }

  const tensor = (
    file: Shard,
    shard: string,
    info: SafetensorsHeader.TensorInfo,
    name = info.name
  ): Tensor => {
    const columns = info.shape.at(-1) ?? 1
    const rows = info.shape.length < 2 ? 1 : SafetensorsHeader.elements(info.shape) / Math.max(columns, 1)
    const own = patches.get(name) ?? []
    const { bytes, dtype, floats } = readerOf(file, info, columns)
    const { shape, start } = info
    const changed = own.length > 0
    const stored: Tensor = { name, dtype, shape, rows, columns, changed, shard, start, bytes, floats }
    return patched === undefined || !changed || !numbers.isFloatType(dtype) ? stored : patched(stored, dtype, own)
  }

  const tensors = shards.flatMap(({ file, name }) =>
    file.tensors.flatMap((info) => {
      if (float8Blocks !== undefined && info.name.endsWith(scaleSuffix)) return []
      const own = tensor(file, name, info)
      return info.name === untieFrom ? [own, tensor(file, name, info, "lm_head.weight")] : [own]
    })
  )
  const unfit = tensors.find(({ changed, dtype }) => changed && !numbers.isFloatType(dtype))
  if (unfit !== undefined) {
    return yield* new UnsupportedFormat({
      description: `${unfit.name} is ${unfit.dtype}: a delta cannot be added to it`
    })
  }
  return { base: options.base, gguf, config, family, tensors, untied: untieFrom !== undefined }
})

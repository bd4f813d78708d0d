/**
 * A trained LoRA adapter on disk, as a checkpoint download leaves it: `adapter_config.json` beside
 * `adapter_model.safetensors`. Its matrices are read when they are needed, not before.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as numbers from "./internal/numbers.js"
import * as Safetensors from "./Safetensors.js"
import type * as SafetensorsHeader from "./SafetensorsHeader.js"
import { AdapterMismatch, InvalidFile, UnsupportedFormat } from "./WeightsError.js"

/**
 * The two matrices that change one weight: `W + scale · B · A`. Those of experts have a third, leading dimension.
 *
 * @since 0.1.0
 * @category models
 */
export interface Pair {
  /** Name of the weight in the adapter's vocabulary, with `.weight`. */
  readonly name: string
  /** `[rank, in]` or `[experts, rank, in]`. */
  readonly a: SafetensorsHeader.TensorInfo
  /** `[out, rank]` or `[experts, out, rank]`. */
  readonly b: SafetensorsHeader.TensorInfo
}

/**
 * An open adapter.
 *
 * @since 0.1.0
 * @category models
 */
export interface Adapter {
  readonly directory: string
  readonly rank: number
  readonly alpha: number
  /** Base model that the configuration names, if it does. */
  readonly baseModel: string | undefined
  /** The content of `adapter_config.json`. */
  readonly config: Readonly<Record<string, unknown>>
  readonly pairs: ReadonlyArray<Pair>
  /** A matrix as float32; of an expert, where it has several. A matrix shared by all experts is given for each. */
  readonly matrix: (
    tensor: SafetensorsHeader.TensorInfo,
    expert?: number
  ) => Effect.Effect<Float32Array, PlatformError.PlatformError | InvalidFile>
  /** The bytes of a matrix as they are stored. */
  readonly bytes: (
    tensor: SafetensorsHeader.TensorInfo
  ) => Effect.Effect<Uint8Array, PlatformError.PlatformError | InvalidFile>
}

const decodeConfig = ParseResult.decodeUnknownEither(
  Schema.parseJson(Schema.Struct(
    {
      r: Schema.Number.pipe(Schema.int(), Schema.positive()),
      lora_alpha: Schema.Number.pipe(Schema.finite()),
      base_model_name_or_path: Schema.optional(Schema.NullOr(Schema.String)),
      rank_pattern: Schema.optional(Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Number }))),
      use_dora: Schema.optional(Schema.NullOr(Schema.Boolean)),
      use_rslora: Schema.optional(Schema.NullOr(Schema.Boolean))
    },
    { key: Schema.String, value: Schema.Unknown }
  ))
)

/**
 * Opens an adapter for as long as the scope lasts.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open: (
  directory: string
) => Effect.Effect<
  Adapter,
  PlatformError.PlatformError | InvalidFile | AdapterMismatch | UnsupportedFormat,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> = Effect.fnUntraced(function*(directory) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const configPath = path.join(directory, "adapter_config.json")
  const config = yield* Either.mapLeft(
    decodeConfig(
      yield* Effect.mapError(
        fs.readFileString(configPath),
        (error) =>
          error._tag === "SystemError" && error.reason === "NotFound"
            ? new InvalidFile({ path: directory, description: "no adapter_config.json here: not a LoRA adapter" })
            : error
      )
    ),
    () => new InvalidFile({ path: configPath, description: "not an adapter configuration with r and lora_alpha" })
  )
  if (config.use_dora === true || config.use_rslora === true || Object.keys(config.rank_pattern ?? {}).length > 0) {
    return yield* new UnsupportedFormat({
      description: `${configPath}: only plain LoRA with one rank is supported (no DoRA, rsLoRA or rank_pattern)`
    })
  }
  const file = yield* Safetensors.open(path.join(directory, "adapter_model.safetensors"))
  const byName = new Map(file.tensors.map((tensor) => [tensor.name, tensor]))
  const pairs: Array<Pair> = []
  for (const a of file.tensors) {
    if (!a.name.includes(".lora_A")) continue
    const b = byName.get(a.name.replace(".lora_A", ".lora_B"))
    if (b === undefined) return yield* new AdapterMismatch({ tensor: a.name, description: "its lora_B is missing" })
    const [rankA, rankB] = [a.shape.at(-2), b.shape.at(-1)]
    if (a.shape.length !== b.shape.length || a.shape.length < 2 || rankA !== rankB) {
      return yield* new AdapterMismatch({
        tensor: a.name,
        description: `shapes [${a.shape.join(", ")}] and [${b.shape.join(", ")}] are not a LoRA pair`
      })
    }
    pairs.push({ name: a.name.replace(".lora_A", ""), a, b })
  }
  if (pairs.length === 0) {
    return yield* new InvalidFile({ path: file.path, description: "no LoRA matrices here (no name with .lora_A)" })
  }
  const matrix: Adapter["matrix"] = Effect.fnUntraced(function*(tensor, expert) {
    const [count = 1] = tensor.shape
    const slices = tensor.shape.length === 3 && expert !== undefined
    const bytes = slices ? tensor.bytes / count : tensor.bytes
    const start = slices && count > 1 ? tensor.start + expert * bytes : tensor.start
    const values = numbers.toFloat32(tensor.dtype, yield* file.read(start, bytes))
    return values ?? (yield* new InvalidFile({
      path: file.path,
      description: `${tensor.name} has dtype ${tensor.dtype}, which is not a float`
    }))
  })
  return {
    directory,
    rank: config.r,
    alpha: config.lora_alpha,
    baseModel: config.base_model_name_or_path ?? undefined,
    config,
    pairs,
    matrix,
    bytes: (tensor) => file.read(tensor.start, tensor.bytes)
  }
})

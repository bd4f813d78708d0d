/**
 * LoRA adapters from elsewhere, as PEFT saves them: read for the engine, whatever part of the model they change.
 * `LocalServer.importAdapter` makes checkpoints of them.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { InvalidRequest } from "./EngineError.js"
import type { Group } from "./internal/engine/architecture.js"
import { makeArchitecture, makeLora, namedPieces } from "./internal/engine/architecture.js"
import type * as LocalAdapter from "./LocalAdapter.js"
import type * as LocalModel from "./LocalModel.js"
import * as Safetensors from "./Safetensors.js"

const Pattern = Schema.optional(Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown })))

const Config = Schema.parseJson(Schema.Struct({
  peft_type: Schema.optional(Schema.String),
  r: Schema.Int.pipe(Schema.positive()),
  lora_alpha: Schema.Number.pipe(Schema.finite()),
  bias: Schema.optional(Schema.String),
  fan_in_fan_out: Schema.optional(Schema.NullOr(Schema.Boolean)),
  use_rslora: Schema.optional(Schema.NullOr(Schema.Boolean)),
  use_dora: Schema.optional(Schema.NullOr(Schema.Boolean)),
  rank_pattern: Pattern,
  alpha_pattern: Pattern
}))

const decodeConfig = ParseResult.decodeUnknownEither(Config)

/** Change that a setting makes to the computation, where it is set. */
const refusal = (config: typeof Config.Type): string | undefined => {
  if ((config.peft_type ?? "LORA") !== "LORA") return `a ${config.peft_type} adapter, expected LORA`
  if (config.use_dora === true) return "DoRA is not supported"
  if (config.fan_in_fan_out === true) return "fan_in_fan_out is not supported"
  if ((config.bias ?? "none") !== "none") return "trained biases are not supported"
  const patterns = { ...config.rank_pattern, ...config.alpha_pattern }
  return Object.keys(patterns).length > 0 ? "adapters of several ranks or scales are not supported" : undefined
}

const groupOf = (name: string): Group | undefined =>
  /\.self_attn\.[qkvo]_proj\./.test(name)
    ? "attn"
    : /\.mlp\.(gate|up|down)_proj\./.test(name)
    ? "mlp"
    : name.startsWith("base_model.model.lm_head.")
    ? "unembed"
    : undefined

/** Some trainers call the output head by the name of its input. */
const rename = (name: string): string =>
  name.replace("base_model.model.model.unembed_tokens.", "base_model.model.lm_head.")

/**
 * The adapter of a directory (`adapter_config.json`, `adapter_model.safetensors`) for one of the engine's models. The
 * engine trains attention, the feed-forward layers and the output head each as a whole: of those that the adapter changes
 * in part, the rest gets factors that change nothing.
 *
 * @since 0.1.0
 * @category constructors
 */
export const read: (
  directory: string,
  model: LocalModel.LocalModel
) => Effect.Effect<LocalAdapter.Snapshot, InvalidRequest, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directory, model) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const refuse = (file: string, description: string) =>
      new InvalidRequest({ description: `${path.join(directory, file)}: ${description}` })
    const configFile = "adapter_config.json"
    const weightsFile = "adapter_model.safetensors"
    const text = yield* Effect.mapError(
      fs.readFileString(path.join(directory, configFile)),
      (error) => refuse(configFile, error.message)
    )
    const config = yield* Effect.mapError(
      decodeConfig(text),
      (issue) => refuse(configFile, ParseResult.TreeFormatter.formatIssueSync(issue))
    )
    const problem = refusal(config)
    if (problem !== undefined) return yield* refuse(configFile, problem)
    const bytes = yield* Effect.mapError(
      fs.readFile(path.join(directory, weightsFile)),
      (error) => refuse(weightsFile, error.message)
    )
    const file = yield* Effect.mapError(Safetensors.decode(bytes), (problem) => refuse(weightsFile, problem))
    const tensors = new Map(file.tensors.map((tensor) => [rename(tensor.name), tensor]))
    const groups = new Set<Group>()
    for (const name of tensors.keys()) {
      const group = groupOf(name)
      if (group === undefined) return yield* refuse(weightsFile, `${name} is not part of ${model.name}`)
      groups.add(group)
    }
    if (groups.size === 0) return yield* refuse(weightsFile, "the adapter is empty")
    const lora = makeLora(makeArchitecture(model), { rank: config.r, groups: Array.from(groups) })
    const pieces = namedPieces(lora)
    const known = new Set(pieces.map(({ name }) => name))
    const foreign = Array.from(tensors.keys()).find((name) => !known.has(name))
    if (foreign !== undefined) return yield* refuse(weightsFile, `${foreign} is not part of ${model.name}`)
    const weights: Array<LocalAdapter.NamedTensor> = []
    for (const { from, name, shape, to } of pieces) {
      const tensor = tensors.get(name)
      if (tensor !== undefined && tensor.shape.join() !== shape.join()) {
        return yield* refuse(
          weightsFile,
          `${name} has shape [${tensor.shape.join(", ")}], expected [${shape.join(", ")}]`
        )
      }
      weights.push({ name, shape, data: tensor?.data ?? new Float32Array(to - from) })
    }
    return {
      baseModel: model.name,
      rank: config.r,
      scale: config.lora_alpha / (config.use_rslora === true ? Math.sqrt(config.r) : config.r),
      trainAttn: groups.has("attn"),
      trainMlp: groups.has("mlp"),
      trainUnembed: groups.has("unembed"),
      weights
    }
  }
)

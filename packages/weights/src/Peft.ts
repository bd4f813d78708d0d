/**
 * A trained adapter in the form inference servers take beside a base model (vLLM `--lora-modules`, SGLang
 * `--lora-paths`, PEFT's `from_pretrained`): names of the served model, one pair of matrices per expert.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Adapter from "./Adapter.js"
import * as files from "./internal/files.js"
import * as MergedModel from "./MergedModel.js"
import * as SafetensorsHeader from "./SafetensorsHeader.js"
import { AdapterMismatch, OutputExists, UnsupportedFormat } from "./WeightsError.js"

/**
 * Which adapter, for which model, and where to.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** Directory or GGUF file of the base model; only names and shapes of its weights are read. */
  readonly base: string
  /** Directory of the adapter. */
  readonly adapter: string
  /** Directory to write; must not exist. */
  readonly output: string
  /** Base model that the configuration names. Defaults to `base`. */
  readonly baseModelName?: string | undefined
  /** Text files to put beside the weights, such as a model card, by name. */
  readonly files?: ((summary: Summary) => Readonly<Record<string, string>>) | undefined
}

/**
 * Written adapter.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  readonly directory: string
  readonly tensors: number
  /** The largest rank: projections that the served model fuses add up theirs. */
  readonly rank: number
  readonly targetModules: ReadonlyArray<string>
  /** Features that a server may refuse; empty for dense models. */
  readonly warnings: ReadonlyArray<string>
}

/**
 * Failures of a conversion.
 *
 * @since 0.1.0
 * @category errors
 */
export type Failure = MergedModel.ReadError | AdapterMismatch | UnsupportedFormat | OutputExists

interface Matrix {
  readonly name: string
  readonly dtype: string
  readonly shape: ReadonlyArray<number>
  readonly bytes: Effect.Effect<Uint8Array, MergedModel.ReadError>
}

const key = (module: string, side: "A" | "B"): string => `base_model.model.${module}.lora_${side}.weight`

/** The pairs of a weight that the served model does not fuse, experts one by one. */
const separate = (adapter: Adapter.Adapter, pair: Adapter.Pair, module: string): ReadonlyArray<Matrix> => {
  const sides = [["A", pair.a], ["B", pair.b]] as const
  if (pair.a.shape.length === 2) {
    return sides.map(([side, { dtype, shape, ...tensor }]) => ({
      name: key(module, side),
      dtype,
      shape,
      bytes: adapter.bytes({ ...tensor, dtype, shape })
    }))
  }
  const experts = Math.max(pair.a.shape[0] ?? 0, pair.b.shape[0] ?? 0)
  return Array.from({ length: experts }, (_, expert) =>
    sides.map(([side, tensor]): Matrix => {
      const [count = 1, ...shape] = tensor.shape
      const size = tensor.bytes / count
      return {
        name: key(module.replaceAll(".experts", `.experts.${expert}`), side),
        dtype: tensor.dtype,
        shape,
        bytes: adapter.bytes({ ...tensor, start: tensor.start + (count === 1 ? 0 : expert * size), bytes: size })
      }
    })).flat()
}

/** Projections trained apart as one pair of a larger rank: their A's on top of each other, their B's on a diagonal. */
const fuse = (
  adapter: Adapter.Adapter,
  pairs: ReadonlyArray<Adapter.Pair>,
  module: string,
  outputs: number
): ReadonlyArray<Matrix> => {
  const rank = pairs.reduce((sum, { a }) => sum + (a.shape[0] ?? 0), 0)
  const { dtype } = pairs[0]?.a ?? { dtype: "F32" }
  const width = SafetensorsHeader.dtypeBytes[dtype] ?? 4
  return [
    {
      name: key(module, "A"),
      dtype,
      shape: [rank, pairs[0]?.a.shape[1] ?? 0],
      bytes: Effect.map(Effect.forEach(pairs, ({ a }) => adapter.bytes(a)), files.concat)
    },
    {
      name: key(module, "B"),
      dtype,
      shape: [outputs, rank],
      bytes: Effect.map(Effect.forEach(pairs, ({ b }) => adapter.bytes(b)), (parts) => {
        const all = new Uint8Array(outputs * rank * width)
        let row = 0
        let column = 0
        for (const [i, part] of parts.entries()) {
          const own = pairs[i]?.b.shape[1] ?? 0
          for (let at = 0; at < part.length; at += own * width, row++) {
            all.set(part.subarray(at, at + own * width), (row * rank + column) * width)
          }
          column += own
        }
        return all
      })
    }
  ]
}

/**
 * Converts an adapter.
 *
 * @since 0.1.0
 * @category constructors
 */
export const convert: (options: Options) => Effect.Effect<Summary, Failure, FileSystem.FileSystem | Path.Path> = Effect
  .fnUntraced(function*(options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const output = path.resolve(options.output)
    if (yield* fs.exists(output)) return yield* new OutputExists({ path: output })
    const { config, family, tensors } = yield* MergedModel.open({ base: options.base })
    if (family.modelType === "deepseek_v3") {
      return yield* new UnsupportedFormat({
        description: "vLLM and SGLang serve no LoRA adapters for DeepSeek V3; merge the adapter into the model instead"
      })
    }
    const adapter = yield* Adapter.open(options.adapter)
    const shapes = new Map(tensors.map(({ name, shape }) => [name, shape]))
    const matrices: Array<Matrix> = []
    const ranks: Record<string, number> = {}
    const pending = new Map<string, Map<string, Adapter.Pair>>()
    const fusedBy = family.name === "nemotron" ? family.fused : {}
    for (const pair of adapter.pairs) {
      if (pair.a.bytes === 0 && pair.b.bytes === 0) continue
      const expert = pair.name.includes(".experts")
      const renamed = family.renameForPeft(pair.name)
      const module = (expert ? family.renameExpert(renamed) : renamed).replace(/\.weight$/, "")
      const leaf = module.split(".").at(-1) ?? ""
      const fused = Object.entries(fusedBy).find(([, components]) => components.includes(leaf))?.[0]
      if (fused === undefined) {
        matrices.push(...separate(adapter, pair, module))
        continue
      }
      const whole = module.slice(0, -leaf.length) + fused
      const parts = pending.get(whole) ?? new Map<string, Adapter.Pair>()
      parts.set(leaf, pair)
      pending.set(whole, parts)
    }
    for (const [whole, parts] of pending) {
      const target = whole.split(".").at(-1) ?? ""
      const components = fusedBy[target] ?? []
      const pairs = components.flatMap((component) => parts.get(component) ?? [])
      const missing = components.find((component) => !parts.has(component))
      if (missing !== undefined) {
        return yield* new AdapterMismatch({ tensor: whole, description: `the adapter is missing its part ${missing}` })
      }
      const layer = /\.layers\.(\d+)\./.exec(whole)?.[1] ?? ""
      const outputs = [...shapes].find(([name]) =>
        name.includes(`.layers.${layer}.`) && name.endsWith(`.${target}.weight`)
      )?.[1][0]
      if (outputs === undefined) {
        return yield* new AdapterMismatch({ tensor: whole, description: "the base model does not have it" })
      }
      matrices.push(...fuse(adapter, pairs, whole, outputs))
      ranks[target] = pairs.reduce((sum, { a }) => sum + (a.shape[0] ?? 0), 0)
    }
    const seen = new Set<string>()
    const duplicate = matrices.find(({ name }) => seen.size === seen.add(name).size)
    if (duplicate !== undefined) {
      return yield* new AdapterMismatch({ tensor: duplicate.name, description: "two adapter weights map to it" })
    }
    const targetModules = [...new Set(matrices.map(({ name }) => name.split(".").at(-3) ?? ""))].sort()
    const partial = `${output}.partial`
    yield* fs.remove(partial, { recursive: true, force: true })
    yield* fs.makeDirectory(partial, { recursive: true })
    yield* files.writeWhole(
      path.join(partial, "adapter_model.safetensors"),
      Stream.concat(
        Stream.make(SafetensorsHeader.encode(matrices)),
        Stream.mapEffect(Stream.fromIterable(matrices), ({ bytes }) => bytes)
      )
    )
    const peftConfig = {
      peft_type: "LORA",
      auto_mapping: null,
      base_model_name_or_path: options.baseModelName ?? options.base,
      bias: "none",
      fan_in_fan_out: false,
      inference_mode: true,
      init_lora_weights: true,
      lora_alpha: adapter.alpha,
      lora_dropout: 0,
      modules_to_save: null,
      r: adapter.rank,
      rank_pattern: ranks,
      // The scale, alpha over rank, stays what it was.
      alpha_pattern: Object.fromEntries(
        Object.entries(ranks).map(([name, rank]) => [name, Math.trunc(adapter.alpha * rank / adapter.rank)])
      ),
      target_modules: targetModules,
      task_type: "CAUSAL_LM"
    }
    const experts = adapter.pairs.some(({ name }) => name.includes(".experts"))
    const tied = config["tie_word_embeddings"] === true && targetModules.includes("embed_tokens")
    const summary: Summary = {
      directory: output,
      tensors: matrices.length,
      rank: Math.max(adapter.rank, ...Object.values(ranks)),
      targetModules,
      warnings: [
        ...(experts && family.name !== "gpt-oss"
          ? ["LoRA on experts is experimental in vLLM and not supported by SGLang: try a merged model if it is refused"]
          : []),
        ...(tied
          ? ["the adapter changes an output head that the model shares with its input embedding: prefer a merged model"]
          : [])
      ]
    }
    yield* files.writeTexts(partial, {
      "adapter_config.json": `${JSON.stringify(peftConfig, null, 2)}\n`,
      ...options.files?.(summary)
    })
    yield* fs.rename(partial, output)
    return summary
  }, Effect.scoped)

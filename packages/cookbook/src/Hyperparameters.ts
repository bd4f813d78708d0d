/**
 * Advice on learning rates and sizes of adapters, as the official cookbook gives it. A model nobody measured has none:
 * that is an `Option.none`, and a reason to sweep, never a failure.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"

/** Hidden size, and parameters of an adapter of rank 1 by what it adapts: MLP, attention, unembedding. */
const models: Readonly<Record<string, readonly [hidden: number, lora: readonly [number, number, number]]>> = {
  "Qwen/Qwen3-235B-A22B-Instruct-2507": [4_096, [56_598_528, 3_176_448, 156_032]],
  "Qwen/Qwen3-30B-A3B": [2_048, [14_450_688, 835_584, 153_984]],
  "Qwen/Qwen3-30B-A3B-Base": [2_048, [14_450_688, 835_584, 153_984]],
  "Qwen/Qwen3-30B-A3B-Instruct-2507": [2_048, [14_450_688, 835_584, 153_984]],
  "Qwen/Qwen3-32B": [5_120, [5_898_240, 2_490_368, 157_056]],
  "Qwen/Qwen3-4B-Instruct-2507": [2_560, [1_327_104, 737_280, 154_496]],
  "Qwen/Qwen3-8B": [4_096, [1_769_472, 958_464, 156_032]],
  "Qwen/Qwen3-8B-Base": [4_096, [1_769_472, 958_464, 156_032]],
  "Qwen/Qwen3-VL-235B-A22B-Instruct": [4_096, [56_598_528, 3_176_448, 156_032]],
  "Qwen/Qwen3-VL-30B-A3B-Instruct": [2_048, [14_450_688, 835_584, 153_984]],
  "Qwen/Qwen3.5-27B": [5_120, [4_325_376, 2_965_504, 253_440]],
  "Qwen/Qwen3.5-35B-A3B": [2_048, [16_281_600, 1_013_760, 250_368]],
  "Qwen/Qwen3.5-35B-A3B-Base": [2_048, [16_281_600, 1_013_760, 250_368]],
  "Qwen/Qwen3.5-397B-A17B": [4_096, [96_030_720, 2_841_600, 252_416]],
  "Qwen/Qwen3.5-4B": [2_560, [1_130_496, 897_024, 250_880]],
  "Qwen/Qwen3.5-9B": [4_096, [1_572_864, 1_130_496, 252_416]],
  "Qwen/Qwen3.5-9B-Base": [4_096, [1_572_864, 1_130_496, 252_416]],
  "Qwen/Qwen3.6-27B": [5_120, [4_325_376, 2_965_504, 253_440]],
  "Qwen/Qwen3.6-35B-A3B": [2_048, [16_281_600, 1_013_760, 250_368]],
  "Qwen/Qwen3.8-27B": [5_120, [4_325_376, 2_965_504, 253_440]],
  "deepseek-ai/DeepSeek-V3.1": [7_168, [94_307_328, 2_440_000, 136_448]],
  "deepseek-ai/DeepSeek-V3.1-Base": [7_168, [94_307_328, 2_440_000, 136_448]],
  "deepseek-ai/DeepSeek-V4.1-Flash": [5_120, [107_673_600, 1_013_760, 134_400]],
  "deepseek-ai/DeepSeek-V4.1-Flash-1017": [5_120, [107_673_600, 1_013_760, 134_400]],
  "meta-llama/Llama-3.1-70B": [8_192, [8_847_360, 4_096_000, 136_448]],
  "meta-llama/Llama-3.1-8B": [4_096, [1_769_472, 851_968, 132_352]],
  "meta-llama/Llama-3.1-8B-Instruct": [4_096, [1_769_472, 851_968, 132_352]],
  "meta-llama/Llama-3.2-1B": [2_048, [491_520, 212_992, 130_304]],
  "meta-llama/Llama-3.2-3B": [3_072, [946_176, 573_440, 131_328]],
  "meta-llama/Llama-3.3-70B-Instruct": [8_192, [8_847_360, 4_096_000, 136_448]],
  "moonshotai/Kimi-K2-Thinking": [7_168, [144_583_680, 1_940_288, 171_008]],
  "moonshotai/Kimi-K2.5": [7_168, [144_583_680, 1_940_288, 171_008]],
  "moonshotai/Kimi-K2.6": [7_168, [144_583_680, 1_940_288, 171_008]],
  "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": [2_688, [11_346_176, 584_832, 133_760]],
  "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": [4_096, [111_349_760, 1_675_264, 135_168]],
  "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": [8_192, [254_529_536, 4_134_912, 139_264]],
  "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16": [2_688, [11_346_176, 584_832, 133_760]],
  "nvidia/NVIDIA-Nemotron-3.5-Super-VL-120B-A12B-BF16": [4_096, [111_349_760, 1_675_264, 135_168]],
  "openai/gpt-oss-120b": [2_880, [40_124_160, 746_496, 203_968]],
  "openai/gpt-oss-20b": [2_880, [6_842_880, 497_664, 203_968]],
  "thinkingmachines/Inkling": [6_144, [154_705_920, 3_424_256, 207_168]],
  "thinkingmachines/Inkling-Small": [4_096, [64_503_808, 1_311_744, 205_120]],
  "zai-org/GLM-5.3": [6_144, [121_356_288, 2_920_320, 161_024]],
  "zai-org/GLM-5.3-Flash": [4_096, [75_755_520, 2_009_088, 158_976]]
}

const find = (model: string) => {
  // Services add their own variants after a colon.
  const [name = ""] = model.split(":")
  return Object.hasOwn(models, name) ? Option.fromNullable(models[name]) : Option.none()
}

/**
 * A learning rate to begin with, for a LoRA adapter. Calibrated for Llama and Qwen models; larger ones of a family want
 * smaller rates.
 *
 * @since 0.1.0
 * @category combinators
 */
export const learningRate = (model: string): Option.Option<number> => {
  const name = model.toLowerCase()
  const exponent = name.includes("llama") ? 0.781 : name.includes("qwen") ? 0.0775 : undefined
  return exponent === undefined
    ? Option.none()
    : Option.map(find(model), ([hidden]) => 5e-4 * (2000 / hidden) ** exponent)
}

/**
 * How many parameters an adapter has.
 *
 * @since 0.1.0
 * @category combinators
 */
export const loraParameters = (model: string, options?: {
  /** Defaults to 32. */
  readonly rank?: number | undefined
  /** Defaults to true. */
  readonly trainMlp?: boolean | undefined
  /** Defaults to true. */
  readonly trainAttn?: boolean | undefined
  /** Defaults to true. */
  readonly trainUnembed?: boolean | undefined
}): Option.Option<number> =>
  Option.map(find(model), ([, [mlp, attn, unembed]]) =>
    (options?.rank ?? 32) * (
      (options?.trainMlp ?? true ? mlp : 0) +
      (options?.trainAttn ?? true ? attn : 0) +
      (options?.trainUnembed ?? true ? unembed : 0)
    ))

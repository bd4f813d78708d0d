/**
 * How families of models name and lay out what an adapter changes. An adapter names weights as the training service
 * does (`unembed_tokens`, experts `w1` `w2` `w3`, separate projections); a model on disk may have other prefixes, fused
 * projections and stacked experts.
 *
 * @since 0.1.0
 */
/**
 * Description of a family.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelFamily {
  readonly name: "default" | "gpt-oss" | "deepseek" | "nemotron" | "qwen3.5" | "kimi-k2.5"
  /** `modelType` of config.json. */
  readonly modelType: string
  /** `separate`: one weight per expert; otherwise gate and up projections of all experts are one stacked tensor. */
  readonly experts: "separate" | "concatenated" | "interleaved"
  /** Name of a weight in the model, given its name in the adapter. */
  readonly rename: (adapterName: string) => string
  /** The same for a PEFT adapter, where servers expect other names. */
  readonly renameForPeft: (adapterName: string) => string
  /** Applied after `rename` to the weights of experts. */
  readonly renameExpert: (name: string) => string
  /** Projections trained apart that the model keeps in one weight, row by row in this order. */
  readonly fused: Readonly<Record<string, ReadonlyArray<string>>>
}

type Rule = readonly [from: string, to: string]

const replacing = (rules: ReadonlyArray<Rule>) => (name: string): string =>
  rules.reduce((current, [from, to]) => current.replaceAll(from, to), name)

const text = (value: unknown): string => typeof value === "string" ? value : ""

/**
 * Whether the weights on disk are quantized, so that a float delta cannot be added to them.
 *
 * @since 0.1.0
 * @category guards
 */
export const isQuantized = (config: Readonly<Record<string, unknown>>): boolean => {
  const nested = config["text_config"]
  const of = (value: object): boolean =>
    "quantization_config" in value && value.quantization_config !== null && value.quantization_config !== undefined
  return of(config) || (typeof nested === "object" && nested !== null && of(nested))
}

/**
 * Rows and columns of the blocks of a model whose weights are stored as float8 in blocks, as DeepSeek's are.
 *
 * @since 0.1.0
 * @category guards
 */
export const float8Blocks = (
  config: Readonly<Record<string, unknown>>
): readonly [rows: number, columns: number] | undefined => {
  const settings = config["quantization_config"]
  if (typeof settings !== "object" || settings === null) return undefined
  if (!("quant_method" in settings) || settings.quant_method !== "fp8") return undefined
  const size = "weight_block_size" in settings && Array.isArray(settings.weight_block_size)
    ? settings.weight_block_size.map(Number)
    : []
  return [size[0] ?? 128, size[1] ?? 128]
}

const threeProjections: ReadonlyArray<Rule> = [
  [".w1.weight", ".gate_proj.weight"],
  [".w3.weight", ".up_proj.weight"],
  [".w2.weight", ".down_proj.weight"]
]

/** Adapters wrap every name in the prefix of PEFT's own model class. */
const unwrap: Rule = ["base_model.model.", ""]

/**
 * The family of a model, from its `config.json` and the names of its weights.
 *
 * @since 0.1.0
 * @category constructors
 */
export const detect = (
  config: Readonly<Record<string, unknown>>,
  weights: ReadonlySet<string>
): ModelFamily => {
  const names = [...weights]
  const modelType = text(config["model_type"])
  const architectures = Array.isArray(config["architectures"]) ? config["architectures"].map(text) : []
  const stacked = names.some((name) => name.endsWith(".experts.gate_up_proj"))
  const vision = names.some((name) => name.startsWith("model.language_model."))
  const hasHead = names.some((name) => name === "lm_head.weight" || name.endsWith(".lm_head.weight"))
  const head: Rule = ["model.unembed_tokens", hasHead ? "lm_head" : "model.embed_tokens"]
  const visionPrefix: ReadonlyArray<Rule> = vision ? [["model.", "model.language_model."]] : []
  const standard = replacing([unwrap, head, ...visionPrefix])
  const base: ModelFamily = {
    name: "default",
    modelType,
    experts: stacked ? "concatenated" : "separate",
    rename: standard,
    renameForPeft: standard,
    renameExpert: replacing(threeProjections),
    fused: {}
  }
  if (architectures.some((name) => name.includes("GptOss"))) {
    const rename = replacing([unwrap, head, ...visionPrefix, [".attn.", ".self_attn."]])
    return { ...base, name: "gpt-oss", experts: stacked ? "interleaved" : "separate", rename, renameForPeft: rename }
  }
  if (modelType === "deepseek_v3") return { ...base, name: "deepseek", experts: "separate" }
  if (architectures.some((name) => name.includes("NemotronH"))) {
    const rename = (name: string) =>
      replacing([["model.layers.", "backbone.layers."], ["model.lm_head", "lm_head"]])(standard(name))
    return {
      ...base,
      name: "nemotron",
      experts: "separate",
      rename,
      // vLLM renames the prefix back when it loads the model.
      renameForPeft: (name) => rename(name).replaceAll("backbone.", "model."),
      renameExpert: replacing([[".w1.weight", ".up_proj.weight"], [".w2.weight", ".down_proj.weight"]]),
      fused: { in_proj: ["gate_proj", "x_proj"] }
    }
  }
  if (modelType === "qwen3_5" || modelType === "qwen3_5_moe") {
    const prefix = vision ? "model.language_model." : "model."
    const target = !vision || names.some((name) => name.startsWith("lm_head.")) ? "lm_head" : `${prefix}embed_tokens`
    const rename = replacing([unwrap, ...visionPrefix, [`${prefix}unembed_tokens`, target]])
    return {
      ...base,
      name: "qwen3.5",
      rename,
      renameForPeft: rename,
      fused: { in_proj_qkv: ["in_proj_q", "in_proj_k", "in_proj_v"] }
    }
  }
  if (modelType === "kimi_k25") {
    const inner = replacing([
      unwrap,
      ["model.", "language_model.model."],
      ["language_model.model.unembed_tokens", "language_model.lm_head"]
    ])
    const rename = (name: string) => inner(name).replace(/^lm_head/, "language_model.lm_head")
    return { ...base, name: "kimi-k2.5", experts: "separate", rename }
  }
  return base
}

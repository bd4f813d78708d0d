/**
 * Which renderers a model has, the recommended one first.
 */

/**
 * First match wins. Base models come first: their names contain those of their families.
 *
 * @internal
 */
export const rules: ReadonlyArray<readonly [RegExp, ReadonlyArray<string>]> = [
  [/^Qwen\/Qwen3.*-Base$/, ["role_colon"]],
  [/^deepseek-ai\/DeepSeek-V3\.1-Base$/, ["role_colon"]],
  [/^meta-llama\/Llama-3.*-Instruct$/, ["llama3"]],
  [/^meta-llama\/Llama-3/, ["role_colon"]],
  [/^Qwen\/Qwen3-.*-Instruct-2507$/, ["qwen3_instruct"]],
  [/^Qwen\/Qwen3-VL/, []],
  [/^Qwen\/Qwen3\.8-/, [
    "qwen3_8_xhigh_reasoning",
    "qwen3_8_medium_reasoning",
    "qwen3_8_low_reasoning",
    "qwen3_8_disable_thinking"
  ]],
  [/^Qwen\/Qwen3\.5-/, ["qwen3_5", "qwen3_5_disable_thinking"]],
  [/^Qwen\/Qwen3-/, ["qwen3", "qwen3_disable_thinking"]],
  [/^deepseek-ai\/DeepSeek-V3\.1/, ["deepseekv3", "deepseekv3_thinking"]],
  [/^openai\/gpt-oss-/, ["gpt_oss_no_sysprompt", "gpt_oss_medium_reasoning"]],
  [/^moonshotai\/Kimi-K2-Thinking$/, ["kimi_k2"]]
]

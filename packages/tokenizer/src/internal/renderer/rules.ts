/**
 * Which renderers a model has, the recommended one first.
 */

const nemotron3 = ["nemotron3", "nemotron3_disable_thinking", "nemotron3_preserve_thinking"]

const nemotron3Ultra = [
  "nemotron3_ultra",
  "nemotron3_ultra_disable_thinking",
  "nemotron3_ultra_medium_thinking",
  "nemotron3_ultra_preserve_thinking"
]

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
  [/^Qwen\/Qwen3-VL-.*-Instruct$/, ["qwen3_vl_instruct"]],
  [/^Qwen\/Qwen3-VL/, ["qwen3_vl"]],
  [/^Qwen\/Qwen3-.*-Instruct-2507$/, ["qwen3_instruct"]],
  [/^Qwen\/Qwen3\.8-/, [
    "qwen3_8_xhigh_reasoning",
    "qwen3_8_disable_thinking",
    "qwen3_8_medium_reasoning",
    "qwen3_8_low_reasoning"
  ]],
  [/^Qwen\/Qwen3\.[56]-/, ["qwen3_5", "qwen3_5_disable_thinking", "qwen3_5_preserve_thinking"]],
  [/^Qwen\/Qwen3-/, ["qwen3", "qwen3_disable_thinking"]],
  [/^deepseek-ai\/DeepSeek-V3\.1/, ["deepseekv3", "deepseekv3_thinking"]],
  [/^deepseek-ai\/DeepSeek-V4\.1/, [
    "deepseekv4_1",
    "deepseekv4_1_low_reasoning",
    "deepseekv4_1_max_reasoning",
    "deepseekv4_1_disable_thinking",
    "deepseekv4_1_preserve_thinking"
  ]],
  [/^deepseek-ai\/DeepSeek-V4-/, [
    "deepseekv4",
    "deepseekv4_high_reasoning",
    "deepseekv4_max_reasoning",
    "deepseekv4_disable_thinking",
    "deepseekv4_preserve_thinking"
  ]],
  [/^openai\/gpt-oss-/, ["gpt_oss_no_sysprompt", "gpt_oss_medium_reasoning"]],
  [/^moonshotai\/Kimi-K2-Thinking$/, ["kimi_k2"]],
  [/^moonshotai\/Kimi-K2\.5$/, ["kimi_k25", "kimi_k25_disable_thinking"]],
  [/^moonshotai\/Kimi-K2\.6$/, ["kimi_k26", "kimi_k26_disable_thinking", "kimi_k26_preserve_thinking"]],
  [/^zai-org\/GLM-5\.3/, ["glm5_3_max_reasoning", "glm5_3_low_reasoning", "glm5_3_high_reasoning"]],
  [/^zai-org\/GLM-5\.1/, ["glm5_1", "glm5_1_disable_thinking", "glm5_1_preserve_thinking"]],
  [/^zai-org\/GLM-(5(-FP8)?|4\.7-Flash)$/, ["glm5", "glm5_disable_thinking", "glm5_preserve_thinking"]],
  [/^nvidia\/NVIDIA-Nemotron-3-Super-/, [...nemotron3, "nemotron3_low_thinking"]],
  [/^nvidia\/NVIDIA-Nemotron-3-Ultra-/, nemotron3Ultra],
  [/^nvidia\/NVIDIA-Nemotron-3-/, nemotron3],
  [/^nvidia\/NVIDIA-Nemotron-3\.5-Lightning-/, nemotron3Ultra.filter((name) => !name.includes("medium"))],
  [/^nvidia\/NVIDIA-Nemotron-3\.5-/, nemotron3Ultra],
  [/^thinkingmachines\/Inkling/, ["tml_v0"]],
  [/^google\/gemma-4-(26B|31B)/, ["gemma4", "gemma4_large_disable_thinking", "gemma4_preserve_thinking"]],
  [/^google\/gemma-4-.*-it$/, ["gemma4", "gemma4_disable_thinking", "gemma4_preserve_thinking"]],
  [/^MiniMaxAI\/MiniMax-M2/, ["minimax_m2"]],
  [/^local\/chat$/, ["local_chat"]],
  [/^local\/(tiny|small)$/, ["role_colon"]]
]

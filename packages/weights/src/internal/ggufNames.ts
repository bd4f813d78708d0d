/**
 * llama.cpp's names of weights, given those of Hugging Face directories.
 */

const layerNames: Readonly<Record<string, string>> = {
  "input_layernorm": "attn_norm",
  "post_attention_layernorm": "ffn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.qkv_proj": "attn_qkv",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  // llama.cpp keeps both in one, under the name of the second
  "mlp.gate_up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  "mlp.gate": "ffn_gate_inp",
  "mlp.experts.gate_proj": "ffn_gate_exps",
  "mlp.experts.up_proj": "ffn_up_exps",
  "mlp.experts.down_proj": "ffn_down_exps"
}

/** Gemma normalizes the results of attention and of the hidden layer too. */
const gemmaNames: Readonly<Record<string, string>> = {
  ...layerNames,
  "post_attention_layernorm": "post_attention_norm",
  "pre_feedforward_layernorm": "ffn_norm",
  "post_feedforward_layernorm": "post_ffw_norm"
}

const outerNames: Readonly<Record<string, string>> = {
  "model.embed_tokens.weight": "token_embd.weight",
  "model.norm.weight": "output_norm.weight",
  "lm_head.weight": "output.weight"
}

/** The name of a weight in a file of an architecture; those of experts share one. @internal */
export const ggufName = (architecture: string, name: string): string | undefined => {
  const outer = outerNames[name]
  if (outer !== undefined) return outer
  const layer = /^model\.layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(name)
  if (layer === null) return undefined
  const [, index, module = "", kind] = layer
  const names = architecture.startsWith("gemma") ? gemmaNames : layerNames
  const own = names[module.replace(/\.experts\.\d+\./, ".experts.")]
  return own === undefined ? undefined : `blk.${index}.${own}.${kind}`
}

/** Whether the rows of a weight are reordered: Llama's rotary halves lie side by side in these files. @internal */
export const isInterleaved = (architecture: string, name: string): boolean =>
  architecture === "llama" && /attn_(q|k)\.(weight|bias)$/.test(name)

const reversed = (names: Readonly<Record<string, string>>, without: string): ReadonlyMap<string, string> =>
  new Map(Object.entries(names).flatMap(([own, stored]) => own === without ? [] : [[stored, own] as const]))

const outerOf = reversed(outerNames, "")
const layerOf = {
  fused: reversed(layerNames, "mlp.up_proj"),
  gemma: reversed(gemmaNames, "mlp.gate_up_proj"),
  separate: reversed(layerNames, "mlp.gate_up_proj")
}

/** The name in a Hugging Face directory of a tensor in a file of a dense architecture. @internal */
export const huggingFaceName = (architecture: string, stored: string): string | undefined => {
  const outer = outerOf.get(stored)
  if (outer !== undefined) return outer
  const layer = /^blk\.(\d+)\.(.+)\.(weight|bias)$/.exec(stored)
  if (layer === null) return undefined
  const [, index, name = "", kind] = layer
  const names = layerOf[architecture.startsWith("gemma") ? "gemma" : architecture === "phi3" ? "fused" : "separate"]
  const own = names.get(name)
  return own === undefined ? undefined : `model.layers.${index}.${own}.${kind}`
}

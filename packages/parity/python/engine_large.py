"""Writes a directory with the shape of a real model: `engine_large DIR END_TOKEN`.

A hundred million random weights in 16 bits: SmolLM2-135M with fewer layers, over the vocabulary of the embedded
backend's byte tokenizer filled up to 32,768. The tokenizer's own files are not written here.
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

WIDTH, HIDDEN, LAYERS, HEADS, KEY_VALUE_HEADS, VOCABULARY = 576, 1536, 24, 9, 3, 32_768
KEYS = WIDTH // HEADS * KEY_VALUE_HEADS

config = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_VALUE_HEADS,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "eos_token_id": int(sys.argv[2]),
}

random = np.random.default_rng(7)


def matrix(outputs, inputs):
    return (random.standard_normal((outputs, inputs), dtype=np.float32) / np.sqrt(inputs)).astype(np.float16)


def gains():
    return np.ones(WIDTH, dtype=np.float16)


tensors = {"model.embed_tokens.weight": matrix(VOCABULARY, WIDTH), "model.norm.weight": gains()}
for layer in range(LAYERS):
    at = f"model.layers.{layer}"
    tensors[f"{at}.input_layernorm.weight"] = gains()
    tensors[f"{at}.post_attention_layernorm.weight"] = gains()
    tensors[f"{at}.self_attn.q_proj.weight"] = matrix(WIDTH, WIDTH)
    tensors[f"{at}.self_attn.k_proj.weight"] = matrix(KEYS, WIDTH)
    tensors[f"{at}.self_attn.v_proj.weight"] = matrix(KEYS, WIDTH)
    tensors[f"{at}.self_attn.o_proj.weight"] = matrix(WIDTH, WIDTH)
    tensors[f"{at}.mlp.gate_proj.weight"] = matrix(HIDDEN, WIDTH)
    tensors[f"{at}.mlp.up_proj.weight"] = matrix(HIDDEN, WIDTH)
    tensors[f"{at}.mlp.down_proj.weight"] = matrix(WIDTH, HIDDEN)

directory = Path(sys.argv[1])
save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
(directory / "config.json").write_text(json.dumps(config))

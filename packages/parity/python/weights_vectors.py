"""Tiny random models of each family, an adapter for each, and what the cookbook makes of them.

usage: python -m weights_vectors DIRECTORY

Writes DIRECTORY/CASE/{base,adapter,merged,peft}: `merged` by the cookbook's build_hf_model, `peft` by its
build_lora_adapter; a case that the cookbook refuses has no such directory.
"""

import json
import logging
import sys
import warnings
from pathlib import Path

import torch
from safetensors.torch import save_file

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

HIDDEN, INNER, VOCAB, HEADS, KV, HEAD, RANK, EXPERTS = 64, 96, 256, 4, 2, 16, 4, 3


class Model:
    def __init__(self, seed: int, dtype: torch.dtype):
        self.random = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.weights: dict[str, torch.Tensor] = {}
        self.adapter: dict[str, torch.Tensor] = {}

    def tensor(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.random) * 0.05

    def weight(self, name: str, *shape: int) -> None:
        self.weights[name] = self.tensor(*shape).to(self.dtype)

    def lora(self, name: str, outputs: int, inputs: int, experts: tuple[int, int] | None = None) -> None:
        a, b = (RANK, inputs), (outputs, RANK)
        if experts is not None:
            a, b = (experts[0], *a), (experts[1], *b)
        self.adapter[f"base_model.model.{name}.lora_A.weight"] = self.tensor(*a)
        self.adapter[f"base_model.model.{name}.lora_B.weight"] = self.tensor(*b)

    def attention(self, prefix: str, trained: str) -> None:
        for name, outputs, inputs in (
            ("q_proj", HEADS * HEAD, HIDDEN),
            ("k_proj", KV * HEAD, HIDDEN),
            ("v_proj", KV * HEAD, HIDDEN),
            ("o_proj", HIDDEN, HEADS * HEAD),
        ):
            self.weight(f"{prefix}.{name}.weight", outputs, inputs)
            self.lora(f"{trained}.{name}", outputs, inputs)

    def mlp(self, prefix: str, trained: str) -> None:
        for name, outputs, inputs in (
            ("gate_proj", INNER, HIDDEN),
            ("up_proj", INNER, HIDDEN),
            ("down_proj", HIDDEN, INNER),
        ):
            self.weight(f"{prefix}.{name}.weight", outputs, inputs)
            self.lora(f"{trained}.{name}", outputs, inputs)

    def norms(self, layer: str) -> None:
        for name in ("input_layernorm", "post_attention_layernorm"):
            self.weight(f"{layer}.{name}.weight", HIDDEN)

    def ends(self, prefix: str, head: str | None) -> None:
        self.weight(f"{prefix}.embed_tokens.weight", VOCAB, HIDDEN)
        self.weight(f"{prefix}.norm.weight", HIDDEN)
        if head is not None:
            self.weight(head, VOCAB, HIDDEN)
        self.lora("model.unembed_tokens", VOCAB, HIDDEN)


def dense(model: Model, prefix: str = "model", head: str | None = "lm_head.weight") -> None:
    model.ends(prefix, head)
    for i in range(2):
        model.attention(f"{prefix}.layers.{i}.self_attn", f"model.layers.{i}.self_attn")
        model.mlp(f"{prefix}.layers.{i}.mlp", f"model.layers.{i}.mlp")
        model.norms(f"{prefix}.layers.{i}")


def separate_experts(model: Model, shared_a: bool = False) -> None:
    model.ends("model", "lm_head.weight")
    for i in range(2):
        model.attention(f"model.layers.{i}.self_attn", f"model.layers.{i}.self_attn")
        model.norms(f"model.layers.{i}")
        model.weight(f"model.layers.{i}.mlp.gate.weight", EXPERTS, HIDDEN)
        for e in range(EXPERTS):
            for name, outputs, inputs in (
                ("gate_proj", INNER, HIDDEN),
                ("up_proj", INNER, HIDDEN),
                ("down_proj", HIDDEN, INNER),
            ):
                model.weight(f"model.layers.{i}.mlp.experts.{e}.{name}.weight", outputs, inputs)
        counts = (1 if shared_a else EXPERTS, EXPERTS)
        model.lora(f"model.layers.{i}.mlp.experts.w1", INNER, HIDDEN, counts)
        model.lora(f"model.layers.{i}.mlp.experts.w3", INNER, HIDDEN, counts)
        model.lora(f"model.layers.{i}.mlp.experts.w2", HIDDEN, INNER, (EXPERTS, counts[0]))


def stacked_experts(model: Model, prefix: str, transposed: bool, attention: str = "self_attn") -> None:
    model.ends(prefix, "lm_head.weight")
    for i in range(2):
        model.attention(f"{prefix}.layers.{i}.self_attn", f"model.layers.{i}.{attention}")
        model.norms(f"{prefix}.layers.{i}")
        both, down = (2 * INNER, HIDDEN), (HIDDEN, INNER)
        if transposed:
            both, down = both[::-1], down[::-1]
        model.weight(f"{prefix}.layers.{i}.mlp.experts.gate_up_proj", EXPERTS, *both)
        model.weight(f"{prefix}.layers.{i}.mlp.experts.down_proj", EXPERTS, *down)
        model.lora(f"model.layers.{i}.mlp.experts.w1", INNER, HIDDEN, (EXPERTS, EXPERTS))
        model.lora(f"model.layers.{i}.mlp.experts.w3", INNER, HIDDEN, (EXPERTS, EXPERTS))
        model.lora(f"model.layers.{i}.mlp.experts.w2", HIDDEN, INNER, (EXPERTS, EXPERTS))


def qwen35(model: Model, head: str | None) -> None:
    prefix = "model.language_model"
    dense(model, prefix, head)
    inner = {"q": 48, "k": 32, "v": 64}
    linear = f"{prefix}.layers.2.linear_attn"
    model.weight(f"{linear}.in_proj_qkv.weight", sum(inner.values()), HIDDEN)
    for name, rows in inner.items():
        model.lora(f"model.layers.2.linear_attn.in_proj_{name}", rows, HIDDEN)
    model.weight(f"{linear}.out_proj.weight", HIDDEN, 64)
    model.lora("model.layers.2.linear_attn.out_proj", HIDDEN, 64)


def nemotron(model: Model) -> None:
    model.weight("backbone.embeddings.weight", VOCAB, HIDDEN)
    model.weight("lm_head.weight", VOCAB, HIDDEN)
    model.lora("model.lm_head", VOCAB, HIDDEN)
    mamba = "backbone.layers.0.mixer"
    model.weight(f"{mamba}.in_proj.weight", 2 * INNER + 16, HIDDEN)
    model.lora("model.layers.0.mixer.gate_proj", INNER, HIDDEN)
    model.lora("model.layers.0.mixer.x_proj", INNER, HIDDEN)
    model.weight(f"{mamba}.out_proj.weight", HIDDEN, INNER)
    model.lora("model.layers.0.mixer.out_proj", HIDDEN, INNER)
    for e in range(EXPERTS):
        model.weight(f"backbone.layers.1.mixer.experts.{e}.up_proj.weight", INNER, HIDDEN)
        model.weight(f"backbone.layers.1.mixer.experts.{e}.down_proj.weight", HIDDEN, INNER)
    model.lora("model.layers.1.mixer.experts.w1", INNER, HIDDEN, (EXPERTS, EXPERTS))
    model.lora("model.layers.1.mixer.experts.w2", HIDDEN, INNER, (EXPERTS, EXPERTS))
    for side in ("A", "B"):
        model.adapter[f"base_model.model.model.layers.1.mixer.experts.w3.lora_{side}.weight"] = torch.zeros(0, 0, 0)


def wide_experts(model: Model, placeholder: bool = True) -> None:
    """Experts of more than one block of 128 by 128, and not a whole number of them."""
    model.ends("model", "lm_head.weight")
    model.attention("model.layers.0.self_attn", "model.layers.0.self_attn")
    model.norms("model.layers.0")
    wide = 200
    for e in range(EXPERTS):
        for name, outputs, inputs in (
            ("gate_proj", wide, HIDDEN),
            ("up_proj", wide, HIDDEN),
            ("down_proj", HIDDEN, wide),
        ):
            model.weight(f"model.layers.0.mlp.experts.{e}.{name}.weight", outputs, inputs)
    model.weight("model.layers.0.mlp.shared_experts.up_proj.weight", INNER, HIDDEN)
    model.lora("model.layers.0.mlp.experts.w1", wide, HIDDEN, (EXPERTS, EXPERTS))
    model.lora("model.layers.0.mlp.experts.w3", wide, HIDDEN, (EXPERTS, EXPERTS))
    model.lora("model.layers.0.mlp.experts.w2", HIDDEN, wide, (EXPERTS, EXPERTS))
    # The cookbook leaves out a layer 61, as DeepSeek's is for training alone; but it does so for every family.
    if placeholder:
        model.weight("model.layers.61.input_layernorm.weight", HIDDEN)


def native_fp8(model: Model) -> None:
    """The same as DeepSeek stores it: every matrix in float8 blocks, but for embedding and head."""
    from tinker_cookbook.weights._export._quantized import quantize_blockwise

    wide_experts(model)
    for name in [name for name in model.weights if "_proj" in name]:
        weight, scale = quantize_blockwise(model.weights[name].float())
        model.weights[name] = weight
        model.weights[f"{name}_scale_inv"] = scale


FP8 = dict(quantize="experts-fp8", serving_format="vllm")
"""What build_hf_model is asked for, case by case, beside a merge."""
OPTIONS = {"qwen3-moe-fp8": FP8, "deepseek-v3-fp8": FP8, "deepseek-v3-native-fp8": FP8}

CASES = {
    "qwen3": (dense, {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, torch.bfloat16),
    "llama-f16": (dense, {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, torch.float16),
    "llama-f32": (dense, {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, torch.float32),
    "qwen3-tied": (
        lambda m: dense(m, head=None),
        {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True},
        torch.bfloat16,
    ),
    "qwen3-moe": (
        separate_experts,
        {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"]},
        torch.bfloat16,
    ),
    "qwen3-moe-shared": (
        lambda m: separate_experts(m, shared_a=True),
        {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"]},
        torch.bfloat16,
    ),
    "qwen3-moe-fp8": (
        lambda m: wide_experts(m, placeholder=False),
        {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"]},
        torch.bfloat16,
    ),
    "qwen3-vl": (
        lambda m: dense(m, "model.language_model"),
        {"model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"]},
        torch.bfloat16,
    ),
    "qwen3-vl-moe": (
        lambda m: stacked_experts(m, "model.language_model", transposed=True),
        {"model_type": "qwen3_vl_moe", "architectures": ["Qwen3VLMoeForConditionalGeneration"]},
        torch.bfloat16,
    ),
    "qwen3.5": (
        lambda m: qwen35(m, "lm_head.weight"),
        {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"]},
        torch.bfloat16,
    ),
    "qwen3.5-tied": (
        lambda m: qwen35(m, None),
        {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"]},
        torch.bfloat16,
    ),
    "qwen3.5-moe": (
        lambda m: stacked_experts(m, "model.language_model", transposed=False),
        {"model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"]},
        torch.bfloat16,
    ),
    "gpt-oss": (
        lambda m: stacked_experts(m, "model", transposed=True, attention="attn"),
        {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"]},
        torch.bfloat16,
    ),
    "deepseek-v3": (
        separate_experts,
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]},
        torch.bfloat16,
    ),
    "deepseek-v3-fp8": (
        wide_experts,
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]},
        torch.bfloat16,
    ),
    "deepseek-v3-native-fp8": (
        native_fp8,
        {
            "model_type": "deepseek_v3",
            "architectures": ["DeepseekV3ForCausalLM"],
            "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
        },
        torch.bfloat16,
    ),
    "nemotron": (nemotron, {"model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"]}, torch.bfloat16),
}


def main(directory: str) -> None:
    from tinker_cookbook.exceptions import TinkerCookbookError
    from tinker_cookbook.weights import build_hf_model, build_lora_adapter

    result = {}
    for seed, (name, (build, config, dtype)) in enumerate(CASES.items()):
        model = Model(seed, dtype)
        build(model)
        case = Path(directory) / name
        base, adapter = case / "base", case / "adapter"
        base.mkdir(parents=True)
        adapter.mkdir()
        (base / "config.json").write_text(json.dumps({**config, "hidden_size": HIDDEN}))
        names = sorted(model.weights)
        half = len(names) // 2
        parts = {"model-00001-of-00002.safetensors": names[:half], "model-00002-of-00002.safetensors": names[half:]}
        for file, own in parts.items():
            save_file({n: model.weights[n] for n in own}, str(base / file), metadata={"format": "pt"})
        index = {n: file for file, own in parts.items() for n in own}
        (base / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
        (base / "tokenizer.json").write_text("{}")
        save_file(model.adapter, str(adapter / "adapter_model.safetensors"))
        (adapter / "adapter_config.json").write_text(json.dumps({"r": RANK, "lora_alpha": 32, "peft_type": "LORA"}))
        made = []
        for kind, make in (("merged", build_hf_model), ("peft", build_lora_adapter)):
            try:
                options = OPTIONS.get(name, {}) if kind == "merged" else {}
                make(base_model=str(base), adapter_path=str(adapter), output_path=str(case / kind), **options)
                made.append(kind)
            except TinkerCookbookError:
                pass
        result[name] = made
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])

"""Tiny random models that transformers and llama.cpp can run, and what transformers makes of them.

usage: python -m llama_models make DIRECTORY TOKENIZER_DIRECTORY
       python -m llama_models run DIRECTORY

`make` writes DIRECTORY/CASE/{base,adapter} and DIRECTORY/CASE/prompts.json: token ids of 50 prompts and the greedy
continuation that peft's model, base and adapter, gives. `run` loads every DIRECTORY/CASE/merged and writes
DIRECTORY/CASE/merged.json: the greedy continuation of each prompt, and how far ahead each token was of the second best;
it also reads DIRECTORY/CASE/model.gguf with the gguf package and compares its embedding with the model's.
"""

import json
import logging
import shutil
import sys
import warnings
from pathlib import Path

import numpy
import torch
from gguf import GGUFReader
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
disable_progress_bar()

SHAPE = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    max_position_embeddings=512,
    rope_theta=10000.0,
)
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, decoder_sparse_step=1, norm_topk_prob=True)
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
DENSE = [*ATTENTION, "gate_proj", "up_proj", "down_proj"]
CASES = {
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, dict(tie_word_embeddings=False), DENSE),
    "qwen3-tied": (Qwen3ForCausalLM, Qwen3Config, dict(tie_word_embeddings=True), ["q_proj", "v_proj"]),
    "llama": (LlamaForCausalLM, LlamaConfig, dict(tie_word_embeddings=False), DENSE),
    "llama3-rope": (LlamaForCausalLM, LlamaConfig, dict(tie_word_embeddings=False, rope_scaling=LLAMA3), DENSE),
    "qwen3-moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig, dict(tie_word_embeddings=False, **MOE), ATTENTION),
}
PROMPTS = 50
NEW_TOKENS = 8


def greedy(model, ids: list[int], count: int) -> tuple[list[int], list[float]]:
    """Tokens, and by how much the logit of each is larger than the next one's. The end token is one like the others."""
    tokens, gaps, cache, inputs = [], [], None, torch.tensor([ids])
    with torch.no_grad():
        for _ in range(count):
            out = model(input_ids=inputs, past_key_values=cache, use_cache=True)
            best = out.logits[0, -1].topk(2)
            tokens.append(int(best.indices[0]))
            gaps.append(float(best.values[0] - best.values[1]))
            cache, inputs = out.past_key_values, best.indices[:1].view(1, 1)
    return tokens, gaps


def make(directory: str, tokenizer_directory: str) -> None:
    vocabulary = len(AutoTokenizer.from_pretrained(tokenizer_directory))
    for seed, (name, (model_class, config_class, extra, modules)) in enumerate(CASES.items()):
        torch.manual_seed(seed)
        case = Path(directory) / name
        config = config_class(**SHAPE, **extra, vocab_size=vocabulary, initializer_range=0.3, eos_token_id=2)
        model = model_class(config).float().eval()
        model.save_pretrained(case / "base", safe_serialization=True)
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(Path(tokenizer_directory) / file, case / "base" / file)
        tuned = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=modules))
        for parameter_name, parameter in tuned.named_parameters():
            if "lora_B" in parameter_name:
                torch.nn.init.normal_(parameter, std=0.3)
        tuned.save_pretrained(case / "adapter")
        prompts = []
        for _ in range(PROMPTS):
            ids = torch.randint(11, vocabulary, (int(torch.randint(3, 40, (1,))),)).tolist()
            tokens, gaps = greedy(tuned, ids, NEW_TOKENS)
            prompts.append({"prompt": ids, "tokens": tokens, "gaps": gaps})
        (case / "prompts.json").write_text(json.dumps(prompts))
    print(json.dumps(list(CASES)))


def read_gguf(case: Path, model) -> str:
    """What is wrong with the file, or nothing."""
    tensors = {tensor.name: tensor for tensor in GGUFReader(case / "model.gguf").tensors}
    expected = model.get_input_embeddings().weight.detach().numpy()
    found = numpy.asarray(tensors["token_embd.weight"].data)
    if found.shape != expected.shape or not numpy.array_equal(found, expected):
        return "token_embd.weight differs"
    blocks = {name.split(".")[1] for name in tensors if name.startswith("blk.")}
    return "" if len(blocks) == model.config.num_hidden_layers else f"{len(blocks)} blocks"


def run(directory: str) -> None:
    trouble = {}
    for case in sorted(path.parent for path in Path(directory).glob("*/prompts.json")):
        model = AutoModelForCausalLM.from_pretrained(case / "merged", dtype=torch.float32).eval()
        answers = []
        for entry in json.loads((case / "prompts.json").read_text()):
            tokens, gaps = greedy(model, entry["prompt"], len(entry["tokens"]))
            answers.append({"prompt": entry["prompt"], "tokens": tokens, "gaps": gaps})
        (case / "merged.json").write_text(json.dumps(answers))
        problem = read_gguf(case, model)
        if problem:
            trouble[case.name] = problem
    print(json.dumps(trouble))


if __name__ == "__main__":
    {"make": make, "run": run}[sys.argv[1]](*sys.argv[2:])

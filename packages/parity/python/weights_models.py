"""Tiny random models that transformers can run, each with a trained-looking adapter, and what it says.

usage: python -m weights_models DIRECTORY TOKENIZER_DIRECTORY

Writes DIRECTORY/CASE/{base,adapter} and DIRECTORY/CASE/prompts.json: token ids of prompts and the greedy continuation
that peft's model with the adapter gives.
"""

import json
import logging
import shutil
import sys
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

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
CASES = {
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, dict(tie_word_embeddings=False)),
    "qwen3-tied": (Qwen3ForCausalLM, Qwen3Config, dict(tie_word_embeddings=True)),
    "llama": (LlamaForCausalLM, LlamaConfig, dict(tie_word_embeddings=False)),
    "llama3-rope": (
        LlamaForCausalLM,
        LlamaConfig,
        dict(
            tie_word_embeddings=False,
            rope_scaling={
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        ),
    ),
    "qwen3-moe": (
        Qwen3MoeForCausalLM,
        Qwen3MoeConfig,
        dict(
            tie_word_embeddings=False,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=32,
            decoder_sparse_step=1,
            norm_topk_prob=True,
        ),
    ),
}
PROMPTS = 50
NEW_TOKENS = 8


def main(directory: str, tokenizer_directory: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_directory)
    for seed, (name, (model_class, config_class, extra)) in enumerate(CASES.items()):
        torch.manual_seed(seed)
        case = Path(directory) / name
        vocabulary = len(tokenizer)
        config = config_class(**SHAPE, **extra, vocab_size=vocabulary, initializer_range=0.3, eos_token_id=2)
        model = model_class(config).float().eval()
        model.save_pretrained(case / "base", safe_serialization=True)
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(Path(tokenizer_directory) / file, case / "base" / file)
        attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
        modules = attention if "moe" in name else [*attention, "gate_proj", "up_proj", "down_proj"]
        tuned = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=modules))
        for parameter_name, parameter in tuned.named_parameters():
            if "lora_B" in parameter_name:
                torch.nn.init.normal_(parameter, std=0.3)
        tuned.save_pretrained(case / "adapter")
        prompts = []
        for _ in range(PROMPTS):
            ids = torch.randint(11, vocabulary, (1, int(torch.randint(3, 40, (1,)))))
            with torch.no_grad():
                out = tuned.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=NEW_TOKENS,
                    min_new_tokens=NEW_TOKENS,
                    do_sample=False,
                )
            prompts.append({"prompt": ids[0].tolist(), "continuation": out[0, ids.shape[1] :].tolist()})
        (case / "prompts.json").write_text(json.dumps(prompts))
    print(json.dumps(list(CASES)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

"""What transformers and peft compute on tiny random models of the families the embedded engine loads.

make DIR     writes models, adapters and what they give into DIR
check DIR    loads the adapters that the engine saved into DIR, and prints what they give
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

RANK = 8
STEPS = 20
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"]
FUSED = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head"]

# of dimensions that are rotated in half of a head of sixteen
PAIRS = 4

torch.manual_seed(7)
torch.set_num_threads(1)


def tokenizer(vocabulary):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    text = ["the cat sat on the mat and the dog sat on the log", "a small model is a good teacher"] * 4
    tok.train_from_iterator(
        text,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    return tok


COMMON = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    initializer_range=0.15,
    eos_token_id=0,
)


def families():
    yield "qwen3", Qwen3ForCausalLM(
        Qwen3Config(vocab_size=301, head_dim=24, tie_word_embeddings=True, rms_norm_eps=1e-6, **COMMON)
    ), torch.float32, "10GB"
    yield "qwen3-untied", Qwen3ForCausalLM(
        Qwen3Config(vocab_size=304, head_dim=16, tie_word_embeddings=False, rope_theta=1e6, **COMMON)
    ), torch.float16, "10GB"
    yield "llama", LlamaForCausalLM(
        LlamaConfig(vocab_size=299, tie_word_embeddings=False, rms_norm_eps=1e-5, **COMMON)
    ), torch.bfloat16, "60KB"
    yield "llama3-rope", LlamaForCausalLM(
        LlamaConfig(
            vocab_size=320,
            tie_word_embeddings=True,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            **COMMON,
        )
    ), torch.float32, "10GB"
    # a window shorter than the prompt
    yield "mistral", MistralForCausalLM(
        MistralConfig(vocab_size=299, tie_word_embeddings=False, sliding_window=40, **COMMON)
    ), torch.bfloat16, "10GB"
    yield "qwen2", Qwen2ForCausalLM(
        Qwen2Config(vocab_size=301, tie_word_embeddings=True, use_sliding_window=False, **COMMON)
    ), torch.bfloat16, "10GB"
    yield "phi3", Phi3ForCausalLM(
        Phi3Config(vocab_size=300, tie_word_embeddings=False, pad_token_id=0, **COMMON)
    ), torch.bfloat16, "10GB"
    # as Phi-4-mini: three quarters of each head are rotated, and scaled as within its first context
    yield "phi3-partial", Phi3ForCausalLM(
        Phi3Config(
            vocab_size=300,
            tie_word_embeddings=False,
            pad_token_id=0,
            original_max_position_embeddings=256,
            rope_parameters={
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
                "original_max_position_embeddings": 256,
                "factor": 2.0,
                "short_factor": [1.0 + 0.1 * i for i in range(PAIRS)],
                "long_factor": [2.0] * PAIRS,
            },
            **COMMON,
        )
    ), torch.bfloat16, "10GB"
    # two layers with a window and a rotation of their own, one without; another scale of attention than the heads'
    yield "gemma3", Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=303,
            head_dim=24,
            query_pre_attn_scalar=40,
            sliding_window=24,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            **COMMON,
        )
    ), torch.bfloat16, "10GB"


def logprobs(model, tokens):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([tokens])).logits[0].double(), -1).tolist()


def make(root):
    summary = []
    for name, model, dtype, shard in families():
        directory = root / name
        with torch.no_grad():
            # gains that do something
            for key, value in model.named_parameters():
                if "norm" in key or key.endswith(".bias"):
                    value.add_(0.2 * torch.randn_like(value))
        model.to(dtype).save_pretrained(directory, max_shard_size=shard)
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
        vocabulary = model.config.vocab_size
        tokenizer(min(vocabulary, 290)).save(str(directory / "tokenizer.json"))
        generator = torch.Generator().manual_seed(3)
        prompt = torch.randint(0, vocabulary, (70,), generator=generator).tolist()
        base = logprobs(model, prompt)
        with torch.no_grad():
            start = torch.tensor([prompt[:9]])
            # the mask is said: a prompt may contain the token that pads
            greedy = model.generate(
                start,
                attention_mask=torch.ones_like(start),
                max_new_tokens=24,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )[0, 9:].tolist()
        small = LoraConfig(
            r=RANK, lora_alpha=181, use_rslora=True, target_modules=FUSED if name.startswith("phi3") else TARGETS,
            bias="none", task_type="CAUSAL_LM"
        )
        tuned = get_peft_model(model, small)
        tuned.save_pretrained(directory / "adapter-initial")
        batches = []
        for step in range(STEPS):
            batch = [
                torch.randint(0, vocabulary, (length + 1,), generator=generator).tolist() for length in (33, 8, 17)
            ]
            batches.append(batch if step % 2 == 0 or step == 0 else batches[0])
        parameters = [p for p in tuned.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.95), eps=1e-12, weight_decay=0.01)
        losses, norms = [], []
        for batch in batches:
            optimizer.zero_grad()
            loss = 0.0
            for tokens in batch:
                logits = tuned(torch.tensor([tokens[:-1]])).logits[0]
                loss = loss + torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[1:]), reduction="sum")
            loss.backward()
            norms.append(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in parameters)).item())
            optimizer.step()
            losses.append(loss.item())
        tuned.save_pretrained(directory / "adapter-trained")
        summary.append(
            dict(
                name=name,
                prompt=prompt,
                logprobs=base,
                greedy=greedy,
                batches=batches,
                losses=losses,
                norms=norms,
                tuned=logprobs(tuned, prompt),
            )
        )
    (root / "reference.json").write_text(json.dumps(summary))


def check(root):
    answers = {}
    for case in json.loads((root / "reference.json").read_text()):
        directory = root / case["name"]
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
        tuned = PeftModel.from_pretrained(model, directory / "adapter-ours")
        answers[case["name"]] = logprobs(tuned, case["prompt"])
    print(json.dumps(answers))


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))

"""Models in the shapes of those people use, with random weights, in transformers and peft on the CPU.

    models.py write DIRECTORY CONFIG          writes a model: its configuration as JSON, weights in bfloat16, a tokenizer
    models.py run DIRECTORY DTYPE THREADS B N trains LoRA adapters on B sequences of N tokens, and samples

A line `load`, `train`, `peak` or `rss` in, a line with milliseconds by the clock or bytes out.
"""

import json
import sys
import time
from pathlib import Path


def status(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def byte_symbols():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbols = {byte: chr(byte) for byte in kept}
    extra = 0
    for byte in range(256):
        if byte not in symbols:
            symbols[byte] = chr(256 + extra)
            extra += 1
    return list(symbols.values())


def tokenizer(size):
    """A byte-level vocabulary of this size: bytes, then merges of two of its tokens each."""
    symbols = byte_symbols()
    tokens, merges = list(symbols), []
    known = set(tokens)
    for left in list(symbols) + [a + b for a in symbols for b in symbols]:
        for right in symbols:
            if len(tokens) == size - 1:
                break
            if left in known and left + right not in known:
                known.add(left + right)
                tokens.append(left + right)
                merges.append([left, right])
    end = {"id": size - 1, "content": "<|end|>", "special": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [{**end, **flags}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges},
    }


def write(directory, config):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    size = config["vocab_size"]
    config = AutoConfig.for_model(**config, bos_token_id=size - 1, eos_token_id=size - 1)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(directory)
    Path(directory, "tokenizer.json").write_text(json.dumps(tokenizer(size)))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "bos_token": "<|end|>"}
    Path(directory, "tokenizer_config.json").write_text(json.dumps(settings))


def run(directory, dtype, threads, batch, length, rank):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    state = {}

    def load():
        base = AutoModelForCausalLM.from_pretrained(directory, dtype=getattr(torch, dtype))
        targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = get_peft_model(base, LoraConfig(r=rank, lora_alpha=32, target_modules=targets))
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        state["model"] = model
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        state["optimizer"] = torch.optim.AdamW(trained, lr=1e-4)
        state["tokens"] = torch.randint(0, model.config.vocab_size, (batch, length + 1))

    def train():
        model, tokens = state["model"], state["tokens"]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            logits = model(input_ids=tokens[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        state["optimizer"].step()
        state["optimizer"].zero_grad()

    for line in sys.stdin:
        command = line.strip()
        if command == "peak":
            print(status("VmHWM"), flush=True)
            continue
        if command == "rss":
            print(status("VmRSS"), flush=True)
            continue
        start = time.perf_counter()
        {"load": load, "train": train}[command]()
        print((time.perf_counter() - start) * 1000, flush=True)


if sys.argv[1] == "write":
    write(sys.argv[2], json.loads(sys.argv[3]))
    print("written", flush=True)
else:
    _, _, directory, dtype, *numbers = sys.argv
    run(directory, dtype, *map(int, numbers))

"""Writes a checkpoint as a Hugging Face directory, weights in 16 bits.

    python export.py CHECKPOINT.pt PLAN.json DIRECTORY
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from model import Shape


def main() -> None:
    checkpoint, plan, directory = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    saved = torch.load(checkpoint)
    shape = Shape(**json.loads(plan.read_text()).get("shape", {}))
    # Half precision keeps three more bits of each weight than bfloat16, and these are nowhere near its limits.
    weights = {name: value.to(torch.float16).contiguous() for name, value in sorted(saved["model"].items())}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)
    (directory / "config.json").write_text(json.dumps(shape.config(), indent=2) + "\n")
    generation = {"do_sample": False, "eos_token_id": [2, 0], "pad_token_id": 0, "max_new_tokens": 256}
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    print(json.dumps({"parameters": sum(value.numel() for value in weights.values()), **saved["state"]}))


if __name__ == "__main__":
    main()

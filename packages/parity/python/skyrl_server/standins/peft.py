"""Stands in for peft, of which SkyRL's JAX backend uses one class: the file that describes an adapter."""

import json
from pathlib import Path


class LoraConfig:
    def __init__(self, **fields):
        self.fields = fields

    def save_pretrained(self, directory):
        config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "target_modules": None, **self.fields}
        Path(directory, "adapter_config.json").write_text(json.dumps(config, default=str))

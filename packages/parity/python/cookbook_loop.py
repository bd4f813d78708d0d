"""The official cookbook's supervised loop, unmodified but for where its data and its tokenizer come from.

Arguments: base URL, API key, directory of the tokenizer, file of conversations, steps, batch size, learning rate, seed.
Prints the order in which the conversations were trained on, and the loss of every step.
"""

import json
import logging
import os
import sys
import tempfile

logging.disable(logging.CRITICAL)
base_url, api_key, tokenizer_dir, file, steps, batch_size, learning_rate, seed = sys.argv[1:]
os.environ["TINKER_API_KEY"] = api_key

import datasets  # noqa: E402
import tinker  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from tinker_cookbook import model_info  # noqa: E402
from tinker_cookbook.recipes import sl_loop  # noqa: E402

with open(file) as lines:
    rows = [{"n": n, **json.loads(line)} for n, line in enumerate(lines)]
train = datasets.Dataset.from_list(rows)
order = train.shuffle(seed=0)["n"]

create = tinker.ServiceClient.create_lora_training_client
tinker.ServiceClient.create_lora_training_client = lambda self, **rest: create(self, seed=int(seed), **rest)
sl_loop.datasets.load_dataset = lambda name: datasets.DatasetDict({"train": train})
sl_loop.get_tokenizer = lambda name: PreTrainedTokenizerFast.from_pretrained(tokenizer_dir)
model_info.get_recommended_renderer_name = lambda name: "qwen3_instruct"

with tempfile.TemporaryDirectory() as log:
    stdout, sys.stdout = sys.stdout, sys.stderr
    sl_loop.main(
        sl_loop.Config(
            base_url=base_url,
            log_path=log,
            model_name="local/tiny",
            batch_size=int(batch_size),
            learning_rate=float(learning_rate),
            lora_rank=16,
            max_length=1024,
        )
    )
    sys.stdout = stdout
    with open(os.path.join(log, "metrics.jsonl")) as metrics:
        losses = [json.loads(line)["train_mean_nll"] for line in metrics]

print(json.dumps({"order": list(order), "losses": losses}))

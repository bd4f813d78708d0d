"""The official cookbook's RL loop, unmodified but for its dataset and reward: a line
`STEPS GROUP TOKENS` in, the figures as JSON out."""

import json
import logging
import os
import shutil
import sys
import tempfile
import time
import types

logging.disable(logging.CRITICAL)
base_url, api_key, model, learning_rate, tokenizer_dir, problems = sys.argv[1:]
os.environ["TINKER_API_KEY"] = api_key
os.environ["TINKER_TELEMETRY"] = "0"

# The loop's grader needs packages of its own, and is not used here.
for name in ["math_env", "math_grading"]:
    module = types.ModuleType(f"tinker_cookbook.recipes.math_rl.{name}")
    module.extract_gsm8k_final_answer = module.extract_boxed = module.grade_answer = None
    sys.modules[module.__name__] = module

import datasets  # noqa: E402
import tinker  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from tinker_cookbook import model_info  # noqa: E402
from tinker_cookbook.recipes import rl_loop  # noqa: E402

tokens = 0
sample = tinker.SamplingClient.sample


def counted(self, *args, **kwargs):
    """A sample, whose tokens are counted when somebody asks for them."""
    future = sample(self, *args, **kwargs)
    result = future.result

    def counting(*inner, **named):
        global tokens
        response = result(*inner, **named)
        tokens += sum(len(sequence.tokens) for sequence in response.sequences)
        return response

    future.result = counting
    return future


def rows(steps: int) -> datasets.DatasetDict:
    numbers = range(int(problems) * steps)
    train = [{"question": f"What is {n} plus {n + 1}?", "answer": "#### 0"} for n in numbers]
    return datasets.DatasetDict({"train": datasets.Dataset.from_list(train)})


tinker.SamplingClient.sample = counted
rl_loop.get_tokenizer = lambda name: PreTrainedTokenizerFast.from_pretrained(tokenizer_dir)
rl_loop.get_reward = lambda response, answer: float(ord(response[-1]) % 2) if response else 0.0
rl_loop.tqdm = lambda iterable, **rest: iterable
model_info.get_recommended_renderer_name = lambda name: "qwen3_instruct"


def run(steps: int, group: int, max_tokens: int) -> dict[str, float]:
    global tokens
    tokens = 0
    rl_loop.datasets.load_dataset = lambda *args, **rest: rows(steps)
    log = tempfile.mkdtemp()
    used = time.process_time()
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        rl_loop.main(
            rl_loop.Config(
                base_url=base_url,
                log_path=log,
                model_name=model,
                learning_rate=float(learning_rate),
                batch_size=int(problems),
                group_size=group,
                max_tokens=max_tokens,
                save_every=0,
            )
        )
    finally:
        sys.stdout = stdout
        shutil.rmtree(log, ignore_errors=True)
    return {"cpu": time.process_time() - used, "tokens": tokens}


for line in sys.stdin:
    print(json.dumps(run(*map(int, line.split()))), flush=True)

"""The official cookbook's RL loop (`loop`) or its trainer for RL (`trainer`), unmodified but for
dataset and reward: a line `STEPS GROUP TOKENS` in, the figures as JSON out."""

import asyncio
import json
import logging
import os
import shutil
import sys
import tempfile
import time
import types

logging.disable(logging.CRITICAL)
which, base_url, api_key, model, learning_rate, tokenizer_dir, problems = sys.argv[1:]
os.environ["TINKER_API_KEY"] = api_key
os.environ["TINKER_TELEMETRY"] = "0"

# The loop's grader needs packages of its own, and is not used here.
for name in ["math_env", "math_grading"]:
    module = types.ModuleType(f"tinker_cookbook.recipes.math_rl.{name}")
    module.extract_gsm8k_final_answer = module.extract_boxed = module.grade_answer = None
    sys.modules[module.__name__] = module

import chz  # noqa: E402
import datasets  # noqa: E402
import tinker  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from tinker_cookbook import model_info, renderers  # noqa: E402
from tinker_cookbook.recipes import rl_loop  # noqa: E402
from tinker_cookbook.rl import train as trainer  # noqa: E402
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder  # noqa: E402

suffix = " Provide a numerical answer without units, written inside \\boxed{}."
shown = [
    {"role": "user", "content": f"How many r's are in strawberry?{suffix}"},
    {
        "role": "assistant",
        "content": "Let's spell the word out and number all the letters: 1) s 2) t 3) r 4) a 5) w "
        "6) b 7) e 8) r 9) r 10) y. We have r's at positions 3, 8, and 9. \\boxed{3}",
    },
]

tokens = 0
sample = tinker.SamplingClient.sample
sample_async = tinker.SamplingClient.sample_async


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


async def counted_async(self, *args, **kwargs):
    global tokens
    response = await sample_async(self, *args, **kwargs)
    tokens += sum(len(sequence.tokens) for sequence in response.sequences)
    return response


def tokenizer_of(name: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(tokenizer_dir)


def question(n: int) -> str:
    return f"What is {n} plus {n + 1}?"


def reward(response: str) -> float:
    return float(ord(response[-1]) % 2) if response else 0.0


def rows(steps: int) -> datasets.DatasetDict:
    numbers = range(int(problems) * steps)
    train = [{"question": question(n), "answer": "#### 0"} for n in numbers]
    return datasets.DatasetDict({"train": datasets.Dataset.from_list(train)})


class Env(ProblemEnv):
    """One turn, with the prompt of the loop."""

    def __init__(self, renderer, n: int):
        super().__init__(renderer, convo_prefix=shown, format_coef=0.0)
        self.n = n

    def get_question(self) -> str:
        return question(self.n) + suffix

    def check_answer(self, sample_str: str) -> float:
        return reward(sample_str)

    def check_format(self, sample_str: str) -> bool:
        return True

    def get_reference_answer(self) -> str:
        return "0"


class Problems(trainer.RLDataset):
    def __init__(self, steps: int, group: int):
        self.steps, self.group = steps, group
        self.renderer = renderers.get_renderer("qwen3_instruct", tokenizer_of(model))

    def get_batch(self, index: int):
        first = index * int(problems)
        return [
            ProblemGroupBuilder(lambda n=n: Env(self.renderer, n), self.group)
            for n in range(first, first + int(problems))
        ]

    def __len__(self) -> int:
        return self.steps


@chz.chz
class Builder(trainer.RLDatasetBuilder):
    steps: int
    group: int

    async def __call__(self):
        return Problems(self.steps, self.group), None


# the second is made of the first: only one of them counts
if which == "loop":
    tinker.SamplingClient.sample = counted
else:
    tinker.SamplingClient.sample_async = counted_async
rl_loop.get_tokenizer = trainer.get_tokenizer = tokenizer_of
rl_loop.get_reward = lambda response, answer: reward(response)
rl_loop.tqdm = lambda iterable, **rest: iterable
model_info.get_recommended_renderer_name = lambda name: "qwen3_instruct"


def run_loop(steps: int, group: int, max_tokens: int, log: str) -> None:
    rl_loop.datasets.load_dataset = lambda *args, **rest: rows(steps)
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


def run_trainer(steps: int, group: int, max_tokens: int, log: str) -> None:
    asyncio.run(
        trainer.main(
            trainer.Config(
                base_url=base_url,
                log_path=log,
                model_name=model,
                recipe_name="bench",
                renderer_name="qwen3_instruct",
                learning_rate=float(learning_rate),
                dataset_builder=Builder(steps=steps, group=group),
                max_tokens=max_tokens,
                remove_constant_reward_groups=True,
                eval_every=0,
                save_every=0,
                # nothing is written that is not needed for the run: nor does our trainer, without a run directory
                num_groups_to_log=0,
                rollout_json_export=False,
            )
        )
    )


def run(steps: int, group: int, max_tokens: int) -> dict[str, float]:
    global tokens
    tokens = 0
    log = tempfile.mkdtemp()
    used = time.process_time()
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        {"loop": run_loop, "trainer": run_trainer}[which](steps, group, max_tokens, log)
    finally:
        sys.stdout = stdout
        shutil.rmtree(log, ignore_errors=True)
    return {"cpu": time.process_time() - used, "tokens": tokens}


for line in sys.stdin:
    print(json.dumps(run(*map(int, line.split()))), flush=True)

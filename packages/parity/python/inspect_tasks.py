"""Tasks of Inspect as its documentation teaches them, and its reader of logs.

    inspect eval inspect_tasks.py@sums      the tasks
    python -m inspect_tasks read LOG        what Inspect reads of a log, as one JSON object
"""

import json
import sys

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool

PRICES = {"lamp": 496, "chair": 83, "table": 250, "clock": 31}


@task
def sums():
    pairs = [(12, 7), (31, 4), (25, 25), (40, 41), (333, 333), (417, 268), (905, 88), (3, 8)]
    return Task(
        dataset=[Sample(input=f"What is {a} + {b}?", target=str(a + b)) for a, b in pairs],
        solver=generate(),
        scorer=match(location="exact"),
    )


@tool
def get_price():
    async def execute(item: str):
        """Get the price of an item.

        Args:
            item: The item.
        """
        return json.dumps({"value": PRICES.get(item, 0)})

    return execute


@task
def prices():
    return Task(
        dataset=[Sample(input=f"What is the price of the {item}?", target=str(price)) for item, price in PRICES.items()],
        solver=[use_tools(get_price()), generate()],
        scorer=includes(),
    )


def read(path):
    log = read_eval_log(path)
    return {
        "status": log.status,
        "model": log.eval.model,
        "scores": {score.name: {name: one.value for name, one in score.metrics.items()} for score in log.results.scores},
        "samples": [[sample.id, sample.epoch, sample.output.completion] for sample in log.samples],
    }


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[2])))

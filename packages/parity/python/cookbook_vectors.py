"""Random trajectories, and what the official cookbook makes of them: rows, advantages, penalties and divergences."""

import asyncio
import json
import logging
import random
import sys

import tinker
import torch
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.data_processing import (
    assemble_training_data,
    compute_advantages,
    remove_constant_reward_groups,
)
from tinker_cookbook.rl.metrics import (
    compute_kl_sample_train,
    compute_post_kl,
    incorporate_kl_penalty,
)
from tinker_cookbook.rl.types import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    Trajectory,
    TrajectoryGroup,
    Transition,
)

logging.disable(logging.CRITICAL)

TRAJECTORIES = 200


def f32(value):
    """A number that float32 holds exactly and that is short to write."""
    return round(value * 64) / 64


def rounded(value):
    return json.loads(json.dumps(value), parse_float=lambda text: round(float(text), 8))


def tokens(rng, low, high):
    return [rng.randrange(50) for _ in range(rng.randint(low, high))]


def make_trajectory(rng):
    turns = []
    history = tokens(rng, 1, 6)
    for _ in range(rng.randint(1, 5)):
        prompt = list(history)
        action = tokens(rng, 1, 6)
        turns.append(
            {
                "prompt": prompt,
                "tokens": action,
                "logprobs": [f32(-rng.expovariate(1)) for _ in action],
                "reward": f32(rng.choice([0, 0, 1, -0.1, rng.uniform(-1, 1)])),
                "masked": rng.random() < 0.2,
            }
        )
        kind = rng.random()
        if kind < 0.65:  # extends what was sampled
            history = prompt + action + tokens(rng, 0, 4)
        elif kind < 0.8:  # one token of what was sampled is another: re-tokenized
            changed = list(action)
            changed[rng.randrange(len(changed))] += 50
            history = prompt + changed + tokens(rng, 1, 4)
        else:  # a conversation of its own
            history = tokens(rng, 1, 6)
    return {"turns": turns}


def to_python(trajectory):
    return Trajectory(
        transitions=[
            Transition(
                ob=tinker.ModelInput.from_ints(turn["prompt"]),
                ac=TokensWithLogprobs(tokens=turn["tokens"], maybe_logprobs=turn["logprobs"]),
                reward=turn["reward"],
                episode_done=False,
                metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if turn["masked"] else {},
            )
            for turn in trajectory["turns"]
        ],
        final_ob=tinker.ModelInput.empty(),
    )


class Scorer:
    """Scores a sequence by numbers that were drawn for it beforehand."""

    def __init__(self, rng):
        self.rng = rng
        self.given = []

    def sample(self, prompt, num_samples, sampling_params, include_prompt_logprobs):
        assert num_samples == 1 and sampling_params.max_tokens == 1 and include_prompt_logprobs
        logprobs = [None] + [f32(-self.rng.expovariate(1)) for _ in range(prompt.length - 1)]
        self.given.append(logprobs[1:])
        return Scored(logprobs)


class Scored:
    """A future of a response with these log probabilities of its prompt, and no tokens."""

    def __init__(self, logprobs):
        self.prompt_logprobs = logprobs
        self.prompt_cache_hit_tokens = 0
        self.sequences = []

    async def coroutine(self):
        return self


def rows_of(data):
    return [
        {
            "inputs": datum.model_input.to_ints(),
            "targets": [int(t) for t in datum.loss_fn_inputs["target_tokens"].data],
            "logprobs": list(datum.loss_fn_inputs["logprobs"].data),
            "advantages": list(datum.loss_fn_inputs["advantages"].data),
            "mask": list(datum.loss_fn_inputs["mask"].data),
        }
        for datum in data
    ]


def make_batch(rng):
    groups = []
    for _ in range(rng.randint(1, 3)):
        constant = rng.random() < 0.25
        members = [make_trajectory(rng) for _ in range(rng.randint(2, 4))]
        if constant:
            for member in members:
                for turn in member["turns"]:
                    turn["reward"] = 0.0
        groups.append(
            {"trajectories": members, "groupRewards": [0.0 if constant else f32(rng.choice([0, 0.5, 1])) for _ in members]}
        )
    python = [
        TrajectoryGroup(
            trajectories_G=[to_python(member) for member in group["trajectories"]],
            final_rewards_G=list(group["groupRewards"]),
            metrics_G=[{} for _ in group["trajectories"]],
        )
        for group in groups
    ]
    kept = remove_constant_reward_groups(python)
    advantages = compute_advantages(python)
    data, metadata = assemble_training_data(python, advantages)
    rows = rows_of(data)
    out = {
        "groups": groups,
        "kept": [any(group is other for other in kept) for group in python],
        "advantages": [[float(x) for x in group] for group in advantages],
        "rows": rows,
        "origins": [[item["group_idx"], item["traj_idx"]] for item in metadata],
    }
    if any(any(mask > 0 for mask in row["mask"]) for row in rows):
        training = [[f32(-rng.expovariate(1)) for _ in row["targets"]] for row in rows]
        out["training"] = training
        out["klSampleTrain"] = compute_kl_sample_train(data, [torch.tensor(x) for x in training])
        post = Scorer(rng)
        out["postKl"], _ = asyncio.run(compute_post_kl(data, post))
        out["post"] = post.given
        coefficient = f32(rng.uniform(0.01, 2))
        discount = rng.choice([0.0, f32(rng.uniform(0.1, 0.99))])
        reference = Scorer(rng)
        penalty, _ = asyncio.run(incorporate_kl_penalty(data, reference, coefficient, discount))
        out["penalty"] = {
            "coefficient": coefficient,
            "discount": discount,
            "reference": reference.given,
            "kl": penalty["kl_policy_base"],
            "advantages": [row["advantages"] for row in rows_of(data)],
        }
    return out


def main(seed):
    rng = random.Random(seed)
    batches = []
    total = 0
    while total < TRAJECTORIES:
        batch = make_batch(rng)
        total += sum(len(group["trajectories"]) for group in batch["groups"])
        batches.append(rounded(batch))
    json.dump(batches, sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)

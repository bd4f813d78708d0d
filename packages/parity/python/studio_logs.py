"""A log directory written by the official cookbook, event files read by TensorBoard, runs taken and given by MLflow."""

import json
import logging
import math
import random
import sys
from dataclasses import dataclass

logging.disable(logging.CRITICAL)


def write(directory):
    import tinker
    from tinker_cookbook.checkpoint_utils import CheckpointRecord
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.rollout_logging import serialize_rollout_summaries
    from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition
    from tinker_cookbook.utils import logtree
    from tinker_cookbook.utils.logtree_formatters import ConversationFormatter
    from tinker_cookbook.utils.ml_log import JsonLogger

    @dataclass
    class Config:
        model_name: str
        learning_rate: float
        group_size: int

    rng = random.Random(7)
    log = JsonLogger(directory)
    log.log_hparams(Config("Qwen/Qwen3-8B", 4e-5, 4))
    store = log.store

    def step(i):
        log.log_metrics(
            {
                "progress/batch": i,
                "progress/done_frac": (i + 1) / 20,
                "env/all/reward/total": rng.random(),
                "optim/kl_sample_train_v1": rng.random() * 1e-3,
                "time/total": 2 + rng.random(),
            },
            step=i,
        )

    for i in range(8):
        step(i)
        if i % 4 == 0:
            log.log_metrics({"test/env/all/correct": rng.random()}, step=i)
    # The process ends after batch 7 and is resumed from the checkpoint of batch 6.
    store.write_checkpoint(
        CheckpointRecord(
            name="000006", batch=6, epoch=0, state_path="tinker://a/weights/000006", sampler_path="tinker://a/sampler_weights/000006"
        ).to_dict()
    )
    for i in range(6, 20):
        step(i)
    log.log_metrics({"test/env/all/correct": math.nan}, step=19)
    store.write_checkpoint(CheckpointRecord(name="final", batch=20, final=True, state_path="tinker://a/weights/final").to_dict())

    for iteration in (0, 5):
        groups = []
        with logtree.init_trace(f"iteration {iteration}", path=None) as trace:
            for group in range(2):
                trajectories = []
                for member in range(4):
                    prompt = tinker.ModelInput.from_ints(list(range(10 + group)))
                    tokens = [rng.randrange(1000) for _ in range(5 + member)]
                    action = TokensWithLogprobs(tokens=tokens, maybe_logprobs=[-0.5] * len(tokens))
                    reward = float(member % 2)
                    transition = Transition(
                        ob=prompt, ac=action, reward=reward, episode_done=True, metrics={"correct": reward}, logs={"answer": f"{group}.{member}"}
                    )
                    trajectories.append(Trajectory(transitions=[transition], final_ob=tinker.ModelInput.empty()))
                    with logtree.scope_header("Prompt"):
                        logtree.log_formatter(ConversationFormatter(messages=[{"role": "user", "content": f"question {group}"}]))
                    with logtree.scope_header("Policy Response"):
                        logtree.log_formatter(
                            ConversationFormatter(messages=[{"role": "assistant", "content": f"answer {group}.{member} <b>"}])
                        )
                groups.append(TrajectoryGroup(trajectories, [0.25] * 4, [{} for _ in range(4)]))
        store.write_logtree(iteration, trace.to_dict())
        store.write_rollouts(
            iteration,
            serialize_rollout_summaries(split="train", iteration=iteration, trajectory_groups_P=groups, taglist_P=[["sums"], ["sums"]]),
        )
    # What the official reader says of it: the last record of a step that has a metric counts.
    values = {}
    for record in store.read_metrics():
        for name, value in record.items():
            if name != "step":
                values.setdefault(name, {})[record["step"]] = None if math.isnan(value) else value
    return {
        "values": {name: sorted(steps.items()) for name, steps in values.items()},
        "checkpoints": [record.name for record in store.read_checkpoint_records()],
        "iterations": [info.iteration for info in store.list_iterations() if info.has_train_rollouts],
        "rewards": [record["total_reward"] for record in store.read_rollouts(5)],
    }


def events(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(directory, size_guidance={"scalars": 0})
    reader.Reload()
    return {
        tag: [[event.step, None if math.isnan(event.value) else event.value, event.wall_time] for event in reader.Scalars(tag)]
        for tag in reader.Tags()["scalars"]
    }


def serve(directory):
    """MLflow's own tracking server, in this process; its port is in the file `port`."""
    import os

    os.environ["_MLFLOW_SERVER_FILE_STORE"] = f"sqlite:///{directory}/mlflow.db"
    os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = f"{directory}/artifacts"
    from mlflow.server import app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, app, threaded=True)
    with open(f"{directory}/port.new", "w") as file:
        file.write(str(server.server_port))
    os.rename(f"{directory}/port.new", f"{directory}/port")
    server.serve_forever()


def runs(url):
    """What MLflow's own client reads from the server."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(url)
    experiment = client.get_experiment_by_name("parity")
    return [
        {
            "name": run.info.run_name,
            "status": run.info.status,
            "params": run.data.params,
            "metrics": {
                key: sorted([m.step, None if math.isnan(m.value) else m.value] for m in client.get_metric_history(run.info.run_id, key))
                for key in run.data.metrics
            },
        }
        for run in client.search_runs([experiment.experiment_id])
    ]


if __name__ == "__main__":
    command, directory = sys.argv[1:]
    print(json.dumps({"write": write, "events": events, "serve": serve, "runs": runs}[command](directory)))

"""The official client on a SkyRL server: trains, saves, samples, scores and resumes, and prints what came out as JSON.

Arguments: the address, the base model, the steps; with a key and a number of steps to warm up after them, only the time
that the steps take. Data, seeds and rates are those of src/skyrl/ours.ts.
"""

import json
import sys
import time

import tinker
from tinker import types

ADDRESS, MODEL, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3])

EXAMPLES, LENGTH = 4, 24


def tokens(example):
    return [3 + (example * 31 + position * 7) % 500 for position in range(LENGTH)]


def datum(example):
    ids = tokens(example)
    return types.Datum(
        model_input=types.ModelInput.from_ints(ids[:-1]),
        loss_fn_inputs={"target_tokens": ids[1:], "weights": [1.0] * (LENGTH - 1)},
    )


DATA = [datum(example) for example in range(EXAMPLES)]
ADAM = types.AdamParams(learning_rate=1e-3)


def loss(output):
    return sum(sum(record["elementwise_loss"].data) for record in output.loss_fn_outputs)


def pipelined(training, steps):
    passes = []
    for _ in range(steps):
        passes.append(training.forward_backward(DATA, "cross_entropy"))
        stepped = training.optim_step(ADAM)
    losses = [loss(future.result()) for future in passes]
    stepped.result()
    return losses


def timed(training, steps):
    wall, cpu = time.perf_counter(), time.process_time()
    losses = pipelined(training, steps)
    return losses, time.perf_counter() - wall, time.process_time() - cpu


def throughput(key, warm):
    service = tinker.ServiceClient(base_url=ADDRESS, api_key=key)
    training = service.create_lora_training_client(base_model=MODEL, rank=8, seed=11)
    pipelined(training, warm)
    _, wall, cpu = timed(training, STEPS)
    print(json.dumps({"wall": wall, "cpu": cpu}))


def main():
    service = tinker.ServiceClient(base_url=ADDRESS, api_key="tml-parity")
    # Not measured: the server compiles what it runs for the first time.
    pipelined(service.create_lora_training_client(base_model=MODEL, rank=8, seed=3), 5)
    training = service.create_lora_training_client(base_model=MODEL, rank=8, seed=11)

    losses, wall, cpu = timed(training, STEPS)

    state = training.save_state("python").result().path
    sampler = training.save_weights_for_sampler("python").result().path
    sampling = service.create_sampling_client(model_path=sampler)
    prompt = types.ModelInput.from_ints(tokens(0)[:8])
    drawn = sampling.sample(
        prompt=prompt, num_samples=1, sampling_params=types.SamplingParams(max_tokens=8, temperature=0.0, seed=1)
    ).result()
    scored = sampling.compute_logprobs(prompt).result()

    resumed = service.create_training_client_from_state(state)
    again = loss(resumed.forward(DATA, "cross_entropy").result())

    print(
        json.dumps(
            {
                "losses": losses,
                "state": state,
                "sampler": sampler,
                "tokens": list(drawn.sequences[0].tokens),
                "logprobs": list(scored),
                "resumed": again,
                "wall": wall,
                "cpu": cpu,
            }
        )
    )


if len(sys.argv) > 4:
    throughput(sys.argv[4], int(sys.argv[5]))
else:
    main()

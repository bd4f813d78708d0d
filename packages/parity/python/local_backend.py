"""The official SDK, unmodified, against the embedded backend: trains, samples, saves, loads, lists and deletes.

Prints one JSON object with what it saw; any surprise is an assertion. The address of the backend and its key are the arguments;
`jwt` after them says that the backend exchanges keys for tokens.
"""

import datetime
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import urllib.request
import warnings

warnings.simplefilter("ignore")

import tinker  # noqa: E402
from tinker import types  # noqa: E402

base_url, api_key = sys.argv[1], sys.argv[2]
seen: dict[str, object] = {"sdk": tinker.__version__}
started = time.time()


def datum(prompt: str, completion: str) -> types.Datum:
    tokens = list((prompt + completion).encode())
    weights = [0.0] * len(prompt.encode()) + [1.0] * len(completion.encode())
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": weights[1:]},
    )


data = [datum("cat:", " meow\n"), datum("dog:", " woof\n"), datum("cow:", " moo\n")]
service = tinker.ServiceClient(base_url=base_url, api_key=api_key, user_metadata={"purpose": "parity"})

if "jwt" in sys.argv[3:]:
    who = tinker.RestClient(base_url=base_url, api_key=api_key).whoami().result()
    assert who.user_urn.startswith("tml:organization_user:") and who.email, who
    seen["whoami"] = who.user_urn

capabilities = tinker.RestClient(base_url=base_url, api_key=api_key).get_server_capabilities().result()
models = [model.model_name for model in capabilities.supported_models]
assert "local/tiny" in models, models

# --- train: pipelined as the documentation recommends, results read later
training = service.create_lora_training_client("local/tiny", rank=32, seed=1, user_metadata={"step": "one"}).result()
info = training.get_info()
assert info.model_id == training.model_id and info.is_lora and info.lora_rank == 32, info
losses = []
for _ in range(40):
    passed = training.forward_backward(data, "cross_entropy")
    stepped = training.optim_step(types.AdamParams(learning_rate=5e-4))
    losses.append(passed.result().metrics["loss:sum"])
    assert stepped.result().metrics["grad_norm"] >= 0
assert losses[-1] < losses[0] / 10, losses
seen["losses"] = [round(loss, 3) for loss in (losses[0], losses[-1])]

evaluated = training.forward(data, "cross_entropy").result()
assert len(evaluated.loss_fn_outputs) == len(data)
assert all(x >= 0 for x in evaluated.loss_fn_outputs[0]["elementwise_loss"].data)
trained_loss = evaluated.metrics["loss:sum"]


def custom(batch: list[types.Datum], logprobs: list) -> tuple:
    loss = -sum(lp[-5:].sum() for lp in logprobs)
    return loss, {"batch": float(len(batch))}


try:
    import torch  # noqa: F401

    out = training.forward_backward_custom(data, custom).result()
    assert out.metrics["batch"] == 3.0
    seen["custom_loss"] = True
except ImportError:
    seen["custom_loss"] = "torch is not installed"

# --- save, and sample from what was saved
state_path = training.save_state("state", ttl_seconds=3600, user_metadata={"kind": "state"}).result().path
sampler_path = training.save_weights_for_sampler("final").result().path
assert state_path == f"tinker://{training.model_id}/weights/state", state_path
assert sampler_path == f"tinker://{training.model_id}/sampler_weights/final", sampler_path
sampling = service.create_sampling_client(model_path=sampler_path)
prompt = types.ModelInput.from_ints(list(b"dog:"))
greedy = types.SamplingParams(max_tokens=8, temperature=0.0, stop=["\n"])
sampled = sampling.sample(prompt, 2, greedy, include_prompt_logprobs=True, topk_prompt_logprobs=3).result()
texts = [bytes(sequence.tokens).decode() for sequence in sampled.sequences]
assert texts == [" woof\n", " woof\n"], texts
assert sampled.sequences[0].stop_reason == "stop"
assert sampled.sequences[0].sequence_id is not None
assert sampled.prompt_logprobs[0] is None and all(x <= 0 for x in sampled.prompt_logprobs[1:])
assert len(sampled.topk_prompt_logprobs[1]) == 3
seen["sampled"] = texts[0]
assert sampling.get_base_model() == "local/tiny"

# the trainer and the sampler agree about the same tokens
tokens = list(b"cat: meow\n")
scored = sampling.compute_logprobs(types.ModelInput.from_ints(tokens)).result()
trainer = evaluated.loss_fn_outputs[0]["logprobs"].data
worst = max(abs(a - b) for a, b in zip(scored[1:], trainer))
assert worst < 1e-3, worst
seen["trainer_sampler_difference"] = worst

ephemeral = training.save_weights_and_get_sampling_client()
again = ephemeral.sample(prompt, 1, greedy).result().sequences[0].tokens
assert bytes(again) == b" woof\n"
many = [sampling.sample(prompt, 4, types.SamplingParams(max_tokens=6, seed=i)) for i in range(16)]
assert all(len(future.result().sequences) == 4 for future in many)

# --- weights in flight: one target, samplers that follow it, snapshots that do not
learner = service.create_lora_training_client("local/tiny", rank=32, seed=2).result()
first = learner.save_weights_and_get_sampling_client(kind="inflight").result()
frozen = learner.save_weights_and_get_sampling_client(kind="snapshot").result()
drawn = types.SamplingParams(max_tokens=24, seed=3, stop=[])


def draws(client: tinker.SamplingClient) -> list[int]:
    return client.sample(prompt, 1, drawn).result().sequences[0].tokens


untrained = draws(frozen)
assert draws(first) == untrained
long = types.SamplingParams(max_tokens=900, seed=4, stop=[])
running = [first.sample(types.ModelInput.from_ints([1, i]), 16, long) for i in range(4)]
for _ in range(20):
    learner.forward_backward(data, "cross_entropy")
    learner.optim_step(types.AdamParams(learning_rate=5e-4)).result()
second = learner.save_weights_and_get_sampling_client(kind="inflight").result()
trained = learner.save_weights_and_get_sampling_client().result()
assert draws(trained) != untrained and draws(frozen) == untrained
assert draws(second) == draws(trained)
# the prompt's keys and values of the first are those of the earlier weights, so its prompt is a new one
elsewhere = types.ModelInput.from_ints(list(b"elsewhere:"))
followed, saved = (client.sample(elsewhere, 1, greedy).result().sequences[0].tokens for client in (first, trained))
assert followed == saved, (followed, saved)
assert all(len(sequence.tokens) == 900 for future in running for sequence in future.result().sequences)
seen["inflight"] = True

# --- reinforcement learning losses
policy = sampling.sample(prompt, 1, types.SamplingParams(max_tokens=6, seed=7)).result().sequences[0]
full = list(b"dog:") + policy.tokens
before = len(b"dog:") - 1
rl = types.Datum(
    model_input=types.ModelInput.from_ints(full[:-1]),
    loss_fn_inputs={
        "target_tokens": full[1:],
        "logprobs": [0.0] * before + list(policy.logprobs),
        "advantages": [0.0] * before + [1.0] * len(policy.tokens),
    },
)
for loss_fn in ("importance_sampling", "ppo", "cispo", "dro"):
    assert "loss:sum" in training.forward_backward([rl], loss_fn).result().metrics
training.optim_step(types.AdamParams(learning_rate=0.0)).result()

# --- load: weights only, with the optimizer, into a fresh client, and from another session
from_state = service.create_training_client_from_state(state_path).result()
reloaded = from_state.forward(data, "cross_entropy").result().metrics["loss:sum"]
assert abs(reloaded - trained_loss) < 1e-2, (reloaded, trained_loss)
resumed = service.create_training_client_from_state_with_optimizer(state_path)
resumed.forward_backward(data, "cross_entropy").result()
resumed.optim_step(types.AdamParams(learning_rate=5e-4)).result()
fresh = service.create_lora_training_client("local/tiny", rank=32)
fresh.load_state(state_path).result()
assert abs(fresh.forward(data, "cross_entropy").result().metrics["loss:sum"] - trained_loss) < 1e-2
seen["reloaded_loss_difference"] = abs(reloaded - trained_loss)

# --- what the service refuses, this refuses
def fails(expected: type[Exception], run) -> str:
    try:
        run()
    except expected as error:
        return str(error)
    raise AssertionError(f"expected {expected.__name__}")


assert "not permitted with seq_id" in fails(tinker.BadRequestError, lambda: fresh.load_state(state_path).result())
fails(tinker.BadRequestError, lambda: service.create_lora_training_client("no/such-model").result())
fails(tinker.BadRequestError, lambda: service.create_lora_training_client("local/tiny", rank=3).result())
message = fails(
    tinker.RequestFailedError,
    lambda: fresh.forward(
        [types.Datum(model_input=types.ModelInput.from_ints([70000]), loss_fn_inputs={"target_tokens": [1], "weights": [1.0]})],
        "cross_entropy",
    ).result(),
)
seen["refused"] = message
# and goes on afterwards
assert "loss:sum" in fresh.forward(data, "cross_entropy").result().metrics

# --- list, publish, keep, copy, delete
rest = tinker.RestClient(base_url=base_url, api_key=api_key)
run = rest.get_training_run(training.model_id).result()
assert run.base_model == "local/tiny" and run.lora_rank == 32 and not run.corrupted and run.user_metadata == {"step": "one"}
assert run.last_checkpoint.tinker_path == state_path and run.last_sampler_checkpoint.tinker_path == sampler_path
runs = rest.list_training_runs(limit=100).result()
assert training.model_id in [r.training_run_id for r in runs.training_runs] and runs.cursor.total_count >= 4
listed = rest.list_checkpoints(training.model_id).result().checkpoints
assert {c.tinker_path for c in listed} == {state_path, sampler_path}
state = next(c for c in listed if c.tinker_path == state_path)
assert state.size_bytes > 0 and state.expires_at is not None and state.user_metadata == {"kind": "state"}, state
weights = rest.get_weights_info_by_tinker_path(state_path).result()
assert weights.base_model == "local/tiny" and weights.lora_rank == 32 and weights.train_mlp
rest.publish_checkpoint_from_tinker_path(state_path).result()
assert next(c for c in rest.list_user_checkpoints().result().checkpoints if c.tinker_path == state_path).public
rest.unpublish_checkpoint_from_tinker_path(state_path).result()
rest.set_checkpoint_ttl_from_tinker_path(state_path, 7200).result()
rest.set_checkpoint_ttl_from_tinker_path(state_path, None).result()
fails(tinker.BadRequestError, lambda: rest.set_checkpoint_ttl_from_tinker_path(state_path, 5).result())
copied = rest.copy_weights(sampler_path, "project").result()
assert copied != sampler_path and copied.endswith("/sampler_weights/final"), copied
external = training.save_weights_external("out").result().path
urls = rest.get_external_weights_urls(external).result().urls
assert urllib.request.urlopen(urls["adapter_model.safetensors"]).read(8), urls
# the archive of a checkpoint, which this SDK no longer asks for: any tool can read it
archive = urllib.request.Request(
    f"{base_url}/api/v1/training_runs/{training.model_id}/checkpoints/weights/state/archive",
    headers={"X-API-Key": api_key},
)
with urllib.request.urlopen(json.load(urllib.request.urlopen(archive))["url"]) as response:
    members = tarfile.open(fileobj=io.BytesIO(response.read()))
names = {"adapter_config.json", "adapter_model.safetensors", "optimizer.safetensors", "checkpoint_complete"}
assert set(members.getnames()) == names, members.getnames()
tensors = members.extractfile("adapter_model.safetensors").read()
header = json.loads(tensors[8 : 8 + int.from_bytes(tensors[:8], "little")])
assert all(value["dtype"] == "F32" for key, value in header.items() if key != "__metadata__")
session = training.model_id.split(":")[0]
assert session in rest.list_sessions(limit=100).result().sessions
details = rest.get_session(session).result()
assert training.model_id in details.training_run_ids and details.user_metadata == {"purpose": "parity"}
rest.assign_session_project(session, "project").result()
found = rest.search_sessions(types.SessionSearchRequest(user_metadata={"purpose": "parity"})).result()
assert session in [summary.session_id for summary in found.sessions]
assert rest.get_sampler(details.sampler_ids[0]).result().base_model == "local/tiny"
trace = urllib.request.urlopen(rest.export_session_trace(session).result()).read()
assert b"forward_backward" in trace
hour = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
admin = tinker.AdminClient(base_url=base_url, api_key=api_key)
usage = admin.get_billing_usage(hour - datetime.timedelta(hours=1), hour + datetime.timedelta(hours=1)).result()
trained = sum(e.event_info.token_count for e in usage.data if e.event_info.type == "training")
assert trained > 0
seen["billed_training_tokens"] = trained
assert admin.get_current_checkpoint_storage_usage().result().data[0].checkpoint_count >= 3
assert any(entry.event == "checkpoint_create" for entry in admin.get_audit_log().result().entries)

# --- the command line
environment = {**os.environ, "TINKER_BASE_URL": base_url, "TINKER_API_KEY": api_key, "TINKER_TELEMETRY": "0"}


def cli(*args: str) -> str:
    command = [sys.executable, "-m", "tinker.cli", *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    # now and then the interpreter dies of a signal while it shuts down, after everything is said and done
    assert done.returncode <= 0 and done.stderr == "", (args, done.returncode, done.stdout, done.stderr)
    return done.stdout


commands = 0
for args, check in (
    (["run", "list"], lambda out: training.model_id in [r["training_run_id"] for r in json.loads(out)["runs"]]),
    (["run", "info", training.model_id], lambda out: json.loads(out)["base_model"] == "local/tiny"),
    (["model", "list"], lambda out: "local/tiny" in out),
    (["checkpoint", "list", "--run-id", training.model_id], lambda out: len(json.loads(out)["checkpoints"]) == 3),
    (["checkpoint", "info", state_path], lambda out: json.loads(out)["lora_rank"] == 32),
    (["checkpoint", "publish", sampler_path], lambda out: True),
    (["checkpoint", "unpublish", sampler_path], lambda out: True),
    (["checkpoint", "set-ttl", sampler_path, "--ttl", "3600"], lambda out: True),
    (["checkpoint", "delete", external, "--yes"], lambda out: json.loads(out)["deleted_count"] == 1),
    (["checkpoint", "list", "--run-id", training.model_id], lambda out: len(json.loads(out)["checkpoints"]) == 2),
):
    output = cli("--format", "json", *args)
    assert check(output), (args, output)
    commands += 1
seen["cli_commands"] = commands

rest.delete_checkpoint_from_tinker_path(sampler_path).result()
assert sampler_path not in [c.tinker_path for c in rest.list_user_checkpoints().result().checkpoints]
fails(tinker.NotFoundError, lambda: rest.delete_checkpoint_from_tinker_path(sampler_path).result())
service.close("success")
seen["seconds"] = round(time.time() - started, 1)
print(json.dumps(seen))

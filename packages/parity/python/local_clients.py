"""What every version of the official SDK in use does with the embedded backend: trains, saves, loads, samples, lists, downloads,
finds the tokenizer, is refused for good, waits through held polls, and leaves in the middle.

Arguments: the address, the key, and the address again as the hub (HF_ENDPOINT is set by the caller). Prints one JSON object.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import warnings

warnings.simplefilter("ignore")

import tinker  # noqa: E402
from tinker import types  # noqa: E402

base_url, api_key = sys.argv[1], sys.argv[2]

if sys.argv[3:] == ["abandon"]:
    # a client that dies while its poll is held
    service = tinker.ServiceClient(base_url=base_url, api_key=api_key)
    sampling = service.create_sampling_client(base_model="local/small")
    sampling.sample(types.ModelInput.from_ints([1]), 64, types.SamplingParams(max_tokens=1000, stop=[]))
    time.sleep(1)
    os._exit(0)

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
service = tinker.ServiceClient(base_url=base_url, api_key=api_key)
training = service.create_lora_training_client("local/tiny", rank=32, seed=1)
losses = []
for _ in range(40):
    passed = training.forward_backward(data, "cross_entropy")
    stepped = training.optim_step(types.AdamParams(learning_rate=5e-4))
    losses.append(passed.result().metrics["loss:sum"])
    stepped.result()
assert losses[-1] < losses[0] / 10, losses
seen["losses"] = [round(losses[0], 3), round(losses[-1], 3)]

# --- the tokenizer, by the real transformers: of the trained model, and of a sampler
os.environ.setdefault("HF_ENDPOINT", base_url)
tokenizer = training.get_tokenizer()
assert tokenizer.encode("héllo") == list("héllo".encode()), tokenizer.encode("héllo")
assert tokenizer.decode(list(b"hello")) == "hello"
assert tokenizer.convert_tokens_to_ids("<|im_end|>") == 258
sampler_path = training.save_weights_for_sampler("final").result().path
sampling = service.create_sampling_client(model_path=sampler_path)
if hasattr(sampling, "get_tokenizer"):
    assert sampling.get_tokenizer().encode("a b") == [97, 32, 98]
prompt = types.ModelInput.from_ints(tokenizer.encode("dog:"))
sampled = sampling.sample(prompt, 2, types.SamplingParams(max_tokens=8, temperature=0.0, stop=["\n"])).result()
texts = [tokenizer.decode(sequence.tokens) for sequence in sampled.sequences]
assert texts == [" woof\n", " woof\n"], texts
seen["sampled"] = texts[0]

# --- a name that is taken is refused at once, and the next request goes on
state_path = training.save_state("state").result().path
asked = time.time()
try:
    training.save_state("state").result()
    raise AssertionError("a name that is taken was accepted")
except tinker.BadRequestError as error:
    assert "already exists" in str(error), error
seen["refused_after_seconds"] = round(time.time() - asked, 1)
assert time.time() - asked < 60
try:
    assert training.save_state("state", overwrite=True).result().path == state_path
    seen["overwrite"] = True
except TypeError:
    seen["overwrite"] = "not in this version"
going_on = training
for rate in (float("nan"), float("inf")):
    try:
        training.optim_step(types.AdamParams(learning_rate=rate)).result()
        raise AssertionError(f"a learning rate of {rate} was accepted")
    except tinker.APIError:
        pass
    except ValueError:
        # Older versions fail to write it, after they have given it a number: the server waits for that number.
        seen["not_finite"] = "lost by the client"
        going_on = service.create_training_client_from_state(state_path)
assert going_on.forward_backward(data, "cross_entropy").result().metrics["loss:sum"] < losses[0] / 10

# --- load
from_state = service.create_training_client_from_state(state_path)
assert from_state.forward_backward(data, "cross_entropy").result().metrics["loss:sum"] < losses[0] / 10

# --- list, and the archive as this version fetches it
rest = service.create_rest_client()
run = rest.get_training_run(training.model_id).result()
assert run.base_model == "local/tiny", run
listed = {c.tinker_path for c in rest.list_checkpoints(training.model_id).result().checkpoints}
assert listed == {state_path, sampler_path}, listed
if hasattr(rest, "get_checkpoint_archive_url_from_tinker_path"):
    url = rest.get_checkpoint_archive_url_from_tinker_path(sampler_path).result().url
    with urllib.request.urlopen(url) as response:
        names = set(tarfile.open(fileobj=io.BytesIO(response.read())).getnames())
    assert {"adapter_config.json", "adapter_model.safetensors", "checkpoint_complete"} <= names, names
    seen["archive"] = sorted(names)
environment = {**os.environ, "TINKER_BASE_URL": base_url, "TINKER_API_KEY": api_key, "TINKER_TELEMETRY": "0"}
with tempfile.TemporaryDirectory() as directory:
    # versions differ in which kind of checkpoint they download
    outcomes = []
    for path in (sampler_path, state_path):
        command = [sys.executable, "-m", "tinker.cli", "checkpoint", "download", path, "--output", directory]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        outcomes.append((done.returncode, done.stdout, done.stderr))
    found = {name for _, _, names in os.walk(directory) for name in names}
    assert "adapter_model.safetensors" in found, (outcomes, found)
    seen["downloaded"] = sorted(found)

# --- leaves in the middle: of a poll with the SDK, of a computation without
subprocess.run([sys.executable, "-m", "local_clients", base_url, api_key, "abandon"], env=environment, timeout=300)
body = {"model": "local/small", "prompt": "hello", "max_tokens": 1000, "n": 64, "stop": []}
request = urllib.request.Request(
    f"{base_url}/oai/api/v1/completions",
    data=json.dumps(body).encode(),
    headers={"authorization": f"Bearer {api_key}", "content-type": "application/json"},
)
try:
    urllib.request.urlopen(request, timeout=1).read()
    seen["left"] = "it was too fast"
except (TimeoutError, urllib.error.URLError):
    seen["left"] = True
again = sampling.sample(prompt, 1, types.SamplingParams(max_tokens=2, temperature=0.0)).result()
assert len(again.sequences[0].tokens) == 2
seen["seconds"] = round(time.time() - started, 1)
print(json.dumps(seen))

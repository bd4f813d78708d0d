"""Makes a few runs and checkpoints, then asks the official command line about them.

Prints a JSON list: each command, its exit code, and the data it printed.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

base_url = sys.argv[1]
os.environ.update(TINKER_BASE_URL=base_url, TINKER_API_KEY="tml-parity", TINKER_TELEMETRY="0")

import tinker  # noqa: E402

service = tinker.ServiceClient()
paths = []
runs = []
for rank in (4, 8):
    client = service.create_lora_training_client(base_model="local/tiny", rank=rank)
    for name in ("a", "b"):
        paths.append(client.save_state(name).result().path)
    paths.append(client.save_weights_for_sampler("sampler").result().path)
    runs.append(paths[-1].removeprefix("tinker://").split("/")[0])
external = client.save_weights_external("external").result().path
service.close("success").result()


def ask(*command: str, data: bool = True) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "tinker.cli", "--format", "json", *command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    text = done.stdout.strip()
    # Now and then the interpreter dies of a signal while it shuts down, after everything is said and done: then what
    # was said on standard error tells whether it had failed.
    died = done.returncode < 0
    code = int(done.stderr != "") if died else done.returncode
    return {
        "command": list(command),
        "code": code,
        "died": died,
        "data": json.loads(text) if data and code == 0 and text else None,
    }


# Changed by theirs before either is asked, so that both see the same.
for change in (("publish", paths[0]), ("set-ttl", paths[1], "--ttl", "7200"), ("delete", external, "--yes")):
    if ask("checkpoint", *change)["code"] != 0:
        sys.exit(f"checkpoint {change[0]} failed")

# Of these only the exit code counts: what they print is each program's own.
spoken = [
    ("version",),
    ("auth", "status"),
    ("checkpoint", "unpublish", "not-a-path"),
    ("checkpoint", "delete", "not-a-path", "--yes"),
    ("checkpoint", "download", "not-a-path"),
    ("checkpoint", "push-hf", "not-a-path"),
    ("session", "export-trace", "missing"),
]
asked = [
    ("run", "list"),
    ("run", "list", "--limit", "1"),
    ("run", "info", runs[0]),
    ("run", "info", "missing"),
    ("checkpoint", "list"),
    ("checkpoint", "list", "--limit", "2"),
    ("checkpoint", "list", "--run-id", runs[0]),
    ("checkpoint", "set-ttl", paths[1]),
    ("checkpoint", "publish", "not-a-path"),
    ("model", "list"),
    ("model", "list", "TINY"),
    ("model", "list", "nothing"),
    ("auth", "whoami"),
    ("billing", "usage", "2026-01-02T00:00:00Z", "2026-01-02T02:00:00Z"),
    ("billing", "checkpoint-storage"),
    ("checkpoint", "info", paths[0]),
]
# Most of the time goes into starting each.
with ThreadPoolExecutor(max_workers=3) as pool:
    answers = [
        *pool.map(lambda command: ask(*command, data=False), spoken),
        *pool.map(lambda command: ask(*command), asked),
    ]
# Ours adds the base model to what theirs says of a checkpoint.
described = answers[-1]
if described["data"] is None:
    sys.exit(f"checkpoint info failed with {described['code']}")
described["data"]["base_model"] = "local/tiny"
print(json.dumps(answers))

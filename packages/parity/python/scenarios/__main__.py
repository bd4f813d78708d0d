"""Runs scenarios side by side and prints how each ended: `python -m scenarios '[{"name", "base_url"}]' SECONDS AT_ONCE`."""

import json
import logging
import os
import sys
import warnings
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from . import checkpoints, faults, rest, sampling, startup, training  # noqa: E402, F401
from .connection import SCENARIOS, Connection  # noqa: E402


def outcome(wanted: dict[str, Any]) -> dict[str, Any]:
    run = SCENARIOS.get(wanted["name"])
    if run is None:
        return {"name": wanted["name"], "outcome": "unknown", "reason": "there is no such function"}
    try:
        connection = Connection(wanted["base_url"], wanted.get("api_key"), wanted.get("session", {}))
        with connection.service:
            run(connection)
    except Exception as error:  # noqa: BLE001
        cause: BaseException | None = error
        while cause is not None and not isinstance(getattr(cause, "status_code", None), int):
            cause = cause.__cause__
        status = None if cause is None else getattr(cause, "status_code")
        return {
            "name": wanted["name"],
            "outcome": "failed" if status is None else f"status {status}",
            "reason": f"{type(error).__name__}: {error}"[:300],
        }
    return {"name": wanted["name"], "outcome": "done"}


wanted = json.loads(sys.argv[1])
# without any that ends for so long, those that are left do not end
limit = float(sys.argv[2])
pool = ThreadPoolExecutor(max_workers=int(sys.argv[3]))
running = [pool.submit(outcome, one) for one in wanted]
pending = set(running)
while pending:
    ended_now, pending = wait(pending, timeout=limit, return_when=FIRST_COMPLETED)
    if not ended_now:
        break
ended = [
    future.result() if future.done() else {"name": one["name"], "outcome": "did not end"}
    for one, future in zip(wanted, running, strict=True)
]
print(json.dumps({"known": sorted(SCENARIOS), "ended": ended}), flush=True)
# a scenario that hangs holds its thread
os._exit(0)

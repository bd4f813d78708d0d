"""Runs scenarios side by side and prints how each ended: `python -m scenarios '[{"name", "base_url", ...}]'`."""

import json
import logging
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from . import startup, training, sampling, faults  # noqa: E402, F401
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
with ThreadPoolExecutor(max_workers=max(1, min(8, len(wanted)))) as pool:
    print(json.dumps({"known": sorted(SCENARIOS), "ended": list(pool.map(outcome, wanted))}))

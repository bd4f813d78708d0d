"""Reads what the other side writes: `python -m corpus.accept FILE`.

The file holds JSON bodies by the class that reads them, and protobuf messages. Requests are read in Pydantic's strict
mode; what is read is written again, and has to be the same.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tinker.proto import tinker_public_pb2 as pb

from .models import is_request, models


def same(ours: Any, theirs: Any, path: str = "") -> str | None:
    """What we wrote, as the class understood it: nothing lost, nothing changed. Defaults may be added."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in theirs:
                return f"{path}.{key}: lost"
            found = same(value, theirs[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return next((f for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if (f := same(a, b, f"{path}[{i}]"))), None)
    numbers = isinstance(ours, (int, float)) and isinstance(theirs, (int, float))
    unchanged = float(ours) == float(theirs) if numbers else ours == theirs
    return None if unchanged else f"{path}: {ours!r} became {theirs!r}"


def rejection(name: str, text: str) -> str | None:
    model = models()[name]
    try:
        value = model.model_validate_json(text, strict=is_request(model))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return same(json.loads(text), value.model_dump(mode="json", by_alias=False)) if is_request(model) else None


def unreadable(message: str, body: str) -> str | None:
    data = bytes.fromhex(body)
    try:
        value = getattr(pb, message).FromString(data)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return f"{type(error).__name__}: {error}"
    # maps have no order on the wire, so the bytes may only move
    return None if sorted(value.SerializeToString()) == sorted(data) else "it writes the message differently"


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    problems = []
    for item in given["json"]:
        problem = rejection(item["type"], item["text"])
        if problem:
            problems.append({"what": item["type"], "problem": problem, "body": item["text"][:300]})
    for item in given["protobuf"]:
        problem = unreadable(item["message"], item["hex"])
        if problem:
            problems.append({"what": item["message"], "problem": problem, "body": item["hex"][:300]})
    print(json.dumps({"checked": len(given["json"]) + len(given["protobuf"]), "problems": problems}))


if __name__ == "__main__":
    main()

"""Writes the corpus: `python -m corpus DIRECTORY`."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from tinker import __version__

from . import exports, helpers, models, protobuf, recorded


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinities: they are written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def write(path: Path, content: dict[str, Any]) -> None:
    """One vector to a line, so that a change of the SDK reads as a diff."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            items = ",\n".join("    " + json.dumps(finite(item), ensure_ascii=False) for item in value)
            lines.append(f'  {json.dumps(key)}: [\n{items}\n  ]')
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(finite(value), ensure_ascii=False)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    requests, responses = models.vectors()
    write(out / "requests.json", {"sdk": __version__, "vectors": requests})
    write(out / "responses.json", {"sdk": __version__, "vectors": responses})
    write(out / "protobuf.json", {"sdk": __version__, **protobuf.vectors()})
    write(out / "helpers.json", {"sdk": __version__, **helpers.vectors()})
    write(out / "recorded.json", {"sdk": __version__, **recorded.vectors()})
    write(out / "types.json", {"sdk": __version__, **exports.vectors()})
    print(json.dumps({"sdk": __version__, "requests": len(requests), "responses": len(responses)}))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # the clients' threads would keep the process for their time-outs
    os._exit(0)

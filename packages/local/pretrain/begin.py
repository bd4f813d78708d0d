"""Puts a work directory where training stands when a cycle begins: with the released weights, which the cycle before it ended
with, and with what their record says of the steps until then.

    python begin.py MODEL_DIRECTORY PLAN.json WORK_DIRECTORY
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file


def main() -> None:
    released, plan, work = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])
    record = json.loads((released / "record.json").read_text())
    ended = len(record["plan"]["cycles"])
    if plan["cycles"][:ended] != record["plan"]["cycles"]:
        raise SystemExit("the released weights were trained by another plan")
    if len(plan["cycles"]) == ended:
        raise SystemExit(f"the released weights have all {ended} cycles of the plan behind them: add one to go on")
    weights = {name: value.float() for name, value in load_file(released / "model.safetensors").items()}
    step = record["steps"]
    state = {
        "cycle": ended,
        "begin": step,
        "step": step,
        "tokens": record["tokens"],
        "seconds": record["minutes"] * 60,
        "rows": {},
        "decay_from": None,
        "decay": None,
    }
    torch.save({"model": weights, "optimizer": None, "state": state}, work / "checkpoint.pt")
    entries = ({"step": step, "tokens": tokens, "loss": loss} for step, tokens, loss in record["curve"])
    (work / "log.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    print(json.dumps(state))


if __name__ == "__main__":
    main()

"""Writes the record of a run beside the weights: how long, on what, how the loss fell, and what was measured. The tables of
both READMEs come from it.

    python record.py WORK_DIRECTORY MODEL_DIRECTORY TEXT_HASH
    python record.py WORK_DIRECTORY MODEL_DIRECTORY

Without the hash only what was measured is written anew: the weights are those that the record is about.
"""

import hashlib
import json
import platform
import sys
from pathlib import Path

import numpy
import tokenizers
import torch
import transformers

TARGETS = {
    "ends its turn": ">= 99 %",
    "valid tool calls": ">= 95 %",
    "two or three facts": ">= 85 %",
    "three-digit addition": "30 to 70 %",
    "two steps": "30 to 70 %",
}


percent = lambda share: f"{100 * share:.1f} %"


def targets(record: dict) -> str:
    return "\n".join([
        "| target | wanted | measured |",
        "| --- | --- | --- |",
        *(f"| {name} | {TARGETS[name]} | {percent(share)} |" for name, share in record["held_out"]["targets"].items()),
    ])


def table(record: dict) -> str:
    return "\n".join([
        f"{record['parameters']:,} parameters, {record['tokens'] / 1e6:.1f} million tokens, {record['steps']:,} steps.",
        "",
        targets(record),
        "",
        "| skill | prompts | right |",
        "| --- | --- | --- |",
        *(f"| {name} | {row['prompts']} | {percent(row['right'])} |" for name, row in record["held_out"]["skills"].items()),
    ])


def replace(readme: Path, name: str, text: str) -> None:
    """Puts a text between the marks of a name."""
    before, rest = readme.read_text().split(f"<!-- {name} -->")
    after = rest.split(f"<!-- /{name} -->")[1]
    readme.write_text(f"{before}<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->{after}")


def trained(work: Path, model: Path, text_hash: str) -> dict:
    saved = torch.load(work / "checkpoint.pt")
    state = saved["state"]
    log = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    curve = [entry for entry in log if "loss" in entry]
    sha = lambda name: hashlib.sha256((model / name).read_bytes()).hexdigest()
    return {
        "plan": json.loads((work / "plan.json").read_text()),
        "text_sha256": text_hash,
        "steps": state["step"],
        "tokens": state["tokens"],
        "minutes": round(state["seconds"] / 60, 1),
        "decay": {"from": state["decay_from"], "steps": state["decay"]},
        "parameters": sum(v.numel() for v in saved["model"].values()),
        "sha256": {name: sha(name) for name in ("model.safetensors", "tokenizer.json", "chat_template.jinja")},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "numpy": numpy.__version__,
        },
        "curve": [[e["step"], e["tokens"], e["loss"]] for e in curve[:: max(1, len(curve) // 60)]],
    }


def main() -> None:
    work, model, *text_hash = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
    kept = trained(work, model, *text_hash) if text_hash else json.loads((model / "record.json").read_text())
    record = {**kept, "held_out": json.loads((work / "evaluation.json").read_text())["report"]}
    (model / "record.json").write_text(json.dumps(record, indent=1) + "\n")
    replace(model / "README.md", "measured", table(record))
    replace(model / "../../README.md", "skills", targets(record))


if __name__ == "__main__":
    main()

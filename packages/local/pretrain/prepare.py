"""Generated conversations as token arrays, packed into rows.

A row holds whole conversations one after the other; `document` says which one a token belongs to, so that attention stays
within it, `own` whether the target is the model's own word. Targets are the inputs moved by one.

    python prepare.py TOKENIZER.json IN.jsonl LENGTH=OUT.npz... [--last]

With several lengths a conversation goes where it fits best. `--last` counts only the last turn as the model's own.
"""

import json
import sys

import numpy as np
from tokenizers import Tokenizer

OPEN = 96  # rows that are filled at the same time


def tokens(tokenizer: Tokenizer, path: str, last_only: bool):
    """Per conversation: its skill, ids and which of them are the model's own (or of its last turn only)."""
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    texts = [text for _, texts in lines for text in texts]
    encoded = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    for skill, texts in lines:
        ids, own = [], []
        for i, _ in enumerate(texts):
            piece = next(encoded).ids
            ids += piece
            # Segments alternate: what the model is given, what it says.
            own += [i % 2 == 1 and (not last_only or i == len(texts) - 1)] * len(piece)
        yield skill, np.array(ids, np.uint16), np.array(own, bool)


def pack(conversations, length: int):
    rows = []
    open_rows: list[list] = []  # [used, [(skill, ids, own), ...]]
    for skill, ids, own in conversations:
        size = len(ids) - 1
        # Best fit: the fullest row it still fits into.
        best = max((row for row in open_rows if row[0] + size <= length), key=lambda row: row[0], default=None)
        if best is None:
            best = [0, []]
            open_rows.append(best)
        best[0] += size
        best[1].append((skill, ids, own))
        if best[0] >= length - 8:
            open_rows = [row for row in open_rows if row is not best]
            rows.append(best[1])
        elif len(open_rows) > OPEN:
            fullest = max(open_rows, key=lambda row: row[0])
            open_rows = [row for row in open_rows if row is not fullest]
            rows.append(fullest[1])
    rows += [row[1] for row in open_rows]
    shape = (len(rows), length)
    out = {
        "inputs": np.zeros(shape, np.uint16),
        "targets": np.zeros(shape, np.uint16),
        "own": np.zeros(shape, np.int8),  # -1: nothing, 0: given, 1: the model's own
        "document": np.full(shape, -1, np.int16),
    }
    out["own"][:] = -1
    skills = []
    for r, row in enumerate(rows):
        at = 0
        for d, (skill, ids, own) in enumerate(row):
            end = at + len(ids) - 1
            out["inputs"][r, at:end] = ids[:-1]
            out["targets"][r, at:end] = ids[1:]
            out["own"][r, at:end] = own[1:]
            out["document"][r, at:end] = d
            skills.append((r, d, skill))
            at = end
    return out, skills


def main() -> None:
    tokenizer, source = Tokenizer.from_file(sys.argv[1]), sys.argv[2]
    targets = sorted((int(length), path) for length, path in (arg.split("=") for arg in sys.argv[3:] if "=" in arg))
    rest = list(tokens(tokenizer, source, "--last" in sys.argv))
    for length, path in targets:
        fitting = [entry for entry in rest if len(entry[1]) - 1 <= length]
        rest = [entry for entry in rest if len(entry[1]) - 1 > length]
        out, skills = pack(fitting, length)
        used = int((out["own"] >= 0).sum())
        np.savez(path, skills=np.array([f"{r} {d} {s}" for r, d, s in skills]), **out)
        print(f"{path}: {len(out['inputs'])} rows, {used} tokens, {used / out['inputs'].size:.3f} full")
    print(f"{len(rest)} conversations are too long")


if __name__ == "__main__":
    main()

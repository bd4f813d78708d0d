"""Generated conversations as token arrays, packed into rows.

A row holds whole conversations one after the other; `document` says which one a token belongs to, so that attention stays
within it, `own` whether the target is the model's own word. Targets are the inputs moved by one. `looks` says, for questions
about whose value it is, where the tokens are that lead to the answer.

    python prepare.py TOKENIZER.json IN.jsonl LENGTH=OUT.npz... [--last]

With several lengths a conversation goes where it fits best. `--last` counts only the last turn as the model's own.
"""

import json
import re
import sys

import numpy as np
from tokenizers import Tokenizer

OPEN = 96  # rows that are filled at the same time


def tokens(tokenizer: Tokenizer, path: str, last_only: bool):
    """Per conversation: its skill, ids, which of them are the model's own (or of its last turn only), and where to look."""
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    encoded = iter(tokenizer.encode_batch([text for line in lines for text in line[1]], add_special_tokens=False))
    for skill, texts, *pairs in lines:
        ids, own, begins = [], [], []
        pieces = [next(encoded) for _ in texts]
        for i, piece in enumerate(pieces):
            begins.append(len(ids))
            ids += piece.ids
            # Segments alternate: what the model is given, what it says.
            own += [i % 2 == 1 and (not last_only or i == len(texts) - 1)] * len(piece)
        shown = list(looks(texts, pieces, begins, pairs[0])) if pairs else []
        yield skill, np.array(ids, np.uint16), np.array(own, bool), shown


def looks(texts, pieces, begins, pairs):
    """Where to look for whose value it is, as (which, from, to), for the question and answer of each pair: 0, in the sentence,
    from the token after the value to the subject; 1, from the token before the subject in the answer to the value in the
    question; 2, from there to the token after the value in the sentence."""
    place = lambda i, at: begins[i] + pieces[i].char_to_token(at)
    whole = lambda words, text, start=0: re.compile(rf"(?<![\w-]){re.escape(words)}(?![\w-])").search(text, start)
    for turn, (value, subject) in enumerate(pairs):
        asked, said = 2 * turn, 2 * turn + 1
        named = whole(subject, texts[0])
        told = whole(value, texts[0], named.end())
        question = texts[asked].rindex(value) + len(value) - 1
        answer = whole(subject, texts[said])
        ends, before = place(0, told.end()), place(said, answer.start()) - 1
        yield 0, ends, place(0, named.start())
        yield 1, before, place(asked, question)
        yield 2, before, ends


def pack(conversations, length: int):
    rows = []
    open_rows: list[list] = []  # [used, [(skill, ids, own, shown), ...]]
    for skill, ids, own, shown in conversations:
        size = len(ids) - 1
        # Best fit: the fullest row it still fits into.
        best = max((row for row in open_rows if row[0] + size <= length), key=lambda row: row[0], default=None)
        if best is None:
            best = [0, []]
            open_rows.append(best)
        best[0] += size
        best[1].append((skill, ids, own, shown))
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
        "looks": np.full((len(rows), 3, length), -1, np.int16),  # where to look from here; -1: anywhere
    }
    out["own"][:] = -1
    skills = []
    for r, row in enumerate(rows):
        at = 0
        for d, (skill, ids, own, shown) in enumerate(row):
            end = at + len(ids) - 1
            out["inputs"][r, at:end] = ids[:-1]
            out["targets"][r, at:end] = ids[1:]
            out["own"][r, at:end] = own[1:]
            out["document"][r, at:end] = d
            for which, start, to in shown:
                out["looks"][r, which, at + start] = at + to
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

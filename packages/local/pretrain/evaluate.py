"""Answers the held-out prompts with transformers, greedily, and grades them by skill.

    python evaluate.py MODEL_DIRECTORY HELD_OUT.jsonl [OUT.json]
"""

import json
import sys
from collections import defaultdict

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

LIMIT = 96  # tokens within which a turn must end


def calls(text: str):
    """The tool calls of an answer; None if one of them cannot be read."""
    found = []
    for part in text.split("<tool_call>")[1:]:
        try:
            found.append(json.loads(part.split("</tool_call>")[0]))
        except json.JSONDecodeError:
            return None
    return found


def fits(call, tools) -> bool:
    """Whether a call names a tool and its arguments have the names and types of its schema."""
    tool = next((tool for tool in tools if isinstance(call, dict) and tool["name"] == call.get("name")), None)
    given = call.get("arguments") if isinstance(call, dict) else None
    if tool is None or not isinstance(given, dict):
        return False
    properties, required = tool["parameters"]["properties"], tool["parameters"]["required"]
    types = {
        "string": lambda v: isinstance(v, str),
        "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
        "boolean": lambda v: isinstance(v, bool),
        "array": lambda v: isinstance(v, list),
        "object": lambda v: isinstance(v, dict),
    }
    return all(name in given for name in required) and all(
        name in properties and types[properties[name]["type"]](value) for name, value in given.items()
    )


def grade(entry: dict, answer: str, ended: bool) -> dict:
    expected = entry["answer"]
    result = {"ended": ended, "right": ended and answer.strip() == expected.strip()}
    if "<tool_call>" in expected:
        made = calls(answer)
        result["valid"] = ended and made is not None and len(made) == 1 and fits(made[0], entry["tools"])
        result["right"] = result["valid"] and made == calls(expected)
    return result


def main() -> None:
    directory, path = sys.argv[1], sys.argv[2]
    tokenizer = AutoTokenizer.from_pretrained(directory, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    with open(path) as file:
        entries = [json.loads(line) for line in file]
    order = sorted(range(len(entries)), key=lambda i: len(entries[i]["prompt"]))
    answers: dict[int, tuple[str, bool]] = {}
    size = 128
    while order:
        # Long prompts go alone, so that their attention stays small.
        chosen = order[:size] if len(entries[order[min(size, len(order)) - 1]]["prompt"]) < 2000 else order[:2]
        order = order[len(chosen) :]
        batch = tokenizer([entries[i]["prompt"] for i in chosen], return_tensors="pt", padding=True, add_special_tokens=False)
        with torch.no_grad():
            out = model.generate(**batch, do_sample=False, max_new_tokens=LIMIT, eos_token_id=2, pad_token_id=0)
        for i, ids in zip(chosen, out[:, batch.input_ids.shape[1] :].tolist()):
            ended = 2 in ids
            text = tokenizer.decode(ids[: ids.index(2)] if ended else ids, skip_special_tokens=False)
            answers[i] = (text.replace("<|endoftext|>", ""), ended)
    skills: dict[str, list[dict]] = defaultdict(list)
    transcripts = []
    for i, entry in enumerate(entries):
        answer, ended = answers[i]
        result = grade(entry, answer, ended)
        skills[entry["skill"]].append(result)
        transcripts.append({**{k: entry[k] for k in ("skill", "prompt")}, "expected": entry["answer"], "answer": answer, **result})
    everything = [result for results in skills.values() for result in results]
    share = lambda results, key: round(sum(r[key] for r in results) / len(results), 4) if results else None
    pick = lambda *names: [r for name in names for r in skills.get(name, [])]
    report = {
        "prompts": len(everything),
        "right": share(everything, "right"),
        "targets": {
            "ends its turn": share(everything, "ended"),
            "valid tool calls": share([r for r in everything if "valid" in r], "valid"),
            "two or three facts": share(pick("fact-2", "fact-3"), "right"),
            "three-digit addition": share(pick("add-3"), "right"),
            "two steps": share(pick("two-step"), "right"),
        },
        "skills": {skill: {"prompts": len(results), "right": share(results, "right")} for skill, results in sorted(skills.items())},
    }
    print(json.dumps(report, indent=2))
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w") as file:
            json.dump({"report": report, "transcripts": transcripts}, file, indent=1)


if __name__ == "__main__":
    main()

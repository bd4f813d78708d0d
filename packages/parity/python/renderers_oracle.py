"""Renders, continues and parses the conversations of a job file with the official Python packages.

    python -m renderers_oracle JOB ANSWERS

The job is JSON: tokenizer files by name, and cases. Each case names a renderer of tinker-cookbook, one of `renderers`, or
both. The answers are JSON lines: the renderers that tinker-cookbook recommends for its models, then one line a case, in
order; what a package refuses is an answer too.
"""

import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from renderers import create_renderer  # noqa: E402
from renderers.configs import _config_class_for  # noqa: E402
from tinker_cookbook.renderers import TrainOnWhat, get_renderer  # noqa: E402
from tinker_cookbook.renderers.base import ToolCall  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

tokenizers = {}
made = {}


def tokenizer_of(name, files):
    if name == "inkling" and name not in tokenizers:
        # tml-renderers brings its vocabulary
        from tinker_cookbook.tokenizer_utils import get_tokenizer

        tokenizers[name] = get_tokenizer("thinkingmachines/Inkling")
    if name not in tokenizers:
        given = files[name]
        tokenizers[name] = PreTrainedTokenizerFast(tokenizer_file=given["file"], **given["tokens"])
    return tokenizers[name]


class GivenTokens:
    """Stands for a processor that is a program in a model's repository: the other side counts in the same way."""

    def get_resize_config(self, image_data):
        width, height = image_data["image"].size
        return {"num_tokens": 1 + (3 * width + height) % 7}


def image_processor(kind):
    if kind == "qwen":
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        # as the preprocessor_config.json of Qwen3-VL and Qwen3.5 has it
        return Qwen2VLImageProcessorPil(
            patch_size=16, merge_size=2, size={"shortest_edge": 65536, "longest_edge": 16777216}
        )
    return GivenTokens() if kind == "given" else None


def cookbook_renderer(name, tokenizer_name, images, files):
    key = ("cookbook", name, tokenizer_name)
    if key not in made:
        made[key] = get_renderer(name, tokenizer_of(tokenizer_name, files), image_processor(images))
    return made[key]


def ids_of(model_input):
    """Tokens, and -1 for each position of an image."""
    return [
        token
        for chunk in model_input.chunks
        for token in (chunk.tokens if chunk.type == "encoded_text" else [-1] * chunk.expected_tokens)
    ]


def bridge_renderer(given, tokenizer_name, files):
    key = ("renderers", json.dumps(given, sort_keys=True), tokenizer_name)
    if key not in made:
        config = _config_class_for(given["name"])(**given.get("options", {}))
        made[key] = create_renderer(tokenizer_of(tokenizer_name, files), config)
    return made[key]


def to_cookbook(message):
    out = {"role": message["role"]}
    content = message.get("content") or ""
    if isinstance(content, list):
        out["content"] = content
    elif message.get("reasoning_content"):
        out["content"] = [
            {"type": "thinking", "thinking": message["reasoning_content"]},
            {"type": "text", "text": content},
        ]
    else:
        out["content"] = content
    if message.get("tool_calls"):
        out["tool_calls"] = [
            ToolCall(
                id=call.get("id"),
                function=ToolCall.FunctionBody(
                    name=call["function"]["name"], arguments=call["function"]["arguments"]
                ),
            )
            for call in message["tool_calls"]
        ]
    for field in ("name", "tool_call_id", "trainable"):
        if field in message:
            out[field] = message[field]
    return out


def from_cookbook(message):
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "text": "".join(part["text"] for part in parts if part["type"] == "text"),
        "reasoning": "".join(part["thinking"] for part in parts if part["type"] == "thinking"),
        "calls": [
            {"name": call.function.name, "arguments": json.loads(call.function.arguments)}
            for call in message.get("tool_calls") or []
        ],
        "unparsed": len(message.get("unparsed_tool_calls") or []),
    }


def attempt(make):
    try:
        return make()
    except Exception as error:  # a refusal is an answer
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def cookbook(case, files):
    renderer = cookbook_renderer(case["cookbook"], case["tokenizer"], case.get("images"), files)
    messages = [to_cookbook(message) for message in case["messages"]]
    if case.get("tools"):
        system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else ""
        prefix = renderer.create_conversation_prefix_with_tools(case["tools"], system)
        messages = prefix + messages

    def supervised(mode):
        given = messages
        if mode == "customized":
            given = [{**message, "trainable": at % 2 == 0} for at, message in enumerate(messages)]
        tokens, weights = renderer.build_supervised_example(given, TrainOnWhat(mode))
        return {"tokens": ids_of(tokens), "weights": [float(weight) for weight in weights]}

    def parsed(ids):
        message, termination = renderer.parse_response(ids)
        return {**from_cookbook(message), "termination": termination.value}

    prompted = messages[:-1] if messages[-1]["role"] == "assistant" else messages
    return {
        "prompt": attempt(lambda: ids_of(renderer.build_generation_prompt(prompted))),
        "supervised": {mode: attempt(lambda mode=mode: supervised(mode)) for mode in case.get("modes", [])},
        "stop": attempt(renderer.get_stop_sequences),
        "extends": renderer.has_extension_property,
        "parsed": [attempt(lambda ids=ids: parsed(ids)) for ids in case.get("completions", [])],
    }


def bridge(case, files):
    renderer = bridge_renderer(case["renderers"], case["tokenizer"], files)
    tools = [{"type": "function", "function": tool} for tool in case.get("tools") or []] or None

    def prompt():
        return renderer.render_ids(case["bridged"]["messages"], tools=tools, add_generation_prompt=True)

    def rendered():
        given = case["bridged"]
        messages = [*given["messages"], given["answer"], *given["fresh"]]
        return renderer.render_ids(messages, tools=tools, add_generation_prompt=True)

    def go():
        given = case["bridged"]
        out = renderer.bridge_to_next_turn(given["prompt"], given["completion"], given["fresh"], tools=tools)
        return None if out is None else list(out.token_ids)

    def parsed():
        given = case["bridged"]
        out = renderer.parse_response(given["completion"], tools=tools, prompt_ids=given["prompt"])
        return {
            "text": out.content,
            "reasoning": out.reasoning_content or "",
            "calls": [
                {"name": call.name, "arguments": call.arguments} for call in out.tool_calls if call.status.value == "ok"
            ],
        }

    return {
        "prompt": attempt(prompt),
        "next": attempt(go),
        "rendered": attempt(rendered),
        "parsed": attempt(parsed),
        "stop": attempt(renderer.get_stop_token_ids),
        "stable": attempt(lambda: renderer.is_prefix_stable),
    }


def recommended():
    """The renderers of every model that tinker-cookbook knows."""
    from tinker_cookbook import model_info

    makers = [getattr(model_info, name) for name in dir(model_info) if name.startswith("get_") and name.endswith("_info")]
    return {
        f"{attributes.organization}/{model}": list(attributes.recommended_renderers)
        for maker in makers
        for model, attributes in maker().items()
    }


def main():
    job = json.loads(open(sys.argv[1]).read())
    files = job["tokenizers"]
    with open(sys.argv[2], "w") as out:
        out.write(json.dumps(recommended()) + "\n")
        for case in job["cases"]:
            answer = {}
            if case.get("cookbook"):
                answer["cookbook"] = attempt(lambda: cookbook(case, files))
            if case.get("renderers"):
                answer["renderers"] = attempt(lambda: bridge(case, files))
            out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()

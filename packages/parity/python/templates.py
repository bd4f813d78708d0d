"""Chat templates of public models, as TRL carries them, rendered by transformers: their texts, and which bytes are answers.

    templates.py DIRECTORY VERSION     the wheel of TRL goes to the directory

TRL has some templates twice: as they are, and with `{% generation %}` around what is trained on. The marks are the oracle.
"""

import json
import subprocess
import sys
import zipfile
from datetime import date
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

REASON = "They want a colour."
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = {
    "one turn": [said("user", "Say blue."), said("assistant", "It is blue.")],
    "two turns": [
        said("user", "Say blue."),
        said("assistant", "It is blue."),
        said("user", "Say red, then green."),
        said("assistant", "Red\n\nand green."),
    ],
    "system": [said("system", "Be brief."), said("user", "Say blue."), said("assistant", "Blue.")],
    "reasoning": [
        said("user", "Say blue."),
        said("assistant", "It is blue.", reasoning_content=REASON, thinking=REASON),
    ],
    "tools": [
        said("user", "Is it sunny in Paris?"),
        said("assistant", "", tool_calls=[CALL]),
        said("tool", "sunny", name="weather"),
        said("assistant", "It is sunny."),
    ],
}

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def rendered(template, messages, marked):
    tools = [TOOL] if any("tool_calls" in message for message in messages) else None
    try:
        texts, spans = render_jinja_template(
            [messages], tools=tools, chat_template=template, return_assistant_tokens_mask=marked, **TOKENS
        )
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    # renderers have no clock; the marks stay where they are
    text = texts[0]
    for form in ("%Y-%m-%d", "%d %b %Y"):
        text = text.replace(date.today().strftime(form), date(1970, 1, 1).strftime(form))
    place = lambda at: len(text[:at].encode())
    return {"text": text, "spans": [[place(start), place(end)] for start, end in (spans[0] if marked else [])]}


def asked(template, messages):
    """What a template writes behind a message to ask for an answer."""
    try:
        first = next(i for i, message in enumerate(messages) if message["role"] == "user")
        made = [
            render_jinja_template(
                [messages[: first + 1]], chat_template=template, add_generation_prompt=more, **TOKENS
            )[0][0]
            for more in (False, True)
        ]
        return made[1].removeprefix(made[0])
    except Exception:
        return None


def main(directory, version):
    directory = Path(directory)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--dest", str(directory), f"trl=={version}"], check=True, stdout=sys.stderr)
    suffix = "_training.jinja"
    found = []
    with zipfile.ZipFile(next(directory.glob("trl-*.whl"))) as wheel:
        for file in sorted(name for name in wheel.namelist() if name.endswith(suffix)):
            marked = wheel.read(file).decode()
            plain = file.replace(suffix, ".jinja")
            plain = wheel.read(plain).decode() if plain in wheel.namelist() else None
            cases = [
                {
                    "name": name,
                    "messages": messages,
                    "marked": rendered(marked, messages, True),
                    "plain": None if plain is None else rendered(plain, messages, False),
                    "prompt": None if plain is None else asked(plain, messages),
                }
                for name, messages in CONVERSATIONS.items()
            ]
            name = Path(file).name.removesuffix(suffix)
            found.append({"name": name, "marked": marked, "plain": plain, "cases": cases})
    print(json.dumps({"tools": [TOOL], "tokens": TOKENS, "templates": found}))


main(*sys.argv[1:])

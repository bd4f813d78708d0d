"""Grades made answers with graders of other projects.

Reads lines of JSON from a file, each with a grader's name and its arguments, and prints a line for each: the verdict of every
project that has such a grader.
"""

import contextlib
import importlib.abc
import importlib.machinery
import json
import logging
import signal
import sys
import types
from unittest.mock import MagicMock

logging.disable(logging.CRITICAL)

# Graders import these through their packages and never use them; installed, they are some gigabytes.
UNUSED = {"torch", "PIL", "transformers", "datasets", "anthropic", "openai", "peft", "evaluate"}


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules in place of those that are not used."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in UNUSED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda attribute: MagicMock(name=f"{spec.name}.{attribute}")
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Unused())

# The table of models of the leaderboard imports the clients of twenty services; the checker asks it one thing.
models = types.ModuleType("bfcl_eval.constants.model_config")
models.MODEL_CONFIG_MAPPING = {"any": types.SimpleNamespace(underscore_to_dot=False)}
sys.modules["bfcl_eval.constants.model_config"] = models

# The packages around the rules load every task of the harness, or a whole trainer.
for package in ("lm_eval", "lm_eval.tasks", "lm_eval.tasks.ifeval"):
    found = importlib.machinery.PathFinder.find_spec(package, sys.modules[package.rpartition(".")[0]].__path__ if "." in package else None)
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = list(found.submodule_search_locations)

# lm-eval says that it downloads what it is not given here
with contextlib.redirect_stdout(sys.stderr):
    import langdetect
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval import ast_checker
    from lm_eval.tasks.ifeval import instructions_registry, instructions_util
    from nltk.tokenize import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktSentenceTokenizer
    from tinker_cookbook.eval.benchmarks import _common, _ifeval_verify
    from tinker_cookbook.recipes.math_rl import math_grading

langdetect.DetectorFactory.seed = 0

# The trained model of sentences is a download of its own and not on the index: this is the same tokenizer without its
# list of abbreviations.
sentences = PunktSentenceTokenizer()
words = NLTKWordTokenizer()
instructions_util._get_sentence_tokenizer = lambda: sentences
instructions_util.nltk.word_tokenize = lambda text: [
    word for sentence in sentences.tokenize(text) for word in words.tokenize(sentence)
]


class TooLong(Exception):
    """Sympy may simplify for minutes."""


def ring(*_):
    raise TooLong


signal.signal(signal.SIGALRM, ring)


def contest(answer, expected):
    """The rule stands in a method of the environment."""
    import asyncio

    from tinker_cookbook.eval.benchmarks.aime import AIMEMessageEnv

    step = AIMEMessageEnv("", expected).step({"role": "assistant", "content": answer})
    return bool(asyncio.run(step).metrics["correct"])


def math(answer, expected):
    try:
        return math_grading.grade_answer(math_grading.extract_boxed(answer), expected)
    except ValueError:
        return False


def official_instruction(name, arguments, answer):
    instruction = instructions_registry.INSTRUCTION_DICT[name](name)
    given = {key: value for key, value in arguments.items() if value}
    instruction.build_description(**given)
    return bool(answer.strip() and instruction.check_following(answer))


def call(calls, signatures, accepted):
    output = [{one["name"]: one["arguments"]} for one in calls]
    category = "parallel" if len(accepted) > 1 else "multiple" if len(signatures) > 1 else "simple"
    try:
        return ast_checker.ast_checker(signatures, output, accepted, Language.PYTHON, category, "any")["valid"]
    except (AttributeError, KeyError, TypeError):
        # the checker fails on calls whose values are not of the kind it expects
        return False


GRADERS = {
    "number": {"cookbook": _common.check_gsm8k},
    "contest": {"cookbook": contest},
    "math": {"cookbook": math},
    "choice": {
        "cookbook": lambda answer, choices: _common.extract_mcq_answer(
            answer, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:choices]
        )
    },
    "code": {"cookbook": _common.extract_python_code},
    "instruction": {
        "lm-eval": official_instruction,
        "cookbook": lambda name, arguments, answer: _ifeval_verify.verify_instruction(name, answer, arguments),
    },
    "call": {"bfcl": call},
}


def main(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            item = json.loads(line)
            verdicts = {}
            for project, grade in GRADERS[item["grader"]].items():
                signal.alarm(10)
                try:
                    verdicts[project] = grade(*item["arguments"])
                except TooLong:
                    verdicts[project] = None
                finally:
                    signal.alarm(0)
            print(json.dumps(verdicts))


main(sys.argv[1])

"""What a wheel of the official SDK says about the wire, read without importing it: types with their fields and defaults,
endpoints, headers and environment variables.

Argument: a wheel. Prints one JSON object.
"""

import ast
import json
import re
import sys
import zipfile

ENDPOINT = re.compile(r"^/(?:oai/|anthropic/)?api/(?:v1|unauthed)/[\w{}./-]+$")
HEADER = re.compile(r"^(?:X|x)-(?:[A-Za-z0-9]+-)*[A-Za-z0-9]+$")
VARIABLE = re.compile(r"^TINKER_[A-Z_]+$")


def literals(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            # A path with a value in it: the name of the value stands for it.
            parts = (
                part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value).split(".")[-1] + "}"
                for part in node.values
                if isinstance(part, (ast.Constant, ast.FormattedValue))
            )
            yield "".join(parts)


def fields(node):
    return {
        item.target.id: ast.unparse(item.annotation) + ("" if item.value is None else f" = {ast.unparse(item.value)}")
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id != "model_config"
    }


def main():
    wheel = zipfile.ZipFile(sys.argv[1])
    types, endpoints, headers, variables = {}, set(), set(), set()
    for name in wheel.namelist():
        if not name.startswith("tinker/") or not name.endswith(".py") or re.search(r"_test\.py$|/tests?/|/conftest", name):
            continue
        tree = ast.parse(wheel.read(name))
        if "/types/" in name:
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and fields(node):
                    types[node.name] = fields(node)
        for text in literals(tree):
            if ENDPOINT.match(text):
                endpoints.add(text)
            elif HEADER.match(text):
                headers.add(text.lower())
            elif VARIABLE.match(text):
                variables.add(text)
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    version = re.search(r"^Version: (.+)$", wheel.read(metadata).decode(), re.M).group(1)
    print(
        json.dumps(
            {
                "version": version,
                "types": types,
                "endpoints": sorted(endpoints),
                "headers": sorted(headers),
                "variables": sorted(variables),
            }
        )
    )


main()

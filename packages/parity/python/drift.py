"""What a wheel of the official SDK says about the wire, read without importing it: types with their fields and defaults,
endpoints, headers and environment variables. Of a wheel of the cookbook: public names, recipes, models and renderers.

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


def is_test(name):
    return re.search(r"_test\.py$|/tests?/|/conftest|/test_", name) is not None


def version_of(wheel):
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return re.search(r"^Version: (.+)$", wheel.read(metadata).decode(), re.M).group(1)


def tables(tree):
    """The models and the renderers of `model_info`: functions return their models by name, each made of an organization and
    the renderers that fit it."""
    renderers, models = set(), set()
    for node in tree.body:
        if isinstance(node, ast.Assign):
            texts = list(literals(node.value))
            if texts and all(re.fullmatch(r"[a-z0-9_]+", text) for text in texts):
                renderers.update(texts)
        if isinstance(node, ast.FunctionDef):
            org = next(
                (
                    item.value.value
                    for item in node.body
                    if isinstance(item, ast.Assign)
                    and isinstance(item.value, ast.Constant)
                    and any(isinstance(target, ast.Name) and target.id == "org" for target in item.targets)
                ),
                None,
            )
            for item in ast.walk(node):
                if org is not None and isinstance(item, ast.Dict):
                    models.update(f"{org}/{key.value}" for key in item.keys if isinstance(key, ast.Constant))
    return sorted(models), sorted(renderers)


def cookbook(wheel):
    names, recipes, models, renderers = set(), set(), [], []
    for name in wheel.namelist():
        if not name.startswith("tinker_cookbook/") or not name.endswith(".py") or is_test(name):
            continue
        module = name.removeprefix("tinker_cookbook/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if module.startswith("recipes."):
            recipes.add(".".join(module.split(".")[1:3]))
            continue
        if module.startswith("_") or "._" in module or module.startswith("scripts"):
            continue
        tree = ast.parse(wheel.read(name))
        names.update(
            f"{module}.{node.name}"
            for node in tree.body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
        )
        if module == "model_info":
            models, renderers = tables(tree)
    return {"names": sorted(names), "recipes": sorted(recipes), "models": models, "renderers": renderers}


def main():
    wheel = zipfile.ZipFile(sys.argv[1])
    if any(name.startswith("tinker_cookbook/") for name in wheel.namelist()):
        print(json.dumps({"version": version_of(wheel), **cookbook(wheel)}))
        return
    types, endpoints, headers, variables = {}, set(), set(), set()
    for name in wheel.namelist():
        if not name.startswith("tinker/") or not name.endswith(".py") or is_test(name):
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
    print(
        json.dumps(
            {
                "version": version_of(wheel),
                "types": types,
                "endpoints": sorted(endpoints),
                "headers": sorted(headers),
                "variables": sorted(variables),
            }
        )
    )


main()

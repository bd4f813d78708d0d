"""What `tinker.types` exports: every name, and the words of every enumeration."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from typing import Any

import pydantic
from tinker import types
from tinker.types import custom_loss_graph


def kind(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, pydantic.BaseModel):
        return "model"
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return "enumeration"
    if dataclasses.is_dataclass(value):
        return "dataclass"
    if typing.get_origin(value) is typing.Literal:
        return "enumeration"
    return "alias"


def words(value: Any) -> list[Any]:
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return [member.value for member in value]
    return list(typing.get_args(value))


def vectors() -> dict[str, Any]:
    exported = {
        name: value
        for name, value in vars(types).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    kinds = {name: kind(value) for name, value in sorted(exported.items())}
    enumerations = {name: words(exported[name]) for name, k in kinds.items() if k == "enumeration"}
    enumerations["CustomLossNodeOp"] = words(custom_loss_graph.CustomLossNodeOp)
    return {
        "exports": [{"name": name, "kind": k} for name, k in kinds.items()],
        "enumerations": [{"name": name, "words": ws} for name, ws in sorted(enumerations.items())],
    }

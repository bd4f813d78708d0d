"""Vectors of the JSON models: every field with values at its edges, and what the SDK makes of them.

Nothing here names a field: the models say themselves what they hold, so a field the SDK gains is covered at once.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import types as py_types
import typing
from typing import Any, Iterator

import annotated_types
import pydantic
from pydantic.fields import FieldInfo
from tinker import types
from tinker._models import StrictBase
from tinker.lib.credentials import ApiKeyDetails
from tinker.cli.auth_api import SelfApiKeyResponse
from tinker.lib.public_interfaces.rest_client import _SessionTraceExportPollResponse
from tinker.types._pydantic_types import datum as json_datum
from tinker.types._pydantic_types import forward_backward_input as json_forward_backward_input
from tinker.types._pydantic_types import tensor_data as json_tensor_data
from tinker.types.generic_event import GenericEvent
from tinker.types.try_again_response import TryAgainResponse

# Models of the wire that `tinker.types` does not export, by the name they get in the corpus.
UNEXPORTED: dict[str, type[pydantic.BaseModel]] = {
    "ApiKeyDetails": ApiKeyDetails,
    "GenericEvent": GenericEvent,
    "JsonDatum": json_datum.Datum,
    "JsonForwardBackwardInput": json_forward_backward_input.ForwardBackwardInput,
    "JsonTensorData": json_tensor_data.TensorData,
    "SelfApiKeyResponse": SelfApiKeyResponse,
    "SessionTraceExport": _SessionTraceExportPollResponse,
    "TryAgainResponse": TryAgainResponse,
}

STRINGS = ["x", "two words", 'quote " backslash \\ newline \n', "Ünïcödé ✓ 🙂"]
INTS = [1, 0, 7, 2**31, 2**53 - 1]
FLOATS = [0.5, 0.0, 1.0, 1e-4, 1e-12, 123456.789, 1e21]
DATETIMES = [
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.678000Z",
    "2026-01-02T03:04:05.678901Z",
    "2026-01-02T05:04:05+02:00",
    "2026-01-02T03:04:05",
    1767323045,
    1767323045000,
]
JSON_OBJECTS = [
    {"a": 1, "b": None, "c": [1, "x", {"d": True, "e": None}], "camelCase": 0.5, "snake_case": False},
    {},
]
STRING_MAPS = [{"k": "v", "snake_case": "A", "camelCase": "B"}, {}]
IMAGES = ["iVBORw0KGgo=", "/9j/4AA="]
TENSOR_CONTAINERS = ["BAIFAwAA", "/gQCgAIBAA=="]

# Values that need to agree with each other, or that say more than their type does.
FIELDS: dict[tuple[str, str], list[Any]] = {
    ("ImageChunk", "data"): IMAGES,
    ("DmelChunk", "dmel"): TENSOR_CONTAINERS,
    ("EncodedTextChunk", "tokens"): [[1, 2, 3], [], [0], [2**31 - 1], list(range(50))],
    ("LoraConfig", "rank"): [8, 1, 32, 128],
    ("LoraConfig", "seed"): [0, 42, 2**31],
    ("SampleRequest", "num_samples"): [1, 4, 128],
    ("SampleRequest", "prompt_logprobs_last_n"): [1, 5],
    ("SamplingParams", "stop"): ["\n\n", ["a", "b"], [1, 2], [], [""], ["a"], [0]],
    ("SamplingParams", "top_k"): [-1, 1, 50],
    ("SamplingParams", "temperature"): [0, 1, 0.7, 2.5],
    ("SamplingParams", "seed"): [0, 1, 2**53 - 1],
    ("JsonTensorData", "data"): [[1, 2, 3], [0, -1, 2**40]],
    ("JsonTensorData", "dtype"): ["int64"],
    ("JsonTensorData", "shape"): [[3], [3, 1], [1, 3, 1]],
    ("CustomLossNode", "args"): [[{"ref": "logprobs"}, 1, 0.5, "x", None, [1, {"tuple": []}]], []],
    ("CustomLossNode", "kwargs"): [{"dim": -1, "keepdim": True}, {}],
    ("OptimStepRequest", "optim_params"): [
        {"learning_rate": 1e-5},
        {},
        {"beta1": 0.5, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "grad_clip_norm": 1.0},
        {"type": "lion", "learning_rate": 1e-4, "nested": {"a": [1, None]}},
        {"type": "muon"},
    ],
    ("SessionSearchCursor", "last_created_at"): [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.678901Z",
    ],
    ("SessionSearchRequest", "limit"): [50, 1, 200],
    ("SessionSearchRequest", "display_name"): ["name", "two words"],
    ("UserSearchOwner", "owner_urns"): [["urn:a"], ["urn:a", "urn:b"], [f"urn:{i}" for i in range(10)]],
    ("DimuonParams", "beta1"): [0.9, 0.0, 0.999],
    ("SessionStartEvent", "event"): ["SESSION_START"],
    ("SessionEndEvent", "event"): ["SESSION_END"],
    ("UnhandledExceptionEvent", "event"): ["UNHANDLED_EXCEPTION"],
    ("GenericEvent", "event"): ["GENERIC_EVENT"],
    ("TelemetrySendRequest", "session_id"): ["s", "sessionless-1"],
}

# Sparse tensors only make sense as a whole.
EXTRA: dict[str, list[dict[str, Any]]] = {
    "JsonTensorData": [
        {"data": [0.5, -1.25, 3], "dtype": "float32"},
        {"data": [], "dtype": "float32", "shape": [0]},
        {"data": [], "dtype": "int64"},
        {"data": [5], "dtype": "int64", "shape": []},
        {"data": [2.0**-27, 2.0**27], "dtype": "float32", "shape": [2, 1]},
        {"data": [2**31, -(2**31) - 1], "dtype": "int64", "shape": [2]},
        {
            "data": [3, 4, 5],
            "dtype": "int64",
            "shape": [3, 4],
            "sparse_crow_indices": [0, 1, 1, 3],
            "sparse_col_indices": [2, 0, 3],
        },
        {
            "data": [],
            "dtype": "float32",
            "shape": [2, 2],
            "sparse_crow_indices": [0, 0, 0],
            "sparse_col_indices": [],
        },
    ],
    "ModelInput": [
        {"chunks": []},
        {
            "chunks": [
                {"type": "encoded_text", "tokens": [1, 2]},
                {"type": "image", "data": IMAGES[0], "format": "png", "expected_tokens": 7},
                {"type": "image_asset_pointer", "location": "https://x/y.png", "format": "jpeg"},
                {"type": "dmel", "dmel": TENSOR_CONTAINERS[0]},
                {"type": "encoded_text", "tokens": []},
            ]
        },
    ],
}


def models() -> dict[str, type[pydantic.BaseModel]]:
    exported = {
        name: value
        for name, value in vars(types).items()
        if inspect.isclass(value) and issubclass(value, pydantic.BaseModel)
    }
    return dict(sorted({**exported, **UNEXPORTED}.items()))


def is_request(model: type[pydantic.BaseModel]) -> bool:
    return issubclass(model, StrictBase) or model is types.SamplingParams


def corpus_name(model: type[pydantic.BaseModel]) -> str:
    return next((name for name, value in models().items() if value is model), model.__name__)


def key_of(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    if isinstance(alias, pydantic.AliasChoices):
        return str(alias.choices[0])
    return name


def constraint(field: FieldInfo, value: Any) -> bool:
    for meta in field.metadata:
        if isinstance(meta, annotated_types.MinLen) and isinstance(value, (list, str)):
            if len(value) < meta.min_length:
                return False
        if isinstance(meta, annotated_types.MaxLen) and isinstance(value, (list, str)):
            if len(value) > meta.max_length:
                return False
    return True


def values_of(annotation: Any) -> list[Any]:
    """Values at the edges of a type, the plainest first."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated or hasattr(annotation, "__metadata__"):
        return values_of(args[0])
    if origin is typing.Literal:
        return list(args)
    if origin in (typing.Union, py_types.UnionType):
        out: list[Any] = []
        for arm in args:
            if arm is not type(None):
                for value in values_of(arm):
                    if value not in out:
                        out.append(value)
        return out
    if origin is list or (origin is not None and getattr(origin, "__name__", "") == "Sequence"):
        items = values_of(args[0])
        return [items[:1], [], items]
    if origin is dict:
        if args[1] is str:
            return STRING_MAPS
        if args[1] in (Any, object):
            return JSON_OBJECTS
        return [{f"key_{i}": value for i, value in enumerate(values_of(args[1]))}, {}]
    if annotation is str:
        return STRINGS
    if annotation is bool:
        return [True, False]
    if annotation is int:
        return INTS
    if annotation is float:
        return FLOATS
    if annotation is bytes:
        return IMAGES
    if annotation is datetime.datetime or getattr(annotation, "__name__", "") == "AwareDatetime":
        return DATETIMES
    if annotation in (Any, object):
        return [1, "x", None]
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return [member.value for member in annotation]
    if inspect.isclass(annotation) and issubclass(annotation, pydantic.BaseModel):
        name = annotation.__name__
        if name == "OptimizerConfigBase":
            return [{"type": "dimuon", "version": 1}, {"type": "lion", "momentum": 0.5}]
        if name == "OptimParamsBase":
            return [{"type": "lion"}]
        return [minimal(annotation), full(annotation), *EXTRA.get(corpus_name(annotation), [])[:2]]
    raise TypeError(f"no values for {annotation!r}")


def field_values(model: type[pydantic.BaseModel], name: str, field: FieldInfo) -> list[Any]:
    given = FIELDS.get((corpus_name(model), name))
    values = given if given is not None else values_of(field.annotation)
    return [value for value in values if constraint(field, value)]


def minimal(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    # a variant is told by its tag, so tags are always given
    return {
        key_of(name, field): field_values(model, name, field)[0]
        for name, field in model.model_fields.items()
        if field.is_required() or name in ("type", "state")
    }


def full(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    out = {}
    for name, field in model.model_fields.items():
        values = field_values(model, name, field)
        out[key_of(name, field)] = values[min(1, len(values) - 1)] if len(values) > 2 else values[0]
    if corpus_name(model) == "JsonTensorData":
        del out["sparse_crow_indices"], out["sparse_col_indices"]
        return {**out, "data": [1, 2, 3], "shape": [3]}
    return out


def wrong_value(field: FieldInfo) -> Any:
    """A value no reading of the field allows."""
    return {"unexpected": ["shape"]} if "Dict" not in repr(field.annotation) and "dict" not in repr(
        field.annotation
    ) else "not a map"


def cases(model: type[pydantic.BaseModel]) -> Iterator[tuple[str, dict[str, Any]]]:
    base = minimal(model)
    yield "minimal", base
    yield "full", full(model)
    for i, extra in enumerate(EXTRA.get(corpus_name(model), [])):
        yield f"given {i}", extra
    sparse_parts = ("sparse_crow_indices", "sparse_col_indices")
    for name, field in model.model_fields.items():
        if corpus_name(model) == "JsonTensorData" and name in sparse_parts:
            continue
        key = key_of(name, field)
        for i, value in enumerate(field_values(model, name, field)):
            yield f"{key} {i}", {**base, key: value}
        if not field.is_required():
            yield f"{key} null", {**base, key: None}
            without = {k: v for k, v in base.items() if k != key}
            if without != base:
                yield f"{key} absent", without
        else:
            yield f"{key} missing", {k: v for k, v in base.items() if k != key}
        yield f"{key} wrong", {**base, key: wrong_value(field)}
    yield "unknown key", {**base, "unknown_key_of_a_newer_version": {"a": 1}}


def vectors() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    requests: list[dict[str, Any]] = []
    responses: list[dict[str, Any]] = []
    for name, model in models().items():
        seen: list[dict[str, Any]] = []
        for case, given in cases(model):
            if given in seen and case not in ("minimal", "full"):
                continue
            seen.append(given)
            vector: dict[str, Any] = {"type": name, "case": case, "input": given}
            try:
                value = model.model_validate(given)
                # Python's own numbers, where a document would have had none
                if is_request(model):
                    vector["output"] = value.model_dump(mode="json", exclude_none=True)
                else:
                    vector["output"] = value.model_dump(mode="json")
            except (pydantic.ValidationError, ValueError) as error:
                vector["error"] = type(error).__name__
            (requests if is_request(model) else responses).append(vector)
    requests.extend(built_requests())
    return requests, responses


def built_requests() -> Iterator[dict[str, Any]]:
    """Requests whose defaults only appear when their parts are built as the SDK's own classes."""
    dimuons = [
        {"learning_rate": 0.0},
        {"learning_rate": 0.02},
        {"learning_rate": 1e-3, "beta1": 0.0, "grad_clip_norm": -1.0},
    ]
    for i, given in enumerate(dimuons):
        request = types.OptimStepRequest(optim_params=types.DimuonParams(**given), model_id="m", seq_id=3)
        yield {
            "type": "OptimStepRequest",
            "case": f"dimuon {i}",
            "input": {"optim_params": {"type": "dimuon", **given}, "model_id": "m", "seq_id": 3},
            "output": request.model_dump(mode="json", exclude_none=True),
        }
    for i, config in enumerate([types.DimuonOptimizerConfig(), types.AdamOptimizerConfig()]):
        create = types.CreateModelRequest(
            session_id="s", model_seq_id=0, base_model="b", optimizer_config=config
        )
        yield {
            "type": "CreateModelRequest",
            "case": f"optimizer {i}",
            "input": {
                "session_id": "s",
                "model_seq_id": 0,
                "base_model": "b",
                "optimizer_config": config.model_dump(mode="json"),
            },
            "output": create.model_dump(mode="json", exclude_none=True),
        }

"""What the SDK's functions answer: paths, lengths, coercions, sizes, chunks, reductions."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
from tinker import types
from tinker.lib import console_urls
from tinker.lib.chunked_fwdbwd_helpers import combine_fwd_bwd_output_results
from tinker.lib.public_interfaces import training_client
from tinker.types.topk_logprobs import MASK_LOGPROB, TopkLogprobs, topk_to_lists

from .models import TENSOR_CONTAINERS


def outcome(run: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"output": run()}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"error": type(error).__name__}


def tensor(td: types.TensorData) -> dict[str, Any]:
    out: dict[str, Any] = {"data": td.data, "dtype": td.dtype, "shape": td.shape}
    if td.sparse_crow_indices is not None:
        out["sparse_crow_indices"] = td.sparse_crow_indices
        out["sparse_col_indices"] = td.sparse_col_indices
    return out


PATHS = [
    "tinker://run/weights/0001",
    "tinker://run/sampler_weights/final",
    "tinker://run/external_weights/hf",
    "tinker://a:train:0/weights/with-dash_and.dot",
    "tinker://Ünï/weights/x",
    "tinker://run/weights",
    "tinker://run/weights/a/b",
    "tinker://run/other/x",
    "tinker://run/Weights/x",
    "tinker:/run/weights/x",
    "TINKER://run/weights/x",
    "http://run/weights/x",
    "run/weights/x",
    "tinker://",
    "",
    " tinker://run/weights/x",
    "tinker://run//x",
    "tinker://run/weights/x/",
    "tinker://run/weights/a%2Fb",
    "tinker://run/__proto__/x",
    "tinker://run/toString/x",
]


def paths() -> list[dict[str, Any]]:
    parse = types.ParsedCheckpointTinkerPath.from_tinker_path
    return [{"input": path, **outcome(lambda path=path: parse(path).model_dump())} for path in PATHS]


def urls() -> list[dict[str, Any]]:
    calls: list[tuple[str, list[str]]] = [
        ("sessions_console_url", []),
        ("session_console_url", ["session-123"]),
        ("training_run_console_url", ["session-123:train:1"]),
        ("checkpoint_console_url", ["session-123:train:1", "weights/0001"]),
        ("checkpoint_console_url", ["r", "sampler_weights/a b+c'(d)*!~"]),
        ("checkpoint_playground_url", ["tinker://session-123:train:1/sampler_weights/x y"]),
        ("api_key_console_url", ["42"]),
        ("api_key_console_url", ["4/2"]),
        ("new_api_key_console_url", ["tinker-cli-host"]),
        ("new_api_key_console_url", ["a b&c=d/é"]),
    ]
    return [
        {"function": name, "args": args, "output": getattr(console_urls, name)(*args)}
        for name, args in calls
    ]


INPUTS: list[list[dict[str, Any]]] = [
    [],
    [{"type": "encoded_text", "tokens": [1, 2, 3]}],
    [{"type": "encoded_text", "tokens": []}, {"type": "encoded_text", "tokens": [5]}],
    [{"type": "image", "data": "iVBORw0KGgo=", "format": "png", "expected_tokens": 12}],
    [{"type": "image", "data": "iVBORw0KGgo=", "format": "png"}],
    [{"type": "image_asset_pointer", "location": "https://host/ä.png", "format": "jpeg", "expected_tokens": 3}],
    [{"type": "image_asset_pointer", "location": "x", "format": "jpeg"}],
    *[[{"type": "dmel", "dmel": container}] for container in TENSOR_CONTAINERS],
    [{"type": "dmel", "dmel": ""}],
    [{"type": "dmel", "dmel": "CAE="}],
    [{"type": "dmel", "dmel": "BA=="}],
    [{"type": "dmel", "dmel": "BAA="}],
    [{"type": "dmel", "dmel": "/g=="}],
    [{"type": "dmel", "dmel": "BP////////////8B"}],
    [{"type": "encoded_text", "tokens": [1]}, {"type": "dmel", "dmel": TENSOR_CONTAINERS[0]}],
]


def inputs() -> list[dict[str, Any]]:
    out = []
    for chunks in INPUTS:
        value = types.ModelInput.model_validate({"chunks": chunks})
        out.append(
            {
                "input": {"chunks": chunks},
                "length": outcome(lambda value=value: value.length),
                "ints": outcome(lambda value=value: value.to_ints()),
            }
        )
    return out


def coercions() -> list[dict[str, Any]]:
    keys = [
        "target_tokens",
        "weights",
        "advantages",
        "logprobs",
        "clip_low_threshold",
        "clip_high_threshold",
        "sequence_ratio_mask",
        "mask",
    ]
    values: list[Any] = [
        [],
        [1, 2, 3],
        [0.5, 1.5],
        [1, 2.5],
        [-1.9, 1.9],
        [[1, 2], [3, 4]],
        [[0.5], [1.5]],
        [[]],
        [[], []],
        [[[1, 2]], [[3, 4]]],
        [True, False],
        [1, None],
        [None],
        [[1, 2], [3]],
        [[1], 2],
        [1, [2]],
        ["1"],
        [2**40, -(2**40)],
        [2**53 - 1],
    ]
    out = []
    for key in keys:
        for value in values:
            build = lambda key=key, value=value: tensor(  # noqa: E731
                types.Datum(model_input=types.ModelInput.empty(), loss_fn_inputs={key: value}).loss_fn_inputs[key]
            )
            out.append({"key": key, "input": value, **outcome(build)})
    return out


def topk() -> list[dict[str, Any]]:
    m = MASK_LOGPROB
    given: list[tuple[list[list[int]], list[list[float]]]] = [
        ([[1, 2]], [[-0.5, -1.5]]),
        ([[0, 0], [7, 8]], [[m, m], [-0.25, -1.5]]),
        ([[7, 0], [0, 8]], [[-0.25, m], [m, -1.0]]),
        ([[0, 3]], [[-1.0, -2.0]]),
        ([[1, 0, 0]], [[-1.0, m, m]]),
        ([[1, 0, 2]], [[-1.0, m, -2.0]]),
    ]
    return [
        {
            "input": {"token_ids": ids, "logprobs": logprobs},
            "output": topk_to_lists(
                TopkLogprobs(token_ids=np.array(ids, dtype=np.int32), logprobs=np.array(logprobs, dtype=np.float32))
            ),
        }
        for ids, logprobs in given
    ]


def combinations() -> list[dict[str, Any]]:
    given: list[list[tuple[int, dict[str, float]]]] = [
        [],
        [(1, {"loss:sum": 1.5})],
        [(1, {"loss:sum": 1.5}), (3, {"loss:sum": 2.5})],
        [(1, {"a:mean": 1.0}), (3, {"a:mean": 2.0})],
        [(2, {"a:mean": 1.0, "b:max": 1.0, "c:min": 5.0}), (1, {"a:mean": 4.0, "b:max": 3.0, "c:min": -5.0})],
        [(1, {"a:slack": 1.0}), (1, {"a:slack": 3.0}), (2, {"a:slack": 5.0})],
        [(1, {"a:unique": 1.0}), (1, {"a:unique": 1.0}), (1, {"a:unique": 2.0})],
        [(1, {"a:unique": 7.0})],
        [(1, {"a:hash2": 5.0}), (1, {"a:hash2": 7.0})],
        [(1, {"a:hash2": -1.0}), (1, {"a:hash2": 1.0})],
        [(1, {"a:hash2": -3.0})],
        [(1, {"a:hash2": 12345.75})],
        [(1, {"a:hash_unordered": 12345.0})],
        [(1, {"a:new_reduction": 1.0, "b:sum": 2.0})],
        [(1, {"a:sum": 1.0}), (1, {"b:sum": 1.0})],
        [(1, {"a:sum": 1.0}), (1, {"a:sum": 2.0, "b:sum": 1.0})],
        [(0, {"a:sum": 1.0, "b:max": 2.0})],
        [(1, {"a:mean": float("nan")}), (1, {"a:mean": 1.0})],
        [(1, {"a:sum": float("inf")}), (1, {"a:sum": 1.0})],
        [(0, {"a:mean": 1.0})],
        [(0, {"a:slack": 1.0}), (0, {"a:slack": 1.0})],
        [(1, {"plain": 1.0, "a:sum": 1.0})],
        [(1, {"a:b:sum": 1.0, "a:sum": 1.0})],
    ]
    out = []
    for chunks in given:
        results = [
            types.ForwardBackwardOutput(
                loss_fn_output_type=f"T{i}", loss_fn_outputs=[{} for _ in range(n)], metrics=metrics
            )
            for i, (n, metrics) in enumerate(chunks)
        ]

        def run(results: list[types.ForwardBackwardOutput] = results) -> dict[str, Any]:
            combined = combine_fwd_bwd_output_results(results)
            return {
                "loss_fn_output_type": combined.loss_fn_output_type,
                "loss_fn_outputs": len(combined.loss_fn_outputs),
                "metrics": combined.metrics,
            }

        out.append({"input": [{"outputs": n, "metrics": metrics} for n, metrics in chunks], **outcome(run)})
    return out


def splits() -> list[dict[str, Any]]:
    def datum(tokens: int) -> types.Datum:
        return types.Datum(
            model_input=types.ModelInput.from_ints(list(range(tokens))),
            loss_fn_inputs={"target_tokens": list(range(tokens)), "weights": [1.0] * tokens},
        )

    given: list[tuple[list[int], int, int]] = [
        ([4], 1024, 5_000_000),
        ([1, 1, 1, 1, 1], 2, 5_000_000),
        ([10, 10, 10], 1024, 320),
        ([10, 10, 10], 1024, 319),
        ([100, 1, 1], 1024, 50),
        ([1, 100, 1], 1024, 50),
        ([0, 0, 0], 2, 1),
        (list(range(1, 30)), 5, 1000),
        (list(range(30, 1, -1)), 7, 700),
    ]
    out = []
    for lengths, most, most_bytes in given:
        config = SimpleNamespace(fwdbwd_max_chunk_len=most, fwdbwd_max_chunk_bytes_count=most_bytes)
        client = SimpleNamespace(holder=SimpleNamespace(_client_config=config))
        chunks = training_client.TrainingClient._chunked_requests_generator(
            client, [datum(n) for n in lengths]  # type: ignore[arg-type]
        )
        out.append(
            {
                "lengths": lengths,
                "max_chunk_len": most,
                "max_chunk_bytes": most_bytes,
                "output": [{"datums": len(chunk), "bytes": size} for chunk, size in chunks],
            }
        )
    return out


def durations() -> list[dict[str, Any]]:
    millis = [0, 1, 999, 1000, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 86_400_000, 90_061_001, 200_000_000]
    return [{"millis": ms, "output": str(datetime.timedelta(milliseconds=ms))} for ms in millis]


def vectors() -> dict[str, Any]:
    return {
        "paths": paths(),
        "urls": urls(),
        "inputs": inputs(),
        "coercions": coercions(),
        "topk": topk(),
        "combinations": combinations(),
        "splits": splits(),
        "durations": durations(),
    }

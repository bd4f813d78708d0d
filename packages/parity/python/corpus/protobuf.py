"""Vectors of the protobuf messages: requests as the SDK writes them, responses as it reads them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from tinker import types
from tinker.proto import tinker_public_pb2 as pb
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response

from .helpers import tensor

TENSORS: dict[str, dict[str, Any]] = {
    "int64": {"data": [2, 3], "dtype": "int64", "shape": [2]},
    "float32": {"data": [0.5, -1.25, 3e38, 1e-45], "dtype": "float32", "shape": [4]},
    "empty": {"data": [], "dtype": "float32", "shape": [0]},
    "no shape": {"data": [1, 2, 3], "dtype": "int64"},
    "scalar": {"data": [7], "dtype": "int64", "shape": []},
    "matrix": {"data": [1, 2, 3, 4, 5, 6], "dtype": "float32", "shape": [2, 3]},
    "cube": {"data": list(range(8)), "dtype": "int64", "shape": [2, 2, 2]},
    "no columns": {"data": [], "dtype": "int64", "shape": [3, 0]},
    "wide": {"data": [2**53 - 1, -(2**53) + 1, 0], "dtype": "int64", "shape": [3]},
    "sparse": {
        "data": [3, 4, 5],
        "dtype": "int64",
        "shape": [3, 4],
        "sparse_crow_indices": [0, 1, 1, 3],
        "sparse_col_indices": [2, 0, 3],
    },
    "sparse floats": {
        "data": [0.5],
        "dtype": "float32",
        "shape": [2, 300],
        "sparse_crow_indices": [0, 0, 1],
        "sparse_col_indices": [299],
    },
    "sparse empty": {
        "data": [],
        "dtype": "float32",
        "shape": [2, 2],
        "sparse_crow_indices": [0, 0, 0],
        "sparse_col_indices": [],
    },
}

TEXT = {"type": "encoded_text", "tokens": [1, 2]}
CHUNKS: dict[str, list[dict[str, Any]]] = {
    "text": [TEXT],
    "no chunks": [],
    "no tokens": [{"type": "encoded_text", "tokens": []}],
    "edge tokens": [{"type": "encoded_text", "tokens": [0, 2**31 - 1, -1]}],
    "two texts": [TEXT, {"type": "encoded_text", "tokens": [3]}],
    "image": [TEXT, {"type": "image", "data": "iVBORw0KGgo=", "format": "png", "expected_tokens": 7}],
    "image of no tokens": [{"type": "image", "data": "/9j/4AA=", "format": "jpeg", "expected_tokens": 0}],
    "image without tokens": [{"type": "image", "data": "", "format": "jpeg"}],
    "dmel": [{"type": "dmel", "dmel": "BAIFAwAA"}],
    "asset": [{"type": "image_asset_pointer", "location": "x", "format": "png"}],
    "long text": [{"type": "encoded_text", "tokens": list(range(0, 60000, 700))}],
}

CONFIGS: dict[str, dict[str, Any]] = {
    "empty config": {},
    "number": {"beta": 0.05},
    "zero": {"beta": 0.0},
    "integer": {"clip": 1},
    "text": {"mode": "x"},
    "no text": {"mode": ""},
    "mixed": {"a": 1.5, "b": "two", "c": -3.0},
    "unicode": {"größe": "✓"},
}

SPANS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "one of each": (
        [{"kind": "prompt", "sequence_id": "r:0", "offset": 0, "length": 1},
         {"kind": "sampled", "sequence_id": "r:0", "offset": 0, "length": 1}],
        [{"kind": "sampled", "sequence_id": "r:0", "offset": 1, "length": 2}],
    ),
    "far": (
        [{"kind": "sampled", "sequence_id": "s:sample:0:1", "offset": 2**40, "length": 2}],
        [{"kind": "sampled", "sequence_id": "s:sample:0:1", "offset": 300, "length": 2}],
    ),
    "of no length": (
        [{"kind": "prompt", "sequence_id": "q", "offset": 5, "length": 2},
         {"kind": "sampled", "sequence_id": "q", "offset": 0, "length": 0}],
        [{"kind": "prompt", "sequence_id": "q", "offset": 0, "length": 2}],
    ),
}


def spans(given: list[dict[str, Any]] | None) -> list[Any] | None:
    if given is None:
        return None
    kinds = {"prompt": types.PromptProvenanceSpan, "sampled": types.SampledProvenanceSpan}
    return [
        kinds[span["kind"]](sequence_id=span["sequence_id"], offset=span["offset"], length=span["length"])
        for span in given
    ]


def datum(given: dict[str, Any]) -> types.Datum:
    return types.Datum(
        model_input=types.ModelInput.model_validate(given["model_input"]),
        loss_fn_inputs={key: types.TensorData(**value) for key, value in given["loss_fn_inputs"].items()},
        model_input_spans=spans(given.get("model_input_spans")),
        loss_fn_input_spans=spans(given.get("loss_fn_input_spans")),
    )


def request(case: str, given: dict[str, Any]) -> dict[str, Any]:
    """`given` says everything; maps are in the order of their keys, which is the order they are written in."""
    vector: dict[str, Any] = {"case": case, "input": given}
    try:
        message = forward_backward_request_to_proto(
            types.ForwardBackwardRequest(
                forward_backward_input=types.ForwardBackwardInput(
                    data=[datum(item) for item in given["data"]],
                    loss_fn=given["loss_fn"],
                    loss_fn_config=given.get("loss_fn_config"),
                ),
                model_id=given["model_id"],
                seq_id=given.get("seq_id"),
            )
        )
        message.forward_only = given.get("forward_only", False)
        vector["output"] = message.SerializeToString(deterministic=True).hex()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        vector["error"] = type(error).__name__
    return vector


def item(chunks: list[dict[str, Any]] | None = None, tensors: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    return {
        "model_input": {"chunks": [TEXT] if chunks is None else chunks},
        "loss_fn_inputs": dict(sorted((tensors or {}).items())),
        **rest,
    }


def requests() -> list[dict[str, Any]]:
    base = {"model_id": "m", "seq_id": 1, "loss_fn": "cross_entropy"}
    targets = {"target_tokens": TENSORS["int64"]}
    out = [
        request("minimal", {**base, "data": [item(tensors=targets)]}),
        request("forward only", {**base, "data": [item(tensors=targets)], "forward_only": True}),
        request("no data", {**base, "data": []}),
        request("no number", {"model_id": "m", "loss_fn": "ppo", "data": [item()]}),
        request("large number", {**base, "seq_id": 2**31 - 1, "data": [item()]}),
        request("number too large", {**base, "seq_id": 2**31, "data": [item()]}),
        request("nothing said", {"model_id": "", "seq_id": 0, "loss_fn": "", "data": [item([], {})]}),
        request("unicode", {**base, "model_id": "Ünï:train:0", "data": [item()]}),
    ]
    out += [request(f"loss {loss}", {**base, "loss_fn": loss, "data": [item()]}) for loss in
            ["importance_sampling", "ppo", "cispo", "dro", "gspo", "stable_reinforce", "custom"]]
    out += [request(f"tensor {name}", {**base, "data": [item(tensors={"t": t})]}) for name, t in TENSORS.items()]
    out += [request(f"input {name}", {**base, "data": [item(chunks)]}) for name, chunks in CHUNKS.items()]
    out += [request(f"config {name}", {**base, "data": [item()], "loss_fn_config": config})
            for name, config in CONFIGS.items()]
    out += [
        request(f"spans {name}", {**base, "data": [
            item(tensors=targets, model_input_spans=inputs, loss_fn_input_spans=losses)]})
        for name, (inputs, losses) in SPANS.items()
    ]
    out.append(request("all tensors", {**base, "data": [
        item(tensors={f"{chr(97 + i)}_{name}": t for i, (name, t) in enumerate(TENSORS.items())})]}))
    rng = random.Random(7)
    for n in range(60):
        data = []
        for _ in range(rng.randint(1, 5)):
            size = rng.choice([0, 1, 2, 7, 20])
            tensors = {
                "target_tokens": {
                    "data": [rng.randint(-(2**40), 2**40) for _ in range(size)], "dtype": "int64", "shape": [size]},
                "weights": {
                    "data": [float(np.float32(rng.uniform(-2, 2))) for _ in range(size)],
                    "dtype": "float32", "shape": [size]},
            }
            chunks = [{"type": "encoded_text", "tokens": [rng.randint(0, 200_000) for _ in range(size)]}]
            data.append(item(chunks, tensors))
        out.append(request(f"random {n}", {**base, "seq_id": n + 1, "data": data}))
    return out


def floats(values: np.ndarray | None) -> list[float] | None:
    return None if values is None else [float(value) for value in values]


def read_sample(message: bytes) -> dict[str, Any]:
    value = deserialize_sample_response(message)
    alternatives = value.prompt_alt_tokens
    return {
        "sequences": [
            {
                "stop_reason": sequence.stop_reason,
                "tokens": sequence.tokens,
                "logprobs": floats(sequence.logprobs_np),
                "topk_logprobs": sequence.topk_logprobs,
            }
            for sequence in value.sequences
        ],
        "prompt_logprobs": floats(value.prompt_logprobs_np),
        "topk_prompt_logprobs": value.topk_prompt_logprobs,
        "target_prompt_logprobs": None if value.target_prompt_logprobs is None else tensor(value.target_prompt_logprobs),
        "prompt_cache_hit_tokens": value.prompt_cache_hit_tokens,
        "prompt_alt_tokens": None if alternatives is None else {
            "tokens": tensor(alternatives.tokens), "logprobs": tensor(alternatives.logprobs)},
    }


def read_output(message: bytes) -> dict[str, Any]:
    value = deserialize_forward_backward_output(message)
    return {
        "loss_fn_output_type": value.loss_fn_output_type,
        "loss_fn_outputs": [
            {key: tensor(td) for key, td in sorted(output.items())} for output in value.loss_fn_outputs
        ],
        "metrics": dict(sorted(value.metrics.items())),
    }


def response(case: str, message: bytes, read: Any) -> dict[str, Any]:
    vector: dict[str, Any] = {"case": case, "input": message.hex()}
    try:
        vector["output"] = read(message)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        vector["error"] = type(error).__name__
    return vector


def i32(*values: int) -> bytes:
    return np.array(values, dtype=np.int32).tobytes()


def i64(*values: int) -> bytes:
    return np.array(values, dtype=np.int64).tobytes()


def f32(*values: float) -> bytes:
    return np.array(values, dtype=np.float32).tobytes()


def bf16(*values: float) -> bytes:
    return (np.array(values, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()


NAN, INF = float("nan"), float("inf")


def sample_messages() -> dict[str, pb.SampleResponse]:
    seq = pb.SampledSequence
    top = pb.TopkLogprobs
    m = -99999.0
    plain = seq(stop_reason=pb.STOP_REASON_LENGTH, tokens=i32(5, 6), logprobs=f32(-0.5, -1))
    matrix = top(token_ids=i32(0, 0, 7, 8), logprobs=f32(m, m, -0.25, -1.5), k=2, length=2)
    dense = pb.Tensor(dense=f32(-0.5, 0), dtype=pb.DTYPE_FLOAT32, shape=[2, 1])
    return {
        "empty": pb.SampleResponse(),
        "plain": pb.SampleResponse(sequences=[plain]),
        "stopped": pb.SampleResponse(sequences=[seq(tokens=i32(1))]),
        "no tokens": pb.SampleResponse(sequences=[seq(stop_reason=pb.STOP_REASON_LENGTH)]),
        "no logprobs": pb.SampleResponse(sequences=[seq(tokens=i32(1, 2))]),
        "empty logprobs": pb.SampleResponse(sequences=[seq(tokens=i32(1), logprobs=b"")]),
        "infinite logprobs": pb.SampleResponse(sequences=[seq(tokens=i32(1, 2), logprobs=f32(-INF, NAN))]),
        "several": pb.SampleResponse(sequences=[plain, seq(tokens=i32(9)), plain]),
        "prompt": pb.SampleResponse(sequences=[plain], prompt_logprobs=f32(NAN, -2)),
        "empty prompt": pb.SampleResponse(sequences=[plain], prompt_logprobs=b""),
        "only NaN": pb.SampleResponse(prompt_logprobs=f32(NAN, NAN)),
        "top k": pb.SampleResponse(sequences=[plain], topk_prompt_logprobs=matrix),
        "top k of none": pb.SampleResponse(topk_prompt_logprobs=top(k=0, length=3)),
        "top k of nothing": pb.SampleResponse(topk_prompt_logprobs=top(k=3, length=0)),
        "top k sampled": pb.SampleResponse(sequences=[
            seq(tokens=i32(7), logprobs=f32(-0.25), topk_sampled_logprobs=top(
                token_ids=i32(7, 8), logprobs=f32(-0.25, -1.5), k=2, length=1))]),
        "cache hits": pb.SampleResponse(sequences=[plain], prompt_cache_hit_tokens=3),
        "targets": pb.SampleResponse(target_prompt_logprobs=dense),
        "sparse targets": pb.SampleResponse(target_prompt_logprobs=pb.Tensor(
            sparse_csr=pb.SparseCsr(values=f32(-1, -2), crow_indices=i64(0, 1, 2), col_indices=i64(3, 0)),
            dtype=pb.DTYPE_FLOAT32, shape=[2, 4])),
        "alternatives": pb.SampleResponse(prompt_alt_tokens=pb.PromptAltTokens(
            tokens=pb.Tensor(dense=i32(4, 5, 6, 7), dtype=pb.DTYPE_INT32, shape=[2, 2]),
            logprobs=pb.Tensor(dense=f32(-1, -2, -3, -4), dtype=pb.DTYPE_FLOAT32, shape=[2, 2]))),
        "wide alternatives": pb.SampleResponse(prompt_alt_tokens=pb.PromptAltTokens(
            tokens=pb.Tensor(dense=i64(4, 5), dtype=pb.DTYPE_INT64, shape=[2, 1]),
            logprobs=pb.Tensor(dense=f32(-1, -2), dtype=pb.DTYPE_FLOAT32, shape=[2, 1]))),
        "everything": pb.SampleResponse(
            sequences=[plain, plain], prompt_logprobs=f32(NAN, -1, -2), topk_prompt_logprobs=matrix,
            target_prompt_logprobs=dense, prompt_cache_hit_tokens=2**31 - 1),
        "target of no type": pb.SampleResponse(target_prompt_logprobs=pb.Tensor(dense=f32(1), shape=[1])),
    }


def output_messages() -> dict[str, pb.ForwardBackwardOutput]:
    out, record, batched = pb.ForwardBackwardOutput, pb.ArrayRecord, pb.BatchedTensor

    def one(tensor: pb.BatchedTensor, n: int, name: str = "logprobs") -> pb.ForwardBackwardOutput:
        return out(loss_fn_output_type="mod:T", loss_fn_outputs=[record(fields={name: tensor}, num_datums=n)],
                   metrics={"loss:sum": 1.5})

    two = batched(data=f32(-1, -2, -3), offsets=i64(0, 8, 12), dtype=pb.DTYPE_FLOAT32)
    return {
        "empty": out(),
        "only a type": out(loss_fn_output_type="mod:T"),
        "only metrics": out(metrics={"loss:sum": 1.5}),
        "infinite metrics": out(metrics={"a:max": INF}),
        "no metric": out(metrics={"a:mean": NAN}),
        "plain": one(two, 2),
        "no colon": out(loss_fn_output_type="T", loss_fn_outputs=[record(fields={"logprobs": two}, num_datums=2)]),
        "many colons": out(loss_fn_output_type="a:b:T", loss_fn_outputs=[record(fields={"logprobs": two}, num_datums=2)]),
        "uncounted": one(two, 0),
        "bf16": one(batched(data=bf16(-1, 0.5, 3.140625), offsets=i64(0, 2, 6), dtype=pb.DTYPE_BFLOAT16), 2),
        "bf16 special": one(batched(data=bf16(INF, -INF, NAN, -0.0), offsets=i64(0, 8), dtype=pb.DTYPE_BFLOAT16), 1),
        "int32": one(batched(data=i32(1, -2, 3), offsets=i64(0, 4, 12), dtype=pb.DTYPE_INT32), 2),
        "int64": one(batched(data=i64(1, -2, 2**53 - 1), offsets=i64(0, 8, 24), dtype=pb.DTYPE_INT64), 2),
        "matrices": one(batched(data=f32(1, 2, 3, 4, 5, 6), offsets=i64(0, 8, 24), dtype=pb.DTYPE_FLOAT32,
                                trailing_shape=[2]), 2),
        "no columns": one(batched(data=b"", offsets=i64(0, 0), dtype=pb.DTYPE_FLOAT32, trailing_shape=[0]), 1),
        "empty datum": one(batched(data=f32(1), offsets=i64(0, 0, 4), dtype=pb.DTYPE_FLOAT32), 2),
        "no fields": out(loss_fn_output_type="T", loss_fn_outputs=[record(num_datums=3)]),
        "two fields": out(loss_fn_output_type="T", loss_fn_outputs=[record(
            fields={"logprobs": two, "elementwise_loss": two}, num_datums=2)]),
        "two records": out(loss_fn_output_type="T", loss_fn_outputs=[
            record(fields={"logprobs": two}, num_datums=2),
            record(fields={"logprobs": batched(data=bf16(9), offsets=i64(0, 2), dtype=pb.DTYPE_BFLOAT16)}, num_datums=1)]),
        "ragged": out(loss_fn_output_type="T", loss_fn_outputs=[
            record(fields={"x": batched(data=f32(1, 2), offsets=i64(0, 8), dtype=pb.DTYPE_FLOAT32,
                                        trailing_shape=[2])}, num_datums=1),
            record(fields={"x": batched(data=f32(1, 2, 3), offsets=i64(0, 12), dtype=pb.DTYPE_FLOAT32,
                                        trailing_shape=[3])}, num_datums=1)]),
        "tag": out(loss_fn_output_type="T", loss_fn_outputs=[record(type_tag="X", fields={"logprobs": two}, num_datums=2)]),
        "no dtype": one(batched(data=f32(1), offsets=i64(0, 4)), 1),
        "too many counted": one(two, 3),
    }


def vectors() -> dict[str, Any]:
    samples = [response(case, m.SerializeToString(deterministic=True), read_sample)
               for case, m in sample_messages().items()]
    outputs = [response(case, m.SerializeToString(deterministic=True), read_output)
               for case, m in output_messages().items()]
    whole = sample_messages()["everything"].SerializeToString(deterministic=True)
    samples += [response(f"cut at {n}", whole[:n], read_sample) for n in range(1, len(whole), 7)]
    samples.append(response("unknown reason", bytes.fromhex("0a0408071200"), read_sample))
    samples.append(response("unknown field", bytes.fromhex("fa0103616263") + whole, read_sample))
    plain = output_messages()["plain"].SerializeToString(deterministic=True)
    outputs += [response(f"cut at {n}", plain[:n], read_output) for n in range(1, len(plain), 9)]
    outputs.append(response("unknown field", plain + bytes.fromhex("fa0103616263"), read_output))
    return {"requests": requests(), "samples": samples, "outputs": outputs}

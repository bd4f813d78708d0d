"""The official SDK on the same batch: encodes it, and decodes a result, whenever a line on stdin says so.

    python wire.py TOKENS WEIGHTS OUTPUT COUNT

TOKENS and WEIGHTS hold COUNT rows of int32 and float32; OUTPUT is a ForwardBackwardOutput in protobuf.
"""

import hashlib
import sys
import time

import numpy as np
import tinker
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_forward_backward_output
from tinker.types.forward_backward_input import ForwardBackwardInput
from tinker.types.forward_backward_request import ForwardBackwardRequest

tokens_path, weights_path, output_path, count = sys.argv[1:]
tokens = np.fromfile(tokens_path, dtype=np.int32).reshape(int(count), -1)
weights = np.fromfile(weights_path, dtype=np.float32).reshape(int(count), -1)
with open(output_path, "rb") as file:
    output = file.read()

request = ForwardBackwardRequest(
    model_id="model",
    seq_id=1,
    forward_backward_input=ForwardBackwardInput(
        data=[
            types.Datum(
                model_input=types.ModelInput.from_ints(row[:-1].tolist()),
                loss_fn_inputs={"target_tokens": row[1:].astype(np.int64), "weights": weight[1:].copy()},
            )
            for row, weight in zip(tokens, weights)
        ],
        loss_fn="cross_entropy",
    ),
)


def encode():
    return forward_backward_request_to_proto(request).SerializeToString()


def decode():
    return deserialize_forward_backward_output(output)


for line in sys.stdin:
    command = line.strip()
    if command == "version":
        print(tinker.__version__, flush=True)
    elif command == "digest":
        message = forward_backward_request_to_proto(request).SerializeToString(deterministic=True)
        print(hashlib.sha256(message).hexdigest(), flush=True)
    elif command == "sum":
        print(sum(float(one["logprobs"].to_numpy().sum()) for one in decode().loss_fn_outputs), flush=True)
    else:
        work = {"encode": encode, "decode": decode}[command]
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            result = work()
            best = min(best, time.process_time() - start)
            del result
        print(best * 1000, flush=True)

"""Models, passes and optimizers."""

import numpy as np

from tinker import types

from . import leaf
from .connection import MODEL, SCENARIOS, Connection, datum, prompt, scenario

DATA = [datum("cat: meow"), datum("dog: woof"), datum("cow: moo"), datum("hen: cluck"), datum("ape: ook")]
ADAM = types.AdamParams(learning_rate=1e-4)


@scenario
def lora_defaults(c: Connection) -> None:
    c.service.create_lora_training_client(MODEL).result()


@scenario
def lora_every_option(c: Connection) -> None:
    c.service.create_lora_training_client(
        MODEL, rank=4, seed=7, train_mlp=False, train_attn=True, train_unembed=False, user_metadata={"run": "1"}
    ).result()


@scenario
def lora_two_models(c: Connection) -> None:
    c.training(4)
    c.training(8).optim_step(ADAM).result()


@scenario
def lora_unknown_model(c: Connection) -> None:
    c.service.create_lora_training_client("no/such-model").result()


@scenario
def lora_dimuon(c: Connection) -> None:
    c.service.create_lora_training_client(MODEL, rank=8, optimizer=types.DimuonOptimizerConfig()).result()


@scenario
def optim_adam_defaults(c: Connection) -> None:
    c.training().optim_step(types.AdamParams()).result()


@scenario
def optim_adam_every_option(c: Connection) -> None:
    params = types.AdamParams(
        learning_rate=0.5, beta1=0.8, beta2=0.99, eps=1e-8, weight_decay=0.25, grad_clip_norm=1.5
    )
    c.training().optim_step(params).result()


@scenario
def optim_dimuon(c: Connection) -> None:
    c.training().optim_step(types.DimuonParams(learning_rate=0.5, grad_clip_norm=1.0, beta1=0.5)).result()


@scenario
def train_steps(c: Connection) -> None:
    training = c.training()
    for _ in range(2):
        passed = training.forward_backward(DATA[:2], "cross_entropy")
        stepped = training.optim_step(ADAM)
        passed.result()
        stepped.result()


@scenario
def train_pipelined(c: Connection) -> None:
    training = c.training()
    futures = []
    for _ in range(4):
        futures.append(training.forward_backward(DATA[:1], "cross_entropy"))
        futures.append(training.optim_step(ADAM))
    for future in futures:
        future.result()


@scenario
def forward(c: Connection) -> None:
    c.training().forward(DATA[:1], "cross_entropy").result()


@scenario
def forward_backward_nothing(c: Connection) -> None:
    c.training().forward_backward([], "cross_entropy").result()


def rl(advantage: float) -> types.Datum:
    return types.Datum(
        model_input=prompt("ab"),
        loss_fn_inputs={"target_tokens": [98, 99], "logprobs": [-1.5, -0.25], "advantages": [0.0, advantage]},
    )


@scenario
def loss_configured(c: Connection) -> None:
    config = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
    c.training().forward_backward([rl(1.0)], "ppo", config).result()


@scenario
def loss_configured_with_text(c: Connection) -> None:
    c.training().forward_backward([rl(1.0)], "ppo", {"clip_low_threshold": 0.0, "mode": "x"}).result()


@scenario
def losses(c: Connection) -> None:
    training = c.training()
    for loss in ("importance_sampling", "ppo", "cispo", "dro"):
        training.forward_backward([rl(-0.5)], loss).result()


def many(c: Connection) -> None:
    training = c.training()
    training.forward_backward(DATA, "cross_entropy").result()
    training.optim_step(ADAM).result()


for name in ("chunks_side_by_side", "chunks_in_order", "chunks_by_size", "chunks_forward_of_two"):
    SCENARIOS[name] = many


@scenario
def targets_two_dimensional(c: Connection) -> None:
    one = types.Datum(
        model_input=prompt("ab"),
        loss_fn_inputs={"target_tokens": [[98, 99], [100, 101]], "weights": [[0.5, 0.5], [1.0, 0.0]]},
    )
    c.training().forward_backward([one], "cross_entropy").result()


@scenario
def targets_sparse(c: Connection) -> None:
    def sparse(data: list, dtype: str) -> types.TensorData:
        return types.TensorData(
            data=data, dtype=dtype, shape=[2, 4], sparse_crow_indices=[0, 1, 3], sparse_col_indices=[2, 0, 3]
        )

    one = types.Datum(
        model_input=prompt("ab"),
        loss_fn_inputs={"target_tokens": sparse([98, 99, 100], "int64"), "weights": sparse([1.0, 0.5, 0.25], "float32")},
    )
    c.training().forward_backward([one], "cross_entropy").result()


@scenario
def tensors_of_numpy(c: Connection) -> None:
    one = types.Datum(
        model_input=prompt("ab"),
        loss_fn_inputs={
            "target_tokens": np.array([98, 99], dtype=np.int64),
            "weights": np.array([1.0, 0.5], dtype=np.float32),
        },
    )
    c.training().forward_backward([one], "cross_entropy").result()


PNG = bytes([137, 80, 78, 71, 13, 10, 26, 10, 0, 1, 2])


@scenario
def image_in_training(c: Connection) -> None:
    chunks = [
        types.EncodedTextChunk(tokens=[97]),
        types.ImageChunk(data=PNG, format="png", expected_tokens=2),
        types.EncodedTextChunk(tokens=[98]),
    ]
    one = types.Datum(
        model_input=types.ModelInput(chunks=chunks),
        loss_fn_inputs={"target_tokens": [1, 2, 3, 4], "weights": [0.0, 0.0, 0.0, 1.0]},
    )
    c.training().forward_backward([one], "cross_entropy").result()


@scenario
def provenance(c: Connection) -> None:
    one = datum("abcde").with_provenance(
        model_input=[
            types.PromptProvenanceSpan(sequence_id="s:0", offset=0, length=3),
            types.SampledProvenanceSpan(sequence_id="s:0", offset=1, length=1),
        ],
        loss_fn_inputs=[types.SampledProvenanceSpan(sequence_id="s:0", length=4)],
    )
    c.training().forward_backward([one], "cross_entropy").result()


@scenario
def failed_pass_then_another(c: Connection) -> None:
    training = c.training()
    bad = types.Datum(
        model_input=types.ModelInput.from_ints([70000]), loss_fn_inputs={"target_tokens": [1], "weights": [1.0]}
    )
    failing = training.forward_backward([bad], "cross_entropy")
    good = training.forward_backward(DATA[:1], "cross_entropy")
    good.result()
    failing.result()


@scenario
def custom_loss(c: Connection) -> None:
    training = c.training()
    training.forward_backward_custom(DATA[:2], lambda _, logprobs: (leaf.half(logprobs), {"mine": 1.0})).result()
    training.optim_step(ADAM).result()


@scenario
def custom_loss_of_targets_alone(c: Connection) -> None:
    one = types.Datum(model_input=prompt("ab"), loss_fn_inputs={"target_tokens": [98, 99]})
    c.training().forward_backward_custom([one], lambda _, logprobs: (leaf.half(logprobs), {})).result()


@scenario
def custom_loss_with_inputs_of_its_own(c: Connection) -> None:
    c.training().forward_backward_custom([rl(0.5)], lambda _, logprobs: (leaf.half(logprobs), {})).result()


@scenario
def get_info(c: Connection) -> None:
    c.training().get_info()


@scenario
def large_results(c: Connection) -> None:
    c.training().forward(DATA, "cross_entropy").result()

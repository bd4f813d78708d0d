"""Samples and log probabilities."""

import tinker
from tinker import types

from .connection import FEW, SCENARIOS, Connection, prompt, scenario


def defaults(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, FEW).result()


for name in ("sample_defaults", "sample_one_poll_for_all"):
    SCENARIOS[name] = defaults


@scenario
def sample_every_parameter(c: Connection) -> None:
    params = types.SamplingParams(max_tokens=3, seed=7, temperature=0.5, top_k=4, top_p=0.75, stop=["\n", "zz"])
    c.sampling(record_stability_info=True).sample(
        prompt(),
        2,
        params,
        include_prompt_logprobs=True,
        topk_prompt_logprobs=2,
        topk_sample_logprobs=3,
        prompt_alt_tokens_k=2,
    ).result()


@scenario
def sample_stop_tokens(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, types.SamplingParams(max_tokens=2, stop=[10, 13])).result()


@scenario
def sample_stop_text(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, types.SamplingParams(max_tokens=2, stop="end")).result()


@scenario
def sample_stop_never(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, types.SamplingParams(max_tokens=2, stop=[])).result()


@scenario
def sample_target_logprobs(c: Connection) -> None:
    target = types.TensorData(data=[1, -1, 2, 3, -1, 4], dtype="int64", shape=[3, 2])
    c.sampling().sample(prompt(), 1, FEW, target_prompt_logprobs=target).result()


@scenario
def sample_target_logprobs_sparse(c: Connection) -> None:
    target = types.TensorData(
        data=[1, 2, 3], dtype="int64", shape=[3, 4], sparse_crow_indices=[0, 1, 1, 3], sparse_col_indices=[0, 1, 3]
    )
    c.sampling().sample(prompt(), 1, FEW, target_prompt_logprobs=target).result()


@scenario
def sample_in_a_row(c: Connection) -> None:
    sampling = c.sampling()
    for _ in range(3):
        sampling.sample(prompt(), 1, FEW).result()


@scenario
def sample_two_samplers(c: Connection) -> None:
    for _ in range(2):
        c.sampling().sample(prompt(), 1, FEW).result()


@scenario
def sample_image(c: Connection) -> None:
    chunks = [
        types.EncodedTextChunk(tokens=[97]),
        types.ImageChunk(data=bytes([137, 80, 78, 71]), format="png"),
        types.ImageAssetPointerChunk(location="https://example.com/a.png", format="png", expected_tokens=3),
    ]
    c.sampling().sample(types.ModelInput(chunks=chunks), 1, FEW).result()


@scenario
def sample_nothing_to_sample_from(c: Connection) -> None:
    c.service.create_sampling_client().result()


@scenario
def sample_unknown_model(c: Connection) -> None:
    c.service.create_sampling_client(base_model="no/such-model").result().sample(prompt(), 1, FEW).result()


@scenario
def sample_base_model(c: Connection) -> None:
    c.sampling().get_base_model()


@scenario
def logprobs(c: Connection) -> None:
    c.sampling().compute_logprobs(prompt()).result()


@scenario
def logprobs_of_the_end(c: Connection) -> None:
    c.sampling().compute_logprobs(prompt(), prompt_logprobs_last_n=2).result()


@scenario
def sample_from_handle(c: Connection) -> None:
    handle = c.sampling().get_sampler_handle()
    tinker.SamplingClient.from_sampler_handle(handle, api_key="tml-argument").sample(prompt(), 1, FEW).result()

"""What a scenario is given, and what scenarios share."""

from __future__ import annotations

from typing import Any, Callable

import tinker
from tinker import types

MODEL = "local/tiny"

SCENARIOS: dict[str, Callable[["Connection"], Any]] = {}


def scenario(run: Callable[["Connection"], Any]) -> Callable[["Connection"], Any]:
    SCENARIOS[run.__name__] = run
    return run


class Connection:
    """Where the server is, and how to present oneself. Clients are made when they are asked for."""

    def __init__(self, base_url: str, api_key: str | None, session: dict[str, Any]) -> None:
        self.options: dict[str, Any] = {"base_url": base_url}
        if api_key is not None:
            self.options["api_key"] = api_key
        self.session = session
        self.service = tinker.ServiceClient(**self.options, **session)

    def rest(self) -> tinker.RestClient:
        return tinker.RestClient(**self.options)

    def admin(self) -> tinker.AdminClient:
        return tinker.AdminClient(**self.options)

    def training(self, rank: int = 8) -> tinker.TrainingClient:
        return self.service.create_lora_training_client(MODEL, rank=rank, seed=1).result()

    def sampling(self, **options: Any) -> tinker.SamplingClient:
        return self.service.create_sampling_client(base_model=MODEL, **options).result()


def datum(text: str) -> types.Datum:
    """Next-token prediction over the bytes of a text."""
    tokens = list(text.encode())
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)},
    )


def prompt(text: str = "dog:") -> types.ModelInput:
    return types.ModelInput.from_ints(list(text.encode()))


FEW = types.SamplingParams(max_tokens=2, temperature=0.0)

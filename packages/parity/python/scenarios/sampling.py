"""Samples and log probabilities."""

from .connection import FEW, Connection, prompt, scenario


@scenario
def sample_defaults(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, FEW).result()

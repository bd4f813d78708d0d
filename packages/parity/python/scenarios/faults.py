"""What clients do when a server does not do what they ask."""

from tinker import types

from .connection import FEW, Connection, datum, prompt, scenario


def step(c: Connection) -> None:
    c.training().optim_step(types.AdamParams(learning_rate=1e-4)).result()


@scenario
def submit_500_twice(c: Connection) -> None:
    step(c)


@scenario
def sample_429_twice(c: Connection) -> None:
    c.sampling().sample(prompt(), 1, FEW).result()

"""Models, passes and optimizers."""

from tinker import types

from .connection import Connection, datum, scenario


@scenario
def train_steps(c: Connection) -> None:
    training = c.training()
    for _ in range(2):
        passed = training.forward_backward([datum("cat: meow"), datum("dog: woof")], "cross_entropy")
        stepped = training.optim_step(types.AdamParams(learning_rate=1e-4))
        passed.result()
        stepped.result()

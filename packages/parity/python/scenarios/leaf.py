"""The few operations on tensors that the SDK asks of PyTorch for a custom loss, where PyTorch is not installed.

The SDK's own code runs on them; the loss itself is linear, so that its gradient needs no differentiation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tinker.lib.public_interfaces import training_client


class Leaf:
    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=np.float32)
        self.grad: np.ndarray | None = None

    def reshape(self, shape: list[int]) -> Leaf:
        return Leaf(self.values.reshape(shape))

    def clone(self) -> Leaf:
        return Leaf(self.values.copy())

    def detach(self) -> Leaf:
        return self

    def requires_grad_(self, _: bool) -> Leaf:
        return self

    def sum(self) -> Leaf:
        return Leaf(self.values.sum())

    def item(self) -> float:
        return float(self.values)


class Half(Leaf):
    """Half the sum of all leaves."""

    def __init__(self, leaves: list[Leaf]) -> None:
        super().__init__(0.5 * sum(leaf.values.sum() for leaf in leaves))
        self.leaves = leaves

    def backward(self) -> None:
        for leaf in self.leaves:
            leaf.grad = np.full_like(leaf.values, 0.5)


class Stand:
    tensor = Leaf


def half(leaves: list[Any]) -> Any:
    return Half(leaves) if isinstance(leaves[0], Leaf) else 0.5 * sum(leaf.sum() for leaf in leaves)


if training_client.torch is None:
    training_client.torch = Stand

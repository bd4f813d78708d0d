"""Stands in for torch, which SkyRL's JAX backend imports for images alone."""


class Tensor:
    pass

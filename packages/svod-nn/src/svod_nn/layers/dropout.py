"""Dropout."""

from __future__ import annotations

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, Tensor

__all__ = ["Dropout"]


class Dropout(Module):
    """Dropout: in training, zero each element with probability `p`.

    The remaining elements are divided by `1 - p`. In evaluation mode it is the identity.

    Args:
        p: probability of an element to be zeroed.
        generator: random generator; by default the one seeded by `svod_tensor.manual_seed`.

    Raises:
        LayerArgumentError: if `p` is not between 0 and 1.

    Source: N. Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting,
    2014.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Generator, Tensor
        >>> layer = nn.Dropout(0.5, generator=Generator(1))
        >>> sorted(set(layer(Tensor.ones(100)).tolist())), set(layer.eval()(Tensor.ones(100)).tolist())
        ([0.0, 2.0], {1.0})
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        if not 0 <= p <= 1:
            raise LayerArgumentError(name="Dropout", problem=f"p must be between 0 and 1, got {p}")
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        # A rate of 0 draws no numbers, so that the generator's later ones stay the same.
        return x.dropout(self.p, generator=self.generator) if self.training and self.p else x

    def extra_repr(self) -> str:
        return f"p={self.p}"

"""Layers that set elements to zero while a model is trained."""

from __future__ import annotations

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator, Tensor

__all__ = ["Dropout"]


class Dropout(Module):
    """In training each element is 0 with probability `p`, and otherwise divided by `1 - p`;
    afterwards nothing happens.

    Args:
        p: the probability.
        generator: what is drawn from; by default the one that `svod_tensor.manual_seed` seeds.

    Example:
        >>> from svod_tensor import Generator
        >>> layer = nn.Dropout(0.5, generator=Generator(1))
        >>> sorted(set(layer(Tensor.ones(100)).tolist())), set(layer.eval()(Tensor.ones(100)).tolist())
        ([0.0, 2.0], {1.0})
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        if not 0 <= p <= 1:
            raise LayerArgumentError(name="Dropout", problem=f"p={p} is no probability")
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.dropout(self.p, generator=self.generator) if self.training and self.p else x

    def extra_repr(self) -> str:
        return f"p={self.p}"

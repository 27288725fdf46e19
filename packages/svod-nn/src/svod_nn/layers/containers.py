"""Containers of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from svod_nn._module import Module

__all__ = ["Sequential"]


class Sequential(Module):
    """Modules or functions that are called sequentially.

    Args:
        steps: modules or functions; each is called with the result of the previous one. Their
            parameters are named by index, as in `0.weight`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> model(Tensor.ones(5, 3)).shape, len(model), model[2]
        ((5, 2), 3, Linear(in_features=8, out_features=2, bias=True))
    """

    def __init__(self, *steps: Callable[..., Any]) -> None:
        # Numbers as names, so that states are named as in torch: "0.weight".
        self._names = tuple([str(index) for index in range(len(steps))])
        for name, step in zip(self._names, steps, strict=True):
            # Attributes, since that is where a module looks for its children.
            setattr(self, name, step)

    def forward(self, x: Any) -> Any:
        """Return the result of the last step."""
        for step in self:
            x = step(x)
        return x

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return (getattr(self, name) for name in self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Any:
        return getattr(self, self._names[index])

"""Gradients that are not too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from svod_nn._walk import exchange_leaves
from svod_nn.optimizers.tensors import name_tensors, widen
from svod_tensor import Tensor

__all__ = ["clip_by_norm", "clip_by_value", "get_norm"]

Tree = TypeVar("Tree")

_LEAST = 1e-6
"""Is added to the norm that is divided by, as in PyTorch."""


def get_norm(tree: object) -> Tensor:
    """The root of the sum of the squares of all elements in nested lists, tuples and dicts of
    tensors.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.get_norm({"a": Tensor([3.0]), "b": [Tensor([4.0, 0.0])]}).item()
        5.0
    """
    squares = [widen(tensor).square().sum() for tensor in name_tensors(tree).values()]
    return Tensor.stack(squares).sum().sqrt() if squares else Tensor(0.0)


def clip_by_norm(gradients: Tree, max_norm: float) -> tuple[Tree, Tensor]:
    """Gradients whose norm, of all together, is at most `max_norm`: all are scaled alike where it
    is larger.

    Args:
        gradients: nested lists, tuples and dicts of tensors.
        max_norm: the largest norm.

    Returns:
        the gradients, and the norm that they had.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> clipped, norm = nn.clip_by_norm({"a": Tensor([3.0]), "b": Tensor([4.0])}, 1.0)
        >>> norm.item(), round(clipped["a"].item(), 4)
        (5.0, 0.6)
    """
    norm = get_norm(gradients)
    # Computed once, and not for each element.
    factor = (max_norm / (norm + _LEAST)).minimum(1.0).contiguous()
    return _map(gradients, lambda g: (widen(g) * factor.cast(widen(g).dtype)).cast(g.dtype)), norm


def clip_by_value(gradients: Tree, value: float) -> Tree:
    """Gradients whose elements are from `-value` to `value`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.clip_by_value([Tensor([-3.0, 0.5])], 1.0)[0].tolist()
        [-1.0, 0.5]
    """
    return _map(gradients, lambda g: g.clip(-value, value))


def _map(tree: Tree, function: Callable[[Tensor], Tensor]) -> Tree:
    return cast("Tree", exchange_leaves(tree, Tensor, function))

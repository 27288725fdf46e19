"""Gradient clipping by norm and by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from svod_nn._walk import map_leaves
from svod_nn.optimizers.tensors import name_tensors, widen
from svod_tensor import Tensor

__all__ = ["clip_by_norm", "clip_by_value", "get_norm"]

Tree = TypeVar("Tree")

_EPS = 1e-6
"""Term added to the norm in the denominator, as in PyTorch."""


def get_norm(tree: object) -> Tensor:
    """Total L2 norm of all elements of nested tensors.

    Args:
        tree: nested lists, tuples and dicts of tensors.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.get_norm({"a": Tensor([3.0]), "b": [Tensor([4.0, 0.0])]}).item()
        5.0
    """
    # Squares of float16 overflow from 256 on.
    squares = [widen(tensor).square().sum() for tensor in name_tensors(tree).values()]
    return Tensor.stack(squares).sum().sqrt() if squares else Tensor(0.0)


def clip_by_norm(gradients: Tree, max_norm: float) -> tuple[Tree, Tensor]:
    """Clip gradients by their total norm: scale all by one factor if it is above `max_norm`.

    Args:
        gradients: nested lists, tuples and dicts of tensors.
        max_norm: maximum total norm.

    Returns:
        the clipped gradients, and the total norm before clipping.

    Source: `torch.nn.utils.clip_grad_norm_`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> clipped, norm = nn.clip_by_norm({"a": Tensor([3.0]), "b": Tensor([4.0])}, 1.0)
        >>> norm.item(), round(clipped["a"].item(), 4)
        (5.0, 0.6)
    """
    norm = get_norm(gradients)
    # Materialized: fused into the scaling kernels, it would be computed for each element.
    factor = (max_norm / (norm + _EPS)).minimum(1.0).contiguous()
    # Scaled in float32, so that a narrow gradient is rounded once and a small factor is not rounded
    # to its type.
    return _map(gradients, lambda g: (widen(g) * factor.cast(widen(g).dtype)).cast(g.dtype)), norm


def clip_by_value(gradients: Tree, value: float) -> Tree:
    """Clip the elements of gradients to [-value, value].

    Args:
        gradients: nested lists, tuples and dicts of tensors.
        value: maximum absolute value.

    Returns:
        the clipped gradients, nested likewise.

    Source: `torch.nn.utils.clip_grad_value_`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.clip_by_value([Tensor([-3.0, 0.5])], 1.0)[0].tolist()
        [-1.0, 0.5]
    """
    return _map(gradients, lambda g: g.clip(-value, value))


def _map(tree: Tree, function: Callable[[Tensor], Tensor]) -> Tree:
    return cast("Tree", map_leaves(tree, Tensor, function))

"""Shapes: broadcasting as operators of versions before 7 have it, where the second operand stands along axes of the first that
are named; and how many elements there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svod_tensor import Tensor

__all__ = ["align_axis", "multiply_sizes"]


def align_axis(a: Tensor, b: Tensor, axis: int | None) -> Tensor:
    """`b` with axes of size 1 after its own, so that its first one stands at `axis` of `a`; by default its last one at the last."""
    if axis is None or b.ndim == 0:
        return b
    n_after = a.ndim - axis % max(a.ndim, 1) - b.ndim
    return b.reshape(*b.shape, *(1,) * max(n_after, 0))


def multiply_sizes(sizes: Sequence[Any]) -> Any:
    """How many elements axes of these sizes have; the sizes may depend on variables."""
    product: Any = 1
    for size in sizes:
        product = product * size
    return product

"""Broadcasting along a named axis (operators before version 7), and products of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svod_tensor import Tensor

__all__ = ["align_axis", "multiply_sizes"]


def align_axis(a: Tensor, b: Tensor, axis: int | None) -> Tensor:
    """Append axes of size 1 to `b` so that its first axis aligns with `axis` of `a`.

    Without `axis`, the trailing axes align, as in numpy.
    """
    if axis is None or b.ndim == 0:
        return b
    n_trailing = a.ndim - axis % max(a.ndim, 1) - b.ndim
    return b.reshape(*b.shape, *(1,) * max(n_trailing, 0))


def multiply_sizes(sizes: Sequence[Any]) -> Any:
    """Number of elements of an array with these sizes, which may be symbolic."""
    product: Any = 1
    for size in sizes:
        product = product * size
    return product

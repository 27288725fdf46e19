"""Broadcasting as operators of versions before 7 have it: the second operand stands along axes of the first that are named."""

from __future__ import annotations

from svod_tensor import Tensor

__all__ = ["place_along"]


def place_along(a: Tensor, b: Tensor, axis: int | None) -> Tensor:
    """`b` with axes of size 1 after its own, so that its first one stands at `axis` of `a`; by default its last one at the last."""
    if axis is None or b.ndim == 0:
        return b
    n_after = a.ndim - axis % max(a.ndim, 1) - b.ndim
    return b.reshape(*b.shape, *(1,) * max(n_after, 0))

"""`Tensor`: the operations of `svod_tensor.ops`, and computing and reading their results."""

from __future__ import annotations

from svod_tensor.ops.neural import Neural

__all__ = ["Tensor"]


class Tensor(Neural):
    """An n-dimensional array whose values are computed when they are asked for."""

    __slots__ = ()

"""Functions that call the methods of `Tensor` in `svod_tensor.ops.base`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.ops.argument_names import explained
from svod_tensor.ops.operands import to_tensor
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "copy",
]


@explained
def copy(x: Operand, /) -> Tensor:
    """A copy: writing to one of the two does not change the other.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([1, 2])
        >>> y = sv.copy(x)
        >>> (x.assign(0).tolist(), y.tolist())
        ([0, 0], [1, 2])
    """
    return to_tensor(x).copy()

"""Functions that call the methods of `Tensor` in `svod_tensor.ops.conversion`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike, Operand

__all__ = [
    "astype",
]


@explained
def astype(x: Operand, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Each element converted to `dtype` by the rules of `cast`.

    Args:
        dtype: of the result.
        copy: False gives `x` itself where it has that dtype, and is on that device.
        device: where the result is; by default where `x` is.

    Raises:
        UnknownDTypeError: if there is no such dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.astype(Tensor([1.7, -1.7, 0.0]), 'int32').tolist()
        [1, -1, 0]
    """
    return to_tensor(x).astype(dtype, copy=copy, device=device)

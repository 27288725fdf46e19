"""Checks that tensors have derivatives."""

from __future__ import annotations

from svod_tensor.errors import DerivativeError
from svod_tensor.ops.core.base import TensorBase

__all__ = ["check_float"]


def check_float(
    operation: str,
    tensor: TensorBase,
    what: str,
    *,
    otherwise: str = "",
    may_be_complex: bool = True,
) -> None:
    """Check that a tensor has a derivative.

    Args:
        operation: what was called.
        tensor: the tensor.
        what: it is called in the message.
        otherwise: what can be written, other than a cast.
        may_be_complex: whether it may have an imaginary part: a gradient is of a real number.

    Raises:
        DerivativeError: if it is not of floats or complex numbers.
    """
    if tensor.dtype.is_complex and not may_be_complex:
        raise DerivativeError(
            operation=operation,
            problem=f"the {what} is {tensor.dtype}, and gradients are of real numbers",
            hint=(
                "take a part or the size of it, as in x.real or x.abs(), or give a cotangent: vjp"
                " takes complex ones"
            ),
        )
    if not tensor.dtype.is_inexact:
        raise DerivativeError(
            operation=operation,
            problem=f"the {what} is {tensor.dtype}, and floats alone have derivatives",
            hint=f"cast it, as in x.cast(float32){otherwise}",
        )

"""Check that tensors are differentiable."""

from __future__ import annotations

from svod_tensor.errors import DerivativeError
from svod_tensor.ops.core.base import TensorBase

__all__ = ["check_float"]


def check_float(
    operation: str,
    tensor: TensorBase,
    name: str,
    *,
    otherwise: str = "",
    may_be_complex: bool = True,
) -> None:
    """Check that a tensor has a differentiable dtype.

    Args:
        operation: the called operation.
        tensor: the tensor.
        name: the name of the tensor in the message.
        otherwise: an alternative to a cast for the hint.
        may_be_complex: whether complex numbers are allowed, unlike for the value of a gradient.

    Raises:
        DerivativeError: if it is not of floats or complex numbers.
    """
    if tensor.dtype.is_complex and not may_be_complex:
        raise DerivativeError(
            operation=operation,
            problem=f"the {name} is {tensor.dtype}, but gradients are of real numbers",
            hint=(
                "take its real part or absolute value, as in x.real or x.abs(), or pass a cotangent"
                " to vjp, which may be complex"
            ),
        )
    if not tensor.dtype.is_inexact:
        raise DerivativeError(
            operation=operation,
            problem=f"the {name} is {tensor.dtype}, but only floats have derivatives",
            hint=f"cast it, as in x.cast(float32){otherwise}",
        )

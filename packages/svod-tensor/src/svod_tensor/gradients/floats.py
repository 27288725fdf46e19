"""Checks that tensors have derivatives."""

from __future__ import annotations

from svod_tensor.errors import DerivativeError
from svod_tensor.ops.base import TensorBase

__all__ = ["check_float"]


def check_float(operation: str, tensor: TensorBase, what: str, *, otherwise: str = "") -> None:
    """Check that a tensor has a derivative.

    Args:
        operation: what was called.
        tensor: the tensor.
        what: it is called in the message.
        otherwise: what can be written, other than a cast.

    Raises:
        DerivativeError: if it is not of floats.
    """
    if not tensor.dtype.is_float:
        raise DerivativeError(
            operation=operation, problem=f"the {what} is {tensor.dtype}, and floats alone have derivatives",
            hint=f"cast it, as in x.cast(float32){otherwise}",
        )  # fmt: skip

"""Operands of matrix functions: tensors of floats with two axes or more."""

from __future__ import annotations

from functools import reduce, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from svod_dtype import DType, UserError, default_float, promote_types
from svod_ir import AxisError, ShapeError, format_shape
from svod_tensor.ops.core.operands import to_tensors
from svod_tensor.ops.core.rounding import accumulation_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = ["check_matrices", "check_square", "names_itself", "read_floats", "round_to"]

P = ParamSpec("P")
R = TypeVar("R")


def names_itself(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function built from other functions: errors of these name it, since it was called."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            error.name_operation(function.__name__)
            raise

    return call


def read_floats(*operands: Operand) -> tuple[list[Tensor], DType]:
    """The operands in the dtype of the computation, and the dtype of the results.

    Integers and bools become float32; narrow floats are computed in float32.
    """
    tensors = to_tensors(*operands)
    kind = reduce(
        promote_types, (x.dtype if x.dtype.is_inexact else default_float() for x in tensors)
    )
    # LAPACK has no routines for floats narrower than float32.
    wide = accumulation_dtype(kind)
    return [x if x.dtype is wide else x.cast(wide) for x in tensors], kind


def round_to(kind: DType, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Results rounded to a dtype. Real results of complex operands, and vice versa, are unchanged."""
    return tuple(
        x.cast(kind) if x.dtype is not kind and x.dtype.is_float and kind.is_float else x
        for x in tensors
    )


def check_matrices(operation: str, x: Tensor) -> None:
    """Check that there are at least two axes.

    Raises:
        AxisError: if there are fewer.
    """
    if x.ndim < 2:
        raise AxisError(operation=operation, axis=-2, ndim=x.ndim)


def check_square(operation: str, x: Tensor) -> None:
    """Check that the last two axes have equal sizes.

    Raises:
        AxisError: if there are fewer than two axes.
        ShapeError: if their sizes differ.
    """
    check_matrices(operation, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            operation=operation,
            shape=x.shape,
            problem=f"last 2 dimensions must be square: {format_shape(x.shape)}",
        )

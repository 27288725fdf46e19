"""Narrow floats in functions composed of several operations: computation in float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from svod_dtype import DType, float32, promote_types
from svod_tensor._origins import wrap
from svod_tensor.ops.core.base import TensorBase

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["accumulation_dtype", "rounds_once"]

P = ParamSpec("P")
R = TypeVar("R")


def accumulation_dtype(dtype: DType) -> DType:
    """Return float32 for narrower float dtypes, else the dtype itself."""
    return float32 if _is_narrow(dtype) else dtype


def rounds_once(
    function: Callable[Concatenate[Tensor, P], R],
) -> Callable[Concatenate[Tensor, P], R]:
    """Decorate a method to compute float16, bfloat16 and float8 operands in float32, and round its
    result to their promoted dtype.

    A formula on narrow floats would round in each of its operations: squares of large float16
    overflow to infinity, and differences cancel to 0. For the same reason, Python numbers are not
    rounded to the narrow dtype."""

    def compute(self: Tensor, *args: P.args, **kwargs: P.kwargs) -> R:
        tensors = [self, *(a for a in (*args, *kwargs.values()) if isinstance(a, TensorBase))]
        # Nearly all calls: nothing else is done.
        if not any(_is_narrow(t.dtype) for t in tensors):
            return function(self, *args, **kwargs)
        kind = reduce(promote_types, (t.dtype for t in tensors))
        wide = [_widen(a) for a in args]
        named = {name: _widen(a) for name, a in kwargs.items()}
        result = function(cast("Tensor", _widen(self)), *wide, **named)  # pyright: ignore[reportCallIssue]
        return cast("R", _narrow(result, kind))

    return wrap(compute, function)


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_float and dtype.itemsize < 4


def _widen(value: object) -> object:
    return (
        cast("Tensor", value).cast(float32)
        if isinstance(value, TensorBase) and _is_narrow(value.dtype)
        else value
    )


def _narrow(result: object, kind: DType) -> object:
    if type(result) is tuple:
        return tuple(_narrow(value, kind) for value in cast("tuple[object, ...]", result))
    return (
        cast("Tensor", result).cast(kind)
        # Indices and bools keep their dtypes.
        if isinstance(result, TensorBase) and result.dtype is float32
        else result
    )

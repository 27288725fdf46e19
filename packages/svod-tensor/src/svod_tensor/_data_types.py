"""Dtypes: limits, promotion, casting rules, and shapes that broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from svod_dtype import (
    DType,
    float64,
    promote_types,
    promote_with_scalar,
    result_type as promote_all,
    to_dtype,
)
from svod_ir import OperandError
from svod_tensor import _shapes
from svod_tensor._shapes import Shape
from svod_tensor.ops.core.operands import is_scalar
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import DTypeLike

__all__ = [
    "FloatInfo",
    "IntegerInfo",
    "broadcast_shapes",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]

Kinds: TypeAlias = "DTypeLike | tuple[DTypeLike | tuple[DTypeLike, ...], ...]"

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}
"""Names of kinds in the array API standard, with svod's kinds."""


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """Limits of a float dtype.

    Attributes:
        bits: number of bits of one element; for a complex dtype, all limits are of its real part.
        eps: difference between 1 and the next larger number.
        max: the largest finite number.
        min: the smallest finite number, `-max`.
        smallest_normal: the smallest positive normal number.
        dtype: the dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.finfo(sv.float16).max
        65504.0"""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """Limits of an integer dtype.

    Attributes:
        bits: number of bits of one element.
        max: the largest integer.
        min: the smallest integer.
        dtype: the dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.iinfo(sv.int8).min
        -128"""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: DTypeLike | Tensor, /) -> FloatInfo:
    """Limits of the float dtype `type`, or of a tensor's dtype: `bits`, `eps`, `max`, `min`,
    `smallest_normal` and `dtype` (see `FloatInfo`). For a complex dtype, the limits of its real
    part.

    Raises:
        OperandError: if it is not a float dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.finfo(sv.float32).eps
        1.1920928955078125e-07
    """
    dtype = _to_dtype(type).part
    if not dtype.exponent_bits:
        raise OperandError(
            operation="finfo", found=dtype, expected="a float dtype", hint="iinfo is for integers"
        )
    # IEEE 754: the smallest normal number has the exponent 1 - bias.
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    top = dtype.finfo_max
    return FloatInfo(dtype.bits, dtype.finfo_eps, top, -top, math.ldexp(1.0, 1 - bias), dtype)


def iinfo(type: DTypeLike | Tensor, /) -> IntegerInfo:
    """Limits of the integer dtype `type`, or of a tensor's dtype: `bits`, `max`, `min` and `dtype`.

    Raises:
        OperandError: if it is not an integer dtype.

    Example:
        >>> import svod_tensor as sv
        >>> sv.iinfo(sv.uint16).max
        65535
    """
    dtype = _to_dtype(type)
    if not dtype.is_int:
        raise OperandError(
            operation="iinfo", found=dtype, expected="an integer dtype", hint="finfo is for floats"
        )
    return IntegerInfo(dtype.bits, int(dtype.max), int(dtype.min), dtype)


def isdtype(dtype: DTypeLike, kind: Kinds) -> bool:
    """Whether `dtype` is of a kind.

    Args:
        dtype: a dtype.
        kind: a dtype; `"bool"`, `"signed integer"`, `"unsigned integer"`, `"integral"`, `"real
            floating"`, `"complex floating"` or `"numeric"`; or a tuple of these alternatives.

    Raises:
        UnknownDTypeError: if `kind` is neither.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isdtype(sv.int8, "integral"), sv.isdtype(sv.int8, (sv.bool, "real floating"))
        (True, False)"""
    resolved = to_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(resolved, alternative) for alternative in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return resolved.kind in _KINDS[kind]
    return resolved is to_dtype(kind)


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike, /) -> bool:
    """Whether every value of the dtype `from_`, or of a tensor's dtype, is a value of the dtype
    `to`. As in numpy, float64 counts as representing all integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.can_cast(sv.int8, sv.int16), sv.can_cast(sv.float64, sv.float32)
        (True, False)
    """
    source, target = _to_dtype(from_), to_dtype(to)
    if promote_types(source, target) is not target:
        return False
    source, target = source.part, target.part
    if source.is_int and not target.is_int:
        # A float represents all integers of one bit more than its mantissa, whose leading bit is
        # implicit.
        return target is float64 or source.bits - source.is_signed <= target.mantissa_bits + 1
    return True


def result_type(*arrays_and_dtypes: Tensor | DTypeLike | complex) -> DType:
    """The dtype of an operation on tensors, dtypes and numbers. Numbers are weakly typed: they only
    change the kind.

    Raises:
        OperandError: without arguments.

    Example:
        >>> import svod_tensor as sv
        >>> sv.result_type(sv.int8, sv.Tensor([1.5]), 3.0)
        float32
    """
    if not arrays_and_dtypes:
        raise OperandError(
            operation="result_type", found="nothing", expected="tensors, dtypes and numbers"
        )
    numbers = [argument for argument in arrays_and_dtypes if is_scalar(argument)]
    dtypes = [_to_dtype(argument) for argument in arrays_and_dtypes if not is_scalar(argument)]
    return (
        reduce(promote_with_scalar, numbers, reduce(promote_types, dtypes))
        if dtypes
        else promote_all(*numbers)
    )


def broadcast_shapes(*shapes: Iterable[int]) -> Shape:
    """The shape that `shapes` broadcast to.

    Raises:
        BroadcastError: if two sizes of one axis differ and neither is 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    return _shapes.broadcast_shapes(*map(tuple, shapes))


def _to_dtype(dtype_or_tensor: DTypeLike | Tensor) -> DType:
    return (
        dtype_or_tensor.dtype if isinstance(dtype_or_tensor, Tensor) else to_dtype(dtype_or_tensor)
    )

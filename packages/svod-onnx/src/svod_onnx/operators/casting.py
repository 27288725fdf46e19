"""Conversions between element types."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx

from svod_onnx._narrow_types import NARROW_FLOATS, NARROW_INTEGERS, round_to_power, wrap_integer
from svod_onnx._registry import Known, RunOnHostError, Value, operator
from svod_onnx._trace import Call, is_opaque, to_tensor
from svod_onnx._types import STRING, find_carrier, find_host_type, get_element_type, get_type_name
from svod_tensor import Tensor

__all__ = ["cast", "cast_by_name", "cast_like", "convert", "reinterpret"]

_T: Final = onnx.TensorProto

_GREATEST: Final[dict[int, float]] = {_T.FLOAT8E4M3FN: 448.0, _T.FLOAT8E5M2: 57344.0}
"""The greatest finite element of the types of eight bits that svod has."""


def convert(x: Tensor, kind: int, *, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """The elements of `x` as those of an ONNX type, in the dtype that carries it.

    Args:
        x: of any dtype.
        kind: the number of the type, which is not that of strings.
        saturate: for types of eight bits and fewer: whether what is too large becomes the greatest element.
        round_mode: for float8e8m0: "up", "down" or "nearest".
    """
    carrier = find_carrier(kind)
    if carrier is None:
        raise ValueError(f"no tensor has elements of type {get_type_name(kind)}")
    if kind in NARROW_INTEGERS:
        return wrap_integer(x, kind)
    if kind in NARROW_FLOATS:
        return NARROW_FLOATS[kind].round(x.cast("float32"), saturate=saturate)
    if kind == _T.FLOAT8E8M0:
        return round_to_power(x.cast("float32"), mode=round_mode, saturate=saturate)
    if kind in _GREATEST and saturate and x.dtype.is_float:
        limit = _GREATEST[kind]
        return x.cast("float32").maximum(-limit).minimum(limit).cast(carrier)
    return x.cast(carrier)


def _write_strings(x: Known, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    del to, saturate, round_mode
    return x.astype(np.str_).astype(object)


@operator("Cast", since=6, host=_write_strings)
def cast(x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    if to == STRING:
        raise RunOnHostError
    return convert(_get_tensor(x), to, saturate=bool(saturate), round_mode=round_mode)


@operator("Cast")
def cast_by_name(x: Tensor, *, to: str) -> Value:
    """Up to version 5 the type has a name."""
    return convert(x, _T.DataType.Value(to))


def _write_strings_like(x: Known, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    del like, saturate, round_mode
    return x.astype(np.str_).astype(object)


@operator("CastLike", host=_write_strings_like)
def cast_like(node: Call, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    if isinstance(like, np.ndarray):
        kind = STRING if is_opaque(like) else get_element_type(like.dtype)
    else:
        kind = node.trace.get_element_type(node.node.inputs[1])
    return cast(x, to=kind, saturate=saturate, round_mode=round_mode)


@operator("BitCast")
def reinterpret(x: Tensor, *, to: int) -> Tensor:
    """The same bits, as elements of a type of as many bits."""
    dtype, carrier = find_host_type(to), find_carrier(to)
    if dtype is None or carrier is None or to in NARROW_INTEGERS or str(carrier) != str(dtype):
        raise ValueError(f"elements of type {get_type_name(to)} have no bits of their own in a tensor")
    bits = x.cast("uint8") if x.dtype.is_bool else x  # one byte of 0 or 1
    return bits.bitcast(carrier)


def _get_tensor(x: Value) -> Tensor:
    if isinstance(x, np.ndarray):
        return to_tensor(x, is_constant=True)
    if not isinstance(x, Tensor):
        raise TypeError("takes a tensor, and got none")
    return x

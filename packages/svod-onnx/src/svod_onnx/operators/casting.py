"""Conversions between element types."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx

from svod_onnx._narrow_types import NARROW_FLOATS, NARROW_INTEGERS, round_to_power, wrap_integer
from svod_onnx._registry import RunOnHostError, Value, operator
from svod_onnx._trace import Call
from svod_onnx._types import (
    HOST_TYPES,
    STRING,
    find_carrier,
    find_host_type,
    get_element_type,
    get_type_name,
)
from svod_onnx._values import is_opaque, to_tensor
from svod_tensor import Tensor

__all__ = ["bit_cast", "cast", "cast_like", "cast_since_1", "convert"]

_T: Final = onnx.TensorProto

_GREATEST: Final[dict[int, float]] = {_T.FLOAT8E4M3FN: 448.0, _T.FLOAT8E5M2: 57344.0}
"""The greatest finite element of the types of eight bits that svod has."""


def convert(x: Tensor, kind: int, *, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """The elements of `x` as those of an ONNX type, in the dtype that carries it.

    Args:
        x: of any dtype.
        kind: the number of the type, which is not that of strings.
        saturate: for types of eight bits and fewer: whether what is too large becomes the greatest
            element.
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


def _cast_on_host(
    node: Call, input: Value, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> Value:
    """To strings or from them: numbers as numpy writes and Python reads them."""
    array = _read(node, input)
    if to == STRING:
        return array.astype(np.str_).astype(object)
    return convert(
        to_tensor(_read_numbers(array, to)), to, saturate=bool(saturate), round_mode=round_mode
    )


def _read_numbers(texts: np.ndarray, kind: int) -> np.ndarray:
    """The numbers that strings stand for, in the widest type of those that a conversion to `kind`
    begins with.
    """
    values = [text.decode() if isinstance(text, bytes) else str(text) for text in texts.flat]
    carrier = find_carrier(kind)
    if carrier is None or carrier.is_inexact or not all(map(_is_integer, values)):
        return np.array([float(value) for value in values], dtype=np.float64).reshape(texts.shape)
    wide = np.uint64 if kind == _T.UINT64 else np.int64
    return np.array([int(value) for value in values], dtype=wide).reshape(texts.shape)


def _is_integer(text: str) -> bool:
    return text.strip().lstrip("+-").isdigit()


@operator("Cast", since=6, host=_cast_on_host)
def cast(node: Call, input: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    if to == STRING or is_opaque(input):
        raise RunOnHostError
    node.set_element_type(to)
    (tensor,) = node.tensors(input)
    return convert(tensor, to, saturate=bool(saturate), round_mode=round_mode)


def _cast_since_1_on_host(node: Call, input: Value, *, to: str) -> Value:
    return _cast_on_host(node, input, to=_T.DataType.Value(to))


@operator("Cast", host=_cast_since_1_on_host)
def cast_since_1(node: Call, input: Value, *, to: str) -> Value:
    """Up to version 5 the type has a name."""
    return cast(node, input, to=_T.DataType.Value(to))


def _get_kind_like(node: Call, like: Value) -> int:
    if isinstance(like, np.ndarray):
        return STRING if is_opaque(like) else get_element_type(like.dtype)
    return node.trace.get_element_type(node.node.inputs[1])


def _cast_like_on_host(
    node: Call, input: Value, target_type: Value, *, saturate: int = 1, round_mode: str = "up"
) -> Value:
    return _cast_on_host(
        node, input, to=_get_kind_like(node, target_type), saturate=saturate, round_mode=round_mode
    )


@operator("CastLike", host=_cast_like_on_host)
def cast_like(
    node: Call, input: Value, target_type: Value, *, saturate: int = 1, round_mode: str = "up"
) -> Value:
    return cast(
        node, input, to=_get_kind_like(node, target_type), saturate=saturate, round_mode=round_mode
    )


def _bit_cast_on_host(node: Call, input: Value, *, to: int) -> Value:
    """The bits of types that svod has no dtype for, of which a tensor has not the bits but the
    numbers.
    """
    array, wanted = _read(node, input), find_host_type(to)
    if wanted is None or array.dtype.itemsize != wanted.itemsize:
        raise node.refuse(
            f"reads elements of type {array.dtype} as {get_type_name(to)}, which have not as many"
            " bits"
        )
    return np.ascontiguousarray(array).view(wanted).reshape(array.shape)


@operator("BitCast", host=_bit_cast_on_host)
def bit_cast(node: Call, input: Value, *, to: int) -> Tensor:
    """The same bits, as elements of a type of as many bits."""
    kind = (
        get_element_type(input.dtype)
        if isinstance(input, np.ndarray)
        else node.trace.get_element_type(node.node.inputs[0])
    )
    carrier = find_carrier(to)
    if carrier is None or kind == STRING:
        raise node.refuse("reads strings as numbers, or numbers as strings")
    if kind in HOST_TYPES or to in HOST_TYPES:
        raise RunOnHostError
    (tensor,) = node.tensors(input)
    if tensor.dtype.itemsize != carrier.itemsize:
        raise node.refuse(
            f"reads elements of type {tensor.dtype} as {carrier}, which have not as many bits"
        )
    bits = tensor.cast("uint8") if tensor.dtype.is_bool else tensor  # one byte of 0 or 1
    return bits.bitcast("uint8").ne(0) if carrier.is_bool else bits.bitcast(carrier)


def _read(node: Call, x: Value) -> np.ndarray:
    """The elements of an operand, in numpy's dtype of its ONNX type."""
    if isinstance(x, np.ndarray):
        return x
    (tensor,) = node.tensors(x)
    wanted = find_host_type(node.trace.get_element_type(node.node.inputs[0]))
    array = tensor.numpy()
    return array if wanted is None else array.astype(wanted, copy=False)

"""Conversion between element types."""

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

_MAX_FINITE: Final[dict[int, float]] = {_T.FLOAT8E4M3FN: 448.0, _T.FLOAT8E5M2: 57344.0}
"""Largest finite element of svod's eight-bit float types."""


def convert(
    x: Tensor, element_type: int, *, saturate: bool = True, round_mode: str = "up"
) -> Tensor:
    """Convert `x` to an element type, in the dtype that carries it.

    Args:
        x: tensor of any dtype.
        element_type: any element type except strings.
        saturate: whether conversion to a type of at most eight bits clamps to the largest element.
        round_mode: "up", "down" or "nearest", for float8e8m0.
    """
    carrier = find_carrier(element_type)
    if carrier is None:
        raise ValueError(f"cannot convert to element type {get_type_name(element_type)}")
    # Integers wrap, as numpy's casts do; `saturate` is defined for floats only.
    if element_type in NARROW_INTEGERS:
        return wrap_integer(x, element_type)
    if element_type in NARROW_FLOATS:
        return NARROW_FLOATS[element_type].round(x.cast("float32"), saturate=saturate)
    if element_type == _T.FLOAT8E8M0:
        return round_to_power(x.cast("float32"), mode=round_mode, saturate=saturate)
    if element_type in _MAX_FINITE and saturate and x.dtype.is_float:
        # The cast itself would overflow to NaN or infinity.
        limit = _MAX_FINITE[element_type]
        return x.cast("float32").maximum(-limit).minimum(limit).cast(carrier)
    return x.cast(carrier)


def _cast_on_host(
    node: Call, input: Value, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> Value:
    """Cast to or from strings, in the formats of numpy and Python."""
    array = _read(node, input)
    if to == STRING:
        return array.astype(np.str_).astype(object)
    return convert(
        to_tensor(_read_numbers(array, to)), to, saturate=bool(saturate), round_mode=round_mode
    )


def _read_numbers(texts: np.ndarray, element_type: int) -> np.ndarray:
    """Parse strings to numbers of a wide dtype, from which a conversion to `element_type`
    is exact.
    """
    values = [text.decode() if isinstance(text, bytes) else str(text) for text in texts.flat]
    carrier = find_carrier(element_type)
    if carrier is None or carrier.is_inexact or not all(map(_is_integer, values)):
        return np.array([float(value) for value in values], dtype=np.float64).reshape(texts.shape)
    # Through float64, integers above 2^53 would be rounded.
    wide = np.uint64 if element_type == _T.UINT64 else np.int64
    return np.array([int(value) for value in values], dtype=wide).reshape(texts.shape)


def _is_integer(text: str) -> bool:
    return text.strip().lstrip("+-").isdigit()


@operator("Cast", since=6, host=_cast_on_host)
def cast(node: Call, input: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Convert to the element type `to`."""
    if to == STRING or is_opaque(input):
        raise RunOnHostError
    # The carrier's dtype alone does not tell int4 from int8.
    node.set_element_type(to)
    (tensor,) = node.tensors(input)
    return convert(tensor, to, saturate=bool(saturate), round_mode=round_mode)


def _cast_since_1_on_host(node: Call, input: Value, *, to: str) -> Value:
    return _cast_on_host(node, input, to=_T.DataType.Value(to))


@operator("Cast", host=_cast_since_1_on_host)
def cast_since_1(node: Call, input: Value, *, to: str) -> Value:
    """Cast up to version 5, where `to` is the name of the element type."""
    return cast(node, input, to=_T.DataType.Value(to))


def _get_target_type(node: Call, like: Value) -> int:
    if isinstance(like, np.ndarray):
        return STRING if is_opaque(like) else get_element_type(like.dtype)
    return node.trace.get_element_type(node.node.inputs[1])


def _cast_like_on_host(
    node: Call, input: Value, target_type: Value, *, saturate: int = 1, round_mode: str = "up"
) -> Value:
    return _cast_on_host(
        node,
        input,
        to=_get_target_type(node, target_type),
        saturate=saturate,
        round_mode=round_mode,
    )


@operator("CastLike", host=_cast_like_on_host)
def cast_like(
    node: Call, input: Value, target_type: Value, *, saturate: int = 1, round_mode: str = "up"
) -> Value:
    """Convert to the element type of `target_type`."""
    return cast(
        node,
        input,
        to=_get_target_type(node, target_type),
        saturate=saturate,
        round_mode=round_mode,
    )


def _bit_cast_on_host(node: Call, input: Value, *, to: int) -> Value:
    """Reinterpret the bits of narrow types, which a tensor carries as values of a wider dtype."""
    array, target = _read(node, input), find_host_type(to)
    if target is None or array.dtype.itemsize != target.itemsize:
        raise node.refuse(
            f"cannot reinterpret {array.dtype} as {get_type_name(to)}: the element sizes differ"
        )
    return np.ascontiguousarray(array).view(target).reshape(array.shape)


@operator("BitCast", host=_bit_cast_on_host)
def bit_cast(node: Call, input: Value, *, to: int) -> Tensor:
    """Reinterpret the bits as elements of a type of the same size."""
    element_type = (
        get_element_type(input.dtype)
        if isinstance(input, np.ndarray)
        else node.trace.get_element_type(node.node.inputs[0])
    )
    carrier = find_carrier(to)
    if carrier is None or element_type == STRING:
        raise node.refuse("cannot reinterpret the bits of strings")
    if element_type in HOST_TYPES or to in HOST_TYPES:
        raise RunOnHostError
    (tensor,) = node.tensors(input)
    if tensor.dtype.itemsize != carrier.itemsize:
        raise node.refuse(
            f"cannot reinterpret {tensor.dtype} as {carrier}: the element sizes differ"
        )
    bits = (
        tensor.cast("uint8") if tensor.dtype.is_bool else tensor
    )  # a bool is a byte of 0 or 1 in ONNX
    return bits.bitcast("uint8").ne(0) if carrier.is_bool else bits.bitcast(carrier)


def _read(node: Call, x: Value) -> np.ndarray:
    """Elements of an operand in the numpy dtype of its element type."""
    if isinstance(x, np.ndarray):
        return x
    (tensor,) = node.tensors(x)
    dtype = find_host_type(node.trace.get_element_type(node.node.inputs[0]))
    array = tensor.numpy()
    return array if dtype is None else array.astype(dtype, copy=False)

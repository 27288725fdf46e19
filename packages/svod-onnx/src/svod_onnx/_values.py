"""Classification of values: strings and maps stay on the host, large arrays become tensors."""

from __future__ import annotations

from typing import cast

import numpy as np

from svod_onnx._folding import FOLDED_SIZE
from svod_onnx._registry import Value
from svod_onnx._types import HOST_TYPES, find_carrier, get_element_type
from svod_tensor import Tensor, asarray

__all__ = ["is_large", "is_opaque", "is_selector", "to_host_type", "to_tensor"]


def is_large(value: Value) -> bool:
    """True for a numeric array that kernels compute with, and not the host."""
    return isinstance(value, np.ndarray) and value.size > FOLDED_SIZE and not is_opaque(value)


def is_opaque(value: Value) -> bool:
    """True for strings and maps, and sequences of them, which only the host computes with."""
    if isinstance(value, list):
        return any(map(is_opaque, cast("list[Value]", value)))
    return isinstance(value, dict) or (isinstance(value, np.ndarray) and value.dtype.kind in "OUST")


def is_selector(value: Value) -> bool:
    """True for a tensor of a single integer, which is most likely a size or an option, with few distinct
    values: a program may be captured for each of them.
    """
    return (
        isinstance(value, Tensor)
        and value.size == 1
        and not (value.dtype.is_float or value.dtype.is_complex)
    )


def to_tensor(value: np.ndarray, device: str | None = None, *, is_constant: bool = False) -> Tensor:
    """Tensor that carries the elements of an array.

    Args:
        value: elements of any ONNX type except strings, in any byte order.
        device: device of the tensor.
        is_constant: whether the array is part of the program, where a single element becomes a
            constant of the graph.
    """
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    carrier = find_carrier(get_element_type(value.dtype))
    if value.dtype in HOST_TYPES.values():
        value = value.astype(np.dtype(str(carrier)))
    # A constant of the graph folds into kernels; a buffer would cost a load.
    if is_constant and value.size == 1:
        return Tensor.full(value.shape, value.item(), dtype=carrier, device=device)
    return asarray(value, dtype=carrier, device=device)


def to_host_type(value: Value, element_type: int) -> Value:
    """`value` as an array of the dtype of its element type, if svod has no such dtype.

    Tensors of any other element type, and strings, stay. The elements of a sequence are converted
    one by one.
    """
    dtype = HOST_TYPES.get(element_type)
    if dtype is None or value is None:
        return value
    if isinstance(value, list):
        return [to_host_type(item, element_type) for item in cast("list[Value]", value)]
    array = value.numpy() if isinstance(value, Tensor) else cast("np.ndarray", value)
    return array.astype(dtype, copy=False)

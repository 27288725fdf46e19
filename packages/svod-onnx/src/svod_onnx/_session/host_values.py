"""Outputs as values on the host that the caller owns: arrays, and lists of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final, cast

import numpy as np

from svod_onnx._types import find_host_type
from svod_onnx.capi.onnxruntime_pybind11_state import (
    NotImplemented as UnsupportedError,
    RuntimeException,
)
from svod_tensor import Tensor

__all__ = ["check_device", "to_host_value", "to_host_values", "to_numpy_dtype", "view_memory"]

_SMALL_SIZE: Final = 1 << 14
"""Number of elements up to which a copy is faster than an array that shares memory."""

_DEVICE_TYPES: Final = ("cpu", "cuda", "cann", "dml", "webgpu", "gpu", "npu")


def to_host_values(values: Iterable[Any]) -> list[Any]:
    """Outputs as arrays of memory of their own, and lists of these."""
    results = list(map(to_host_value, values))
    if len(results) > 1:
        _separate(results)
    return results


def to_host_value(value: Any) -> Any:
    """An output as a writable, contiguous array. A large one shares the memory of its tensor."""
    if type(value) is Tensor:
        # Not `size`, which builds a graph node.
        if prod(value.shape) <= _SMALL_SIZE:  # pyright: ignore[reportArgumentType]
            return value.numpy(copy=True)
        # Read-only if a weight or an input has this memory.
        array = np.asarray(value)
        return (
            array if array.flags.writeable and array.flags.c_contiguous else array.copy(order="C")
        )
    if isinstance(value, list):
        return to_host_values(cast("list[Any]", value))
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray", value)
        # Strings and narrow types, which may be an input or a weight.
        return np.array(array, object if array.dtype.kind in "OUST" else array.dtype)
    return value


def _separate(results: list[Any]) -> None:
    """Copy each large array that shares the memory of an earlier output."""
    large: list[np.ndarray] = []
    for i, value in enumerate(results):
        if type(value) is np.ndarray and value.size > _SMALL_SIZE:
            if any(np.may_share_memory(value, earlier) for earlier in large):
                results[i] = value.copy()
            else:
                large.append(value)


def to_numpy_dtype(element_type: Any) -> np.dtype:
    """numpy dtype of an ONNX element type, or of anything that numpy takes as a dtype."""
    if isinstance(element_type, int):
        dtype = find_host_type(element_type)
        if dtype is None:
            raise RuntimeException(f"element type {element_type} has no numpy dtype")
        return dtype
    return np.dtype(element_type)


def view_memory(element_type: Any, shape: Sequence[int], address: int) -> np.ndarray:
    """Array over memory of the caller, who keeps it alive."""
    dtype = to_numpy_dtype(element_type)
    n_elements = prod(shape)
    if not n_elements:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (n_elements * dtype.itemsize)).from_address(address)
    return np.ndarray(tuple(shape), dtype, cast("Any", memory))


def check_device(device_type: str, device_id: int = 0) -> None:
    """Raise an error for values outside of host memory, which only tensors can hold."""
    name = device_type.lower()
    if name not in _DEVICE_TYPES:
        raise ValueError(f"Unsupported device type: {device_type}")
    if name != "cpu":
        raise UnsupportedError(
            f"cannot use memory of {device_type}:{device_id}: values of a session are in host memory",
            hint='`svod_onnx.load(path, device="...")` takes and returns tensors on a device',
        )

"""Values of graphs as keys of stages: shapes and dtypes of what a stage reads, and elements of what it
is captured for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from svod_onnx._registry import Value
from svod_onnx._values import is_opaque, to_tensor
from svod_tensor import Tensor

__all__ = ["get_key", "get_signature", "read_value", "to_live"]


def to_live(value: Value) -> Value:
    """A value as calls pass it between stages: numeric arrays are tensors."""
    if isinstance(value, list):
        return [to_live(item) for item in cast("list[Value]", value)]
    return to_tensor(value) if isinstance(value, np.ndarray) and not is_opaque(value) else value


def read_value(value: Value) -> Value:
    """A value on the host."""
    return value.numpy() if isinstance(value, Tensor) else value


def get_key(value: Value) -> object:
    """Hashable identity of the elements of a value on the host."""
    if isinstance(value, np.ndarray):
        return (
            value.shape,
            value.dtype.str,
            value.tobytes() if value.dtype.kind != "O" else tuple(value.flat),
        )
    return tuple(map(get_key, map(read_value, value))) if isinstance(value, list) else value


def get_signature(live: Mapping[str, Value]) -> object:
    """Hashable names, shapes and dtypes of values."""
    return tuple((name, _get_value_spec(value)) for name, value in live.items())


def _get_value_spec(value: Value) -> object:
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    # Strings are not captured, so only their presence matters.
    return tuple(map(_get_value_spec, value)) if isinstance(value, list) else value is None

"""Widening of floats that are narrower than float32."""

from __future__ import annotations

from svod_tensor import Tensor, float32

__all__ = ["widen"]


def widen(value: object) -> object:
    """Cast a tensor of narrow floats to float32; return any other value as it is."""
    if isinstance(value, Tensor) and value.dtype.is_float and value.dtype.itemsize < 4:
        return value.cast(float32)
    return value

"""OpenCL C types of values: scalars, built-in vectors, and structs of vectors for other lane
counts.

A bool is `bool` as a scalar and `uchar` in memory. A vector of bools is a vector of `char` that
holds -1 for true, as comparisons return it and `select` expects it. Floats that the device
only stores are unsigned integers of the same size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from svod_dtype import DType, float16, float32, float64
from svod_ir import Target

__all__ = ["constant", "memory_name", "scalar_name", "split_lanes", "vector_name"]

_NATIVE_LANES: Final = (16, 8, 4, 3, 2, 1)
_INTEGERS: Final = {8: "char", 16: "short", 32: "int", 64: "long"}


def scalar_name(dtype: DType, target: Target) -> str:
    """Type of one element as a value."""
    scalar = dtype.scalar
    if scalar is float32:
        return "float"
    if scalar is float64 and float64 in target.native_dtypes:
        return "double"
    # Without the extension a half cannot be computed with: it is stored as an integer of its bits.
    if scalar is float16 and float16 in target.native_dtypes:
        return "half"
    if scalar.is_bool:
        return "bool"
    is_unsigned = scalar.is_float or scalar.is_unsigned
    return ("u" if is_unsigned else "") + _INTEGERS[8 * scalar.itemsize]


def memory_name(dtype: DType, target: Target) -> str:
    """Type of one element in memory. Kernels take no pointers to `bool`."""
    # Its size is up to the implementation.
    return "uchar" if dtype.is_bool else scalar_name(dtype, target)


def vector_name(dtype: DType, lanes: int, target: Target) -> str:
    """Built-in vector type of `lanes` lanes. One lane is a scalar, and a `char` for bools."""
    # There are no vectors of bool. Comparisons of vectors have signed results, with -1 for true.
    name = "char" if dtype.is_bool else scalar_name(dtype, target)
    return name if lanes == 1 else f"{name}{lanes}"


def split_lanes(lanes: int, most: int = 16) -> Sequence[int]:
    """Split a vector into built-in vectors of at most `most` lanes: 40 is 16, 16 and 8."""
    sizes: list[int] = []
    # The largest first: a part costs an instruction for each operation.
    for size in (n for n in _NATIVE_LANES if n <= most):
        n_vectors, lanes = divmod(lanes, size)
        sizes += [size] * n_vectors
    return sizes


def constant(dtype: DType, value: bool | int | float) -> str:
    """Exact text of a scalar constant."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_float:
        return _float_constant(dtype, float(value))
    suffix = ("u" if dtype.is_unsigned else "") + ("L" if dtype.itemsize == 8 else "")
    integer = int(value)
    if integer < 0 and integer == dtype.min and dtype.itemsize >= 4:
        # The magnitude of the smallest integer overflows the type.
        return f"(-{-(integer + 1)}{suffix} - 1)"
    return f"({integer}{suffix})" if integer < 0 else f"{integer}{suffix}"


def _float_constant(dtype: DType, value: float) -> str:
    cast = {float64: "(double)", float16: "(half)"}.get(dtype, "")
    if math.isnan(value):
        text = f"{cast}{'-' if math.copysign(1.0, value) < 0 else ''}NAN"
    elif math.isinf(value):
        text = f"{cast}{'-' if value < 0 else ''}INFINITY"
    elif dtype is float64:
        # Hexadecimal, which is exact without a driver's conversion of decimal digits.
        text = value.hex()
    else:
        text = f"{cast}{value.hex()}f"
    # In parentheses: "x - -1.0f" is valid, but "x--1.0f" is not.
    return f"({text})" if text[0] in "-(" else text

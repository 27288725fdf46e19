"""Syntax of types and constants in LLVM assembly.

bfloat16 and float8 are integers of their width here: they are stored, selected and moved, but
arithmetic on them has been lowered. A bool is an `i1` in a register and an `i8` in memory.
"""

from __future__ import annotations

import math
import struct
from functools import cache

from svod_codegen._float_bits import storage_bits
from svod_dtype import DType, bfloat16, float8_e4m3, float8_e5m2, float16, float32, float64, uint8

__all__ = [
    "constant_text",
    "is_storage_only",
    "mask_text",
    "memory_type",
    "suffix_text",
    "type_text",
    "vector_constant_text",
]

# LLVM has bfloat arithmetic, which it lowers to calls of functions that few processes have.
_STORAGE_ONLY = frozenset({bfloat16, float8_e4m3, float8_e5m2})
_FLOATS = {float16: ("half", "f16"), float32: ("float", "f32"), float64: ("double", "f64")}


def is_storage_only(dtype: DType) -> bool:
    """Whether `dtype` is a float dtype that is represented by its bits."""
    return dtype.scalar in _STORAGE_ONLY


@cache
def type_text(dtype: DType) -> str:
    """Return the type of a value of `dtype` in a register: `float`, `i1`, `<8 x half>`."""
    if dtype.lanes > 1:
        return f"<{dtype.lanes} x {type_text(dtype.scalar)}>"
    names = _FLOATS.get(dtype)
    return names[0] if names is not None else f"i{dtype.bits}"


@cache
def memory_type(dtype: DType) -> str:
    """Return the type of a value of `dtype` in memory: as in a register, except that a bool is a
    byte.
    """
    return type_text(uint8.vec(dtype.lanes)) if dtype.is_bool else type_text(dtype)


@cache
def suffix_text(dtype: DType) -> str:
    """Return the type suffix of an intrinsic's name: `f32`, `v8i16`."""
    names = _FLOATS.get(dtype.scalar)
    scalar = names[1] if names is not None else f"i{dtype.bits}"
    return scalar if dtype.lanes == 1 else f"v{dtype.lanes}{scalar}"


def constant_text(dtype: DType, value: bool | int | float) -> str:
    """Format a scalar constant exactly: floats are written as their bits."""
    kind = dtype.kind
    if kind == "bool":
        return "true" if value else "false"
    if kind != "float":
        return str(int(value))
    if dtype is float16:
        return f"0xH{storage_bits(float(value), dtype):04X}"
    if dtype in _STORAGE_ONLY:
        return str(storage_bits(float(value), dtype))
    if value != value:
        # NaN constants are quiet, without a payload, and keep their sign.
        value = math.copysign(math.nan, value)
    # A float is written as the double of the same value.
    return "0x" + struct.pack(">d", value).hex().upper()


def vector_constant_text(dtype: DType, values: tuple[bool | int | float, ...]) -> str:
    """Format a vector constant with lanes `values`."""
    scalar = dtype.scalar
    element = type_text(scalar)
    # A fast path for splats; by identity, since equal numbers may be different constants (0.0, -0.0).
    first = values[0]
    if all(v is first for v in values):
        return f"splat ({element} {constant_text(scalar, first)})"
    lanes = [constant_text(scalar, v) for v in values]
    if all(lane == lanes[0] for lane in lanes):
        return f"splat ({element} {lanes[0]})"
    return "<" + ", ".join(f"{element} {lane}" for lane in lanes) + ">"


def mask_text(lanes: tuple[int, ...] | list[int] | range) -> str:
    """Format a shuffle mask with its type; -1 is an unused lane."""
    return (
        f"<{len(lanes)} x i32> <"
        + ", ".join("i32 poison" if n < 0 else f"i32 {n}" for n in lanes)
        + ">"
    )

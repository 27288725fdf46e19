"""Operation of random programs: its line of Python, its NumPy reference and its generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from svod_dtype import promote_types, to_dtype
from svod_testing.programs.program import Argument

__all__ = ["Drawable", "Drawn", "Rounding", "common", "float_of", "is_float", "sum_of"]

Drawn: TypeAlias = "tuple[Sequence[int], dict[str, Argument]]"
"""Operands, and the arguments by name."""

Rounding: TypeAlias = Literal["never", "rarely", "always", "absolutely"]


@dataclass(frozen=True, slots=True)
class Drawable:
    """An operation of the grammar.

    Attributes:
        name: key in the table.
        code: expression, or lines that assign `{result}`; `{0}`, `{1}` are the operands, `{all}`
            all of them, and other names are arguments.
        meaning: NumPy reference: a function of arrays and the arguments that returns an array or a
            tuple of arrays. Floats are float64.
        dtype: function of the operands' dtypes and the arguments that returns the name of the
            result's dtype, or a tuple of names.
        draw: function that picks operands and arguments.
        rounding: rounding of floats: "never" (elements only move), "rarely" (if the exact result
            has too many bits), "always", or "absolutely" (relative to numbers near 1 that cancel).
        compares: True if the result depends on comparisons of operands.
        orders: True if the result depends on the order of elements, or on which are zero.
        converts: True if the operands are first promoted to a common dtype.
        gives_tuple: True if the result is a tuple.
        realizes: True if it computes immediately, which a captured function must not, and writes
            to memory, which a plan repeats at each execution.
        weight: sampling weight.
    """

    name: str
    code: str
    meaning: Callable[..., Any]
    dtype: Callable[..., Any]
    draw: Callable[..., Drawn]
    rounding: Rounding = "never"
    compares: bool = False
    orders: bool = False
    converts: bool = False
    gives_tuple: bool = False
    realizes: bool = False
    weight: float = 1.0


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def common(*dtypes: str) -> str:
    """Return the dtype to which dtypes promote."""
    result = to_dtype(dtypes[0])
    for dtype in dtypes[1:]:
        result = promote_types(result, to_dtype(dtype))
    return result.name


def float_of(dtype: str) -> str:
    """Return the result dtype of functions of real numbers."""
    return dtype if is_float(dtype) else "float32"


def sum_of(dtype: str) -> str:
    """Return the result dtype of sums."""
    if is_float(dtype):
        return dtype
    if dtype in ("int64", "uint64"):
        return dtype
    return "uint32" if dtype.startswith("uint") else "int32"

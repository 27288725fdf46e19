"""What an operation of random programs is: its line of Python, its meaning in numpy, and how it is
drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from svod_dtype import promote_types, to_dtype
from svod_testing.programs.program import Argument

__all__ = ["Drawable", "Drawn", "Rounding", "common", "float_of", "is_float", "sum_of"]

Drawn: TypeAlias = "tuple[Sequence[int], dict[str, Argument]]"
"""Operands and the other arguments."""

Rounding: TypeAlias = Literal["never", "rarely", "always", "absolutely"]


@dataclass(frozen=True, slots=True)
class Drawable:
    """An operation of the grammar.

    Attributes:
        name: in the table.
        code: an expression, or lines that assign `{result}`: `{0}`, `{1}` are the operands, `{all}`
            all of them, other names arguments.
        meaning: takes arrays and the arguments, gives an array or a tuple of them. Floats come and
            go as float64.
        dtype: the name of the result's dtype from those of the operands, and the arguments; of each
            result in a tuple.
        draw: picks operands and arguments.
        rounding: whether floats are rounded: `never` (they only move), `rarely` (where the exact
            result has too many bits), `always`, or `absolutely`: those of numbers near 1 that
            cancel.
        compares: whether it asks which operand is larger, or whether they are equal.
        orders: whether it asks which elements are larger, or which are zero.
        converts: whether the operands are converted to the dtype that they promote to before.
        gives_tuple: whether the result is a tuple.
        realizes: whether it computes at once, which a captured function does not, and writes to
            memory, which a plan does again when it is executed again.
        weight: how often it is drawn.
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
    """What dtypes promote to."""
    result = to_dtype(dtypes[0])
    for other in dtypes[1:]:
        result = promote_types(result, to_dtype(other))
    return result.name


def float_of(dtype: str) -> str:
    """The dtype of functions of real numbers."""
    return dtype if is_float(dtype) else "float32"


def sum_of(dtype: str) -> str:
    """The dtype of sums."""
    if is_float(dtype):
        return dtype
    if dtype in ("int64", "uint64"):
        return dtype
    return "uint32" if dtype.startswith("uint") else "int32"

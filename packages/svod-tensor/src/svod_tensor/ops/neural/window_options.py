"""Options of sliding windows: normalization of kernel size, stride, dilation and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

from svod_ir import OperandError

__all__ = ["Numbers", "Padding", "Pads", "WindowOptions", "check_pads", "expand_option"]

Numbers: TypeAlias = int | Sequence[int]
"""One integer for all axes, or one per axis."""

Padding: TypeAlias = int | Sequence[int | tuple[int, int]]
"""One integer for both sides of all axes, or per axis an integer or a pair (before, after)."""

Pads: TypeAlias = tuple[tuple[int, int], ...]
"""Padding (before, after) of each axis."""


class WindowOptions(NamedTuple):
    """Kernel size, stride, padding and dilation of windows over the last axes."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: Pads
    dilation: tuple[int, ...]


def expand_option(operation: str, name: str, value: Numbers, n: int) -> tuple[int, ...]:
    """Expand an option to one integer for each of `n` axes.

    Raises:
        OperandError: if the number of values is not `n`, or a value is too small.
    """
    values = (value,) * n if isinstance(value, int) else tuple(value)
    minimum = 0 if name.endswith("padding") else 1
    if len(values) != n or any(v < minimum for v in values):
        raise OperandError(
            operation=operation, found=values, expected=f"{n} integers >= {minimum} as {name}"
        )
    return values


def check_pads(operation: str, padding: Padding, n: int) -> Pads:
    """Expand padding to a pair for each of `n` axes.

    Raises:
        OperandError: if the number of values is not `n`, or a value is negative.
    """
    values = (padding,) * n if isinstance(padding, int) else tuple(padding)
    if all(isinstance(v, int) for v in values):
        return tuple(
            (v, v) for v in expand_option(operation, "padding", cast("Sequence[int]", values), n)
        )
    pairs = tuple((v, v) if isinstance(v, int) else tuple(v) for v in values)
    if len(pairs) != n or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise OperandError(
            operation=operation,
            found=values,
            expected=f"{n} non-negative integers or pairs of them as padding",
        )
    return pairs  # pyright: ignore[reportReturnType]

"""How windows lie, as callers say it: numbers for all axes or for each, and padding with
two sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

from svod_ir import OperandError

__all__ = ["Numbers", "Padding", "Pads", "WindowPlaces", "check_pads", "spread_number"]

Numbers: TypeAlias = int | Sequence[int]
"""One number for all axes, or one for each."""

Padding: TypeAlias = int | Sequence[int | tuple[int, int]]
"""One number for both sides of all axes, or for each axis one or a pair: before and after it."""

Pads: TypeAlias = tuple[tuple[int, int], ...]
"""How much is added before and after each axis."""


class WindowPlaces(NamedTuple):
    """How windows lie: for each of the last axes their size, how far they move, what is added
    before and after, and how far apart the elements of a window are."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: Pads
    dilation: tuple[int, ...]


def spread_number(name: str, value: Numbers, n: int) -> tuple[int, ...]:
    """One number for each of `n` axes.

    Raises:
        OperandError: if there are not as many, or one is less than an option of this name can be.
    """
    values = (value,) * n if isinstance(value, int) else tuple(value)
    least = 0 if name.endswith("padding") else 1
    if len(values) != n or any(v < least for v in values):
        raise OperandError(
            operation="windows", found=values, expected=f"{n} numbers of at least {least} as {name}"
        )
    return values


def check_pads(padding: Padding, n: int) -> Pads:
    """A pair for each of `n` axes.

    Raises:
        OperandError: if there are not as many, or one is negative.
    """
    values = (padding,) * n if isinstance(padding, int) else tuple(padding)
    if all(isinstance(v, int) for v in values):
        return tuple((v, v) for v in spread_number("padding", cast("Sequence[int]", values), n))
    pairs = tuple((v, v) if isinstance(v, int) else tuple(v) for v in values)
    if len(pairs) != n or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise OperandError(
            operation="windows",
            found=values,
            expected=f"{n} numbers of at least 0, or pairs of them, as padding",
        )
    return pairs  # pyright: ignore[reportReturnType]

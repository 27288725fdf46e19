"""Arguments that are one number for all spatial axes, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from svod_nn.errors import LayerArgumentError

__all__ = ["Sizes", "check_axes", "to_sizes"]

Sizes: TypeAlias = int | Sequence[int]
"""A number for all axes, or one for each."""


def to_sizes(name: str, argument: str, value: Sizes, n_axes: int, least: int = 1) -> tuple[int, ...]:
    """One number for each axis.

    Raises:
        LayerArgumentError: if there are more or less, or one is less than `least`.
    """
    sizes = (value,) * n_axes if isinstance(value, int) else tuple(value)
    if len(sizes) != n_axes or any(size < least for size in sizes):
        raise LayerArgumentError(name=name, problem=f"{argument}={value!r} is not {n_axes} numbers of at least {least}")
    return sizes


def check_axes(name: str, shape: tuple[object, ...], allowed: Sequence[int]) -> None:
    """Check that a tensor has one of these numbers of axes.

    Raises:
        LayerArgumentError: if it has another one.
    """
    if len(shape) not in allowed:
        wanted = " or ".join(str(n) for n in allowed)
        raise LayerArgumentError(name=name, problem=f"a tensor of shape {shape} has not {wanted} axes")

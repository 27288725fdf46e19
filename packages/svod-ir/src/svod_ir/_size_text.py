"""Sizes and shapes as text; `svod_ir.sizes` registers the format of symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

__all__ = ["format_shape", "format_size"]


@singledispatch
def format_size(size: object) -> str:
    """Format a size as a Python expression of its variables; anything else with `str`."""
    return str(size)


def format_shape(shape: Sequence[object]) -> str:
    """Format a shape, with `format_size` for each size."""
    return f"({', '.join(map(format_size, shape))}{',' if len(shape) == 1 else ''})"

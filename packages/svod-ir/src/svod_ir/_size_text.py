"""Sizes and shapes as text; `svod_ir.sizes` says how a size that is a node is written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

__all__ = ["format_shape", "format_size"]


@singledispatch
def format_size(size: object) -> str:
    """A size as it is written in Python, with the names of its variables; anything else as `str`
    shows it.
    """
    return str(size)


def format_shape(shape: Sequence[object]) -> str:
    """A shape, with `format_size` for each size."""
    return f"({', '.join(map(format_size, shape))}{',' if len(shape) == 1 else ''})"

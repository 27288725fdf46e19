"""The modules of operations, in the order of `docs/operations.md`."""

from __future__ import annotations

from typing import Final

from svod_tensor.ops import (
    activation,
    arithmetic,
    bitwise,
    comparison,
    complexes,
    conversion,
    creation,
    cumulative,
    curves,
    cutting,
    divisors,
    exponential,
    indexing,
    joining,
    logic,
    missing,
    movement,
    neural,
    pooling,
    products,
    quantiles,
    reduction,
    representation,
    resizing,
    samples,
    sampling,
    selecting,
    sorting,
    special,
    statistics,
    trigonometry,
    update,
    windows,
)
from svod_tensor.ops.methods import Methods
from svod_tensor.ops.operation import attach_methods

__all__ = ["THEMES", "attach_themes"]

THEMES: Final = (
    activation,
    arithmetic,
    bitwise,
    comparison,
    complexes,
    conversion,
    creation,
    cumulative,
    curves,
    cutting,
    divisors,
    exponential,
    indexing,
    joining,
    logic,
    missing,
    movement,
    neural,
    pooling,
    products,
    quantiles,
    reduction,
    representation,
    resizing,
    samples,
    sampling,
    selecting,
    sorting,
    special,
    statistics,
    trigonometry,
    update,
    windows,
)
"""Each module states in its docstring what its operations have in common."""


def attach_themes() -> None:
    """Give tensors the operations of all themes as methods."""
    attach_methods(Methods)

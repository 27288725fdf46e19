"""The modules of operations, in the order of `docs/operations.md`."""

from __future__ import annotations

from typing import Final

from svod_tensor.ops import (
    activation,
    arithmetic,
    assignment,
    bitwise,
    comparison,
    complexes,
    conversion,
    creation,
    cumulative,
    curves,
    cutting,
    differentiation,
    distributions,
    divisors,
    exponential,
    indexing,
    joining,
    logic,
    missing,
    movement,
    neural,
    operators,
    placing,
    pooling,
    products,
    protocols,
    quantiles,
    random,
    reading,
    reduction,
    representation,
    resizing,
    samples,
    sampling,
    selecting,
    sets,
    showing,
    sorting,
    sources,
    special,
    statistics,
    trigonometry,
    update,
    windows,
)
from svod_tensor.ops.methods import Methods
from svod_tensor.ops.operation import attach_methods

__all__ = ["SYNTAX", "THEMES", "attach_themes"]

THEMES: Final = (
    activation,
    arithmetic,
    assignment,
    bitwise,
    comparison,
    complexes,
    conversion,
    creation,
    cumulative,
    curves,
    cutting,
    differentiation,
    distributions,
    divisors,
    exponential,
    indexing,
    joining,
    logic,
    missing,
    movement,
    neural,
    placing,
    pooling,
    products,
    quantiles,
    random,
    reading,
    reduction,
    representation,
    resizing,
    samples,
    sampling,
    selecting,
    sets,
    sorting,
    sources,
    special,
    statistics,
    trigonometry,
    update,
    windows,
)
"""Each module states in its docstring what its operations have in common."""

SYNTAX: Final = (operators, protocols, showing)
"""Modules of special methods alone."""


def attach_themes() -> None:
    """Give tensors the operations of all themes as methods."""
    attach_methods(Methods)

"""Methods of `Tensor` that are registered operations; `methods.pyi` declares them for type checkers."""

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
    movement,
    neural,
    products,
    quantiles,
    reduction,
    representation,
    resizing,
    sampling,
    selecting,
    sorting,
    special,
    trigonometry,
    update,
    windows,
)
from svod_tensor.ops.operation import OPERATIONS, attach_methods
from svod_tensor.ops.theme import Theme

__all__ = ["OPERATIONS", "THEMES", "Methods"]

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
    movement,
    neural,
    products,
    quantiles,
    reduction,
    representation,
    resizing,
    sampling,
    selecting,
    sorting,
    special,
    trigonometry,
    update,
    windows,
)
"""The modules that define operations."""


@attach_methods
class Methods(Theme):
    """The operations of svod_tensor.ops as methods of their first operand."""

    __slots__ = ()

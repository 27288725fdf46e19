"""Cache of decompositions: the graphs that composed operations build, without their operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from svod_tensor.engine.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from svod_ir.graph_template import GraphTemplate
    from svod_tensor.cells.views import Path

__all__ = ["DECOMPOSITIONS", "CallKey", "Decomposition"]

MAX_DECOMPOSITIONS: Final = 1024
"""Maximum number of entries. A model calls tens of operations, with at most a few shapes each."""

CallKey: TypeAlias = tuple[Hashable, ...]
"""An operation, the shape, dtype and placement of each operand, the other arguments, and the default
float dtype.
"""


class Decomposition(NamedTuple):
    """The graph of an operation.

    Attributes:
        template: its roots are, for each result, the whole tensor, and the view if the result is one.
        paths: for each result, the path from the whole tensor to the view.
        collect: makes the tuple of several results; None if there is one result.
    """

    template: GraphTemplate
    paths: tuple[Path, ...]
    collect: Callable[[Sequence[Any]], Any] | None


DECOMPOSITIONS: Final = BoundedCache[CallKey, Decomposition | str](lambda: MAX_DECOMPOSITIONS)
"""Decompositions; `"called"` for an operation that was called once, and `"varies"` for one whose graph
cannot be built again.
"""

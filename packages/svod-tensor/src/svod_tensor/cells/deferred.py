"""Table of deferred cells: their values are computed in memory of their own before a captured
function reads them.

A deferred cell has the graph of its value until something reads it, and none of it is computed if
another value is assigned first. Entries are weak, as in `tables`."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from svod_tensor.cells import tables

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Cell

__all__ = ["add", "discard", "has_entries", "list_deferred"]

_deferred: Final[dict[int, weakref.ref[Cell]]] = {}


def add(cell: Cell) -> None:
    """Defer the computation of a cell until something reads it."""
    key = id(cell)
    # Bound now: at interpreter exit, cells may outlive the globals of this module.
    _deferred[key] = weakref.ref(cell, partial(_deferred.pop, key))


def discard(cells: Iterable[Cell]) -> None:
    """Remove cells from the table."""
    for cell in cells:
        _deferred.pop(id(cell), None)


def has_entries() -> bool:
    """Whether any cell may be deferred."""
    return bool(_deferred)


def list_deferred(cells: Iterable[Cell]) -> list[Cell]:
    """Return the deferred cells among `cells`, each once. Cells that have memory by now are removed
    from the table.
    """
    # Nearly every program defers nothing: such calls neither lock nor build a list.
    if not _deferred:
        return []
    with tables.lock:
        entered = [
            cell for cell in {id(cell): cell for cell in cells}.values() if id(cell) in _deferred
        ]
        done = [cell for cell in entered if cell.is_donated or cell.is_realized]
        discard(done)
        return [cell for cell in entered if id(cell) in _deferred]

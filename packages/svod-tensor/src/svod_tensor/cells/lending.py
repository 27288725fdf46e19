"""Lending the memory of a cell to an array that may be written."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from svod_tensor.cells import overwriting, registry, tables, writing
from svod_tensor.engine import memory_nodes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer
    from svod_tensor.cells.cell import Cell

__all__ = ["lend"]


def lend(cell: Cell) -> NDArray[np.generic] | None:
    """The elements of a cell as a flat array that may be written, over the memory that the cell has
    from now on.

    The memory is a new one, with a copy of the elements, if somebody else reads the one before:
    another cell, a graph that is not computed yet, or an array that never changes.

    Returns:
        None if the cell has no memory of its own that the host may write.
    """
    while True:
        with registry.lock:
            registry.wait_for_capture()
            array = cell.find_array()
            if array is not None:
                return array
            if cell.is_given_away or not cell.is_realized:
                return None
            base = None if cell.memory is not None else memory_nodes.find_base(cell.node)
            memory = cell.memory if base is None else memory_nodes.find_buffer(base)
            if memory is None or not memory.is_host_addressable:
                return None
            array = memory.as_numpy()
            if not array.flags.writeable:
                return None
            # Another thread may build a graph on a node that it saw before.
            is_known = base is not None and (
                threading.active_count() > 1 or overwriting.list_readers({base})
            )
            if not (is_known or not memory.is_writable):
                _lend_to(cell, memory, array)
                return array
            if writing.move(cell):
                own = memory_nodes.find_base(cell.node)
                memory = None if own is None else memory_nodes.find_buffer(own)
                assert memory is not None, cell.node
                array = memory.as_numpy()
                _lend_to(cell, memory, array)
                return array


def _lend_to(cell: Cell, memory: Buffer, array: NDArray[np.generic]) -> None:
    memory.lend(array)
    cell.lend(array)
    # Captured functions that return this memory, or write it, must know.
    tables.take_number()

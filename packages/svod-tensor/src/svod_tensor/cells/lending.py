"""Lending of a cell's memory to a writable numpy array."""

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
    """Return the elements of a cell as a flat writable array over the cell's memory.

    The cell first moves to a copy if its memory has another reader: another cell, a pending graph,
    or a read-only array.

    Returns:
        None if the cell has no memory of its own that the host may write.
    """
    while True:
        with registry.lock:
            registry.wait_for_capture()
            array = cell.find_array()
            if array is not None:
                return array
            if cell.is_donated or not cell.is_realized:
                return None
            base = None if cell.memory is not None else memory_nodes.find_base(cell.node)
            memory = cell.memory if base is None else memory_nodes.find_buffer(base)
            if memory is None or not memory.is_host_addressable:
                return None
            array = memory.as_numpy()
            if not array.flags.writeable:
                return None
            # With other threads, the node always counts as known: one may be building a graph on
            # it.
            has_readers = base is not None and (
                threading.active_count() > 1 or overwriting.list_readers({base})
            )
            if not (has_readers or not memory.is_writable):
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
    # Makes captured functions that return or write this memory check their inputs.
    tables.take_write_id()

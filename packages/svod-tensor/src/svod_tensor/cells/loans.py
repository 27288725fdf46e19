"""Loan: memory of a cell that is shared with a writable numpy array.

As long as the array lives, the program may write it at any time, so no graph may read the memory.
The cell's node therefore reads a snapshot, a copy of the memory at that moment. Reads that return
at once use the memory itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

from svod_tensor.engine import memory_nodes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer
    from svod_ir import UOp

__all__ = ["Loan"]


class Loan:
    """State of a cell whose memory is lent to an array. Calling it with the memory makes the cell's
    node.
    """

    __slots__ = ("_array", "_home", "_make_node", "_snapshot")

    # Weak: the loan ends when the program drops the array.
    _array: ref[NDArray[np.generic]]
    _home: UOp | None
    _make_node: Callable[[Buffer], UOp]
    # Node on the last copy of the memory, and the copy.
    _snapshot: tuple[UOp, Buffer] | None

    def __init__(
        self,
        array: NDArray[np.generic],
        home: UOp | None,
        make_node: Callable[[Buffer], UOp] | None = None,
    ) -> None:
        """Lend memory to `array`.

        Args:
            array: the array over the memory.
            home: the cell's node on the memory; None if it had no node.
            make_node: makes the cell's node on a buffer, if `home` is None.
        """
        self._home, self._make_node, self._snapshot = home, make_node or self._move_home, None
        self.rebind(array)

    def rebind(self, array: NDArray[np.generic]) -> None:
        """Lend the memory to another array, after the previous array is gone."""
        self._array = ref(array)

    def find_array(self) -> NDArray[np.generic] | None:
        """The array, if it is alive. It is flat; users have views of it."""
        return self._array()

    def __call__(self, memory: Buffer) -> UOp:
        # Called once the array is gone (`Cell._make_own_node`): the cell continues on the same
        # memory.
        return self._home or self._make_node(memory)

    def get_snapshot(self, memory: Buffer) -> UOp:
        """A node with the present elements of `memory`. The last snapshot is reused while the
        elements are equal.
        """
        from svod_device import copy_buffer
        from svod_tensor import _storage as storage

        snapshot = self._snapshot
        # Each new BUFFER makes other graphs, so that equal expressions would be computed twice.
        # Comparing the bytes is cheaper.
        if snapshot is not None and storage.has_equal_bytes(snapshot[1], memory):
            return snapshot[0]
        copy = storage.allocate(memory.device, memory.dtype, memory.size)
        copy_buffer(copy, memory)
        node = self._make_node(copy)
        self._snapshot = node, copy
        return node

    def _move_home(self, memory: Buffer) -> UOp:
        """The cell's node, rebuilt on other memory."""
        home = self._home
        base = None if home is None else memory_nodes.find_base(home)
        assert home is not None and base is not None, home
        return home.substitute(
            {base: memory_nodes.make_memory(base.dtype, memory.size, memory.device, memory)}
        )

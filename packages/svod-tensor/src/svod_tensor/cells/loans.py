"""Memory of a cell that a writable array shows.

As long as the array lives, anybody may write it at any time, so that no graph may read the memory:
who asks the cell for its node gets one on a snapshot, a copy of the memory as it is then. Who reads
elements at once reads the memory itself."""

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
    """State of a cell whose memory is lent to an array; called with the memory, the node that the
    cell is on it.
    """

    __slots__ = ("_array", "_home", "_make_node", "_snapshot")

    _array: ref[NDArray[np.generic]]
    _home: UOp | None
    _make_node: Callable[[Buffer], UOp]
    # A node on a copy of the memory, and that copy.
    _snapshot: tuple[UOp, Buffer] | None

    def __init__(
        self,
        array: NDArray[np.generic],
        home: UOp | None,
        make_node: Callable[[Buffer], UOp] | None = None,
    ) -> None:
        """Lend memory to `array`.

        Args:
            array: what shows the memory.
            home: what the cell was on it; None if nobody asked for the node.
            make_node: what makes the node on any such memory then.
        """
        self._home, self._make_node, self._snapshot = home, make_node or self._move_home, None
        self.renew(array)

    def renew(self, array: NDArray[np.generic]) -> None:
        """Lend the memory to another array; the one before is gone."""
        self._array = ref(array)

    def find_array(self) -> NDArray[np.generic] | None:
        """The array, if it is alive. It is flat; what others have are views of it."""
        return self._array()

    def __call__(self, memory: Buffer) -> UOp:
        return self._home or self._make_node(memory)

    def get_snapshot(self, memory: Buffer) -> UOp:
        """A node that has the elements of `memory` as they are now: the last one, as long as they
        are the same.
        """
        from svod_device import copy_buffer
        from svod_tensor import _storage as storage

        found = self._snapshot
        if found is not None and storage.has_equal_bytes(found[1], memory):
            return found[0]
        copied = storage.allocate(memory.device, memory.dtype, memory.size)
        copy_buffer(copied, memory)
        node = self._make_node(copied)
        self._snapshot = node, copied
        return node

    def _move_home(self, memory: Buffer) -> UOp:
        """The node that the cell was, on other memory."""
        home = self._home
        base = None if home is None else memory_nodes.find_base(home)
        assert home is not None and base is not None, home
        return home.substitute(
            {base: memory_nodes.make_memory(base.dtype, memory.size, memory.device, memory)}
        )

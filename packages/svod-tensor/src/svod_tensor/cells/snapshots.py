"""Graphs that are kept for later use while the memory that they read may be overwritten."""

from __future__ import annotations

from collections.abc import Sequence

from svod_ir import Op, UOp
from svod_tensor.cells.cell import Cell
from svod_tensor.engine import versions

__all__ = ["GraphSnapshot"]


class GraphSnapshot:
    """Nodes that keep their present values.

    A cell shares each memory that the nodes read, so that a write leaves the old version to that
    cell (copy on write)."""

    def __init__(self, nodes: Sequence[UOp]) -> None:
        self._sink = UOp.sink(*nodes)
        self._cells = {
            node: Cell(node)
            for node in self._sink.toposort()
            # Pending versions too: a later write commits them, and leaves their elements to this
            # cell.
            if node.op is Op.BUFFER or versions.is_pending_version(node)
        }

    def get_nodes(self) -> tuple[UOp, ...]:
        """The nodes, rebuilt on the memory that has the old versions now."""
        moved = {node: cell.node for node, cell in self._cells.items() if cell.node is not node}
        return self._sink.substitute(moved).src

"""A graph that is kept for later, while the memory that it reads may be written."""

from __future__ import annotations

from collections.abc import Sequence

from svod_ir import Op, UOp
from svod_tensor.cells.cell import Cell
from svod_tensor.engine import states

__all__ = ["KeptGraph"]


class KeptGraph:
    """Nodes whose values stay what they are now.

    A cell shares each memory that they read, so that a write leaves the old content to that cell.
    """

    def __init__(self, nodes: Sequence[UOp]) -> None:
        self._sink = UOp.sink(*nodes)
        self._cells = {
            node: Cell(node)
            for node in self._sink.toposort()
            if node.op is Op.BUFFER or states.is_later_state(node)
        }

    def get_nodes(self) -> tuple[UOp, ...]:
        """The nodes, of memory as it is now."""
        moved = {node: cell.node for node, cell in self._cells.items() if cell.node is not node}
        return self._sink.substitute(moved).src

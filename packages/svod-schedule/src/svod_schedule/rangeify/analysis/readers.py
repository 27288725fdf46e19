"""Number of readers of each node."""

from __future__ import annotations

from collections.abc import Iterable

from svod_ir import Op, UOp

__all__ = ["count_readers"]


def count_readers(order: Iterable[UOp]) -> dict[UOp, int]:
    """Count the distinct nodes that read each node of a graph."""
    n_readers: dict[UOp, int] = {}
    for node in order:
        n_readers.setdefault(node, 0)
        # The trailing operands of a control dependency are waited for, not read.
        for operand in dict.fromkeys(
            node.src[:1] if node.op is Op.CONTROL_DEPENDENCY else node.src
        ):
            n_readers[operand] = n_readers.get(operand, 0) + 1
    return n_readers

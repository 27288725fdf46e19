"""Kernels that write rows of memory: a SCATTER, or an ASSIGN of one in place,
ASSIGN(x, SCATTER(rows, indices, x)).
"""

from __future__ import annotations

from svod_ir import Op, UOp

__all__ = ["find_row_write", "find_scatter"]

# A SCATTER of flat indices reads and returns the elements of its target in another shape.
_SAME_ORDER = frozenset({Op.RESHAPE})


def find_row_write(node: UOp) -> UOp | None:
    """Return the SCATTER whose rows an ASSIGN writes to its target, which is the base of the SCATTER;
    None for other nodes.
    """
    if node.op is not Op.ASSIGN:
        return None
    scatter = node.value.strip(_SAME_ORDER)
    if scatter.op is not Op.SCATTER:
        return None
    is_base = scatter.base.strip(_SAME_ORDER) is node.target.strip(_SAME_ORDER)
    return scatter if is_base else None


def find_scatter(kernel: UOp) -> UOp | None:
    """Return the SCATTER whose rows the kernel of a stored node writes; None for other kernels."""
    return kernel if kernel.op is Op.SCATTER else find_row_write(kernel)

"""Legality of fusing a value with loops of its own into the kernel that reads it.

A kernel has one loop nest over its result. A fused value with loops of its own, an *inner nest* (a
reduction, or a row that a thread keeps), is computed once between two of them:

    for i:                          the row loop of the inner nest `m`
        m = max of x[i, k] over k       is a reduction with a loop k of its own
        for j:                      the loop that `m` does not depend on is inside, after it
            y[i, j] = x[i, j] - m

The *rows* of an inner nest are the loops over the result that index it. Fusion is legal if

1. every reader is in this kernel and reads the inner nest at the same coordinates, so that one
   computation serves all of them;
2. each coordinate is a distinct loop over the result, no longer than the axis, or a constant in
   bounds: the inner nest is then in bounds whatever gate a reader has (`find_rows`);
3. for any two inner nests, the rows of one are a subset of the rows of the other: then an order of
   the loops exists in which the rows of each inner nest are the outermost ones (`is_chain`), and
   kernelize orders the loops so.

The rows of an inner nest that another one reads are a subset of its reader's rows, since its
coordinates are built from the reader's. So each inner nest is computed after its operands and
before its readers. By 2. no gate of a reader is needed in an inner nest, so that its loops are
closed once."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from svod_ir import Op, SInt, UOp
from svod_ir.sizes import max_size

__all__ = ["find_rows", "is_chain"]


def find_rows(
    shape: Iterable[SInt], indices: Iterable[UOp], loops: Collection[UOp]
) -> frozenset[UOp] | None:
    """Return those of `loops` that index a value read at `indices`; None if an index is neither a
    distinct loop in bounds nor a constant in bounds.

    Args:
        shape: the sizes of the axes that `indices` index.
        loops: the loops over a kernel's result.
    """
    rows: set[UOp] = set()
    for size, i in zip(shape, indices, strict=True):
        if i.op is Op.CONST:
            if not 0 <= i.arg < max_size(size):
                return None
        # A loop that occurs twice reads a diagonal, whose rows are not the rows of the value.
        elif i in rows or i not in loops or not _stays_inside(i, size):
            return None
        else:
            rows.add(i)
    return frozenset(rows)


def _stays_inside(loop: UOp, size: SInt) -> bool:
    # Memory is allocated for the maximum size, so elements beyond a smaller size may be computed:
    # they have no reader.
    return int(loop.vmax) < max_size(size)


def is_chain(rows: frozenset[UOp], nests: Iterable[frozenset[UOp]]) -> bool:
    """Whether `rows` and each of `nests`, which form a chain of subsets, form a longer one.

    The loops of a chain can be ordered so that each of its sets is outermost."""
    return all(rows <= nest or nest <= rows for nest in nests)

"""Condition for computing a value inside the kernel that reads it, in loops of its own: one for
reductions and for kept rows.

A kernel runs the loops over its result one inside the other. A value with loops of its own, a
*nest* (a reduction, or a row that a thread keeps), is computed in one place between them:

    for i:                          the rows of the nest `m`
        m = max of x[i, k] over k       is a reduction with the loop k of its own
        for j:                      the loop that the nest does not depend on stands inside, after it
            y[i, j] = x[i, j] - m

Its *rows* are the loops over the result that name an element of it. The kernel is right if

1. every reader is in this kernel and reads the nest at the same coordinates, so that one place
   serves all of them;
2. each coordinate is a loop over the result of its own, no longer than the axis, or a constant
   inside it: the nest is then computed for no place that it does not have, whatever gate a reader
   has (`find_rows`);
3. of any two nests, the rows of one contain those of the other: then an order of the loops exists
   in which the rows of each nest are the outermost ones (`form_chain`), and kernelize runs them in
   it.

A nest that another one reads has no rows but those of its reader, since its coordinates are built
from the reader's. So each nest stands where all of its operands are known, and before everything
that reads it. By 2. no gate of a reader enters a nest, so that its loops are closed once."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from svod_ir import Op, SInt, UOp
from svod_ir.sizes import max_size

__all__ = ["find_rows", "form_chain"]


def find_rows(
    shape: Iterable[SInt], indices: Iterable[UOp], loops: Collection[UOp]
) -> frozenset[UOp] | None:
    """Those of `loops` that name the element of a value that is read at `indices`; None where the
    loops alone do not stay inside it.

    Args:
        shape: the sizes of the axes that `indices` name.
        loops: the loops over a kernel's result.
    """
    rows: set[UOp] = set()
    for size, i in zip(shape, indices, strict=True):
        if i.op is Op.CONST:
            if not 0 <= i.arg < max_size(size):
                return None
        elif i in rows or i not in loops or not _stays_inside(i, size):
            return None
        else:
            rows.add(i)
    return frozenset(rows)


def _stays_inside(loop: UOp, size: SInt) -> bool:
    # Memory has room for the largest size, so that what lies behind a smaller one may be computed,
    # and is read by nobody.
    return int(loop.vmax) < max_size(size)


def form_chain(rows: frozenset[UOp], others: Iterable[frozenset[UOp]]) -> bool:
    """Whether loops can be ordered so that `rows`, and each of the `others` that are so ordered
    already, are the outermost.
    """
    return all(rows <= other or other <= rows for other in others)

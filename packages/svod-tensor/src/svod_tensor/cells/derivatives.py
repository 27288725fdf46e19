"""Threads that are differentiating a function, and the tracing of values computed meanwhile.

A function under differentiation may read values, as in a printed loss or an `if`. Such values are
computed to memory as always, but the memory is marked with the graph that it was computed from, so
that derivatives propagate through it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident
from typing import Final

from svod_ir import Op, UOp
from svod_ir.derivatives import make_traced
from svod_tensor.cells.snapshots import GraphSnapshot
from svod_tensor.cells.tables import lock

__all__ = ["active", "differentiating", "is_differentiating", "mark_with_origin"]

active: Final[Counter[int]] = Counter()
"""Number of nested differentiated functions by thread."""


@contextmanager
def differentiating() -> Generator[None]:
    """Mark values that this thread computes in the block if they depend on traced primals."""
    thread = get_ident()
    with lock:
        active[thread] += 1
    try:
        yield
    finally:
        with lock:
            active[thread] -= 1
            if not active[thread]:
                del active[thread]


def is_differentiating() -> bool:
    """Whether this thread runs a function that is being differentiated."""
    return bool(active) and get_ident() in active


def mark_with_origin(memory: UOp, node: UOp) -> UOp:
    """The node to use for `node` once its value is in `memory`: traced back to the graph if
    derivatives need it.
    """
    if not active or not any(True for _ in node.iter_ops(Op.TRACED)):
        return memory
    # The memory that the graph reads may be overwritten before the derivative is taken.
    kept = GraphSnapshot([node])
    return make_traced(memory, lambda: kept.get_nodes()[0])

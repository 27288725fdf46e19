"""Which threads take derivatives now, and what becomes of values that are computed meanwhile.

A function whose derivative is taken may read values: a loss that is printed, an `if`. What is
computed then is memory as always, but marked with the graph that it was computed from, to which
derivatives go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident
from typing import Final

from svod_ir import Op, UOp
from svod_ir.derivatives import make_traced
from svod_tensor.cells.kept import KeptGraph
from svod_tensor.cells.tables import lock

__all__ = ["active", "is_taking_derivatives", "keep_origin", "take_derivatives"]

active: Final[Counter[int]] = Counter()
"""How many functions each thread is in whose derivatives are taken."""


@contextmanager
def take_derivatives() -> Generator[None]:
    """Let what this thread computes in the block be marked, where it depends on what derivatives
    are taken by.
    """
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


def is_taking_derivatives() -> bool:
    """Whether this thread is in a function whose derivative is taken."""
    return bool(active) and get_ident() in active


def keep_origin(memory: UOp, node: UOp) -> UOp:
    """What stands for `node` once its values are in `memory`."""
    if not active or not any(True for _ in node.iter_ops(Op.TRACED)):
        return memory
    # What the graph reads may be written before anybody asks for the derivative.
    kept = KeptGraph([node])
    return make_traced(memory, lambda: kept.get_nodes()[0])

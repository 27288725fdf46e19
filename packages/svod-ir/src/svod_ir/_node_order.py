"""A total order of nodes that is the same in every process.

Nodes are compared by op, dtype, arg, and then operands. Since nodes are hash-consed, a comparison
follows one path: the first operands that differ."""

from __future__ import annotations

from enum import Enum
from functools import cmp_to_key
from typing import Final, cast

from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["compare_nodes", "node_key"]


def compare_nodes(x: UOp, y: UOp) -> int:
    """Compare two nodes: negative if `x` comes before `y`, positive if after, 0 for the same node;
    constants come last.

    Example:
        >>> from svod_ir import UOp, compare_nodes
        >>> i, j = UOp.variable("i", 0, 9), UOp.variable("j", 0, 9)
        >>> compare_nodes(i, j) < 0, compare_nodes(j, i) > 0, compare_nodes(i, i)
        (True, True, 0)
        >>> from svod_ir import node_key
        >>> sorted([j, i], key=node_key) == [i, j]
        True
    """
    while x is not y:
        if x.op is not y.op:
            return _rank(x.op) - _rank(y.op)
        if x.dtype is not y.dtype:
            return -1 if x.dtype.short < y.dtype.short else 1
        if x.arg != y.arg:
            return _compare_args(x.arg, y.arg)
        if len(x.src) != len(y.src):
            return len(x.src) - len(y.src)
        differing = next(((a, b) for a, b in zip(x.src, y.src, strict=True) if a is not b), None)
        if differing is None:
            # The args are equal only in Python: constants such as 0.0 and -0.0.
            return -1 if repr(x.arg) < repr(y.arg) else 1
        x, y = differing
    return 0


node_key = cmp_to_key(compare_nodes)
"""Key of `sorted`, `min` and `max`: nodes in the order of `compare_nodes`."""


def _rank(op: Op) -> int:
    # Constants come last, as in normal forms; variables and counters come first.
    if op is Op.CONST or op is Op.VCONST:
        return _LAST + op.value
    return 2 * Op.SPECIAL.value + 1 if op is Op.RANGE else 2 * op.value


def _compare_args(x: object, y: object) -> int:
    # Tuples are compared lexicographically, so that RANGEs are ordered by their ids.
    if isinstance(x, tuple) and isinstance(y, tuple):
        left, right = cast("tuple[object, ...]", x), cast("tuple[object, ...]", y)
        for a, b in zip(left, right, strict=False):
            if a != b:
                return _compare_args(a, b)
        return len(left) - len(right)
    if isinstance(x, (int, float)) and isinstance(y, (int, float)) and x == x and y == y:  # not NaN
        return -1 if x < y else 1
    first, second = _text(cast("object", x)), _text(cast("object", y))
    return (first > second) - (first < second)


def _text(arg: object) -> str:
    return arg.name if isinstance(arg, Enum) else arg if isinstance(arg, str) else repr(arg)


_LAST: Final = 1 << 20

"""Replacement of common reads and reductions in two expressions by variables, so that comparing
them needs no loops.
"""

from __future__ import annotations

import math
from typing import Final

from svod_ir.args import BufferArg, VariableArg
from svod_ir.build import make_reshape
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["hide_reads"]

_READS: Final = frozenset(
    {
        Op.LOAD,
        Op.INDEX,
        Op.REDUCE,
        Op.SCAN,
        Op.REDUCE_AXIS,
        Op.SCAN_AXIS,
        Op.GATHER,
        Op.CONTIGUOUS,
        Op.ASSIGN,
        Op.AFTER,
        Op.SCATTER,
        Op.MULTI,
        Op.RESHARD,
        Op.MSELECT,
        Op.ALLREDUCE,
        Op.CUSTOM_FUNCTION,
        Op.RESULT,
    }
)
_ELEMENTS: Final = frozenset({Op.LOAD, Op.INDEX})
# Above the ids of real buffers, which count from 1.
_FIRST_ID: Final = 1 << 40
_LIMIT: Final = 1 << 20
"""Bound of index variables: indices of memory do not overflow."""


def hide_reads(before: UOp, after: UOp, max_nodes: int) -> tuple[UOp, UOp] | None:
    """Replace each read and reduction that `before` and `after` share by a variable or buffer.

    Returns None if more than `max_nodes` nodes remain. Gated reads stay, since rules inspect more
    of them than dtype and bounds.
    """
    opened = {before, after}
    while True:
        orders = [_walk(root, opened, max_nodes) for root in (before, after)]
        if any(len(order) > max_nodes for order in orders):
            return None
        left, right = ({node for node in order if _is_read(node, opened)} for order in orders)
        if left == right:
            break
        unshared = left ^ right
        # A read below a reduction on one side may be shared with the other side.
        opened |= {node for node in unshared if node.op not in _ELEMENTS} or unshared
    locations = {
        n.location.unordered for order in orders for n in order if n.op in (Op.LOAD, Op.STORE)
    }
    # Rules on dtype index hold only without overflow, so unbounded values would refute them.
    has_index = any(n.dtype.kind == "index" for order in orders for n in order)
    done: dict[UOp, UOp] = {}
    for node in (*orders[0], *orders[1]):
        if node in left and node not in locations:
            done.setdefault(node, _make_leaf(node, len(done), has_index))
        elif node not in done:
            done[node] = node.with_src(tuple(done.get(s, s) for s in node.src))
    return done[before], done[after]


def _walk(root: UOp, opened: set[UOp], max_nodes: int) -> list[UOp]:
    """The nodes above unopened reads, operands first; `max_nodes` + 1 of them if there are more."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack: list[tuple[UOp, bool]] = [(root, False)]
    while stack and len(order) <= max_nodes:
        node, is_entered = stack.pop()
        if is_entered:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if not _is_read(node, opened):
                stack.extend((s, False) for s in reversed(node.src))
    return order


def _is_read(node: UOp, opened: set[UOp]) -> bool:
    if node.op not in _READS or node in opened:
        return False
    if node.op is Op.AFTER and not node.find_shape():
        return False
    if node.op is Op.INDEX:
        return node.gate is None
    if node.op is Op.LOAD:
        location = node.location.unordered
        return location.op is Op.INDEX and location.gate is None and len(node.src) == 1
    shape = node.find_shape()
    return shape is not None and all(isinstance(s, int) for s in shape)


def _make_leaf(node: UOp, index: int, has_index: bool) -> UOp:
    shape = tuple(s for s in node.shape if isinstance(s, int))
    if shape:
        memory = UOp(
            Op.BUFFER, node.dtype, (), BufferArg(_FIRST_ID + index, math.prod(shape), "CPU")
        )
        return make_reshape(memory, shape)
    low, high = (-math.inf, math.inf) if node.dtype.is_float else _get_bounds(node, has_index)
    return UOp(Op.DEFINE_VAR, node.dtype, (), VariableArg(f"read{index}", low, high))  # pyright: ignore[reportArgumentType]


def _get_bounds(node: UOp, has_index: bool) -> tuple[int, int]:
    low, high = int(node.vmin), int(node.vmax)
    if has_index and low <= _LIMIT and high >= -_LIMIT:
        return max(low, -_LIMIT), min(high, _LIMIT)
    return low, high

"""Repetition in a graph, and the cut values that let one program compute each repetition.

    z0 -> roll, roll, add, mul -> z1 -> roll, roll, add, mul -> z2 -> ... -> z200        one program, run 200 times

A loop of the host language that reads no values builds such a graph. In its topological order, one
iteration of the loop is one period. A prefix of that order depends on nothing after it, so the
graph can be cut at any position: the values of the prefix that later nodes read are computed first
and replaced by their memory. The cut is chosen where these values are smallest: there only the
loop's carries cross it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from svod_dtype import index as index_dtype
from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE, MARKS, MOVEMENT
from svod_ir.sizes import max_size
from svod_tensor.engine.memory_nodes import find_buffer
from svod_tensor.engine.versions import find_version, is_pending_version, write_of

__all__ = [
    "MAX_NODES",
    "MIN_PERIODS",
    "Repetition",
    "find_repetition",
    "get_limit",
    "has_outgrown",
    "is_computable",
]

MAX_NODES: Final = 512
"""Maximum number of nodes of a graph that is always one program, besides `NODES_PER_BUFFER` for
each BUFFER that it reads.
"""

NODES_PER_BUFFER: Final = 64
"""Nodes allowed for each BUFFER. Models have 14 to 25 nodes for each tensor that they read, both
forward and with an optimizer step; the ratio of an unrolled loop grows without limit.
"""

MAX_FACTOR: Final = 16
"""Factor of `MAX_NODES` for a graph without repetition, which is expensive to cut: each part needs
a program of its own.
"""

MIN_NODES: Final = 64
"""Minimum number of nodes of a segment. Shorter iterations are computed several at a time, as the
launch of a program costs as much as they do.
"""

MIN_PERIODS: Final = 8
_N_PROBES: Final = 4
_N_SHIFTS: Final = 16
_PROBE_LENGTH: Final = 48
_LEAVES: Final = frozenset({Op.CONST, Op.IOTA, Op.NOOP, Op.BUFFER, Op.DEFINE_VAR})
_TRANSPARENT: Final = MOVEMENT | MARKS | {Op.MULTI, Op.MSTACK}
_MATERIALIZED: Final = ELEMENTWISE | {Op.REDUCE_AXIS, Op.CONTIGUOUS, Op.GATHER, Op.COPY}


class Repetition(NamedTuple):
    """The repetitive part of a graph, in segments.

    Attributes:
        period: the number of nodes in one repetition.
        values: for each segment, the nodes to store; later nodes read no other node of it or of
            earlier segments.
    """

    period: int
    values: list[tuple[UOp, ...]]


def has_outgrown(order: Sequence[UOp], factor: int = 1) -> bool:
    """True if a graph has more nodes than one program is made for; `factor` scales the constant
    part of the limit.
    """
    return len(order) > MAX_NODES * factor and len(order) > get_limit(order, factor)


def get_limit(order: Sequence[UOp], factor: int = 1) -> int:
    """The number of nodes that one program is made for if it reads the same memory as a graph."""
    return MAX_NODES * factor + NODES_PER_BUFFER * sum(1 for node in order if node.op is Op.BUFFER)


def is_computable(order: Sequence[UOp]) -> bool:
    """True if a graph reads only constants and allocated memory: no placeholder of a function, and
    no bound variable.

    A plan that is prepared later from the rest of the graph may bind the variable to another value.
    """
    return all(
        node.op is not Op.BIND and (node.src or (node.op in _LEAVES and _has_value(node)))
        for node in order
    )


def _has_value(node: UOp) -> bool:
    return node.op is not Op.BUFFER or find_buffer(node) is not None


def find_repetition(
    order: Sequence[UOp],
    kept: Collection[UOp] = (),
    *,
    min_periods: int = MIN_PERIODS,
    min_nodes: int = MIN_NODES,
) -> Repetition | None:
    """The segments of a repetitive graph; None if there are too few repetitions.

    Args:
        order: its nodes in topological order.
        kept: nodes that other graphs read, too.
        min_periods: the minimum number of repetitions.
        min_nodes: the minimum number of nodes in a segment.
    """
    inner = [node for node in order if node.src]
    run = _find_run(inner, min_periods)
    if run is None:
        return None
    start, end, period = run
    length = -(-min_nodes // period) * period
    stored = _list_materializable(inner)
    last_use = _get_last_uses(inner, stored, kept)
    # One period of positions, which includes a whole number of periods: the next graph of the loop
    # begins where this one is cut.
    first = start + length - period + 1
    for position in _order_positions(inner, stored, last_use, first, first + period):
        values = list(_iter_values(inner, stored, last_use, range(position, end, length)))
        if values:
            return Repetition(period, values)
    return None


def _find_run(inner: Sequence[UOp], min_periods: int) -> tuple[int, int, int] | None:
    """The start, the end and the period of the first repetition that is long enough."""
    n = len(inner)
    text = _make_text(inner)
    probe = min(_PROBE_LENGTH, n // 4)
    for index in range(_N_PROBES):
        begin = index * (n - probe) // _N_PROBES
        pattern, repeated = text[begin : begin + probe], begin
        for _ in range(_N_SHIFTS):
            repeated = text.find(pattern, repeated + 1)
            period = repeated - begin
            if repeated < 0 or period * min_periods > n:
                break
            left, right = _extend(text, begin, period)
            start, end = _verify(inner, left, right, period)
            if end - start >= max(period * (min_periods - 1), MIN_NODES):
                return start, end + period, period
    return None


def _make_text(inner: Sequence[UOp]) -> str:
    """A character for each node, equal for nodes with the same operation, constants, and sizes of
    memory. Repetitions are then found by string search.
    """
    letters: dict[Hashable, int] = {}
    return "".join([chr(letters.setdefault(_describe(node), len(letters))) for node in inner])


def _describe(node: UOp) -> Hashable:
    # Derivative marks carry unique ids, and are erased before compilation.
    arg = None if node.op in MARKS else node.arg
    return node.op, node.dtype, arg, tuple([None if s.src else _describe_leaf(s) for s in node.src])


def _describe_leaf(leaf: UOp) -> Hashable:
    match leaf.op:
        case Op.BUFFER:
            _, size, device = leaf.arg
            return size, device, leaf.dtype
        case Op.NOOP:
            # A write id, unique by definition.
            return None
        case _:
            return leaf


def _extend(text: str, begin: int, period: int) -> tuple[int, int]:
    """The longest interval around `begin` in which each character equals the one a period later."""
    left, right, end = begin, begin, len(text) - period
    while left and text[left - 1] == text[left - 1 + period]:
        left -= 1
    while right < end and text[right] == text[right + period]:
        right += 1
    return left, right


def _verify(inner: Sequence[UOp], left: int, right: int, period: int) -> tuple[int, int]:
    """The longest subinterval in which operands, too, are one period apart, or the same in all
    periods.
    """
    index_of = {node: index for index, node in enumerate(inner)}
    best = begin = left
    longest = 0
    for index in range(left, right):
        pairs = zip(inner[index].src, inner[index + period].src, strict=True)
        if all(a is b or not a.src or index_of[b] - index_of[a] == period for a, b in pairs):
            if index + 1 - begin > longest:
                best, longest = begin, index + 1 - begin
        else:
            begin = index + 1
    return best, best + longest


def _list_materializable(inner: Sequence[UOp]) -> set[UOp]:
    """The nodes whose values may be stored. Views, and values that read no memory, are recomputed
    where they are read.
    """
    reading: set[UOp] = set()
    stored: set[UOp] = set()
    for node in inner:
        if any(s.op is Op.BUFFER or s in reading for s in node.src):
            reading.add(node)
            if node.op not in _TRANSPARENT:
                stored.add(node)
    return stored


def _get_last_uses(inner: Sequence[UOp], stored: set[UOp], kept: Collection[UOp]) -> dict[UOp, int]:
    """The index of the last reader of each node, directly or through nodes that are not stored."""
    last_use = dict.fromkeys([*kept, inner[-1]], len(inner))
    for index in range(len(inner) - 1, -1, -1):
        node = inner[index]
        use = index if node in stored else last_use.setdefault(node, index)
        # A version names its memory as operand 0, but reads only the previous version.
        for operand in node.src[1:] if is_pending_version(node) else node.src:
            if last_use.get(operand, -1) < use:
                last_use[operand] = use
    return last_use


def _order_positions(
    inner: Sequence[UOp], stored: set[UOp], last_use: dict[UOp, int], first: int, end: int
) -> Iterator[int]:
    """The positions in an interval, in increasing order of the bytes that cross the cut."""
    end = min(end, len(inner))
    change = [0] * (end + 1)
    for index, node in enumerate(inner[:end]):
        use = last_use[node]
        if node in stored and use >= first:
            size = _get_size(node)
            change[index + 1] += size
            if use < end:
                change[use + 1] -= size
    sizes: list[int] = []
    crossing = 0
    for amount in change:
        crossing += amount
        sizes.append(crossing)
    yield from sorted(range(first, end), key=sizes.__getitem__)


def _get_size(node: UOp) -> int:
    shape = node.find_shape()
    return 0 if shape is None else node.dtype.itemsize * prod(map(max_size, shape))


def _iter_values(
    inner: Sequence[UOp], stored: set[UOp], last_use: dict[UOp, int], positions: Iterable[int]
) -> Iterator[tuple[UOp, ...]]:
    """The values before each position that later nodes read, up to a position where the graph
    cannot be cut.
    """
    values: list[UOp] = []
    overwritten: list[UOp] = []
    begin = 0
    for position in positions:
        for node in inner[begin:position]:
            if is_pending_version(node):
                target = write_of(node).target
                version = find_version(target)
                assert version is not None, target
                overwritten.append(version)
            if node in stored:
                values.append(node)
        values = [node for node in values if last_use[node] >= position]
        # Write-after-read hazard: nodes after the cut must not read a version overwritten before
        # it.
        if any(last_use.get(version, 0) >= position for version in overwritten) or not all(
            map(_can_be_materialized, values)
        ):
            return
        begin = position
        yield tuple(values)


def _can_be_materialized(node: UOp) -> bool:
    if not (node.op in _MATERIALIZED or is_pending_version(node)) or node.dtype is index_dtype:
        return False
    shape = node.find_shape()
    return shape is not None and all(isinstance(size, int) for size in shape)

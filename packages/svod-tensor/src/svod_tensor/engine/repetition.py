"""Repetition in a graph, and the values to store so that its repeated part is computed by one
program.

    z0 -> roll, roll, add, mul -> z1 -> roll, roll, add, mul -> z2 -> ... -> z200        one program, run 200 times

A loop of the host language that reads nothing builds such a graph. In the topological order of the
graph, one iteration of the loop is one period. A prefix of that order needs nothing after it, so
that the graph can be cut at any position: the values of the prefix that nodes after it read are
computed first, and their memory takes their place. A position is chosen where these values are
smallest: there the iteration has only its state left."""

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
    "MAX_WHOLE",
    "MIN_PERIODS",
    "Repetition",
    "find_repetition",
    "get_limit",
    "has_outgrown",
    "is_computable",
]

MAX_WHOLE: Final = 512
"""Nodes of a graph that is one program, however it was built, besides `NODES_PER_BUFFER` for each
BUFFER that it reads.
"""

NODES_PER_BUFFER: Final = 64
"""A model has 14 to 25 nodes for each tensor that it reads, forward and with the step of an
optimizer alike; a loop has no limit.
"""

MAX_FACTOR: Final = 16
"""Factor of `MAX_WHOLE` for a graph that does not repeat itself: to cut it makes a program for each
part.
"""

MIN_NODES: Final = 64
"""Nodes of a segment: shorter iterations are computed several at a time, as starting a program
costs as much as computing it.
"""

MIN_PERIODS: Final = 8
_N_PROBES: Final = 4
_N_SHIFTS: Final = 16
_PROBE: Final = 48
_BOUND: Final = frozenset({Op.CONST, Op.IOTA, Op.NOOP, Op.BUFFER, Op.DEFINE_VAR})
_TRANSPARENT: Final = MOVEMENT | MARKS | {Op.MULTI, Op.MSTACK}
_STORED: Final = ELEMENTWISE | {Op.REDUCE_AXIS, Op.CONTIGUOUS, Op.GATHER, Op.COPY}


class Repetition(NamedTuple):
    """The part of a graph that repeats itself, in segments.

    Attributes:
        period: the number of nodes in one repetition.
        values: for each segment, the nodes to store; what follows reads nothing else of it or of
            what comes before.
    """

    period: int
    values: list[tuple[UOp, ...]]


def has_outgrown(order: Sequence[UOp], factor: int = 1) -> bool:
    """Whether a graph has more nodes than one program is made for; `factor` scales the constant
    part of the limit.
    """
    return len(order) > MAX_WHOLE * factor and len(order) > get_limit(order, factor)


def get_limit(order: Sequence[UOp], factor: int = 1) -> int:
    """The number of nodes that one program is made for where it reads the memory that a graph
    reads.
    """
    return MAX_WHOLE * factor + NODES_PER_BUFFER * sum(1 for node in order if node.op is Op.BUFFER)


def is_computable(order: Sequence[UOp]) -> bool:
    """Whether a graph reads only constants and memory that is there: no placeholder of a function,
    and no bound variable.

    A plan that is prepared later from what follows may bind the variable to another value.
    """
    return all(
        node.op is not Op.BIND and (node.src or (node.op in _BOUND and _has_value(node)))
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
    """The segments of a graph that repeats itself at least so often; None if there is no such
    repetition.

    Args:
        order: its nodes, operands first.
        kept: nodes that something else reads, too.
        min_periods: the least number of repetitions.
        min_nodes: the least number of nodes in a segment.
    """
    inner = [node for node in order if node.src]
    found = _find_run(inner, min_periods)
    if found is None:
        return None
    start, end, period = found
    length = -(-min_nodes // period) * period
    stored = _list_stored(inner)
    last_use = _get_last_uses(inner, stored, kept)
    # One period of positions, that after whole periods among them: the next graph begins where this
    # one is cut.
    first = start + length - period + 1
    for position in _order_positions(inner, stored, last_use, first, first + period):
        values = list(_iter_values(inner, stored, last_use, range(position, end, length)))
        if values:
            return Repetition(period, values)
    return None


def _find_run(inner: Sequence[UOp], min_periods: int) -> tuple[int, int, int] | None:
    """The beginning, the end and the period of the first repetition that is long enough."""
    n = len(inner)
    text = _make_text(inner)
    probe = min(_PROBE, n // 4)
    for number in range(_N_PROBES):
        begin = number * (n - probe) // _N_PROBES
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
    """A character for each node, equal for those of one operation on equal constants and memory of
    one size.
    """
    letters: dict[Hashable, int] = {}
    return "".join([chr(letters.setdefault(_describe(node), len(letters))) for node in inner])


def _describe(node: UOp) -> Hashable:
    # Marks of derivatives have numbers, and are left out of what is computed.
    arg = None if node.op in MARKS else node.arg
    return node.op, node.dtype, arg, tuple([None if s.src else _describe_leaf(s) for s in node.src])


def _describe_leaf(leaf: UOp) -> Hashable:
    match leaf.op:
        case Op.BUFFER:
            _, size, device = leaf.arg
            return size, device, leaf.dtype
        case Op.NOOP:
            # The number of an assignment.
            return None
        case _:
            return leaf


def _extend(text: str, begin: int, period: int) -> tuple[int, int]:
    """The longest interval around `begin` in which each character is equal to that one period
    later.
    """
    left, right, end = begin, begin, len(text) - period
    while left and text[left - 1] == text[left - 1 + period]:
        left -= 1
    while right < end and text[right] == text[right + period]:
        right += 1
    return left, right


def _verify(inner: Sequence[UOp], left: int, right: int, period: int) -> tuple[int, int]:
    """The longest interval in it in which operands, too, are one period later, or the same for all
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


def _list_stored(inner: Sequence[UOp]) -> set[UOp]:
    """The nodes whose values may be stored: views, and what is computed from no memory, are
    computed where they are read.
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
    """The index of the last node that reads each node, or reads it through nodes that are not
    stored.
    """
    last_use = dict.fromkeys([*kept, inner[-1]], len(inner))
    for index in range(len(inner) - 1, -1, -1):
        node = inner[index]
        use = index if node in stored else last_use.setdefault(node, index)
        # A state names the memory that it is in, but reads the state that it follows.
        for operand in node.src[1:] if is_pending_version(node) else node.src:
            if last_use.get(operand, -1) < use:
                last_use[operand] = use
    return last_use


def _order_positions(
    inner: Sequence[UOp], stored: set[UOp], last_use: dict[UOp, int], first: int, end: int
) -> Iterator[int]:
    """The positions in an interval, those first where the values that are read later are
    smallest.
    """
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
    """The values before each position that are read from there on, up to a position where the graph
    cannot be cut.
    """
    values: list[UOp] = []
    overwritten: list[UOp] = []
    begin = 0
    for position in positions:
        for node in inner[begin:position]:
            if is_pending_version(node):
                state = find_version(write_of(node).target)
                if state is None:
                    return
                overwritten.append(state)
            if node in stored:
                values.append(node)
        values = [node for node in values if last_use[node] >= position]
        # What is read afterwards must not be an old state of memory that is written before.
        if any(last_use.get(state, 0) >= position for state in overwritten) or not all(
            map(_can_be_stored, values)
        ):
            return
        begin = position
        yield tuple(values)


def _can_be_stored(node: UOp) -> bool:
    if not (node.op in _STORED or is_pending_version(node)) or node.dtype is index_dtype:
        return False
    shape = node.find_shape()
    return shape is not None and all(isinstance(size, int) for size in shape)

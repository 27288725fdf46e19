"""What a loop keeps of each iteration for the loop that goes back: the fewest bytes from which the
rest can be computed again.

A value that costs little is computed again from what is kept, and one that costs much is kept, or
what is made of it. Between those and what is asked for lies the smallest cut of the graph.

Source: the partition of PyTorch's functorch, "min-cut optimal recomputation"; flows after Edmonds
and Karp (1972)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from math import inf, prod
from typing import Final

from svod_ir.ops import Op
from svod_ir.sizes import max_size
from svod_ir.uop import UOp

__all__ = ["choose_kept", "count_elements", "list_depending"]

_MAX_REDUCED: Final = 8
"""A sum of so many elements is computed again."""
_STORED_WEIGHT: Final = 0.75
_READ_WEIGHT: Final = 0.5
"""A slice is there to be read again; what is kept is written before."""
_KEPT: Final = frozenset(
    {
        Op.RESULT,
        Op.SCAN_AXIS,
        Op.SCATTER_ADD,
        Op.COPY,
        Op.ALLREDUCE,
        Op.CUSTOM_FUNCTION,
        Op.AFTER,
    }
)
"""What is expensive, or cannot be computed again."""


def choose_kept(
    needed: Sequence[UOp],
    carried: Collection[UOp],
    changing: Collection[UOp],
    free: Collection[UOp],
) -> list[UOp]:
    """The nodes to keep, from which and from what does not depend on `carried` all that is needed
    can be computed.

    Args:
        needed: what is asked for.
        carried: the PARAMs whose content is there in this iteration alone.
        changing: these, and the PARAMs of slices, which can be read again.
        free: what is kept anyway.
    """
    order = UOp.sink(*needed).toposort()[:-1]
    lost, varying = list_depending(order, carried), list_depending(order, changing)
    sources = [
        node
        for node in order
        if node in carried
        or (node in lost and _is_expensive(node))
        or (node in varying and node.op in _KEPT)
    ]
    lost |= list_depending(order, sources)
    slices = [n for n in order if n in changing and n not in carried and n.dtype.kind != "index"]
    sizes = dict.fromkeys(list_depending(order, slices), inf)
    sizes |= {node: _READ_WEIGHT * _measure(node) for node in slices}
    sizes |= {node: 0.0 if node in free else _measure(node) for node in order if node in lost}
    network = _Network({node: sizes[node] for node in order if node in sizes})
    for node in network.sizes:
        for operand in node.src:
            if operand in sizes:
                network.add_edge(operand, node)
    kept = network.cut(
        [*sources, *slices], [node for node in dict.fromkeys(needed) if node in lost]
    )
    return list(dict.fromkeys(_take_base(node, lost, free) for node in kept if node in lost))


def _take_base(node: UOp, lost: Collection[UOp], free: Collection[UOp]) -> UOp:
    """What has the elements of a node in the order in which they are computed; in another one they
    would be copied to be kept.
    """
    base = node
    while node not in free and node.op in (Op.RESHAPE, Op.PERMUTE) and node.source in lost:
        base, node = node.source if node.op is Op.PERMUTE else base, node.source
    return node if node in free else base


def list_depending(order: Iterable[UOp], sources: Collection[UOp]) -> set[UOp]:
    """The nodes of a graph, operands first, that depend on some."""
    found: set[UOp] = set()
    for node in order:
        if node in sources or not found.isdisjoint(node.src):
            found.add(node)
    return found


def count_elements(node: UOp) -> float:
    """How many elements a node has at most; infinitely many where it is no value that memory can
    hold.
    """
    shape = node.find_shape()
    if shape is None or node.dtype.kind in ("index", "void") or node.op is Op.MSTACK:
        return inf
    return float(prod(map(max_size, shape)))


def _measure(node: UOp) -> float:
    """The bytes that keeping a node takes."""
    elements = count_elements(node)
    if elements == inf:
        return inf
    # What has memory in any case is kept by writing it elsewhere.
    return elements * node.dtype.itemsize * (_STORED_WEIGHT if _is_expensive(node) else 1)


def _is_expensive(node: UOp) -> bool:
    if node.op is Op.REDUCE_AXIS:
        return count_elements(node.source) > _MAX_REDUCED * count_elements(node)
    return node.op in _KEPT


class _Network:
    """A network of nodes that let through as much as they have bytes: each is two places, its entry
    and its exit.
    """

    def __init__(self, sizes: dict[UOp, float]) -> None:
        self.sizes = sizes
        self._number = {node: n for n, node in enumerate(sizes)}
        self._end = 2 * len(sizes) + 1
        self._room: list[dict[int, float]] = [{} for _ in range(self._end + 1)]
        for node, number in self._number.items():
            self._connect(2 * number, 2 * number + 1, sizes[node])

    def add_edge(self, source: UOp, target: UOp) -> None:
        self._connect(2 * self._number[source] + 1, 2 * self._number[target], inf)

    def _connect(self, source: int, target: int, size: float) -> None:
        self._room[source][target] = size
        self._room[target].setdefault(source, 0.0)

    def cut(self, sources: Sequence[UOp], targets: Sequence[UOp]) -> list[UOp]:
        """The nodes of the smallest cut, as near to the targets as it can be."""
        start = self._end - 1
        for node in sources:
            self._connect(start, 2 * self._number[node], inf)
        for node in targets:
            self._connect(2 * self._number[node] + 1, self._end, inf)
        while (way := self._find_way(start)) is not None:
            steps = list(pairwise(way))
            amount = min(self._room[a][b] for a, b in steps)
            assert amount < inf, "what is needed of an iteration is a value"
            for a, b in steps:
                self._room[a][b] -= amount
                self._room[b][a] += amount
        near = self._list_near()
        return [node for node, n in self._number.items() if 2 * n + 1 in near and 2 * n not in near]

    def _find_way(self, start: int) -> list[int] | None:
        before = {start: start}
        queue = [start]
        for place in queue:
            for other, room in self._room[place].items():
                if room > 0 and other not in before:
                    before[other] = place
                    if other == self._end:
                        way = [other]
                        while way[-1] != start:
                            way.append(before[way[-1]])
                        return way[::-1]
                    queue.append(other)
        return None

    def _list_near(self) -> set[int]:
        """The places from which more could flow to the end."""
        found = {self._end}
        queue = [self._end]
        for place in queue:
            for other in self._room[place]:
                if other not in found and self._room[other].get(place, 0.0) > 0:
                    found.add(other)
                    queue.append(other)
        return found

"""Choice of a loop's residuals: the fewest bytes from which the reversed loop can recompute the
rest.

Cheap values are recomputed from the residuals; of an expensive value, the value itself or one
computed from it is stored. The residuals are a minimum cut between these values and the nodes that
the reversed loop needs.

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
"""Reductions of at most this many elements to one are recomputed."""
_STORED_WEIGHT: Final = 0.75
_READ_WEIGHT: Final = 0.5
"""Rereading a slice is cheaper than storing a residual, which is written and then read."""
_KEPT: Final = frozenset(
    {
        Op.RESULT,
        Op.SCAN_AXIS,
        Op.SCATTER,
        Op.COPY,
        Op.ALLREDUCE,
        Op.RESHARD,
        Op.CUSTOM_FUNCTION,
        Op.AFTER,
    }
)
"""Ops that are expensive, or that cannot be recomputed."""


def choose_kept(
    needed: Sequence[UOp],
    carried: Collection[UOp],
    changing: Collection[UOp],
    free: Collection[UOp],
) -> list[UOp]:
    """The nodes to store: all of `needed` can be computed from these and nodes independent of
    `carried`.

    Args:
        needed: the nodes that the reversed loop reads.
        carried: the PARAMs whose values exist in this iteration only.
        changing: `carried`, and the PARAMs of slices, which can be reread.
        free: the nodes that are stored in any case.
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
    # Nodes after a source cannot be recomputed without it, so they are part of the cut problem too.
    lost |= list_depending(order, sources)
    slices = [n for n in order if n in changing and n not in carried and n.dtype.kind != "index"]
    # Nodes recomputed from slices alone need no storage, so the cut never runs through them; it may
    # run through the slices themselves, at the cost of rereading.
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
    """The node before reshapes and permutes: storing it in the computed order needs no copy."""
    base = node
    while node not in free and node.op in (Op.RESHAPE, Op.PERMUTE) and node.source in lost:
        base, node = node.source if node.op is Op.PERMUTE else base, node.source
    return node if node in free else base


def list_depending(order: Iterable[UOp], sources: Collection[UOp]) -> set[UOp]:
    """The nodes of `order` (operands first) that are sources or depend on one."""
    depending: set[UOp] = set()
    for node in order:
        if node in sources or not depending.isdisjoint(node.src):
            depending.add(node)
    return depending


def count_elements(node: UOp) -> float:
    """Maximum number of elements of a node; infinite if memory cannot hold its value."""
    shape = node.find_shape()
    if shape is None or node.dtype.kind in ("index", "void") or node.op is Op.MSTACK:
        return inf
    return float(prod(map(max_size, shape)))


def _measure(node: UOp) -> float:
    """Cost of storing a node, in weighted bytes."""
    elements = count_elements(node)
    if elements == inf:
        return inf
    # An expensive value is written to memory in any case; storing it changes only where.
    return elements * node.dtype.itemsize * (_STORED_WEIGHT if _is_expensive(node) else 1)


def _is_expensive(node: UOp) -> bool:
    if node.op is Op.REDUCE_AXIS:
        return count_elements(node.source) > _MAX_REDUCED * count_elements(node)
    return node.op in _KEPT


class _Network:
    """Flow network whose nodes have capacities, their sizes in bytes.

    Each node is split into an entry (2n) and an exit (2n + 1), joined by an edge of that capacity.
    """

    def __init__(self, sizes: dict[UOp, float]) -> None:
        self.sizes = sizes
        self._index = {node: n for n, node in enumerate(sizes)}
        self._end = 2 * len(sizes) + 1
        self._capacity: list[dict[int, float]] = [{} for _ in range(self._end + 1)]
        for node, index in self._index.items():
            self._connect(2 * index, 2 * index + 1, sizes[node])

    def add_edge(self, source: UOp, target: UOp) -> None:
        self._connect(2 * self._index[source] + 1, 2 * self._index[target], inf)

    def _connect(self, source: int, target: int, size: float) -> None:
        self._capacity[source][target] = size
        self._capacity[target].setdefault(source, 0.0)

    def cut(self, sources: Sequence[UOp], targets: Sequence[UOp]) -> list[UOp]:
        """The nodes of a minimum cut, the one nearest to the targets."""
        start = self._end - 1
        for node in sources:
            self._connect(start, 2 * self._index[node], inf)
        for node in targets:
            self._connect(2 * self._index[node] + 1, self._end, inf)
        while (path := self._find_path(start)) is not None:
            steps = list(pairwise(path))
            amount = min(self._capacity[a][b] for a, b in steps)
            assert amount < inf, "every node that the reversed loop needs is a value"
            for a, b in steps:
                self._capacity[a][b] -= amount
                self._capacity[b][a] += amount
        # Of all minimum cuts, take the one at the targets: least is then recomputed.
        near = self._list_near()
        return [node for node, n in self._index.items() if 2 * n + 1 in near and 2 * n not in near]

    def _find_path(self, start: int) -> list[int] | None:
        previous = {start: start}
        queue = [start]
        for vertex in queue:
            for neighbor, capacity in self._capacity[vertex].items():
                if capacity > 0 and neighbor not in previous:
                    previous[neighbor] = vertex
                    if neighbor == self._end:
                        path = [neighbor]
                        while path[-1] != start:
                            path.append(previous[path[-1]])
                        return path[::-1]
                    queue.append(neighbor)
        return None

    def _list_near(self) -> set[int]:
        """The vertices from which more could flow to the end."""
        near = {self._end}
        queue = [self._end]
        for vertex in queue:
            for neighbor in self._capacity[vertex]:
                if neighbor not in near and self._capacity[neighbor].get(vertex, 0.0) > 0:
                    near.add(neighbor)
                    queue.append(neighbor)
        return near

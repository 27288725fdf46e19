"""Materialization: the choice of the nodes that are computed once and stored in memory.

Every other node is fused into its readers, and recomputed for each, or computed once for each row
of its only kernel. The decision walks from the results to the inputs with the coordinates at which
each node is read, so that it knows how often an element would be recomputed:

- A node that one kernel reads at one set of coordinates is fused into that kernel.
- An elementwise node that is read at several coordinates, or inside a loop that it does not depend
  on, is recomputed if that costs less than a store and loads. Before a sequential scan, expensive
  nodes are stored, since they can be computed in vectors. A PAD counts as an elementwise node: a
  padded image is copied once, since the loops of a convolution would check its borders again for
  each filter.
- A reduction is fused into its reader if each of its elements is computed once there: as the
  producer of an elementwise epilogue (matmul + bias + gelu), or because the loops that it depends
  on can enclose all other loops of the kernel (the maximum and the sum of a row in softmax).
  Contractions (matmul, convolution) are never fused with row-wise reductions: they need a loop nest
  of their own to be tiled. Two of narrow operands, as of a gated activation, are not fused, since a
  tensor core computes one product of a kernel. A reduction that is read through a PAD, as the
  operands of a concatenation, is stored: the longer loops would reduce for elements in the padding.
- Elements that a product gathers many times, such as the rows of an embedding, are copied in order.
- Integers that depend on no memory are recomputed, since they become part of addresses. Integers
  that are computed from floats and gathered, such as the keys of a search, are stored.
- A value that one kernel reads several times along a row (the exponentials in softmax) is kept for
  that row in the thread's private memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from svod_dtype import index
from svod_ir import Op, UOp, max_trips
from svod_ir.ops import ELEMENTWISE, MOVEMENT, TABLE
from svod_ir.sizes import max_size
from svod_schedule.rangeify.analysis.contraction import has_narrow_factors, is_contraction
from svod_schedule.rangeify.analysis.coordinates import (
    Coordinates,
    move,
    move_to_gather_indices,
    move_to_gather_source,
    move_to_scatter_indices,
)
from svod_schedule.rangeify.analysis.devices import (
    get_memory_operands,
    is_always_stored,
    is_transfer,
)
from svod_schedule.rangeify.analysis.fusion import find_rows, is_chain
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.rangeify.analysis.readers import count_readers
from svod_schedule.rangeify.analysis.row_writes import find_row_write, find_scatter

__all__ = ["Storage", "choose_stored"]

RECOMPUTE_COST = 16
"""Cost of an element, in additions, up to which recomputing it is cheaper than a store and a load."""

RECOMPUTE_TOTAL = 16384
"""Cost of all elements, in additions, up to which recomputing them is cheaper than launching
another kernel.
"""

FREE_COST = 2
"""Cost of a node, in additions, up to which it is never stored, however often it is read."""

ROW_COST = 6
"""Minimum cost of a value that is kept for its row: keeping it is cheaper than computing it twice."""

MAX_ROW_BYTES = 1 << 19
"""Maximum size of the rows that a kernel keeps. They are on the stack of a thread, which has a few
mebibytes. Softmax with kept rows of 20,000 to 128,256 float32 elements, of which the longest fit half
of an L2 cache, is 1.1 to 1.5 times as fast as with exponentials that are computed twice.
"""

MANY_LOOKUPS = 64
"""Minimum number of reads of each gathered element for a copy of the GATHER to pay."""

MAX_KERNEL_COST = 256
"""Maximum cost of a chain of fused elementwise nodes, since the compile time of a loop body is not
linear in its size.
"""

MAX_KERNEL_REDUCTIONS = 16
"""Maximum number of fused reductions in a kernel. Each gets lanes by an Opt of its own, which
rewrites the whole kernel, so that compile time grows with the square of their number: rows that are
centred n times took 0.5, 3.7 and 26.5 s to compile for n of 30, 100 and 300 in one kernel, and take
0.4, 1.5 and 4.2 s in kernels of 16."""

FEW_TRIPS = 16
"""Ratio of sizes from which on the smaller of a reduction and its kernel's result costs little."""

PARALLEL_ROWS = 8
"""Number of rows below which a row-wise kernel does not use all cores."""

SERIAL_TRIPS = 1 << 15
"""Maximum number of elements of a fused reduction in a kernel of fewer rows than PARALLEL_ROWS."""

# Movement ops are index arithmetic, and memory is stored already. A PAD costs checks of its bounds.
_NEVER_STORED = (MOVEMENT - {Op.PAD}) | {
    Op.CONST,
    Op.IOTA,
    Op.BUFFER,
    Op.PARAM,
    Op.BUFFER_VIEW,
    Op.BIND,
    Op.DEFINE_VAR,
    Op.SINK,
    Op.GATHER,
    Op.AFTER,
    Op.CONTROL_DEPENDENCY,
}
_COMPUTED = ELEMENTWISE | {Op.GATHER, Op.PAD}


@dataclass(slots=True)
class _OpenKernel:
    """The kernel that computes a stored node, with the nodes that are fused so far."""

    ranges: tuple[UOp, ...]
    loops: KernelLoops
    rows: list[frozenset[UOp]] = field(default_factory=list[frozenset[UOp]])
    has_contraction: bool = False
    n_reductions: int = 0
    kept_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Use:
    """A use of a node: the kernel that reads it, the coordinates, and the enclosing loops."""

    kernel: UOp
    at: Coordinates
    scope: tuple[UOp, ...]


class Storage(NamedTuple):
    """The materialized nodes.

    Attributes:
        stored: the nodes that are stored in memory of their own.
        rows: the nodes that are kept for one row, with the axes that index the row.
    """

    stored: set[UOp]
    rows: dict[UOp, frozenset[int]]


class _StorageChooser:
    def __init__(self, sink: UOp, has_private_rows: Callable[[UOp], bool]) -> None:
        self.order = sink.toposort()
        self.results = set(sink.src)
        self.has_private_rows = has_private_rows
        self.stored: set[UOp] = set()
        self.rows: dict[UOp, frozenset[int]] = {}
        self.kernels: dict[UOp, _OpenKernel] = {}
        self.uses: dict[UOp, dict[_Use, None]] = {}
        self.n_readers = count_readers(self.order)
        self.cost, self.heads = _measure(self.order, self.n_readers)

    def run(self) -> Storage:
        for node in reversed(self.order):
            if self._is_stored(node):
                self._store(node)
                self._enter(
                    node, _Use(node, Coordinates(self.kernels[node].ranges), self._loops(node))
                )
            else:
                for use in self._keep_for_row(node) or self.uses.get(node, ()):
                    self._enter(node, use)
        return Storage(self.stored, self.rows)

    def _loops(self, node: UOp) -> tuple[UOp, ...]:
        return tuple(r for r in self.kernels[node].ranges if r.op is Op.RANGE)

    def _store(self, node: UOp) -> None:
        self.stored.add(node)
        loops = KernelLoops()
        scatter = find_scatter(node)
        opened = loops.open(node) if scatter is None else loops.open_scattered(scatter)
        self.kernels[node] = _OpenKernel(opened, loops)

    def _is_stored(self, node: UOp) -> bool:
        if node not in self.results and 0 in (node.find_shape() or ()):
            # A node without elements needs no memory.
            return False
        uses = self.uses.get(node)
        if is_always_stored(node):
            # Rows that an ASSIGN writes in place are no use of the SCATTER.
            return node.op is not Op.SCATTER or node in self.results or bool(uses)
        if uses and node.op is Op.GATHER:
            return _is_gathered_often(node, tuple(uses))
        if not uses or node.op in _NEVER_STORED:
            return False
        if node.op is Op.REDUCE_AXIS:
            return not self._fuse_reduce(node, tuple(uses))
        if self.cost[node] > MAX_KERNEL_COST:
            return True
        return self._is_worth_memory(node, tuple(uses))

    def _is_worth_memory(self, node: UOp, uses: tuple[_Use, ...]) -> bool:
        if node.op is Op.CAST and node.dtype.itemsize > node.source.dtype.itemsize:
            # The source of a widening cast takes less memory, and a tensor core can multiply it.
            return False
        is_index_like = (
            node.placement is None
            and self.cost[node] <= RECOMPUTE_COST
            and not _is_key_table(node, uses)
        )
        if is_index_like and (
            node.dtype.is_int or (node.dtype.kind == "bool" and node.op is Op.PAD)
        ):
            # Indices that are computed from loop counters become part of addresses; masks of a PAD
            # become part of conditions.
            return False
        total = self.cost[node] * prod(max_size(s) for s in node.shape)
        if (
            self.cost[node] > RECOMPUTE_COST
            and total > RECOMPUTE_TOTAL
            and any(_is_serial(u.kernel) for u in uses)
        ):
            return True
        n_computed = sum(_recomputed(node, use) for use in uses)
        if self._joins_full_kernel(node, uses):
            return True
        if n_computed <= 1:
            return False
        if self.heads[node] and not self._keeps_reductions_fused(node, uses):
            # A reduction below would be stored anyway: store its elementwise reader instead.
            return True
        extra = self.cost[node] * (n_computed - 1)
        if self.cost[node] <= FREE_COST or extra <= RECOMPUTE_COST:
            return False
        return extra * prod(max_size(s) for s in node.shape) > RECOMPUTE_TOTAL

    def _joins_full_kernel(self, node: UOp, uses: tuple[_Use, ...]) -> bool:
        """Whether `node` depends on reductions, and all kernels that read it have the maximum number
        of reductions. If stored, it is computed with its reductions in one kernel.

        If `node` has more elements than a reduction below, such as a row from which its mean is
        subtracted, the reduction is stored instead."""
        is_full = all(
            self.kernels[use.kernel].n_reductions >= MAX_KERNEL_REDUCTIONS for use in uses
        )
        return is_full and prod(max_size(s) for s in node.shape) <= self.heads[node]

    def _keep_for_row(self, node: UOp) -> tuple[_Use, ...] | None:
        """Keep `node` for one row if that pays: then it has one use, with loops of its own."""
        uses = tuple(self.uses.get(node, ()))
        if (
            len(uses) < 2
            or node.op not in ELEMENTWISE
            or not self.has_private_rows(uses[0].kernel)
            or find_scatter(uses[0].kernel) is not None
            or self.cost[node] < ROW_COST
        ):
            return None
        kernel, loops = self.kernels[uses[0].kernel], self._loops(uses[0].kernel)
        columns = [
            a for a in range(len(node.shape)) if len({use.at.indices[a] for use in uses}) > 1
        ]
        named = [a for a in range(len(node.shape)) if a not in columns]
        rows = find_rows(
            [node.shape[a] for a in named], [uses[0].at.indices[a] for a in named], loops
        )
        # Strided rows are better vectorized across rows, as lanes.
        if not rows or len(rows) == len(loops) or not columns or loops[-1] in rows:
            return None
        if any(use.kernel is not uses[0].kernel for use in uses) or kernel.has_contraction:
            return None
        row_bytes = node.dtype.itemsize * prod(max_size(node.shape[a]) for a in columns)
        kept_bytes = kernel.kept_bytes + row_bytes
        if kept_bytes > MAX_ROW_BYTES or not is_chain(rows, kernel.rows):
            return None
        kernel.kept_bytes = kept_bytes
        kernel.rows.append(rows)
        self.rows[node] = frozenset(named)
        fresh = kernel.loops.open(node)
        indices = tuple(fresh[a] if a in columns else i for a, i in enumerate(uses[0].at.indices))
        scope = (*(r for r in loops if r in rows), *(fresh[a] for a in columns))
        return (_Use(uses[0].kernel, Coordinates(indices), scope),)

    def _keeps_reductions_fused(self, node: UOp, uses: tuple[_Use, ...]) -> bool:
        """Whether each reduction that only `node` reads could stay fused if `node` were recomputed
        at `uses`.

        A node below that has other readers can be stored itself, whatever is decided here.
        """
        reached: dict[UOp, dict[_Use, None]] = {}
        stack = [(node, use) for use in uses]
        seen: set[tuple[UOp, _Use]] = set()
        while stack:
            current, use = item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            if current.op is Op.REDUCE_AXIS:
                reached.setdefault(current, {})[use] = None
            elif (
                current not in self.stored and self.heads[current] and not is_always_stored(current)
            ):
                stack.extend(
                    read
                    for read in self._reads(current, use)
                    if self.n_readers[read[0]] == 1 or read[0].op is Op.REDUCE_AXIS
                )
        for reduce, new_uses in reached.items():
            known_uses = self.uses.get(reduce, {})
            if not self._is_fusable(reduce, tuple(new_uses | known_uses)):
                return False
        return True

    def _fuse_reduce(self, node: UOp, uses: tuple[_Use, ...]) -> bool:
        if not self._is_fusable(node, uses):
            return False
        kernel = self.kernels[uses[0].kernel]
        rows = _ranges_of(uses[0].at)
        if len(rows) < len(self._loops(uses[0].kernel)):
            kernel.rows.append(rows)
        kernel.has_contraction |= is_contraction(node)
        kernel.n_reductions += 1
        return True

    def _is_fusable(self, node: UOp, uses: tuple[_Use, ...]) -> bool:
        if len({(use.kernel, use.at.indices) for use in uses}) != 1:
            return False
        use = uses[0]
        kernel = self.kernels[use.kernel]
        loops = self._loops(use.kernel)
        rows = find_rows(node.shape, use.at.indices, loops)
        if rows is None or kernel.n_reductions >= MAX_KERNEL_REDUCTIONS:
            return False
        if _find_sequential(use.kernel) is not None or is_transfer(use.kernel):
            return False
        if len(rows) == len(loops) == len(use.scope):
            if not is_contraction(node):
                return True
            # A tensor core computes one product of a kernel.
            return not kernel.rows and not (kernel.has_contraction and has_narrow_factors(node))
        if not self.has_private_rows(use.kernel):
            # A launch grid computes each element of a row in another thread, which would reduce the
            # whole row again.
            return False
        trips = prod(max_size(s) for s in node.source.shape)
        if kernel.has_contraction or (is_contraction(node) and trips > RECOMPUTE_TOTAL):
            return False
        if max_trips(*rows) < PARALLEL_ROWS and trips > SERIAL_TRIPS:
            return False
        if loops and loops[-1] in rows and trips * FEW_TRIPS <= max_trips(*loops):
            # Strided rows would reorder the loops, away from the order of the result in memory,
            # only to save the store of a few elements.
            return False
        if (
            loops
            and loops[-1] not in rows
            and _is_of_columns(node)
            and trips >= FEW_TRIPS * max_trips(*loops)
        ):
            # A reduction over columns has lanes along the kept axis. In a kernel with lanes along
            # another axis, it would be strided and scalar.
            return False
        return is_chain(rows, kernel.rows)

    def _enter(self, node: UOp, use: _Use) -> None:
        for operand, operand_use in self._reads(node, use):
            self.uses.setdefault(operand, {})[operand_use] = None

    def _reads(self, node: UOp, use: _Use) -> list[tuple[UOp, _Use]]:
        at, scope = use.at, use.scope
        if node.op in MOVEMENT:
            return [(node.source, _Use(use.kernel, move(node, at), scope))]
        if node.op is Op.CONTROL_DEPENDENCY:
            return [(node.source, use)]
        if is_transfer(node):
            return [
                (s, _Use(use.kernel, Coordinates((UOp.const(index, 0),) * len(s.shape)), scope))
                for s in get_memory_operands(node)
            ]
        if node.op is Op.ASSIGN:
            # The target is written, not read.
            scatter = find_row_write(node)
            return [(node.value, use)] if scatter is None else _read_rows(scatter, use)
        if node.op is Op.REDUCE_AXIS:
            ranges = self.kernels[use.kernel].loops.open_reduced(node, at.indices)
            indices = tuple(ranges.get(a, i) for a, i in enumerate(at.indices))
            # Loops that a fused reduction does not depend on are inside of its rows, after it, so
            # they do not enclose it.
            enclosing = _ranges_of(at)
            inner = (
                *(r for r in scope if r in enclosing),
                *(r for r in ranges.values() if r.op is Op.RANGE),
            )
            return [(node.source, _Use(use.kernel, Coordinates(indices), inner))]
        if node.op is Op.SCATTER:
            copied = self.kernels[use.kernel].loops.open(node)
            loops = tuple(r for r in copied if r.op is Op.RANGE)
            base = (node.base, _Use(use.kernel, Coordinates(copied), loops))
            return [*_read_rows(node, use), base]
        if node.op is Op.GATHER:
            positions_at = move_to_gather_indices(node, at)
            # A placeholder for the value of the index, with the loops that it depends on.
            position = (
                UOp(Op.CUSTOM, index, positions_at.indices, ("position", node))
                if positions_at.indices
                else UOp.variable("position", 0, 1 << 40)
            )
            return [
                (node.source, _Use(use.kernel, move_to_gather_source(node, at, position), scope)),
                (node.position, _Use(use.kernel, positions_at, scope)),
            ]
        reads: list[tuple[UOp, _Use]] = []
        for operand in node.src:
            shape = operand.find_shape()
            if shape is not None:
                operand_at = at if len(shape) == len(at.indices) else Coordinates((), at.valid)
                reads.append((operand, _Use(use.kernel, operand_at, scope)))
        return reads


def _read_rows(scatter: UOp, use: _Use) -> list[tuple[UOp, _Use]]:
    """Return the uses of the rows of a scatter and of their indices."""
    index_at = move_to_scatter_indices(scatter, use.at)
    inner = tuple(r for r in use.scope if r in _ranges_of(index_at))
    return [(scatter.source, use), (scatter.position, _Use(use.kernel, index_at, inner))]


def choose_stored(sink: UOp, has_private_rows: Callable[[UOp], bool]) -> Storage:
    """Choose the nodes of `sink` to materialize.

    Args:
        has_private_rows: whether a thread of the kernel that computes a stored node has private
            memory for rows.
    """
    return _StorageChooser(sink, has_private_rows).run()


def _measure(order: list[UOp], n_readers: dict[UOp, int]) -> tuple[dict[UOp, int], dict[UOp, int]]:
    """Return the cost of an element of each node, and the number of elements of the largest
    reduction that its expression can be fused with, or 0.

    A node with a cost above MAX_KERNEL_COST is stored; the costs of its readers start from 0.
    """
    cost: dict[UOp, int] = {}
    heads: dict[UOp, int] = {}
    for node in order:
        # Symbolic sizes are computed once, not for each element.
        operands = dict.fromkeys(
            node.src[:1] if node.op is Op.CONTROL_DEPENDENCY or node.op in MOVEMENT else node.src
        )
        is_stored = is_always_stored(node)
        if is_stored or node.op is Op.REDUCE_AXIS:
            cost[node] = 0
        else:
            own = TABLE[node.op].recompute_cost if node.op in _COMPUTED else 0
            cost[node] = own + sum(
                -(-cost[s] // n_readers[s]) for s in operands if cost[s] <= MAX_KERNEL_COST
            )
        # A reduction that is read through a PAD has a kernel of its own.
        is_cut = is_stored or node.op is Op.PAD
        if node.op is Op.REDUCE_AXIS:
            heads[node] = max(prod(max_size(s) for s in node.shape), 1)
        else:
            heads[node] = 0 if is_cut else max((heads[s] for s in operands), default=0)
    return cost, heads


def _is_of_columns(reduce: UOp) -> bool:
    """Whether a reduction keeps the contiguous axis of its operand."""
    live = [a for a, size in enumerate(reduce.source.shape) if size != 1]
    return bool(live) and live[-1] not in reduce.arg.axes


def _ranges_of(at: Coordinates) -> frozenset[UOp]:
    ranges: frozenset[UOp] = frozenset()
    for i in at.indices:
        ranges |= i.ranges
    return ranges


def _is_serial(kernel: UOp) -> bool:
    """Whether a kernel computes one element after the other: a scan along the last axis, or a
    scatter of single elements, has no axis for lanes.
    """
    node = _find_sequential(kernel)
    return node is not None and all(max_size(s) == 1 for s in node.shape[node.arg.axis + 1 :])


def _find_sequential(kernel: UOp) -> UOp | None:
    """Return the SCAN_AXIS or SCATTER that a kernel computes, whose axis is sequential."""
    return kernel if kernel.op is Op.SCAN_AXIS else find_scatter(kernel)


def _is_gathered_often(gather: UOp, uses: tuple[_Use, ...]) -> bool:
    """Whether elements of a GATHER with indices in memory are read so often that a copy pays.

    Otherwise a product would load the index of each row many times, and none of its loops could be
    merged into one contiguous loop."""
    position = gather.position
    if position.placement is None or prod(max_size(s) for s in position.shape) == 1:
        return False
    return sum(_recomputed(gather, use) for use in uses) >= MANY_LOOKUPS


def _is_key_table(node: UOp, uses: tuple[_Use, ...]) -> bool:
    """Whether `node`, integers that are computed from floats, is gathered at loaded indices, as the
    keys of a binary search.

    Such integers are not indices themselves. If they were recomputed, each of their operands would
    be stored in a table of its own."""
    indices = (i for use in uses for i in use.at.indices)
    is_gathered = any(n.op is Op.CUSTOM for i in indices for n in i.toposort())
    return is_gathered and any(n.dtype.is_float for n in node.toposort())


def _recomputed(node: UOp, use: _Use) -> int:
    """Number of times that each element is computed for this use.

    The factor is the trip count of the loops outside of the innermost one that the element depends
    on. Loops that overlap, as those over windows, read each element several times."""
    used = _ranges_of(use.at)
    factor, pending, n_read = 1, 1, 1
    for loop in use.scope:
        n_trips = max_trips(loop)
        if loop in used:
            factor, pending, n_read = factor * pending, 1, n_read * n_trips
        else:
            pending *= n_trips
    return factor * max(n_read // prod(max_size(s) for s in node.shape), 1)

"""`KernelFacts`: the input of all heuristics, computed once for a kernel and a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from svod_ir import AxisType, Op, Target, UOp, exact_trips, max_trips
from svod_ir.ops import TABLE
from svod_schedule._linear_index import find_stride, stride_cost
from svod_schedule.optimize.cost_model.carried_values import CarriedLoop, list_carried_loops
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.opts.axes import list_axes

__all__ = ["Access", "KernelFacts", "Nest", "is_multiple", "make_facts"]

_SLOW = frozenset(op for op, row in TABLE.items() if row.instructions >= 6) - {
    Op.RSQRT,
    Op.RECIPROCAL,
}
"""Ops as slow as a division, or slower. RSQRT and RECIPROCAL are left out: they mostly normalize a
row, and are computed once per row.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """An access of memory, with its stride in elements along each loop that its index depends on
    (None: not constant).
    """

    node: UOp
    is_store: bool
    strides: Mapping[UOp, int | None]

    @property
    def memory_bytes(self) -> int:
        """Size of the memory that the access reads or writes a part of."""
        return self.node.memory.unordered.arg.size * self.node.dtype.itemsize

    def stride(self, axis: UOp) -> int | None:
        """Stride along `axis` in elements; None if it is no constant."""
        return self.strides.get(axis, 0)

    def depends_on(self, axis: UOp) -> bool:
        """Whether the index, the gate, or the value of the memory depends on `axis`."""
        return axis in self.node.ranges

    def cost(self, axis: UOp, n_lanes: int) -> float:
        """Relative cost of accessing `n_lanes` elements along `axis` as a vector; 1 is as slow as
        scalar accesses.
        """
        return stride_cost(self.stride(axis), self.node, axis, n_lanes, is_read=not self.is_store)


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A reduction, or the loops that fill a row: the `node` that ends the loops, and the
    accesses inside.
    """

    node: UOp
    accesses: tuple[Access, ...]
    results: tuple[UOp, ...]
    """The loops over the kernel's results that its value depends on, from outer to inner."""

    @property
    def loops(self) -> tuple[UOp, ...]:
        """The loops that the node ends."""
        return self.node.loops

    @property
    def operands(self) -> list[Access]:
        """Accesses that depend on the loops, so that each iteration reads other elements."""
        return [a for a in self.accesses if any(map(a.depends_on, self.loops))]

    @property
    def n_iterations(self) -> int:
        """Maximum number of iterations of all loops together."""
        return max_trips(*self.loops)

    def is_chosen_by(self, axis: UOp) -> bool:
        """Whether a condition on `axis` selects the terms of a sum: with one result at a time, the
        loops are restricted to these terms.
        """
        value = self.node.source
        return self.node.op is Op.REDUCE and value.op is Op.WHERE and axis in value.condition.ranges

    def reuse(self, operand: Access) -> int:
        """Number of results for which each element of an operand is read."""
        return max_trips(*(a for a in self.results if not operand.depends_on(a)))


@dataclass(frozen=True, slots=True, eq=False)
class KernelFacts:
    """A kernel before any Opt, as the heuristics see it.

    Attributes:
        axes: all loops, in the order of `Scheduler.axes`.
        results: the loops over results, from outer to inner.
        accesses: all reads and writes.
        reductions: all reductions, in the order of computation.
        rows: the loop nests that fill private memory, or a part of the results (split-loops).
        carried: the loops that carry values from iteration to iteration.
        updated: the results that a sequence of updates writes, in the order of their index; empty if
            each result is written once.
        lanes: the number of elements of the widest computed dtype that fit a vector.
        access_bytes: the size of the widest element in memory.
        n_slow: the number of ops that take much longer than an addition.
        n_steps: the number of steps of all loops together.
    """

    kernel: UOp
    target: Target
    axes: tuple[UOp, ...]
    results: tuple[UOp, ...]
    accesses: tuple[Access, ...]
    reductions: tuple[Nest, ...]
    rows: tuple[Nest, ...]
    carried: tuple[CarriedLoop, ...]
    updated: tuple[Access, ...]
    lanes: int
    access_bytes: int
    n_slow: int
    n_steps: int

    @property
    def access_lanes(self) -> int:
        """Number of the widest elements in memory that fit a vector."""
        # The widest element decides: narrower ones then fill a part of a vector, but no access is
        # split.
        return max(self.target.vector_bits // (8 * self.access_bytes), 1)

    @property
    def work(self) -> int:
        """The number of steps, weighted by their slow ops."""
        return self.n_steps * (1 + constants.SLOW_STEPS * min(self.n_slow, 8))

    @property
    def n_threads(self) -> int:
        """Number of threads that share the results: one if there is too little work."""
        if self.target.has_local or self.work < constants.MIN_THREADED_WORK:
            return 1
        return self.target.cores

    @property
    def n_results(self) -> int:
        """Maximum number of results."""
        return max_trips(*self.results)

    def is_stored_along(self, axis: UOp) -> bool:
        """Whether results along `axis` are contiguous in memory."""
        return any(a.is_store and a.stride(axis) == 1 for a in self.accesses)

    def find_axis(self, loop: UOp) -> UOp | None:
        """Find a loop as it was before any Opt; None if an Opt made it."""
        return next((r for r in self.axes if r.arg == loop.arg), None)

    def name(self, axis: UOp) -> str:
        """Format a loop as its index among all axes, or among the reduced ones, as in Opts, and its
        size.
        """
        loop = self.find_axis(axis)
        if loop is None:
            return "a new loop"
        size = exact_trips(loop)
        size_text = f"({size if isinstance(size, int) else f'up to {max_trips(loop)}'})"
        if loop.arg.kind is not AxisType.REDUCE:
            return f"axis {self.axes.index(loop)} {size_text}"
        return (
            f"reduced axis {[r for r in self.axes if r.arg.kind is AxisType.REDUCE].index(loop)}"
            f" {size_text}"
        )


def make_facts(kernel: UOp, target: Target) -> KernelFacts:
    """Compute the facts of a kernel without Opts."""
    order = kernel.toposort()
    # Strides are found once here: heuristics ask for them for each pair of an access and an axis.
    written = {n.location for n in order if n.op is Op.STORE}
    accesses = {
        n: Access(n, n in written, {r: find_stride(n.position, r) for r in n.position.ranges})
        for n in order
        if n.op is Op.INDEX
    }
    # An END below another node fills private memory or a part of the results; only those that the
    # SINK holds loop over all results.
    ends, effects = [n for n in order if n.op in (Op.END, Op.REDUCE)], set(kernel.src)
    if len(effects) > 1:
        # Parts without a common loop, see split-loops: each is vectorized separately.
        effects.clear()
    outer = {r for n in ends if n in effects for r in n.loops if r.arg.kind is AxisType.LOOP}
    axes = list_axes(order)
    results = tuple(r for r in axes if r in outer)

    def make_nest(node: UOp) -> Nest:
        inside = tuple(accesses[n] for n in node.source.toposort() if n.op is Op.INDEX)
        return Nest(node, inside, tuple(r for r in results if r in node.ranges))

    n_slow = sum(n.op in _SLOW and n.dtype.kind != "index" for n in order)
    # Indices are left out: they are mostly folded into addressing modes, and would halve the lanes
    # of every kernel of float32.
    computed = (n.dtype.itemsize for n in order if n.dtype.kind in ("int", "uint", "float"))
    return KernelFacts(
        kernel,
        target,
        tuple(axes),
        results,
        tuple(accesses.values()),
        reductions=tuple(make_nest(n) for n in ends if n.op is Op.REDUCE),
        rows=tuple(
            make_nest(n) for n in ends if n.op is Op.END and n not in effects and not _is_carried(n)
        ),
        carried=tuple(list_carried_loops(order, target)),
        updated=tuple(
            accesses[store.location]
            for end in ends
            if end in effects and _is_carried(end)
            for store in end.source.toposort()
            if store.op is Op.STORE
        ),
        lanes=max(target.vector_bits // (8 * max(computed, default=1)), 1),
        access_bytes=max((n.dtype.itemsize for n in accesses), default=4),
        n_slow=n_slow,
        n_steps=_count_steps(ends),
    )


def _is_carried(end: UOp) -> bool:
    return any(r.arg.kind is AxisType.SCAN for r in end.loops)


def _count_steps(ends: Iterable[UOp]) -> int:
    """Count the iterations of all loop nests; sequential nests add up."""
    return sum(max_trips(*node.ranges.union(node.loops)) for node in ends)


def is_multiple(axis: UOp, amount: int) -> bool:
    """True if the trip count of a loop is known, and a multiple of `amount`."""
    size = exact_trips(axis)
    return isinstance(size, int) and size % amount == 0

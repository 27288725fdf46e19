"""`KernelFacts`: what every choice of Opts is made from, found once for a kernel and a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from svod_ir import AxisType, Op, Target, UOp, exact_trips, max_trips
from svod_ir.ops import TABLE
from svod_schedule._linear_index import find_stride, stride_cost
from svod_schedule.optimize.cost_model.carried_values import CarriedLoop, list_carried_loops
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.opts.axes import list_axes

__all__ = ["Access", "KernelFacts", "Nest", "make_facts"]

_SLOW = frozenset(op for op, row in TABLE.items() if row.instructions >= 6) - {
    Op.RSQRT,
    Op.RECIPROCAL,
}
"""Ops that take the time of a division, or more; those two mostly stand where a row is normalised,
once for all of it.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A place in memory, and by how many elements it moves along each loop that its position
    depends on (None: varying).
    """

    node: UOp
    is_store: bool
    strides: Mapping[UOp, int | None]

    def stride(self, axis: UOp) -> int | None:
        return self.strides.get(axis, 0)

    def depends_on(self, axis: UOp) -> bool:
        """Whether its position, its gate, or what fills its memory does."""
        return axis in self.node.ranges

    def cost(self, axis: UOp, n_lanes: int) -> float:
        """How many accesses `n_lanes` elements along `axis` take, as a part of so many."""
        return stride_cost(self.stride(axis), self.node, axis, n_lanes, is_read=not self.is_store)


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A reduction, or the loops that fill a thread's own memory: the `node` that ends the loops,
    and what is accessed inside.
    """

    node: UOp
    accesses: tuple[Access, ...]
    results: tuple[UOp, ...]
    """The loops over the kernel's results that its value depends on, from outer to inner."""

    @property
    def loops(self) -> tuple[UOp, ...]:
        return self.node.loops

    @property
    def operands(self) -> list[Access]:
        """What is read anew in each iteration."""
        return [a for a in self.accesses if any(map(a.depends_on, self.loops))]

    @property
    def n_iterations(self) -> int:
        return max_trips(*self.loops)

    def is_chosen_by(self, axis: UOp) -> bool:
        """Whether a condition on `axis` says which terms are added up: one result at a time has
        loops of these alone.
        """
        value = self.node.source
        return self.node.op is Op.REDUCE and value.op is Op.WHERE and axis in value.condition.ranges

    def reuse(self, operand: Access) -> int:
        """For how many results each element of an operand is read."""
        return max_trips(*(a for a in self.results if not operand.depends_on(a)))


@dataclass(frozen=True, slots=True, eq=False)
class KernelFacts:
    """A kernel before any Opt, as the choices see it.

    Attributes:
        axes: all loops, in the order of `Scheduler.axes`.
        results: those over results, from outer to inner.
        accesses: every place that is read or written.
        reductions: in the order in which they are computed.
        rows: the loops that fill a thread's own memory.
        carried: the loops that carry values from iteration to iteration.
        lanes: how many elements of the widest type that is computed fit a vector.
        access_bytes: the size of the widest element in memory.
        n_slow: how many ops take much longer than an addition.
        work: about how many steps all loops take together.
    """

    kernel: UOp
    target: Target
    axes: tuple[UOp, ...]
    results: tuple[UOp, ...]
    accesses: tuple[Access, ...]
    reductions: tuple[Nest, ...]
    rows: tuple[Nest, ...]
    carried: tuple[CarriedLoop, ...]
    lanes: int
    access_bytes: int
    n_slow: int
    work: int

    @property
    def access_lanes(self) -> int:
        """How many of the widest elements in memory fit a vector."""
        return max(self.target.vector_bits // (8 * self.access_bytes), 1)

    @property
    def n_results(self) -> int:
        return max_trips(*self.results)

    def is_stored_along(self, axis: UOp) -> bool:
        """Whether neighbouring results along `axis` lie side by side."""
        return any(a.is_store and a.stride(axis) == 1 for a in self.accesses)

    def name(self, axis: UOp) -> str:
        """A loop, or what is left of it, by its place among all or among the reduced ones, as in
        Opts, and by its size.
        """
        given = next((r for r in self.axes if r.arg == axis.arg), None)
        if given is None:
            return "a new loop"
        size = exact_trips(given)
        shown = f"({size if isinstance(size, int) else f'up to {max_trips(given)}'})"
        if given.arg.kind is not AxisType.REDUCE:
            return f"axis {self.axes.index(given)} {shown}"
        return (
            f"reduced axis {[r for r in self.axes if r.arg.kind is AxisType.REDUCE].index(given)}"
            f" {shown}"
        )


def make_facts(kernel: UOp, target: Target) -> KernelFacts:
    """The facts of a kernel to which no Opt was applied."""
    order = kernel.toposort()
    written = {n.location for n in order if n.op is Op.STORE}
    accesses = {
        n: Access(n, n in written, {r: find_stride(n.position, r) for r in n.position.ranges})
        for n in order
        if n.op is Op.INDEX
    }
    ends, effects = [n for n in order if n.op in (Op.END, Op.REDUCE)], set(kernel.src)
    outer = {r for n in ends if n in effects for r in n.loops if r.arg.kind is AxisType.LOOP}
    axes = list_axes(order)
    results = tuple(r for r in axes if r in outer)

    def make_nest(node: UOp) -> Nest:
        inside = tuple(accesses[n] for n in node.source.toposort() if n.op is Op.INDEX)
        return Nest(node, inside, tuple(r for r in results if r in node.ranges))

    n_slow = sum(n.op in _SLOW and n.dtype.kind != "index" for n in order)
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
        lanes=max(target.vector_bits // (8 * max(computed, default=1)), 1),
        access_bytes=max((n.dtype.itemsize for n in accesses), default=4),
        n_slow=n_slow,
        work=_count_steps(ends) * (1 + constants.SLOW_STEPS * min(n_slow, 8)),
    )


def _is_carried(end: UOp) -> bool:
    return any(r.arg.kind is AxisType.SCAN for r in end.loops)


def _count_steps(ends: Iterable[UOp]) -> int:
    """How often the bodies of all loops run; loops that stand side by side add up."""
    return sum(max_trips(*node.ranges.union(node.loops)) for node in ends)

"""The loop nest of an optimised kernel, and which bytes its accesses touch: what a cost model asks of a kernel.

A value is computed in the innermost loop that it depends on, and so in all loops around that one; an
access reuses what lies in a cache if a whole turn of a loop around it touches no more than fits there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf, prod

from svod_ir.ops import AxisType, Op
from svod_ir.uop import UOp

__all__ = ["Access", "LoopNest", "Traffic", "count_runs", "estimate_stride", "find_accesses", "trip_count"]

_EXPANDED = (AxisType.UPCAST, AxisType.UNROLL)
_PARALLEL = (AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL, AxisType.WARP)


def trip_count(r: UOp) -> int:
    """How many turns a loop takes, the middle of its bounds where it varies."""
    low, high = int(r.src[0].vmin), int(r.src[0].vmax)
    return max((low + high) // 2, 1)


def estimate_stride(expression: UOp, r: UOp) -> float | None:
    """About how far `expression` moves when `r` grows by 1; None where that depends on data."""
    if expression is r:
        return 1.0
    if r not in expression.ranges:
        return 0.0
    match expression.op:
        case Op.ADD | Op.SUB | Op.MIN | Op.MAX:
            left, right = (estimate_stride(s, r) for s in expression.src)
            if left is None or right is None:
                return None
            if expression.op in (Op.MIN, Op.MAX):
                return max(left, right, key=abs)
            return left + right if expression.op is Op.ADD else left - right
        case Op.MUL | Op.IDIV | Op.MOD:
            x, y = expression.src
            stride = estimate_stride(x, r) if y.op is Op.CONST else None
            if stride is None or expression.op is Op.MOD:
                return stride
            return stride * int(y.arg) if expression.op is Op.MUL else stride / max(int(y.arg), 1)
        case Op.NEG:
            stride = estimate_stride(expression.src[0], r)
            return None if stride is None else -stride
        case Op.CAST | Op.AFTER:
            return estimate_stride(expression.src[0], r)
        case Op.WHERE:
            found = [estimate_stride(s, r) for s in expression.src[1:]]
            return None if None in found else max((s for s in found if s is not None), key=abs)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Access:
    """An INDEX, the loops around it from outer to inner, and its stride in bytes along each range that it depends on."""

    node: UOp
    loops: tuple[UOp, ...]
    strides: dict[UOp, float | None]
    is_store: bool

    def footprint(self, ranges: Iterable[UOp], line_bytes: int) -> float:
        """The bytes of the cache lines that are touched while `ranges` run and all others stand still."""
        moved = [(s, trip_count(r)) for r in ranges if (s := self.strides.get(r, 0.0)) != 0]
        itemsize = float(self.node.dtype.itemsize)
        run, n_runs = itemsize, 1.0
        for stride, n in sorted(((inf if s is None else abs(s)), n) for s, n in moved):
            if stride <= run + line_bytes:
                run += stride * (n - 1)
            else:
                n_runs *= n
        bytes_touched = n_runs * (ceil(run / line_bytes) * line_bytes if n_runs > 1 else max(run, line_bytes))
        whole = _n_elements(_memory(self.node)) * itemsize
        return min(bytes_touched, max(whole, line_bytes))


class LoopNest:
    """Which loops stand around which."""

    def __init__(self, order: list[UOp]) -> None:
        self.around: dict[UOp, tuple[UOp, ...]] = {}
        """For each loop those around it, from outer to inner, and itself."""
        self._placed: dict[frozenset[UOp], tuple[UOp, ...]] = {}
        # Outer loops are closed by later nodes, so walking backwards meets them first.
        for node in reversed(order):
            if node.op in (Op.END, Op.REDUCE):
                self._open(node)

    def _open(self, node: UOp) -> None:
        own = [r for r in node.src[1:] if r.arg[1] not in _EXPANDED]
        around = self.loops_of(node)
        for r in sorted(own, key=lambda r: r.arg[1] not in _PARALLEL):
            if r not in self.around:
                self.around[r] = (*around, r)
            around = self.around[r]

    def loops_of(self, node: UOp) -> tuple[UOp, ...]:
        """The loops that a node runs in, from outer to inner."""
        ranges = node.ranges
        found = self._placed.get(ranges)
        if found is None:
            loops = [self.around[r] for r in ranges if r in self.around]
            merged = {r: None for chain in sorted(loops, key=len) for r in chain}
            found = self._placed[ranges] = tuple(merged)
        return found


def count_runs(loops: Iterable[UOp]) -> int:
    """How often a node runs that stands in `loops`, in all threads together."""
    return prod(trip_count(r) for r in loops)


def find_accesses(order: list[UOp], nest: LoopNest) -> list[Access]:
    """Every place in memory that is read or written."""
    stored = {n.src[0] for n in order if n.op is Op.STORE}
    found: list[Access] = []
    for node in order:
        if node.op is Op.INDEX:
            itemsize = node.dtype.itemsize
            strides = {
                r: None if (s := estimate_stride(node.src[1], r)) is None else s * itemsize for r in node.src[1].ranges
            }
            found.append(Access(node, nest.loops_of(node), strides, node in stored))
    return found


class Traffic:
    """How many bytes move into a cache of a given size."""

    def __init__(self, accesses: list[Access], line_bytes: int) -> None:
        self._accesses = accesses
        self._line_bytes = line_bytes
        self._sizes: dict[UOp, float] = {}
        self.whole = self._working_set(None)

    def _inside(self, access: Access, loop: UOp | None) -> list[UOp]:
        """What runs in one turn around `loop`: it, the loops in it, and what is taken at a time."""
        expanded = [r for r in access.strides if r.arg[1] in _EXPANDED]
        start = 0 if loop is None else access.loops.index(loop)
        return [*access.loops[start:], *expanded]

    def _working_set(self, loop: UOp | None) -> float:
        by_memory: dict[UOp, float] = {}
        for a in self._accesses:
            if loop is None or loop in a.loops:
                memory = _memory(a.node)
                size = a.footprint(self._inside(a, loop), self._line_bytes)
                by_memory[memory] = max(by_memory.get(memory, 0.0), size)
        return sum(by_memory.values())

    def size_of(self, loop: UOp) -> float:
        """The bytes touched by one complete run of `loop`."""
        if loop not in self._sizes:
            self._sizes[loop] = self._working_set(loop)
        return self._sizes[loop]

    def bytes_into(self, access: Access, cache_bytes: float) -> float:
        """The bytes that `access` moves into a cache of this size, in one launch that finds there what fits."""
        if self.whole <= cache_bytes:
            return 0.0
        loops = access.loops
        first = next((i for i, r in enumerate(loops) if self.size_of(r) <= cache_bytes), len(loops))
        # The loop around what fits finds again what its turns have in common.
        first = max(first - 1, 0)
        expanded = [r for r in access.strides if r.arg[1] in _EXPANDED]
        moved = access.footprint([*loops[first:], *expanded], self._line_bytes)
        return moved * count_runs(loops[:first])


def _memory(node: UOp) -> UOp:
    memory = node.src[0]
    while memory.op is Op.AFTER:
        memory = memory.src[0]
    return memory


def _n_elements(memory: UOp) -> int:
    return memory.arg.size if memory.op is Op.PARAM else memory.arg[1]

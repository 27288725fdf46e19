"""Loop nest of an optimized kernel, and the memory footprint of its accesses, for the cost model.

A value is computed in the innermost loop that it depends on, and so in all loops that enclose it.
An access hits a cache if one iteration of an enclosing loop touches no more than the cache
holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, gcd, inf, prod

from svod_ir import AxisType, Op, UOp, typical_trips

__all__ = [
    "PAGE_BYTES",
    "Footprint",
    "LoopNest",
    "NestedAccess",
    "Traffic",
    "count_runs",
    "estimate_stride",
    "get_accesses",
]

_WAYS = 8
"""Associativity: number of lines that map to the same set and are in a cache at a time."""

PAGE_BYTES = 4096

_EXPANDED = (AxisType.UPCAST, AxisType.UNROLL, AxisType.TILE_N, AxisType.TILE_M, AxisType.TILE_K)
_PARALLEL = (AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL, AxisType.WARP)


def estimate_stride(expression: UOp, r: UOp) -> float | None:
    """Estimate the change of `expression` when `r` grows by 1; None if it depends on data."""
    if expression is r:
        return 1.0
    if r not in expression.ranges:
        return 0.0
    match expression.op:
        case Op.ADD | Op.SUB | Op.MIN | Op.MAX:
            left, right = (estimate_stride(s, r) for s in expression.src)
            if left is None or right is None:
                return None
            # An overlapping tile is MIN(n * tile, size - tile): it moves by its stride everywhere
            # but at the end.
            if expression.op in (Op.MIN, Op.MAX):
                return max(left, right, key=abs)
            return left + right if expression.op is Op.ADD else left - right
        case Op.MUL | Op.IDIV | Op.MOD:
            x, y = expression.src
            stride = estimate_stride(x, r) if y.op is Op.CONST else None
            # The stride within a period: a jump back at its end is rare.
            if stride is None or expression.op is Op.MOD:
                return stride
            return stride * int(y.arg) if expression.op is Op.MUL else stride / max(int(y.arg), 1)
        case Op.NEG:
            stride = estimate_stride(expression.source, r)
            return None if stride is None else -stride
        case Op.CAST | Op.AFTER:
            return estimate_stride(expression.source, r)
        case Op.WHERE:
            strides = [estimate_stride(s, r) for s in expression.src[1:]]
            return None if None in strides else max((s for s in strides if s is not None), key=abs)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class NestedAccess:
    """An INDEX, the loops around it from outer to inner, and its stride in bytes along each range
    that it depends on.
    """

    node: UOp
    loops: tuple[UOp, ...]
    strides: dict[UOp, float | None]
    is_store: bool

    def footprint(self, ranges: Iterable[UOp], line_bytes: int) -> Footprint:
        """Return the cache lines that are touched while `ranges` iterate and all others are fixed."""
        moved = [(s, typical_trips(r)) for r in ranges if (s := self.strides.get(r, 0.0)) != 0]
        run = float(self.node.dtype.itemsize)
        jumps: list[tuple[float, int]] = []
        for stride, n in sorted(((inf if s is None else abs(s)), n) for s, n in moved):
            # Elements no further than a line from the run touch neighboring lines, so they extend
            # it; the others begin runs of their own.
            if stride <= run + line_bytes:
                run += stride * (n - 1)
            else:
                jumps.append((stride, n))
        # A row may begin anywhere in a line.
        run = max(run, line_bytes) if not jumps else ceil(run / line_bytes) * line_bytes
        memory_bytes = max(
            self.node.memory.unordered.arg.size * self.node.dtype.itemsize, line_bytes
        )
        return Footprint(min(run * prod(n for _, n in jumps), memory_bytes), run, tuple(jumps))


@dataclass(frozen=True, slots=True)
class Footprint:
    """Cache lines of an access, in bytes: runs of `run_bytes` each, and for each loop over runs their
    distance in bytes and their number.
    """

    n_bytes: float
    run_bytes: float
    jumps: tuple[tuple[float, int], ...]

    def occupied(self, cache_bytes: float) -> float:
        """Bytes of a cache that the footprint occupies: runs at a distance of a power of two share few
        sets.
        """
        period = cache_bytes / _WAYS
        used = self.run_bytes
        for distance, n in self.jumps:
            apart = n if distance == inf else period / gcd(int(distance), int(period))
            used *= min(n, apart)
        return (
            self.n_bytes * max(1.0, period / used)
            if self.jumps and self.n_bytes >= used
            else self.n_bytes
        )


class LoopNest:
    """Nesting of a kernel's loops."""

    def __init__(self, order: list[UOp]) -> None:
        self.around: dict[UOp, tuple[UOp, ...]] = {}
        """Enclosing loops of each loop, from outer to inner, ending with the loop itself."""
        self._placed: dict[frozenset[UOp], tuple[UOp, ...]] = {}
        # Outer loops are closed by later nodes, so walking backwards meets them first.
        for node in reversed(order):
            if node.op in (Op.END, Op.REDUCE):
                self._open(node)

    def _open(self, node: UOp) -> None:
        own = [r for r in node.loops if r.arg.kind not in _EXPANDED]
        around = self.loops_of(node)
        for r in sorted(own, key=lambda r: r.arg.kind not in _PARALLEL):
            if r not in self.around:
                self.around[r] = (*around, r)
            around = self.around[r]

    def loops_of(self, node: UOp) -> tuple[UOp, ...]:
        """Return the loops that a node runs in, from outer to inner."""
        ranges = node.ranges
        loops = self._placed.get(ranges)
        if loops is None:
            chains = [self.around[r] for r in ranges if r in self.around]
            merged = {r: None for chain in sorted(chains, key=len) for r in chain}
            loops = self._placed[ranges] = tuple(merged)
        return loops


def count_runs(loops: Iterable[UOp]) -> int:
    """Count the executions of a node in `loops`, over all threads."""
    return typical_trips(*loops)


def get_accesses(order: list[UOp], nest: LoopNest) -> list[NestedAccess]:
    """List all reads and writes of memory."""
    stored = {n.location for n in order if n.op is Op.STORE}
    accesses: list[NestedAccess] = []
    for node in order:
        if node.op is Op.INDEX:
            itemsize = node.dtype.itemsize
            strides = {
                r: None if (s := estimate_stride(node.position, r)) is None else s * itemsize
                for r in node.position.ranges
            }
            accesses.append(NestedAccess(node, nest.loops_of(node), strides, node in stored))
    return accesses


class Traffic:
    """Number of bytes transferred into a cache of `cache_bytes` in one launch with warm caches.

    Bytes that are read from page to page, which defeats the prefetcher and the TLB, count
    `scattered` times. Each thread has a cache of its own if `is_private`."""

    def __init__(
        self,
        accesses: Sequence[NestedAccess],
        cache_bytes: float,
        line_bytes: int,
        scattered: float = 1.0,
        *,
        is_private: bool = False,
    ) -> None:
        self._accesses = accesses
        self._cache_bytes = cache_bytes
        self._line_bytes = line_bytes
        self._scattered = scattered
        self._is_private = is_private
        self._fits: dict[tuple[UOp, ...], bool] = {}

    def bytes_of(self, access: NestedAccess) -> float:
        """Return the bytes that `access` transfers."""
        loops = access.loops
        # Each thread has its share of the data in its own cache.
        is_split = self._is_private and loops[:1] and loops[0].arg.kind is AxisType.THREAD
        if self._does_fit(loops[:1] if is_split else ()):
            return 0.0
        first = next((i for i in range(len(loops)) if self._does_fit(loops[: i + 1])), None)
        # The outermost loop of which an iteration fits reuses lines across its iterations; if there
        # is none, all lines are evicted before the next iteration.
        outside = len(loops) if first is None else first
        expanded = _expanded(access)
        moved = access.footprint([*loops[outside:], *expanded], self._line_bytes)
        walked = access.footprint(
            expanded if first is None else [*loops[-1:], *expanded], self._line_bytes
        )
        return (
            moved.n_bytes
            * count_runs(loops[:outside])
            * (self._scattered if self._is_scattered(walked) else 1.0)
        )

    def _is_scattered(self, walked: Footprint) -> bool:
        return walked.run_bytes <= 2 * self._line_bytes and any(
            distance >= PAGE_BYTES for distance, _ in walked.jumps
        )

    def _does_fit(self, around: tuple[UOp, ...]) -> bool:
        """Whether one execution of the body of `around` touches no more than the cache holds."""
        if around not in self._fits:
            by_memory: dict[UOp, float] = {}
            for a in self._accesses:
                if a.loops[: len(around)] == around:
                    size = a.footprint([*a.loops[len(around) :], *_expanded(a)], self._line_bytes)
                    memory = a.node.memory.unordered
                    # Accesses of one memory touch mostly the same lines: the elements around a
                    # stencil, or a load and its store.
                    by_memory[memory] = max(
                        by_memory.get(memory, 0.0), size.occupied(self._cache_bytes)
                    )
            self._fits[around] = sum(by_memory.values()) <= self._cache_bytes
        return self._fits[around]


def _expanded(access: NestedAccess) -> list[UOp]:
    return [r for r in access.strides if r.arg.kind in _EXPANDED]

"""Expected time of an optimized kernel on a target, predicted only from its graph.

Three bounds are computed and joined: what the core issues (vector instructions, loads, stores, loop
ends, spilled registers), how long chains of dependent additions take, and what has to come through
each cache. Source of the model: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4),
2009, with a roof for each unit and each level of memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil, inf, log2, prod

from svod_dtype import DType
from svod_ir import AxisType, Op, Target, TensorCore, UOp, typical_trips
from svod_ir.ops import COMPARISON, ELEMENTWISE, TABLE
from svod_schedule.lower.block_sums import LONG_RUN, SHORT_RUN
from svod_schedule.lower.expand import MAX_ACCUMULATORS, choose_lane_axes
from svod_schedule.lower.vectors.products import TILED, find_core
from svod_schedule.optimize.cost_model.carried_values import list_carried_loops
from svod_schedule.optimize.cost_model.loop_nest import (
    LoopNest,
    NestedAccess,
    Traffic,
    count_runs,
    get_accesses,
)

__all__ = ["Cost", "estimate_cost"]

_EXPANDED = (AxisType.UPCAST, AxisType.UNROLL, AxisType.TILE_N, AxisType.TILE_M)
_SHOWN = 0.2
"""The part that is seen of what happens beside the slowest."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel is expected to take, and of what.

    All but `seconds`, the whole, are parts: of the core's units and of dependences, in seconds of
    one thread; of each level of memory; of starting. `n_operations` and `n_bytes` are of arithmetic
    and of accesses, counted in elements; `n_taken` is how many elements of one value an iteration
    of the loops takes at most."""

    seconds: float
    issue_seconds: float
    latency_seconds: float
    l2_seconds: float
    l3_seconds: float
    memory_seconds: float
    start_seconds: float
    n_threads: int
    n_operations: float
    n_bytes: float
    n_spilled: float
    n_taken: int


@dataclass(slots=True)
class _Body:
    """What one iteration of a loop does itself, in instructions of each unit, and how long its
    slowest chain takes, in cycles.
    """

    issued: float = 0.0
    vector: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    chain: float = 0.0
    run: float = inf
    spilled: float = 0.0

    def stalled(self, target: Target) -> float:
        """The cycles in which nothing is issued: as many iterations run at once as the core looks
        ahead, past the end of a chain.
        """
        ahead = target.rates.window / max(self.issued, 1.0)
        return max(self.chain / (1 + ahead / self.run) - self.cycles(target), 0.0)

    def cycles(self, target: Target) -> float:
        rates = target.rates
        units = (self.vector / rates.vector, self.loads / rates.loads, self.stores / rates.stores)
        # What is spilled is read by what comes next, so that nothing hides it.
        return max(self.issued / rates.issued, *units) + self.spilled / rates.stores


def estimate_cost(kernel: UOp, target: Target) -> Cost:
    """Predict the time of one launch of an optimised kernel that is not lowered yet.

    Variables count with the middle of their bounds. Caches are warm: what fits in one is there.
    """
    return _Estimate(kernel, target).cost()


class _Estimate:
    def __init__(self, kernel: UOp, target: Target) -> None:
        self.target = target
        self.order = kernel.toposort()
        axes = [n for n in self.order if n.op is Op.RANGE and n.arg.kind in _EXPANDED]
        self.lane_axes = choose_lane_axes(kernel, axes) if axes else set[UOp]()
        self.nest = LoopNest(self.order)
        self.accesses = {a.node: a for a in get_accesses(self.order, self.nest)}
        self.bodies: defaultdict[tuple[UOp, ...], _Body] = defaultdict(_Body)
        self.registers: defaultdict[tuple[UOp, ...], float] = defaultdict(float)
        self.fused = self._get_fused()
        self.n_operations = self.n_bytes = self.n_spilled = 0.0
        self.n_taken = 1

    def cost(self) -> Cost:
        for node in self.order:
            self._add(node)
        self._add_loops()
        self._add_spills()
        target, rates = self.target, self.target.rates
        parallel = (
            n
            for n in self.order
            if n.op is Op.RANGE and n.arg.kind in (AxisType.THREAD, AxisType.GLOBAL)
        )
        n_threads = min(typical_trips(*parallel), target.cores)
        cycle = 1.0 / rates.clock / n_threads
        bodies = [(body, count_runs(loops)) for loops, body in self.bodies.items()]
        issue = sum(body.cycles(target) * n for body, n in bodies) * cycle
        latency = sum(body.stalled(target) * n for body, n in bodies) * cycle
        l2 = self._bytes_into(target.l1_bytes, is_private=True) / rates.l2_bytes * cycle
        l3 = self._bytes_into(target.l2_bytes, is_private=True) / rates.l3_bytes * cycle
        # One core takes the larger part of what the memory can give.
        memory = (
            self._bytes_into(target.l3_bytes or target.l2_bytes)
            / target.memory_bandwidth
            / min(n_threads, 1.5)
        )
        start = rates.launch_seconds + (rates.fork_seconds if n_threads > 1 else 0.0)
        parts = (issue + latency, l2, l3, memory)
        return Cost(
            # The slowest part hides most of the others.
            seconds=start + max(parts) + _SHOWN * (sum(parts) - max(parts)),
            issue_seconds=issue,
            latency_seconds=latency,
            l2_seconds=l2,
            l3_seconds=l3,
            memory_seconds=memory,
            start_seconds=start,
            n_threads=n_threads,
            n_operations=self.n_operations,
            n_bytes=self.n_bytes,
            n_spilled=self.n_spilled,
            n_taken=self.n_taken,
        )

    def _get_fused(self) -> set[UOp]:
        """Products that are added at once, where the target does both in one instruction."""
        readers: defaultdict[UOp, list[UOp]] = defaultdict(list)
        for node in self.order:
            for operand in node.src:
                readers[operand].append(node)
        products = (n for n in self.order if n.op is Op.MUL and n.dtype.kind == "float")
        return {n for n in products if self.target.has_fma and all(map(_is_sum, readers[n]))}

    def _shape(self, node: UOp, without: tuple[UOp, ...] = ()) -> tuple[int, int]:
        """How many copies of a node there are, and its lanes."""
        copies = lanes = 1
        for r in node.ranges:
            if r.arg.kind in _EXPANDED and r not in without:
                if r in self.lane_axes:
                    lanes = typical_trips(r)
                else:
                    copies *= typical_trips(r)
        return copies, lanes

    def _tile_size(self, node: UOp) -> int:
        """How many elements of an operand of a tensor core, or of what fills one, are taken in a
        step; 1 elsewhere.
        """
        return (
            typical_trips(*(r for r in node.ranges if r.arg.kind in TILED))
            if _is_in_step(node)
            else 1
        )

    def _count_steps(self, node: UOp) -> int:
        """How often an operand of a tensor core is taken in one iteration of the loops."""
        return typical_trips(
            *(r for r in node.ranges if r.arg.kind in (AxisType.UPCAST, AxisType.UNROLL))
        )

    def _registers(self, lanes: int, dtype: DType) -> int:
        return (
            ceil(lanes * max(dtype.itemsize, 1) * 8 / self.target.vector_bits) if lanes > 1 else 1
        )

    def _add(self, node: UOp) -> None:
        if node.op is Op.INDEX:
            self._add_access(self.accesses[node])
        elif node.op is Op.REDUCE:
            self._add_reduce(node)
        elif node.op is Op.SCAN:
            body = self.bodies[self.nest.loops_of(node)]
            body.chain += self.target.rates.add_latency
            body.issued += 1
        elif node.op is Op.ADVANCE:
            self._add_carried(node)
        elif node.op in ELEMENTWISE:
            self._add_arithmetic(node)

    def _add_carried(self, node: UOp) -> None:
        carried = next(c for c in list_carried_loops(self.order, self.target) if c.node is node)
        loops = self.nest.loops_of(node)
        body = self.bodies[loops]
        body.chain = max(body.chain, carried.chain)
        body.run = typical_trips(carried.loop)
        for value in node.carried:
            copies, lanes = self._shape(value)
            self.registers[loops] += copies * self._registers(lanes, value.dtype)

    def _add_arithmetic(self, node: UOp) -> None:
        copies, lanes = self._shape(node)
        loops = self.nest.loops_of(node)
        if _is_in_step(node):
            # What the core does, or makes of an operand beside it.
            if node.dtype.kind != "index":
                self.n_operations += (
                    self._count_steps(node) * self._tile_size(node) * count_runs(loops)
                )
            return
        self.n_taken = max(self.n_taken, copies * lanes)
        body = self.bodies[loops]
        if node.dtype.kind == "index":
            # Addresses are mostly part of the instructions that use them.
            body.issued += 3 * copies if node.op in (Op.IDIV, Op.MOD) else 0.2
            return
        dtype = node.left.dtype if node.op in COMPARISON else node.dtype
        if node.op is Op.CAST:
            dtype = max((node.dtype, node.source.dtype), key=lambda d: d.itemsize)
        n = copies * self._registers(lanes, dtype) * TABLE[node.op].instructions
        self.n_operations += copies * lanes * count_runs(loops)
        if node in self.fused:
            return
        body.issued += n
        body.vector += n

    def _add_access(self, access: NestedAccess) -> None:
        node = access.node
        if _is_in_step(node):
            self._add_operand(access)
            return
        copies, lanes = self._shape(node)
        self.n_taken = max(self.n_taken, copies * lanes)
        lane_axis = next((r for r in node.position.ranges if r in self.lane_axes), None)
        itemsize = node.dtype.itemsize
        stride = access.strides.get(lane_axis, 0.0) if lane_axis is not None else 0.0
        if lane_axis is None:
            n = 1.0
        elif stride == itemsize:
            n = float(self._registers(lanes, node.dtype))
        else:
            n = lanes * (1.0 if self.target.has_gather else 2.0)
        if node.gate is not None:
            n *= 2 if lanes == 1 or self.target.has_masked_access else 2 * lanes
        body = self.bodies[access.loops]
        body.issued += copies * n
        if access.is_store:
            body.stores += copies * n
        else:
            body.loads += copies * n
        self.n_bytes += copies * lanes * itemsize * count_runs(access.loops)

    def _add_operand(self, access: NestedAccess) -> None:
        """Vectors of a tile where its elements lie together, rows of them or single elements
        elsewhere.
        """
        node = access.node
        steps, size = self._count_steps(node), self._tile_size(node)
        dense = max(
            (
                typical_trips(r)
                for r, s in access.strides.items()
                if r.arg.kind in TILED and s == node.dtype.itemsize
            ),
            default=1,
        )
        is_packed = node.memory.op is not Op.PARAM
        n = float(
            steps
            * (
                self._registers(size, node.dtype)
                if is_packed or dense == size
                else 2 * size // dense
            )
        )
        body = self.bodies[access.loops]
        body.issued += n
        if access.is_store:
            body.stores += n
        else:
            body.loads += n
        self.n_bytes += steps * size * node.dtype.itemsize * count_runs(access.loops)

    def _add_tile(self, node: UOp, core: TensorCore) -> None:
        """The steps of a tensor core: each takes the time of so many vector instructions."""
        loops = self.nest.loops_of(node.source)
        steps, kept = self._count_steps(node.source), self._count_steps(node)
        body = self.bodies[loops]
        body.issued += steps
        body.vector += steps * core.cycles * self.target.rates.vector
        self.n_operations += steps * prod(core.dims) * count_runs(loops)
        own_loops = [r for r in node.loops if r.arg.kind not in (*_EXPANDED, AxisType.TILE_K)]
        if own_loops:
            body.chain = max(body.chain, max(self.target.rates.add_latency, 3 * core.cycles))
            body.run = _run_length(node, own_loops)
            if not core.tiles:
                self.registers[loops] += kept * self._registers(core.dims[0], node.dtype)
            elif kept > core.tiles:
                body.spilled += (kept - core.tiles) * core.dims[1]
        if core.dims[1] > 1:
            # A tile is written to memory, from where its rows are read.
            after = self.bodies[self.nest.loops_of(node)]
            after.stores += kept * core.dims[1]
            after.loads += kept * core.dims[1]

    def _add_reduce(self, node: UOp) -> None:
        tile = find_core(node, self.target.tensor_cores)
        if tile is not None:
            self._add_tile(node, tile[0])
            return
        value, op = node.source, node.arg
        own = set(node.loops)
        loops = self.nest.loops_of(value)
        own_loops = [r for r in own if r.arg.kind not in _EXPANDED]
        # A value may depend on none of the loops it is added up in.
        loops = max([loops, *(self.nest.around[r] for r in own_loops)], key=len)
        copies, lanes = self._shape(value)
        kept, _ = self._shape(node)
        n_vectors = self._registers(lanes, value.dtype)
        slow = TABLE[op].instructions
        body = self.bodies[loops]
        body.issued += copies * n_vectors * slow
        body.vector += copies * n_vectors * slow
        self.n_operations += copies * lanes * count_runs(loops)
        if own_loops:
            accumulators = copies if copies <= MAX_ACCUMULATORS else kept
            latency = self.target.rates.add_latency if value.dtype.kind == "float" else 1.0
            body.chain = max(body.chain, latency * slow)
            body.run = _run_length(node, own_loops)
            self.registers[loops] += accumulators * n_vectors
        after = self.bodies[self.nest.loops_of(node)]
        if any(r in self.lane_axes for r in own):
            steps = n_vectors - 1 + 2 * ceil(log2(max(lanes // n_vectors, 2)))
            after.issued += kept * steps
            after.chain += self.target.rates.add_latency * (steps / 2 + 1)

    def _add_loops(self) -> None:
        for loop, loops in self.nest.around.items():
            if loop.arg.kind not in (AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL):
                self.bodies[loops].issued += 2
                outside = self.bodies[loops[:-1]]
                outside.issued += self.target.rates.loop_entry * self.target.rates.issued

    def _add_spills(self) -> None:
        for loops, wanted in self.registers.items():
            # The operands of some steps are on their way at a time.
            excess = wanted - self.target.vector_registers * 3 // 4
            if excess > 0:
                self.bodies[loops].spilled += excess
                self.n_spilled += excess

    def _bytes_into(self, cache_bytes: int, *, is_private: bool = False) -> float:
        target, accesses = self.target, list(self.accesses.values())
        traffic = Traffic(
            accesses,
            cache_bytes,
            target.cache_line_bytes,
            target.rates.scattered,
            is_private=is_private,
        )
        # A line is read before it is written.
        return sum(traffic.bytes_of(a) * (2 if a.is_store else 1) for a in accesses)


def _is_in_step(node: UOp) -> bool:
    return any(r.arg.kind is AxisType.TILE_K for r in node.ranges)


def _is_sum(node: UOp) -> bool:
    return node.op is Op.ADD or (node.op is Op.REDUCE and node.arg is Op.ADD)


def _run_length(reduce: UOp, loops: list[UOp]) -> float:
    """Number of additions that depend on each other; `block-sums` cuts long sums."""
    n = typical_trips(*loops)
    if reduce.arg is not Op.ADD or reduce.dtype.kind != "float":
        return n
    return min(n, LONG_RUN if reduce.source.op is Op.MUL else SHORT_RUN)

"""Predicted time of an optimized kernel on a target, from its graph only.

Three bounds are computed and combined: the instructions that the core issues (vector instructions,
loads, stores, loop ends, spills), the latency of chains of dependent additions, and the traffic
into each level of the cache. Source of the model: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4),
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
from svod_schedule.lower.vectors.transposed_reads import find_contiguous_axis
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
_EXPOSED = 0.2
"""Fraction of the faster bounds that the slowest one does not hide."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted time of a kernel, and its components.

    `seconds` is the total. The other times are bounds: of issue and of dependences, of each level
    of memory, and of the launch. `n_operations` is the number of scalar operations, `n_bytes` the
    number of accessed bytes. `n_taken` is the maximum number of elements of one value per
    iteration."""

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
    """Cost of one iteration of a loop without inner loops: instructions of each unit, and the
    latency of the longest chain in cycles.
    """

    issued: float = 0.0
    vector: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    chain: float = 0.0
    run: float = inf
    spilled: float = 0.0

    def stalled(self, target: Target) -> float:
        """Cycles in which no instruction is issued. Iterations within the reorder window overlap, also
        past the end of a chain.
        """
        # A chain stalls only for what the window cannot reach: it holds the following iterations,
        # and where a run is short, also the start of the next one.
        ahead = target.rates.window / max(self.issued, 1.0)
        return max(self.chain / (1 + ahead / self.run) - self.cycles(target), 0.0)

    def cycles(self, target: Target) -> float:
        rates = target.rates
        units = (self.vector / rates.vector, self.loads / rates.loads, self.stores / rates.stores)
        # The next instructions depend on spilled values, so their latency is not hidden.
        return max(self.issued / rates.issued, *units) + self.spilled / rates.stores


def estimate_cost(kernel: UOp, target: Target) -> Cost:
    """Predict the time of one launch of an optimized kernel that is not lowered yet.

    Variables are assumed to be in the middle of their bounds, and caches to be warm.
    """
    return _Estimate(kernel, target).cost()


class _Estimate:
    def __init__(self, kernel: UOp, target: Target) -> None:
        self.target = target
        self.order = kernel.toposort()
        axes = [n for n in self.order if n.op is Op.RANGE and n.arg.kind in _EXPANDED]
        self.lane_axes = choose_lane_axes(kernel, axes) if axes else set[UOp]()
        self.copied = [a for a in axes if a not in self.lane_axes]
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
        # A single core already uses most of the memory bandwidth.
        memory = (
            self._bytes_into(target.l3_bytes or target.l2_bytes)
            / target.memory_bandwidth
            / min(n_threads, 1.5)
        )
        start = rates.launch_seconds + (rates.fork_seconds if n_threads > 1 else 0.0)
        parts = (issue + latency, l2, l3, memory)
        return Cost(
            # The slowest part hides most of the others.
            seconds=start + max(parts) + _EXPOSED * (sum(parts) - max(parts)),
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
        """Products that the target fuses with an addition (FMA)."""
        readers: defaultdict[UOp, list[UOp]] = defaultdict(list)
        for node in self.order:
            for operand in node.src:
                readers[operand].append(node)
        products = (n for n in self.order if n.op is Op.MUL and n.dtype.kind == "float")
        return {n for n in products if self.target.has_fma and all(map(_is_sum, readers[n]))}

    def _shape(self, node: UOp, without: tuple[UOp, ...] = ()) -> tuple[int, int]:
        """Number of register copies of a node, and its lanes."""
        copies = lanes = 1
        for r in node.ranges:
            if r.arg.kind in _EXPANDED and r not in without:
                if r in self.lane_axes:
                    lanes = typical_trips(r)
                else:
                    copies *= typical_trips(r)
        return copies, lanes

    def _tile_size(self, node: UOp) -> int:
        """Number of elements per step of an operand of a tensor core, or of its packing; 1 for other
        nodes.
        """
        return (
            typical_trips(*(r for r in node.ranges if r.arg.kind in TILED))
            if _is_in_step(node)
            else 1
        )

    def _count_steps(self, node: UOp) -> int:
        """Number of steps of a tensor core in one iteration of the loops."""
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
            # Part of the core's instruction, or the conversion of an operand for it.
            if node.dtype.kind != "index":
                self.n_operations += (
                    self._count_steps(node) * self._tile_size(node) * count_runs(loops)
                )
            return
        self.n_taken = max(self.n_taken, copies * lanes)
        body = self.bodies[loops]
        if node.dtype.kind == "index":
            # Address arithmetic is mostly folded into addressing modes; only divisions are not.
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
        elif not access.is_store and find_contiguous_axis(node, lane_axis, self.copied):
            # A vector is loaded, and interleaved log2(lanes) times.
            n = self._registers(lanes, node.dtype) * (1 + log2(lanes))
        else:
            # A gather issues a load for each lane; without one, each lane is also inserted into the
            # vector.
            n = lanes * (1.0 if self.target.has_gather else 2.0)
        if node.gate is not None:
            # A gated access costs its mask or, without masked access, a branch for each lane.
            n *= 2 if lanes == 1 or self.target.has_masked_access else 2 * lanes
        body = self.bodies[access.loops]
        body.issued += copies * n
        if access.is_store:
            body.stores += copies * n
        else:
            body.loads += copies * n
        self.n_bytes += copies * lanes * itemsize * count_runs(access.loops)

    def _add_operand(self, access: NestedAccess) -> None:
        """Add the loads or stores of a core's operand: vectors if the tile is contiguous, otherwise
        runs of elements.
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
        """Add the steps of a tensor core, in equivalent vector instructions."""
        loops = self.nest.loops_of(node.source)
        steps, n_results = self._count_steps(node.source), self._count_steps(node)
        body = self.bodies[loops]
        body.issued += steps
        body.vector += steps * core.cycles * self.target.rates.vector
        self.n_operations += steps * prod(core.dims) * count_runs(loops)
        own_loops = [r for r in node.loops if r.arg.kind not in (*_EXPANDED, AxisType.TILE_K)]
        if own_loops:
            body.chain = max(body.chain, max(self.target.rates.add_latency, 3 * core.cycles))
            body.run = _run_length(node, own_loops)
            if not core.tiles:
                self.registers[loops] += n_results * self._registers(core.dims[0], node.dtype)
            elif n_results > core.tiles:
                body.spilled += (n_results - core.tiles) * core.dims[1]
        if core.dims[1] > 1:
            # The result tile is stored to memory, from which its rows are loaded.
            after = self.bodies[self.nest.loops_of(node)]
            after.stores += n_results * core.dims[1]
            after.loads += n_results * core.dims[1]

    def _add_reduce(self, node: UOp) -> None:
        tile = find_core(node, self.target.tensor_cores)
        if tile is not None:
            self._add_tile(node, tile[0])
            return
        value, op = node.source, node.arg
        own_ranges = set(node.loops)
        loops = self.nest.loops_of(value)
        own_loops = [r for r in own_ranges if r.arg.kind not in _EXPANDED]
        # The summand may be independent of the reduction's loops.
        loops = max([loops, *(self.nest.around[r] for r in own_loops)], key=len)
        copies, lanes = self._shape(value)
        n_results, _ = self._shape(node)
        n_vectors = self._registers(lanes, value.dtype)
        slow = TABLE[op].instructions
        body = self.bodies[loops]
        body.issued += copies * n_vectors * slow
        body.vector += copies * n_vectors * slow
        self.n_operations += copies * lanes * count_runs(loops)
        if own_loops:
            # `expand` gives each copy its accumulator up to this number; beyond it, copies of one
            # result add to the same one.
            accumulators = copies if copies <= MAX_ACCUMULATORS else n_results
            latency = self.target.rates.add_latency if value.dtype.kind == "float" else 1.0
            body.chain = max(body.chain, latency * slow)
            body.run = _run_length(node, own_loops)
            self.registers[loops] += accumulators * n_vectors
        after = self.bodies[self.nest.loops_of(node)]
        if any(r in self.lane_axes for r in own_ranges):
            # The horizontal sum: vectors are added pairwise, then halves of one vector, each with a
            # shuffle.
            steps = n_vectors - 1 + 2 * ceil(log2(max(lanes // n_vectors, 2)))
            after.issued += n_results * steps
            after.chain += self.target.rates.add_latency * (steps / 2 + 1)

    def _add_loops(self) -> None:
        for loop, loops in self.nest.around.items():
            if loop.arg.kind not in (AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL):
                # The increment and the branch of an iteration. A loop's first and last iterations
                # mispredict, which costs its surroundings `loop_entry` cycles.
                self.bodies[loops].issued += 2
                outside = self.bodies[loops[:-1]]
                outside.issued += self.target.rates.loop_entry * self.target.rates.issued

    def _add_spills(self) -> None:
        for loops, n_needed in self.registers.items():
            # A quarter of the registers holds the operands of steps in flight.
            excess = n_needed - self.target.vector_registers * 3 // 4
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
        # A line is read before it is written (write allocate), so a store counts twice.
        return sum(traffic.bytes_of(a) * (2 if a.is_store else 1) for a in accesses)


def _is_in_step(node: UOp) -> bool:
    return any(r.arg.kind is AxisType.TILE_K for r in node.ranges)


def _is_sum(node: UOp) -> bool:
    return node.op is Op.ADD or (node.op is Op.REDUCE and node.arg is Op.ADD)


def _run_length(reduce: UOp, loops: list[UOp]) -> float:
    """Number of additions in a dependence chain; `block-sums` cuts long sums."""
    n = typical_trips(*loops)
    if reduce.arg is not Op.ADD or reduce.dtype.kind != "float":
        return n
    return min(n, LONG_RUN if reduce.source.op is Op.MUL else SHORT_RUN)

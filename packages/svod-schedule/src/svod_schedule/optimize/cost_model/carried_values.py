"""Cost of one iteration of a loop with carried values: its instructions, and the latency of the
loop-carried dependence.
"""

from __future__ import annotations

from dataclasses import dataclass

from svod_ir import Op, Target, UOp
from svod_ir.ops import ELEMENTWISE, TABLE

__all__ = ["CarriedLoop", "list_carried_loops"]


@dataclass(frozen=True, slots=True, eq=False)
class CarriedLoop:
    """A loop with carried values inside a kernel, and the cost of an iteration for one element.

    Attributes:
        loop: its RANGE.
        node: the ADVANCE.
        axes: the loops over independent elements.
        instructions: the number of arithmetic instructions.
        chain: the latency from the carried values to their next values, in cycles.
    """

    loop: UOp
    node: UOp
    axes: frozenset[UOp]
    instructions: float
    chain: float

    def count_vectors(self, target: Target, most: int) -> int:
        """Number of vectors of elements per iteration (a power of two, up to `most`) that hides the
        latency of the chain.
        """
        # While one vector waits for its chain, the unit can issue the instructions of `n_needed`
        # others.
        n_needed = self.chain * target.rates.vector / max(self.instructions, 1.0)
        # Two registers of each vector hold operands of the step; more vectors than registers would
        # spill the carried values in every iteration.
        n_registers = len(self.node.carried) + 2
        n = 1
        while 2 * n <= most and n < n_needed and 2 * n * n_registers <= target.vector_registers:
            n *= 2
        return n


def list_carried_loops(order: list[UOp], target: Target) -> list[CarriedLoop]:
    """List the loops with carried values of a kernel with the nodes `order`, inner ones first."""
    return [_make_loop(n, order, target) for n in order if n.op is Op.ADVANCE]


def _make_loop(node: UOp, order: list[UOp], target: Target) -> CarriedLoop:
    loop = node.carried[0].dependencies[0]
    products = _list_fused(order) if target.has_fma else set[UOp]()
    instructions, latency_of = 0.0, dict.fromkeys(node.carried, 0.0)
    for n in order:
        if loop not in n.ranges or n in latency_of:
            continue
        # A node that depends on no carried value is computed while the chain waits: it adds an
        # instruction, but no latency.
        ready = max((latency_of[s] for s in n.src if s in latency_of), default=None)
        n_own = 0.0
        if n.op in ELEMENTWISE and n.dtype.kind != "index":
            n_own = float(TABLE[n.op].instructions)
            instructions += n_own if n not in products else 0.0
        if ready is not None:
            is_free = not n_own or n in products
            latency = target.rates.add_latency if n.operand_dtype.is_float else 1.0
            latency_of[n] = ready + (0.0 if is_free else latency * max(n_own / 2, 1.0))
    chain = max((latency_of.get(v, 0.0) for v in node.next_values), default=0.0)
    return CarriedLoop(loop, node, node.ranges - {loop}, instructions, chain)


def _list_fused(order: list[UOp]) -> set[UOp]:
    """Products that a fused multiply-add computes."""
    sums = {s for n in order if n.op in (Op.ADD, Op.SUB) and n.dtype.is_float for s in n.src}
    return {n for n in sums if n.op is Op.MUL}

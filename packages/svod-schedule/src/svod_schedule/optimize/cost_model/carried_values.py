"""Cost of one iteration of a loop that carries values: its instructions, and the longest chain that
waits for the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

from svod_ir import Op, Target, UOp
from svod_ir.ops import ELEMENTWISE, TABLE

__all__ = ["CarriedLoop", "list_carried_loops"]


@dataclass(frozen=True, slots=True, eq=False)
class CarriedLoop:
    """A loop inside a kernel, and what one iteration of it does for one element.

    Attributes:
        loop: its RANGE.
        node: the ADVANCE.
        axes: the loops whose elements are independent of each other.
        instructions: of arithmetic.
        chain: the cycles from what is carried to its next values.
    """

    loop: UOp
    node: UOp
    axes: frozenset[UOp]
    instructions: float
    chain: float

    def count_vectors(self, target: Target, most: int) -> int:
        """How many vectors of elements to take at a time (a power of two, up to `most`), so that
        one computes while others wait.
        """
        wanted = self.chain * target.rates.vector / max(self.instructions, 1.0)
        kept = len(self.node.carried) + 2
        n = 1
        while 2 * n <= most and n < wanted and 2 * n * kept <= target.vector_registers:
            n *= 2
        return n


def list_carried_loops(order: list[UOp], target: Target) -> list[CarriedLoop]:
    """Those of a kernel whose nodes are in `order`, inner ones before the loops around them."""
    return [_make_loop(n, order, target) for n in order if n.op is Op.ADVANCE]


def _make_loop(node: UOp, order: list[UOp], target: Target) -> CarriedLoop:
    loop = node.carried[0].dependencies[0]
    products = _list_fused(order) if target.has_fma else set[UOp]()
    instructions, waited = 0.0, dict.fromkeys(node.carried, 0.0)
    for n in order:
        if loop not in n.ranges or n in waited:
            continue
        before = max((waited[s] for s in n.src if s in waited), default=None)
        own = 0.0
        if n.op in ELEMENTWISE and n.dtype.kind != "index":
            own = float(TABLE[n.op].instructions)
            instructions += own if n not in products else 0.0
        if before is not None:
            is_free = not own or n in products
            latency = target.rates.add_latency if n.operand_dtype.is_float else 1.0
            waited[n] = before + (0.0 if is_free else latency * max(own / 2, 1.0))
    chain = max((waited.get(v, 0.0) for v in node.next_values), default=0.0)
    return CarriedLoop(loop, node, node.ranges - {loop}, instructions, chain)


def _list_fused(order: list[UOp]) -> set[UOp]:
    """Products that one instruction adds to something."""
    sums = {s for n in order if n.op in (Op.ADD, Op.SUB) and n.dtype.is_float for s in n.src}
    return {n for n in sums if n.op is Op.MUL}

"""block-sums: long floating-point sums are sums of sums, so that rounding errors stay small.

before → after, for a loop of 65536 additions to one accumulator:

    REDUCE(x(r), r; ADD)        REDUCE(REDUCE(x(b * 256 + i), i; ADD), b; ADD)

The error of a running sum of n values grows with n, that of the two-level sum with sqrt(n).

Source: N. J. Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993), section 3.
"""

from __future__ import annotations

from math import isqrt

from svod_dtype import index
from svod_ir import FreshIds, Op, UOp, exact_trips
from svod_schedule.lower.tiles import is_tile

__all__ = ["block_sums"]

_REDUCE = Op.REDUCE
MAX_RUN = 1024
"""Up to this many additions go to one accumulator."""


def block_sums(sink: UOp) -> UOp:
    """`sink` with its long sums split in blocks."""
    blocks = _Blocks(sink)
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        # There is no addition of whole tiles but that of the tensor core itself.
        if node.op is _REDUCE and node.arg is Op.ADD and node.dtype.is_float and not is_tile(node.source):
            new = blocks.split(new)
        done[node] = new
    return done[sink]


class _Blocks:
    """The blocks of each loop: sums that shared a loop share its blocks."""

    def __init__(self, sink: UOp) -> None:
        self.fresh = FreshIds(sink)
        self.found: dict[UOp, tuple[UOp, UOp]] = {}

    def split(self, node: UOp) -> UOp:
        ranges = [r for r in node.loops if r.op is Op.RANGE]
        longest = max(ranges, key=lambda r: int(r.vmax), default=None)
        if longest is None or not isinstance(size := exact_trips(longest), int) or size <= MAX_RUN:
            return node
        outer, inner = self._block(longest, size)
        value = node.source.substitute({longest: outer * (int(inner.stop.vmax)) + inner})
        others = tuple(r for r in node.loops if r is not longest)
        partial = UOp(Op.REDUCE, node.dtype, (value, inner), Op.ADD)
        return UOp(Op.REDUCE, node.dtype, (partial, *others, outer), Op.ADD)

    def _block(self, r: UOp, size: int) -> tuple[UOp, UOp]:
        found = self.found.get(r)
        if found is None:
            block = isqrt(size)
            exact = next((b for b in range(block, block // 2, -1) if size % b == 0), None)
            outer = r.with_src((UOp.const(index, -(-size // (exact or block))),))
            end = UOp.const(index, block) if exact is None else UOp.const(index, exact)
            if exact is None:
                end = (UOp.const(index, size) - outer * block).minimum(block)
            found = self.found[r] = (outer, self.fresh.make_range(end, r.arg.kind))
        return found

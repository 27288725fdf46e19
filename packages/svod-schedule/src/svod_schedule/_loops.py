"""Rewrites of loops and reductions that several passes share."""

from __future__ import annotations

from svod_dtype import DType
from svod_ir import Op, UOp
from svod_ir.ops import get_identity

__all__ = ["identity_of", "mask_accesses", "replace_range"]


_LOOPED = frozenset({Op.END, Op.REDUCE})


def replace_range(sink: UOp, r: UOp, expression: UOp, ranges: tuple[UOp, ...]) -> UOp:
    """Replace the value of `r` in `sink` by `expression`, and each loop over `r` by loops over
    `ranges`.
    """
    # Not `substitute`: where `r` is the loop of a node and not a value, it becomes several loops.
    done: dict[UOp, UOp] = {r: expression}
    for node in sink.toposort():
        if node in done:
            continue
        if node.op in _LOOPED and r in node.loops:
            loops = tuple(n for s in node.loops for n in (ranges if s is r else (done[s],)))
            done[node] = node.with_src((done[node.source], *loops))
        else:
            done[node] = node.with_images(done)
    return done[sink]


def mask_accesses(sink: UOp, loop: UOp, inside: UOp) -> UOp:
    """Mask the iterations of `loop` for which `inside` is false: gate every access that depends on
    `loop`, and reduce the identity instead.
    """
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node.op is Op.INDEX and loop in node.ranges:
            gate = new.gate
            new = UOp(
                Op.INDEX, new.dtype, (*new.src[:2], inside if gate is None else gate & inside)
            )
        elif node.op is Op.REDUCE and loop in node.loops:
            # A gated load gives 0, which is the identity of a sum but not of a maximum or a
            # product.
            value = UOp(Op.WHERE, new.dtype, (inside, new.source, identity_of(new.arg, new.dtype)))
            new = new.with_src((value, *new.loops))
        done[node] = new
    return done[sink]


def identity_of(op: Op, dtype: DType) -> UOp:
    """Return the identity element of a reduction with `op`."""
    return UOp.const(dtype, get_identity(op, dtype))

"""decompose-math: approximate transcendental functions by polynomials.

before → after:

    EXP2 %x : f32       MUL (polynomial of x - ROUND x), (the float with exponent ROUND x)
"""

from __future__ import annotations

from svod_dtype import float16, float32
from svod_ir import Op, Target, UOp
from svod_schedule.lower.transcendental import RARE, TRANSCENDENTAL, decompose_transcendental

__all__ = ["decompose_math"]


def decompose_math(sink: UOp, target: Target) -> UOp:
    """Rewrite the transcendental ops that the target lacks, except the ops that branch-rare writes as
    loops.
    """
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        is_loop = node.op in RARE or node.op is Op.FMOD
        if is_loop and node.op not in target.native_ops and node.dtype.scalar is float16:
            # branch-rare only handles float32 and float64.
            wide = tuple(operand.cast(float32) for operand in new.src)
            new = UOp(node.op, wide[0].dtype, wide).cast(float16)
        elif node.op in TRANSCENDENTAL and node.op not in RARE:
            new = decompose_transcendental(new, target) or new
        done[node] = new
    return done[sink]

"""branch-rare: what only rare arguments need is computed only where a vector has one.

before → after, for the sine of a vector, whose huge arguments take several times the work:

    SIN %x      any = REDUCE(|x| > limit; MAX)
                y = DEFINE_REG; STORE(y, the sine of moderate arguments)
                loop of any (0 or 1) iterations: STORE(y, WHERE(|x| > limit, the sine of huge arguments, LOAD(y)))
                LOAD(AFTER(y, END))

FMOD is a loop likewise (`float_remainder`). The argument goes through a register too: read in the loop, it keeps what depends on it there.
"""

from __future__ import annotations

from svod_dtype import float32, float64, index
from svod_ir import AxisType, FreshIds, Op, Target, UOp
from svod_schedule.lower.float_remainder import write_remainder
from svod_schedule.lower.transcendental import RARE

__all__ = ["branch_rare"]

_ZERO = UOp.const(index, 0)


def branch_rare(sink: UOp, target: Target) -> UOp:
    """`sink` without the functions that have rare cases, where the target lacks them."""
    ops = [op for op in (*RARE, Op.FMOD) if op not in target.native_ops]
    found = [n for n in sink.iter_ops(*ops) if n.dtype.scalar in (float32, float64)]
    if not found:
        return sink
    fresh = FreshIds(sink)
    done: dict[UOp, UOp] = {}
    rare = frozenset(found)
    for node in sink.toposort():
        operands = tuple(done[s] for s in node.src)
        if node in rare and node.op is Op.FMOD:
            done[node] = write_remainder(operands[0], operands[1], fresh, has_fma=target.has_fma)
        elif node in rare:
            done[node] = _branch(node.op, operands[0], fresh, has_fma=target.has_fma)
        else:
            done[node] = node.with_src(operands)
    return done[sink]


def _branch(op: Op, x: UOp, fresh: FreshIds, *, has_fma: bool) -> UOp:
    case = RARE[op]
    is_rare = case.is_rare(x, has_fma=has_fma)
    has_any = UOp(Op.REDUCE, is_rare.dtype.scalar, (is_rare,), Op.MAX) if x.dtype.lanes > 1 else is_rare
    loop = fresh.make_range(has_any.cast(index), AxisType.LOOP)
    outer = sorted(x.ranges, key=lambda r: r.arg.id)
    argument, value = fresh.make_register(x.dtype), fresh.make_register(x.dtype)
    given = argument.after(*outer).index(_ZERO).store(x)
    common = value.after(*outer).index(_ZERO).store(case.common(x, has_fma=has_fma))
    inside = argument.after(given, loop).index(_ZERO).load()
    result = value.after(common, loop).index(_ZERO)
    corrected = case.is_rare(inside, has_fma=has_fma).where(case.rare(inside), result.load())
    return value.after(result.store(corrected).end(loop)).index(_ZERO).load()

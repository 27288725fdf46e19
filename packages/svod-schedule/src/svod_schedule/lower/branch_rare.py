"""branch-rare: branch around the slow path of a function unless a vector has an argument for it.

before → after, for the sine of a vector, whose huge arguments take several times the work:

    SIN %x      any = REDUCE(|x| > limit; MAX)
                y = DEFINE_REG; STORE(y, the sine of moderate arguments)
                loop of any (0 or 1) iterations: STORE(y, WHERE(|x| > limit, the sine of huge arguments, LOAD(y)))
                LOAD(AFTER(y, END))

FMOD becomes a loop as well (`float_remainder`). The argument goes through a register too: it is
read in the loop, so that values that depend on it are not hoisted out. For a target with
`shared_ops`, the sine of huge arguments stays a SIN, which the renderer writes as a call: the
function's code, several hundred nodes, exists once per kernel instead of once per use. A kernel of
50 sines compiles 5 times faster."""

from __future__ import annotations

from functools import lru_cache

from svod_dtype import DType, float32, float64, index
from svod_ir import AxisType, FreshIds, Op, Target, UOp
from svod_schedule.lower.arithmetic.float_remainder import write_remainder
from svod_schedule.lower.decompose import decompose
from svod_schedule.lower.transcendental import RARE

__all__ = ["branch_rare", "define_rare"]

_ZERO = UOp.const(index, 0)


def branch_rare(sink: UOp, target: Target) -> UOp:
    """Rewrite the functions with rare cases that the target lacks."""
    ops = [op for op in (*RARE, Op.FMOD) if op not in target.native_ops]
    functions = [n for n in sink.iter_ops(*ops) if n.dtype.scalar in (float32, float64)]
    if not functions:
        return sink
    fresh = FreshIds(sink)
    done: dict[UOp, UOp] = {}
    rare = frozenset(functions)
    for node in sink.toposort():
        operands = tuple(done[s] for s in node.src)
        if node in rare and node.op is Op.FMOD:
            done[node] = write_remainder(operands[0], operands[1], fresh, has_fma=target.has_fma)
        elif node in rare:
            done[node] = _branch(node.op, operands[0], fresh, target)
        else:
            done[node] = node.with_src(operands)
    return done[sink]


# Kernels of one process share few functions, in the lanes and dtypes of their vectors.
@lru_cache(maxsize=64)
def define_rare(op: Op, dtype: DType, target: Target) -> tuple[UOp, UOp]:
    """Define the slow path of a function, for rare arguments, in the ops of `target`.

    Args:
        op: an op of the target's `shared_ops`.
        dtype: type of the argument and of the result, float32 or float64, with lanes.
        target: the target of the kernel that calls the function.

    Returns:
        A LOAD that represents the argument, and the result as an expression of it without loops and
        memory.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, Target
        >>> from svod_schedule.lower import define_rare
        >>> argument, result = define_rare(Op.SIN, float32, Target.generic())
        >>> argument.op, result.dtype is float32, argument in result.toposort()
        (LOAD, True, True)
    """
    argument = FreshIds(UOp.sink()).make_register(dtype).index(_ZERO).load()
    return argument, decompose(RARE[op].rare(argument), target)


def _branch(op: Op, x: UOp, fresh: FreshIds, target: Target) -> UOp:
    case, has_fma = RARE[op], target.has_fma
    is_rare = case.is_rare(x, has_fma=has_fma)
    # One rare lane takes the slow path for the whole vector; the selection below keeps the others.
    has_any = (
        UOp(Op.REDUCE, is_rare.dtype.scalar, (is_rare,), Op.MAX) if x.dtype.lanes > 1 else is_rare
    )
    # A loop of no or one iteration is the IR's only branch.
    loop = fresh.make_range(has_any.cast(index), AxisType.LOOP)
    # AFTER the loops of x, so that the stores are not hoisted out of them.
    outer = sorted(x.ranges, key=lambda r: r.arg.id)
    argument, value = fresh.make_register(x.dtype), fresh.make_register(x.dtype)
    argument_store = argument.after(*outer).index(_ZERO).store(x)
    common_store = value.after(*outer).index(_ZERO).store(case.common(x, has_fma=has_fma))
    inside = argument.after(argument_store, loop).index(_ZERO).load()
    result = value.after(common_store, loop).index(_ZERO)
    rare = UOp(op, x.dtype, (inside,)) if op in target.shared_ops else case.rare(inside)
    corrected = case.is_rare(inside, has_fma=has_fma).where(rare, result.load())
    return value.after(result.store(corrected).end(loop)).index(_ZERO).load()

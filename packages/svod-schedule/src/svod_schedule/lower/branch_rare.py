"""branch-rare: branch around the slow path of a function unless a vector has an argument for it.

before → after, for the sine of a vector, whose huge arguments take several times the work:

    SIN %x      any = REDUCE(|x| > limit; MAX)
                y = DEFINE_REG; STORE(y, the sine of moderate arguments)
                loop of any (0 or 1) iterations: STORE(y, WHERE(|x| > limit, the sine of huge arguments, LOAD(y)))
                LOAD(AFTER(y, END))

FMOD becomes a loop as well (`float_remainder`). The argument goes through a register too: it is
read in the loop, so that values that depend on it are not hoisted out. For a target with
`shared_ops`, the sine of huge arguments stays a SIN, which the renderer writes as a call: the
function's code, several hundred nodes, exists once per kernel instead of once per use
(`benchmarks/compile_peers.py` compiles kernels of many sines).

In kernels with many sines, the whole function is shared: SIN stays in place of the branch. The
renderer knows the two by their place: inside of a loop of at most one iteration, the argument is
rare. Therefore a SIN that is in such a loop already is branched, however many there are."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_dtype import DType, float32, float64, index
from svod_ir import AxisType, FreshIds, Op, Target, UOp
from svod_schedule.lower.arithmetic.float_remainder import write_remainder
from svod_schedule.lower.decompose import decompose
from svod_schedule.lower.transcendental import RARE

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SharedFunctions", "branch_rare", "define_shared"]

_ZERO = UOp.const(index, 0)

MIN_CALLS: Final = 8
"""Number of different arguments from which sines are called instead of written at each use. Measured:
a call takes 1.0 to 1.2 times as long as the code in its place, most for float32, and a gradient of
25 sines compiles twice as fast with calls.
"""


def branch_rare(sink: UOp, target: Target) -> UOp:
    """Rewrite the functions with rare cases that the target lacks."""
    ops = [op for op in (*RARE, Op.FMOD) if op not in target.native_ops]
    functions = [n for n in sink.iter_ops(*ops) if n.dtype.scalar in (float32, float64)]
    if not functions:
        return sink
    fresh = FreshIds(sink)
    done: dict[UOp, UOp] = {}
    rare = frozenset(functions) - _list_calls(functions, target)
    for node in sink.toposort():
        operands = tuple(done[s] for s in node.src)
        if node in rare and node.op is Op.FMOD:
            done[node] = write_remainder(operands[0], operands[1], fresh, has_fma=target.has_fma)
        elif node in rare:
            done[node] = _branch(node.op, operands[0], fresh, target)
        else:
            done[node] = node.with_src(operands)
    return done[sink]


def _list_calls(functions: Sequence[UOp], target: Target) -> frozenset[UOp]:
    """List the functions that stay, as calls for all arguments."""
    # Sine and cosine of one argument are one call, so they are counted together.
    groups: defaultdict[tuple[bool, DType], list[UOp]] = defaultdict(list)
    for node in functions:
        # In a loop of at most one iteration, a call is for rare arguments alone.
        if node.op in target.shared_ops and all(r.stop.vmax > 1 for r in node.ranges):
            groups[node.op is Op.TAN, node.dtype].append(node)
    return frozenset(
        node
        for group in groups.values()
        if len({n.source for n in group}) >= MIN_CALLS
        for node in group
    )


class SharedFunctions(NamedTuple):
    """Definition of functions of one argument, in the ops of a target, without loops and memory.

    `argument` is a LOAD that represents the argument. `is_rare` is the mask of its rare lanes, and
    `has_rare` a scalar that says whether there is one. `common` has the functions' values in lanes that
    are not rare, and `rare` those in rare lanes; elsewhere they are arbitrary.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, Target
        >>> from svod_schedule.lower import SharedFunctions, define_shared
        >>> functions = define_shared((Op.TAN,), float32, Target.generic())
        >>> isinstance(functions, SharedFunctions), functions.has_rare.dtype, len(functions.common)
        (True, bool, 1)
    """

    argument: UOp
    is_rare: UOp
    has_rare: UOp
    common: tuple[UOp, ...]
    rare: tuple[UOp, ...]


# Kernels of one process share few functions, in the lanes and dtypes of their vectors.
@lru_cache(maxsize=64)
def define_shared(ops: tuple[Op, ...], dtype: DType, target: Target) -> SharedFunctions:
    """Define functions that a kernel calls, in the ops of `target`.

    Args:
        ops: SIN, COS or both, which share the reduction of the argument; or TAN.
        dtype: type of the argument and of the results, float32 or float64, with lanes.
        target: the target of the kernel that calls the functions.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, Target
        >>> from svod_schedule.lower import define_shared
        >>> functions = define_shared((Op.SIN, Op.COS), float32, Target.generic())
        >>> functions.argument.op, len(functions.common), len(functions.rare)
        (LOAD, 2, 2)
    """
    argument = FreshIds(UOp.sink()).make_register(dtype).index(_ZERO).load()
    cases = [RARE[op] for op in ops]
    # Sine and cosine have the same rare arguments.
    is_rare = cases[0].is_rare(argument, has_fma=target.has_fma)
    common = [case.common(argument, has_fma=target.has_fma) for case in cases]
    rare = [case.rare(argument) for case in cases]
    # Decomposed in one graph, so that the values share nodes.
    parts = decompose(UOp.sink(is_rare, _has_any(is_rare), *common, *rare), target).src
    values = parts[2:]
    return SharedFunctions(argument, parts[0], parts[1], values[: len(ops)], values[len(ops) :])


def _has_any(mask: UOp) -> UOp:
    return UOp(Op.REDUCE, mask.dtype.scalar, (mask,), Op.MAX) if mask.dtype.lanes > 1 else mask


def _branch(op: Op, x: UOp, fresh: FreshIds, target: Target) -> UOp:
    case, has_fma = RARE[op], target.has_fma
    is_rare = case.is_rare(x, has_fma=has_fma)
    # A loop of no or one iteration is the IR's only branch. One rare lane takes the slow path for the
    # whole vector; the selection below keeps the others.
    loop = fresh.make_range(_has_any(is_rare).cast(index), AxisType.LOOP)
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

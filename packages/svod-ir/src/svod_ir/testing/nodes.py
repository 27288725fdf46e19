"""Unchecked constructors of nodes for tests, where the text form is inconvenient; nothing is
folded.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import AxisType, Op, UOp, print_graph
    >>> from svod_ir.testing.nodes import alu, call, cast, group, param, reduce_over
    >>> out, x = param(0, 1), param(1, 8)
    >>> i = UOp.range(8, 0, AxisType.REDUCE)
    >>> total = reduce_over(alu(Op.SQRT, x.index(i)), i)
    >>> zero = UOp.const(i.dtype, 0)
    >>> kernel = UOp.sink(group(out.index(zero).store(cast(total, float32))))
    >>> print(print_graph(kernel), end="")
    %0 = PARAM f32 [0, 1]
    %1 = CONST index [0]
    %2 = INDEX f32 %0, %1
    %3 = PARAM f32 [1, 8]
    %4 = CONST index [8]
    %5 = RANGE index %4 [0, REDUCE]
    %6 = INDEX f32 %3, %5
    %7 = SQRT f32 %6
    %8 = REDUCE f32 %7, %5 [ADD]
    %9 = CAST f32 %8
    %10 = STORE %2, %9
    %11 = GROUP %10
    %12 = SINK %11
    >>> from svod_ir.testing.nodes import assign, buffer, contiguous, detach, select, stack
    >>> a, b = buffer(1), buffer(2, device="CPU:1")
    >>> assign(a, contiguous(detach(a) * 2.0)), select(stack(a, b), 1).placement
    (ASSIGN(BUFFER, CONTIGUOUS):f32, 'CPU:1')
    >>> call(kernel, buffer(3, 1), buffer(4, 8)).arguments
    (BUFFER():f32[BufferArg(id=3, size=1, device='CPU')], BUFFER():f32[BufferArg(id=4, size=8, device='CPU')])
    >>> from svod_ir.testing.nodes import bind, local, register, special
    >>> bind(UOp.variable("n", 1, 8), 3), special("gidx0", 16).bounds
    (n=3, (0, 15))
    >>> local(0, 64).shape, register(0, 4).arg
    ((64,), ScratchArg(id=0, size=4))
"""

from __future__ import annotations

from svod_dtype import DType, bool_, float32, index, void
from svod_ir.args import BufferArg, ParamArg
from svod_ir.ops import COMPARISON, Op
from svod_ir.uop import UOp

__all__ = [
    "alu",
    "assign",
    "bind",
    "buffer",
    "call",
    "cast",
    "contiguous",
    "detach",
    "group",
    "local",
    "param",
    "reduce_over",
    "register",
    "select",
    "special",
    "stack",
]


def buffer(buffer_id: int, size: int = 4, dtype: DType = float32, device: str = "CPU") -> UOp:
    """Buffer `buffer_id` of `size` elements on a device."""
    return UOp(Op.BUFFER, dtype, (), BufferArg(buffer_id, size, device))


def param(slot: int, size: int = 4, dtype: DType = float32) -> UOp:
    """Argument of a kernel in slot `slot`: a pointer to `size` elements."""
    return UOp(Op.PARAM, dtype, (), ParamArg(slot, size))


def local(scratch_id: int, size: int, dtype: DType = float32) -> UOp:
    """Memory of `size` elements that the threads of a workgroup share; `scratch_id` is unique in a
    kernel.
    """
    return UOp(Op.DEFINE_LOCAL, dtype, (), (scratch_id, size))


def register(scratch_id: int, size: int, dtype: DType = float32) -> UOp:
    """Private memory of `size` elements of each thread; `scratch_id` is unique in a kernel."""
    return UOp(Op.DEFINE_REG, dtype, (), (scratch_id, size))


def special(name: str, size: int | UOp, dtype: DType = index) -> UOp:
    """Launch index `name`, such as `gidx0`, from 0 to `size` - 1."""
    return UOp(
        Op.SPECIAL, dtype, (size if isinstance(size, UOp) else UOp.const(dtype, size),), name
    )


def bind(variable: UOp, value: int | UOp) -> UOp:
    """Bind a variable to a value."""
    bound = value if isinstance(value, UOp) else UOp.const(variable.dtype, value)
    return UOp(Op.BIND, variable.dtype, (variable, bound))


def alu(op: Op, *operands: UOp) -> UOp:
    """An elementwise node; comparisons are bool."""
    dtype = operands[1 if op is Op.WHERE else 0].dtype
    return UOp(op, bool_.vec(dtype.lanes) if op in COMPARISON else dtype, operands)


def cast(x: UOp, dtype: DType) -> UOp:
    """Cast `x` to another dtype."""
    return UOp(Op.CAST, dtype, (x,))


def assign(target: UOp, value: UOp) -> UOp:
    """Assign `value` to the memory of `target`."""
    return UOp(Op.ASSIGN, target.dtype, (target, value))


def reduce_over(x: UOp, *ranges: UOp, op: Op = Op.ADD) -> UOp:
    """Reduce `x` over the ranges; without ranges, over its lanes."""
    return UOp(Op.REDUCE, x.dtype if ranges else x.dtype.scalar, (x, *ranges), op)


def group(*effects: UOp) -> UOp:
    """A group of effects."""
    return UOp(Op.GROUP, void, effects)


def call(body: UOp, *arguments: UOp) -> UOp:
    """Call `body`, a kernel or another body, with memory and values."""
    return UOp(Op.CALL, void, (body, *arguments))


def contiguous(x: UOp) -> UOp:
    """Store `x` in separate memory."""
    return UOp(Op.CONTIGUOUS, x.dtype, (x,))


def stack(*shards: UOp) -> UOp:
    """A sharded value, from its shards."""
    return UOp(Op.MSTACK, shards[0].dtype, shards)


def select(stacked: UOp, shard_index: int) -> UOp:
    """Shard `shard_index` of a sharded value."""
    return UOp(Op.MSELECT, stacked.dtype, (stacked,), shard_index)


def detach(x: UOp) -> UOp:
    """`x`, through which no gradient flows."""
    return UOp(Op.DETACH, x.dtype, (x,))

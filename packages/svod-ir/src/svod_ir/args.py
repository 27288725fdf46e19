"""Structured `arg`s of nodes: frozen values with a text form.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import Op, UOp
    >>> from svod_ir.args import BufferArg, ParamArg, ScratchArg, ViewArg
    >>> from svod_ir.args import KernelInfo, Opt, OptOp, format_opts, parse_opts
    >>> memory = UOp(Op.BUFFER, float32, (), BufferArg(1, 16, "CPU"))
    >>> UOp(Op.BUFFER_VIEW, float32, (memory,), ViewArg(offset=32, size=8))
    BUFFER_VIEW(BUFFER):f32[ViewArg(offset=32, size=8)]
    >>> UOp(Op.PARAM, float32, (), ParamArg(0, 16))
    PARAM():f32[ParamArg(slot=0, size=16, device=None)]
    >>> UOp(Op.DEFINE_LOCAL, float32, (), ScratchArg(1, 64)) is UOp(Op.DEFINE_LOCAL, float32, (), (1, 64))
    True
    >>> opts = (Opt(OptOp.UPCAST, 0, 4), Opt(OptOp.THREAD, 0, 2))
    >>> format_opts(opts), parse_opts("UPCAST(0, 4) THREAD(0, 2)") == opts
    ('UPCAST(0, 4) THREAD(0, 2)', True)
    >>> UOp.sink(arg=KernelInfo("sum", opts)).arg.name
    'sum'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from svod_dtype import AddressSpace
from svod_ir.errors import ParseError

if TYPE_CHECKING:
    from svod_ir._op import AxisType, Op

__all__ = [
    "AllReduceArg",
    "BufferArg",
    "BufferizeArg",
    "CheckArg",
    "GradientArg",
    "GradientRule",
    "GridIndex",
    "KernelInfo",
    "LoopArg",
    "Mark",
    "Opt",
    "OptOp",
    "ParamArg",
    "RangeArg",
    "ReduceArg",
    "RepeatArg",
    "ScanArg",
    "ScatterArg",
    "ScratchArg",
    "SwitchArg",
    "VariableArg",
    "ViewArg",
    "find_grid_index",
    "format_opts",
    "parse_opts",
]

_OPT: Final = re.compile(
    r"\s*([A-Z]+)(?:\(\s*(?:(\d+)\s*(?:,\s*(\d+)\s*)?)?\))?\s*(?:,|(?=\s|$|[A-Z]))"
)


class VariableArg(NamedTuple):
    """A runtime value: its name, and its inclusive bounds.

    Example:
        >>> from svod_ir import UOp
        >>> UOp.variable("n", 1, 8).arg
        VariableArg(name='n', low=1, high=8)
    """

    name: str
    low: int
    high: int


class RangeArg(NamedTuple):
    """A loop: an id that is unique in its kernel, and the axis type.

    Example:
        >>> from svod_ir import AxisType, UOp
        >>> from svod_ir.args import RangeArg
        >>> loop = UOp.range(8, 0, AxisType.LOOP)
        >>> loop.arg == RangeArg(0, AxisType.LOOP), loop.arg.kind.name
        (True, 'LOOP')
    """

    id: int
    kind: AxisType


class ScratchArg(NamedTuple):
    """Memory of a running kernel, per workgroup (DEFINE_LOCAL) or per work-item (DEFINE_REG): an id
    that is unique for each op, and the number of elements.
    """

    id: int
    size: int


class ViewArg(NamedTuple):
    """A view of a buffer: its offset in bytes, and its number of elements."""

    offset: int
    size: int


class ReduceArg(NamedTuple):
    """A reduction over axes, which keep size 1.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import Op, make_iota, make_reduce_axis
        >>> make_reduce_axis(make_iota(5, int32), Op.MAX, (0,)).arg
        ReduceArg(op=MAX, axes=(0,))
    """

    op: Op
    axes: tuple[int, ...]


class ScanArg(NamedTuple):
    """An inclusive prefix reduction along an axis.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import Op, make_iota, make_scan_axis
        >>> make_scan_axis(make_iota(5, int32), Op.ADD, 0).arg
        ScanArg(op=ADD, axis=0)
    """

    op: Op
    axis: int


class ScatterArg(NamedTuple):
    """Axis of the base along which rows are written, and how: ADD adds them to the rows there, None
    replaces these.

        >>> from svod_dtype import int32
        >>> from svod_ir import make_iota, make_scatter, make_scatter_add
        >>> rows = make_iota(5, int32)
        >>> make_scatter_add(rows, rows, axis=0, size=8).arg
        ScatterArg(axis=0, op=ADD)
        >>> make_scatter(make_iota(8, int32), rows, rows, axis=0).arg
        ScatterArg(axis=0, op=None)
    """

    axis: int
    op: Op | None = None


class AllReduceArg(NamedTuple):
    """A reduction over shards, and the device of the result.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op
        >>> from svod_ir.args import AllReduceArg
        >>> from svod_ir.testing.nodes import UOp, buffer, stack
        >>> halves = stack(buffer(1), buffer(2, device="CPU:1"))
        >>> UOp(Op.ALLREDUCE, float32, (halves,), AllReduceArg(Op.ADD, "CPU")).placement
        'CPU'
    """

    op: Op
    device: str


class BufferArg(NamedTuple):
    """A buffer: an `id`, unique in the process (negative: within one schedule), the number of
    elements, and the device.
    """

    id: int
    size: int
    device: str


class ParamArg(NamedTuple):
    """A positional argument of a kernel or of a normalized graph: its index, its number of
    elements, and its device, None in a kernel.
    """

    slot: int
    size: int
    device: str | None = None


class BufferizeArg(NamedTuple):
    """Device and address space of the memory of a BUFFERIZE. `number` distinguishes memory that is
    written later from other memory of the same value.

    Example:
        >>> from svod_ir import AxisType, BufferizeArg, Op, UOp
        >>> i = UOp.range(8, 0, AxisType.LOOP)
        >>> UOp(Op.BUFFERIZE, i.dtype, (i * i, i), BufferizeArg("CPU")).arg.space
        <AddressSpace.GLOBAL: 'global'>
    """

    device: str
    space: AddressSpace = AddressSpace.GLOBAL
    number: int = 0


class CheckArg(NamedTuple):
    """An operation's precondition on an integer operand, which the operation itself does not check.

    Indices on `axis` are from -size to size - 1; `size` None means that an operand of the CHECK
    holds the size. Without an axis, the operand is a divisor, which must not be 0.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import make_check, make_iota
        >>> make_check(make_iota(5, int32), "take", axis=0, size=3).arg
        CheckArg(operation='take', axis=0, size=3)
    """

    operation: str
    axis: int | None = None
    size: int | None = None


class LoopArg(NamedTuple):
    """The body and layout of a LOOP. PARAMs of the body, a graph of its own, read the operands.

    Attributes:
        body: a SINK of the next values of the carries, the values to stack and, if
            `is_conditional`, the condition to continue.
        n_carried: the number of leading operands that are carried from one iteration to the next.
        n_sliced: the number of operands after these that each iteration reads one slice of, along
            their first axis.
        counter: the name of the body's variable that counts iterations, from 0 in the order of
            execution.
        is_reversed: whether to run from the last slice to the first, stacking values in the same
            order.
        is_conditional: whether the loop ends after an iteration in which the body's last source is
            false.
        is_recomputed: whether derivatives store only the carries of each iteration, and recompute
            the other residuals.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.args import LoopArg
        >>> from svod_ir.loops import make_loop, make_parameter
        >>> one = UOp.const(int32, 1)
        >>> (power,) = make_loop(UOp.sink(make_parameter(one, 0) * 2), 10, (one,), n_carried=1)
        >>> isinstance(power.source.arg, LoopArg), power.source.arg.n_carried, power.source.arg.body.src[0].op
        (True, 1, MUL)
    """

    body: Any  # a UOp; importing its class here would be a cycle
    n_carried: int
    n_sliced: int = 0
    counter: str | None = None
    is_reversed: bool = False
    is_conditional: bool = False
    is_recomputed: bool = False


class SwitchArg(NamedTuple):
    """The branches of a SWITCH: SINKs of equally many values. PARAMs of a body read the operands.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.args import SwitchArg
        >>> from svod_ir.loops import make_parameter, make_switch
        >>> x = UOp.const(int32, 5)
        >>> same = make_parameter(x, 0)
        >>> (chosen,) = make_switch(UOp.variable("k", 0, 1), [UOp.sink(same), UOp.sink(-same)], [x])
        >>> isinstance(chosen.source.arg, SwitchArg), [body.src[0].op for body in chosen.source.arg.bodies]
        (True, [RESHAPE, NEG])
    """

    bodies: tuple[Any, ...]  # UOps


@dataclass(frozen=True, slots=True)
class Mark:
    """The identity of a TRACED node. Marks are equal if their numbers are equal.

    Attributes:
        number: a number that is unique in the process.
        computed_from: returns the graph, on memory as it is now, whose value was computed into the
            marked memory; the derivative flows to that graph. Without it, the derivative flows to
            the operand.

    Example:
        >>> from svod_ir.args import Mark
        >>> from svod_ir.derivatives import make_traced
        >>> from svod_ir.testing.nodes import buffer
        >>> first, second = make_traced(buffer(1)), make_traced(buffer(1))
        >>> isinstance(first.arg, Mark), first.arg == second.arg
        (True, False)
    """

    number: int
    # Not compared: a function has no text form, and the number identifies the mark.
    computed_from: Callable[[], Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GradientRule:
    """The rule for the derivatives of a GRADIENT by its operands. Equal if the names are equal.

    Attributes:
        name: a name that is unique in the process.
        backward: maps a GRADIENT, the cotangent of its value, and flags for the operands whose
            cotangents are needed, to these cotangents; None for an operand that the value does not
            depend on. A rule without it is known only by name.
        forward: maps a GRADIENT and the tangents of its operands (None means zero) to the tangent
            of the value. Without it, forward mode transposes `backward`, which is linear in the
            cotangent.
        differentiates_value: whether forward mode differentiates the value's nodes instead: for
            rules that change when a value is computed, not the value.

    Example:
        >>> from svod_ir.args import GradientRule
        >>> from svod_ir.derivatives import make_gradient
        >>> from svod_ir.testing.nodes import buffer
        >>> halved = GradientRule("halved", lambda node, cotangent, wanted: (cotangent * 0.5,))
        >>> make_gradient(buffer(1), (buffer(1),), halved).arg.rule.name
        'halved'
    """

    name: str
    backward: Callable[[Any, Any, tuple[bool, ...]], tuple[Any, ...]] | None = field(
        default=None, compare=False, repr=False
    )
    forward: Callable[[Any, tuple[Any, ...]], Any] | None = field(
        default=None, compare=False, repr=False
    )
    differentiates_value: bool = field(default=False, compare=False, repr=False)


class GradientArg(NamedTuple):
    """A rule for the derivatives of values, its parameters besides the operands, and the number of
    values.

    Example:
        >>> from svod_ir.args import GradientArg, GradientRule
        >>> rule = GradientRule("along an axis")
        >>> GradientArg(rule, (0,)) == GradientArg(GradientRule("along an axis"), (0,))
        True
    """

    rule: GradientRule
    parameters: tuple[object, ...] = ()
    n_values: int = 1


class RepeatArg(NamedTuple):
    """Repetition of a CALL of a kernel graph; the END around it closes a RANGE with that trip
    count.

    The arguments of the CALL are the results (carries, then stacked values), a spare buffer for
    each of `spares`, the operands in the order of the body's PARAMs (carried, sliced, constant),
    and the memory of a computed trip count. The body's sources are the next values of the carries,
    the values to stack, and the condition to continue. A next value that overwrites the memory of
    its PARAM has no spare.

    Attributes:
        spares: the indices of the carries whose next value is written to different memory.
        counter: the name of the DEFINE_VAR in the body that counts iterations.
        is_reversed: whether slices are read and stacked from the last to the first.
        is_conditional: whether the loop ends after an iteration in which the last source is false.
        is_count_read: whether the trip count, or the index of the branch, is the int64 in the last
            argument.
        branch: for a branch of a SWITCH, its index: the CALL runs once if the index read, clipped
            to 0 to `n_branches - 1`, equals it.

    Example:
        >>> from svod_ir import RepeatArg
        >>> repeat = RepeatArg(n_carried=2, n_sliced=0, n_stacked=1, spares=(0,), counter="i")
        >>> [k for k in range(repeat.n_carried) if k not in repeat.spares]  # written where they are read
        [1]
    """

    n_carried: int
    n_sliced: int
    n_stacked: int
    spares: tuple[int, ...] = ()
    counter: str | None = None
    is_reversed: bool = False
    is_conditional: bool = False
    is_count_read: bool = False
    branch: int | None = None
    n_branches: int = 0


class GridIndex(NamedTuple):
    """The launch index that the name of a SPECIAL denotes: its kind and its axis, 0 to 2.

    The kinds are `gidx`, a workgroup's index; `lidx`, a work-item's index in its workgroup; and
    `idx`, a global index where there are no workgroups.

    Example:
        >>> from svod_ir.args import GridIndex, find_grid_index
        >>> find_grid_index("gidx0") == GridIndex("gidx", 0)
        True
    """

    kind: str
    axis: int


def find_grid_index(name: object) -> GridIndex | None:
    """Parse a SPECIAL's name; None if it is not one.

    Example:
        >>> from svod_ir.args import find_grid_index
        >>> find_grid_index("lidx1")
        GridIndex(kind='lidx', axis=1)
        >>> find_grid_index("gidx10")
    """
    match = re.fullmatch("(gidx|lidx|idx)([012])", name) if isinstance(name, str) else None
    return GridIndex(match[1], int(match[2])) if match else None


class OptOp(Enum):
    """The kinds of kernel transformation."""

    UPCAST = "UPCAST"
    UNROLL = "UNROLL"
    LOCAL = "LOCAL"
    GROUP = "GROUP"
    GROUPTOP = "GROUPTOP"
    TC = "TC"
    PADTO = "PADTO"
    OVERLAP = "OVERLAP"
    ALIGN = "ALIGN"
    PACK = "PACK"
    SPLIT = "SPLIT"
    SWAP = "SWAP"
    THREAD = "THREAD"
    NOLOCALS = "NOLOCALS"


class Opt(NamedTuple):
    """One transformation: its kind, its axis, and an amount (0 means the whole axis)."""

    op: OptOp
    axis: int | None = None
    amount: int | None = None

    def __str__(self) -> str:
        arguments = ", ".join(str(n) for n in (self.axis, self.amount) if n is not None)
        return f"{self.op.value}({arguments})"


def format_opts(opts: Iterable[Opt]) -> str:
    """Format opts as one line of text, which `parse_opts` reads: `UPCAST(0, 4) THREAD(0, 2)`."""
    return " ".join(map(str, opts))


def parse_opts(text: str) -> tuple[Opt, ...]:
    """Parse opts separated by blanks or commas: `UPCAST(0,4) THREAD(0,2) NOLOCALS`.

    Raises:
        ParseError: if the text is not such a list.

    Example:
        >>> from svod_ir import format_opts, parse_opts
        >>> format_opts(parse_opts("UPCAST(0,4), PACK(1)"))
        'UPCAST(0, 4) PACK(1)'
    """
    opts: list[Opt] = []
    position = 0
    while text[position:].strip():
        match = _OPT.match(text, position)
        if match is None or match[1] not in OptOp.__members__:
            names = ", ".join(OptOp.__members__)
            raise ParseError(
                line=0,
                text=text[position:],
                problem="not an Opt",
                hint=f"the kinds are {names}; write for example UPCAST(0, 4)",
            )
        axis, amount = (None if digits is None else int(digits) for digits in match.group(2, 3))
        opts.append(Opt(OptOp[match[1]], axis, amount))
        position = match.end()
    return tuple(opts)


class KernelInfo(NamedTuple):
    """Name of a kernel, and the opts applied to it (None: not optimized yet); the arg of its SINK."""

    name: str = "kernel"
    applied_opts: tuple[Opt, ...] | None = None

"""The structured `arg`s of nodes: frozen values with a text form.

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
    """A runtime value: its name, and the smallest and largest value that it takes.

    Example:
        >>> from svod_ir import UOp
        >>> UOp.variable("n", 1, 8).arg
        VariableArg(name='n', low=1, high=8)
    """

    name: str
    low: int
    high: int


class RangeArg(NamedTuple):
    """A loop: a number that no other of its kernel has, and what becomes of it.

    Example:
        >>> from svod_ir import AxisType, UOp
        >>> loop = UOp.range(8, 0, AxisType.LOOP)
        >>> loop.arg == RangeArg(0, AxisType.LOOP), loop.arg.kind.name
        (True, 'LOOP')
    """

    id: int
    kind: AxisType


class ScratchArg(NamedTuple):
    """Memory of a running kernel, a workgroup's (DEFINE_LOCAL) or a work-item's (DEFINE_REG): a
    number for each op, elements.
    """

    id: int
    size: int


class ViewArg(NamedTuple):
    """A part of a buffer: where it begins, in bytes, and its elements."""

    offset: int
    size: int


class ReduceArg(NamedTuple):
    """A reduction over axes, which stay with size 1.

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
    """Where the axes of the positions begin in what is added up, and the size of the axis in their
    place; None: an operand.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import make_iota, make_scatter_add
        >>> rows = make_iota(5, int32)
        >>> make_scatter_add(rows, rows, axis=0, size=8).arg
        ScatterArg(axis=0, size=8)
    """

    axis: int
    size: int | None = None


class AllReduceArg(NamedTuple):
    """A reduction over shards, and the device that gets the result.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op
        >>> from svod_ir.testing.nodes import UOp, buffer, stack
        >>> halves = stack(buffer(1), buffer(2, device="CPU:1"))
        >>> UOp(Op.ALLREDUCE, float32, (halves,), AllReduceArg(Op.ADD, "CPU")).placement
        'CPU'
    """

    op: Op
    device: str


class BufferArg(NamedTuple):
    """A buffer: a process-unique `id` (negative: numbered within one schedule), elements,
    device.
    """

    id: int
    size: int
    device: str


class ParamArg(NamedTuple):
    """A numbered argument of a kernel (device None) or of a normalised graph."""

    slot: int
    size: int
    device: str | None = None


class BufferizeArg(NamedTuple):
    """How a BUFFERIZE stores its value; a number tells memory that is written to afterwards from
    other memory of the same value.

    Example:
        >>> from svod_ir import AxisType, Op, UOp
        >>> i = UOp.range(8, 0, AxisType.LOOP)
        >>> UOp(Op.BUFFERIZE, i.dtype, (i * i, i), BufferizeArg("CPU")).arg.space
        <AddressSpace.GLOBAL: 'global'>
    """

    device: str
    space: AddressSpace = AddressSpace.GLOBAL
    number: int = 0


class CheckArg(NamedTuple):
    """What an operation expects of an integer operand, and computes without asking.

    Positions on `axis` are from -size to size - 1, where `size` None stands for the operand of the
    CHECK; without an axis, nothing is 0.

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
    """What a LOOP repeats: a graph of its own, of the PARAMs that stand for its operands.

    Attributes:
        body: a SINK of the next values of what is carried, of what is stacked, and at last, if
            `is_conditional`, of whether to go on.
        n_carried: how many of the operands, the first ones, are carried from one iteration to the
            next.
        n_sliced: how many of those after them are read one slice along their first axis in each
            iteration.
        counter: the name of the body's variable that is the number of the iteration, from 0 in the
            order of execution.
        is_reversed: whether the first iteration takes the last slices, and fills the last of what
            is stacked.
        is_conditional: whether the loop ends after an iteration whose last source is false.
        is_recomputed: whether derivatives keep only what is carried into each iteration, and
            compute the rest of it again.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
        >>> from svod_ir.loops import make_loop, make_parameter
        >>> one = UOp.const(int32, 1)
        >>> (power,) = make_loop(UOp.sink(make_parameter(one, 0) * 2), 10, (one,), n_carried=1)
        >>> isinstance(power.source.arg, LoopArg), power.source.arg.n_carried, power.source.arg.body.src[0].op
        (True, 1, MUL)
    """

    body: Any  # a UOp, of which this module knows nothing
    n_carried: int
    n_sliced: int = 0
    counter: str | None = None
    is_reversed: bool = False
    is_conditional: bool = False
    is_recomputed: bool = False


class SwitchArg(NamedTuple):
    """Of what a SWITCH computes one: SINKs of as many values each, of the PARAMs that stand for its
    operands.

    Example:
        >>> from svod_dtype import int32
        >>> from svod_ir import UOp
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
    """What tells a TRACED from all others. Equal for equal numbers.

    Attributes:
        number: of the mark, which no other of the process has.
        computed_from: gives the graph whose values were computed into the memory that is marked, to
            which the derivative goes then, of memory as it is now; None where it goes to the
            operand.

    Example:
        >>> from svod_ir.derivatives import make_traced
        >>> from svod_ir.testing.nodes import buffer
        >>> first, second = make_traced(buffer(1)), make_traced(buffer(1))
        >>> isinstance(first.arg, Mark), first.arg == second.arg
        (True, False)
    """

    number: int
    computed_from: Callable[[], Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GradientRule:
    """How the derivatives of a GRADIENT by its operands are found. Equal for equal names.

    Attributes:
        name: which no other rule of the process has.
        backward: from a GRADIENT, the cotangent of its value, and of which operands the cotangents
            are asked for, to these; an operand that the value does not depend on gets None. Without
            it, the rule is known by its name alone.
        forward: from a GRADIENT and the tangents of its operands, of which None is zero, to the
            tangent of the value. Without it, forward mode transposes `backward`, which is linear in
            the cotangent.
        differentiates_value: whether forward mode differentiates the nodes of the value instead:
            for rules that change when something is computed, and not what.

    Example:
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
    """Whose rule gives the derivatives of values, what it takes besides the operands, and how many
    values there are.

    Example:
        >>> rule = GradientRule("along an axis")
        >>> GradientArg(rule, (0,)) == GradientArg(GradientRule("along an axis"), (0,))
        True
    """

    rule: GradientRule
    parameters: tuple[object, ...] = ()
    n_values: int = 1


class RepeatArg(NamedTuple):
    """How a CALL of a kernel graph is repeated; the END around it closes a RANGE of as many
    iterations.

    Its arguments are the results (of what is carried, then stacked), a spare buffer for each of
    `spares`, the operands, which are the PARAMs of the body in order (of what is carried, sliced,
    constant), and where a computed count lies. The body's sources are the next values of what is
    carried, what is stacked, and whether to go on. A next value that is in the memory of its PARAM
    has no spare.

    Attributes:
        spares: the carried values that are written to memory other than they are read from.
        counter: the DEFINE_VAR in the body that is the number of the iteration.
        is_reversed: slices are taken and stacked from the last to the first.
        is_conditional: the loop ends after an iteration whose last source is false.
        is_count_read: the number of iterations, or of the branch, is the int64 in the last
            argument.
        branch: of a choice: it is done once if the number read, clipped to 0 to `n_branches - 1`,
            is this.

    Example:
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
    """What the name of a SPECIAL says: which numbers of a launch it is one of, and on which axis, 0
    to 2.

    The numbers are `gidx` of a workgroup, `lidx` of a work-item in its workgroup, `idx` of an item
    where there are no workgroups.

    Example:
        >>> find_grid_index("gidx0") == GridIndex("gidx", 0)
        True
    """

    numbers: str
    axis: int


def find_grid_index(name: object) -> GridIndex | None:
    """The parts of a SPECIAL's name, None where it is none.

    Example:
        >>> find_grid_index("lidx1")
        GridIndex(numbers='lidx', axis=1)
        >>> find_grid_index("gidx10")
    """
    found = re.fullmatch("(gidx|lidx|idx)([012])", name) if isinstance(name, str) else None
    return GridIndex(found[1], int(found[2])) if found else None


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
    PACK = "PACK"
    SPLIT = "SPLIT"
    SWAP = "SWAP"
    THREAD = "THREAD"
    NOLOCALS = "NOLOCALS"


class Opt(NamedTuple):
    """One transformation: its kind, the axis it takes, and an amount (0: the whole axis)."""

    op: OptOp
    axis: int | None = None
    amount: int | None = None

    def __str__(self) -> str:
        numbers = ", ".join(str(n) for n in (self.axis, self.amount) if n is not None)
        return f"{self.op.value}({numbers})"


def format_opts(opts: Iterable[Opt]) -> str:
    """Opts as a line of text, which `parse_opts` reads: `UPCAST(0, 4) THREAD(0, 2)`."""
    return " ".join(map(str, opts))


def parse_opts(text: str) -> tuple[Opt, ...]:
    """The opts that a text lists, separated by blanks or commas: `UPCAST(0,4) THREAD(0,2)
    NOLOCALS`.

    Raises:
        ParseError: if it is no such list.

    Example:
        >>> format_opts(parse_opts("UPCAST(0,4), PACK(1)"))
        'UPCAST(0, 4) PACK(1)'
    """
    opts: list[Opt] = []
    position = 0
    while text[position:].strip():
        found = _OPT.match(text, position)
        if found is None or found[1] not in OptOp.__members__:
            names = ", ".join(OptOp.__members__)
            raise ParseError(
                line=0,
                text=text[position:],
                problem="this is no Opt",
                hint=f"an Opt is one of {names}, as UPCAST(0, 4)",
            )
        axis, amount = (None if number is None else int(number) for number in found.group(2, 3))
        opts.append(Opt(OptOp[found[1]], axis, amount))
        position = found.end()
    return tuple(opts)


class KernelInfo(NamedTuple):
    """What a kernel's SINK carries: its name and the opts that made it (None: not optimised
    yet).
    """

    name: str = "kernel"
    applied_opts: tuple[Opt, ...] | None = None

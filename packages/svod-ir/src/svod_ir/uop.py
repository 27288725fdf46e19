"""`UOp`: the one node type of the IR, immutable and hash-consed.

Constructing a node that exists gives the existing object, so identity is equality. Facts derived
from a node (shape, bounds, ranges in scope, content hash) are computed once, without recursion,
and kept on the node. The intern table holds nodes weakly: a node that nothing refers to is freed.

Example:
    >>> from svod_ir.uop import UOp, to_node
    >>> i = UOp.variable("i", 0, 9)
    >>> i + 1 is UOp.variable("i", 0, 9) + 1, (i + 1).bounds
    (True, (1, 10))
    >>> to_node(3), to_node(i) is i
    (CONST():index[3], True)
    >>> from svod_ir.testing import run_script
    >>> script = '''
    ... from svod_ir.uop import UOp, clear_interned, count_interned
    ... i = UOp.variable("i", 0, 9)
    ... clear_interned()
    ... print(count_interned(), UOp.variable("i", 0, 9) is i)
    ... '''
    >>> print(run_script(script), end="")
    0 False
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import _remove_dead_weakref  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownVariableType]

from svod_dtype import DType, cast_value, index, void
from svod_ir._size_text import format_size
from svod_ir.args import RangeArg, VariableArg
from svod_ir.errors import GraphError, OperandError, UndecidedError
from svod_ir.ops import ARG_TYPES, AxisType, Op

if TYPE_CHECKING:
    from svod_ir._sharding import Placement

__all__ = [
    "SInt",
    "UOp",
    "clear_interned",
    "count_interned",
    "defines",
    "keep_order",
    "to_node",
]

Key = tuple[Op, DType, tuple["UOp", ...], object]
Rule = TypeVar("Rule", bound=Callable[..., Any])

_UNSET: Any = object()
_SIGNS: Final = {Op.LT: "<", Op.LE: "<=", Op.EQ: "==", Op.NE: "!="}
# A member of an enum costs more than the rest of the comparison.
_CONST, _VCONST, _CALL, _INDEX, _AFTER = Op.CONST, Op.VCONST, Op.CALL, Op.INDEX, Op.AFTER


class UOp:
    """A node: `op`, `dtype`, operands `src`, and `arg`.

    `UOp(op, dtype, src, arg)` interns but does not check; the builder functions of
    `svod_ir.build` check operands and shapes and are what code outside the compiler calls.

    Example:
        Copies of a node with one part replaced, and of a graph:

        >>> from svod_dtype import float32, int32
        >>> from svod_ir import BufferArg, Op, SInt, UOp
        >>> i, j = UOp.variable("i", 0, 9), UOp.variable("j", 0, 9)
        >>> total = i + j
        >>> total.with_src((j, i)) is j + i, total.with_images({i: j, j: i}) is j + i
        (True, True)
        >>> (total * 2).substitute({i: j}) is (j + j) * 2, i.with_arg(("i", 0, 3)).bounds, i.with_dtype(int32)
        (True, (0, 3), DEFINE_VAR():i32[VariableArg(name='i', low=0, high=9)])

        The nodes of a graph, and the shapes of those that have one:

        >>> def list_sizes(graph: UOp) -> list[tuple[SInt, ...] | None]:
        ...     return [node.find_shape() for node in graph.iter_toposort()]
        >>> x = UOp(Op.BUFFER, float32, (), BufferArg(1, 4, "CPU"))
        >>> list_sizes(UOp.sink(x.minimum(2.0)))
        [(4,), (), (4,), None]

        Elementwise ops and accesses to memory:

        >>> x.eq(1.0).op, x.ne(1.0).op, x.alu(Op.FMOD, 3.0).dtype, x.index(i).load().dtype
        (EQ, NE, float32, float32)
        >>> from svod_ir.loops import get_slots, make_loop, make_parameter
        >>> state = make_parameter(x, get_slots((x,))[0])
        >>> (y,) = make_loop(UOp.sink(state * 2.0), 3, (x,), n_carried=1)
        >>> y.source.with_operands((x + 1.0,)).src
        (CONST():index[3], ADD(BUFFER, CONST):f32)
    """

    __slots__ = (
        "__weakref__",
        "_bounds",
        "_hash",
        "_placement",
        "_ranges",
        "_shape",
        "arg",
        "attached",
        "dtype",
        "op",
        "src",
    )

    op: Op
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    attached: object
    """Data that lives as long as the node, such as the memory of a BUFFER; not part of its
    identity.
    """

    def __new__(
        cls, op: Op, dtype: DType = void, src: tuple[UOp, ...] = (), arg: Any = None
    ) -> UOp:
        key: Key = (
            op,
            dtype,
            src,
            _arg_key(op, dtype, arg) if op is _CONST or op is _VCONST else arg,
        )
        ref = _table.get(key)
        if ref is not None:
            node = ref()
            if node is not None:
                return node
        # A plain tuple equals its named tuple, so both spellings have one key and give one node.
        if arg.__class__ is tuple and op in ARG_TYPES:
            arg = ARG_TYPES[op](*arg)
        # `__new__` interns, so there is no `__init__`, which Python would call on existing nodes
        # too.
        self = object.__new__(cls)
        self.op, self.dtype, self.src, self.arg = op, dtype, src, arg
        self.attached = None
        self._shape = self._bounds = self._ranges = self._hash = self._placement = _UNSET
        own = _Entry(self, _forget)
        own.key = key
        # Another thread may have interned the same node since the look-up above; `setdefault` is
        # atomic and decides.
        ref = _table.setdefault(key, own)
        return self if ref is own else _get_rival(self, own)

    def __repr__(self) -> str:
        # A shape with variables is a tuple of nodes, which a user prints.
        text = _rules["find_size_text"](self) if self.dtype is index else None
        if text is not None:
            return text
        operands = ", ".join(s.op.name for s in self.src[:8]) + (
            ", ..." if len(self.src) > 8 else ""
        )
        return f"{self.op.name}({operands}):{self.dtype.short}" + (
            "" if self.arg is None else f"[{self.arg}]"
        )

    def with_src(self, src: tuple[UOp, ...]) -> UOp:
        """Copy of this node with operands `src`."""
        return self if src == self.src else UOp(self.op, self.dtype, src, self.arg)

    def with_images(self, images: Mapping[UOp, UOp]) -> UOp:
        """Copy of this node with each operand replaced by its image, `images[operand]`; this node
        if no operand changes.
        """
        src = self.src
        # Most passes change few nodes: without a change, no tuple is built.
        for operand in src:
            if images[operand] is not operand:
                return UOp(self.op, self.dtype, tuple([images[s] for s in src]), self.arg)
        return self

    def with_operands(self, operands: tuple[UOp, ...]) -> UOp:
        """Copy of this LOOP or SWITCH with other operands, and the same count or choice."""
        return self.with_src((self.src[0], *operands))

    def with_dtype(self, dtype: DType) -> UOp:
        """Copy of this node with another dtype."""
        return self if dtype is self.dtype else UOp(self.op, dtype, self.src, self.arg)

    def with_arg(self, arg: Any) -> UOp:
        """Copy of this node with another arg."""
        return UOp(self.op, self.dtype, self.src, arg)

    def substitute(self, replacements: Mapping[UOp, UOp]) -> UOp:
        """The graph with each key replaced by its value; values are not searched for keys again."""
        if not replacements:
            return self
        done: dict[UOp, UOp] = _rules["make_images"]()
        # Before the walk, so that replaced nodes are not entered.
        done.update(replacements)
        for node in self.toposort(stop=done):
            if node not in done and node.src:
                done[node] = node.with_src(tuple([done.get(s, s) for s in node.src]))
        return done.get(self, self)

    def toposort(
        self,
        stop: Mapping[UOp, Any] | set[UOp] | frozenset[UOp] = frozenset(),
        *,
        enter_calls: bool = True,
    ) -> list[UOp]:
        """Every node of the graph once, operands first; nodes in `stop` are listed but not entered.

        With `enter_calls=False` the bodies of CALLs, which are graphs of their own, are left out.
        """
        if stop or not enter_calls:
            return list(self.iter_toposort(stop, enter_calls=enter_calls))
        kept = _kept.order
        if kept and kept[-1] is self:
            # A copy, since callers may change their list.
            return kept.copy()
        # The hottest loop of the compiler: the nodes above the current one, with the remaining
        # operands of each.
        order: list[UOp] = []
        above: list[tuple[UOp, Iterator[UOp]]] = []
        seen: set[UOp] = {self}
        # Bound methods: a look-up of the attribute for each operand would cost as much as the test.
        see, emit = seen.add, order.append
        node: UOp = self
        operands = iter(self.src)
        while True:
            for operand in operands:
                if operand not in seen:
                    see(operand)
                    if operand.src:
                        above.append((node, operands))
                        node, operands = operand, iter(operand.src)
                        break
                    emit(operand)
            else:
                emit(node)
                if not above:
                    if kept is not None and len(order) >= _MIN_KEPT:
                        _kept.order = order.copy()
                    return order
                node, operands = above.pop()

    def iter_toposort(
        self,
        stop: Mapping[UOp, Any] | set[UOp] | frozenset[UOp] = frozenset(),
        *,
        enter_calls: bool = True,
    ) -> Iterator[UOp]:
        """Lazy `toposort`: yields the first nodes of a huge graph before walking the rest."""
        seen: set[UOp] = set()
        # None on the stack says that the operands of the node below it are listed.
        stack: list[UOp | None] = [self]
        see, push, pop = seen.add, stack.append, stack.pop
        while stack:
            node = pop()
            if node is None:
                entered = pop()
                assert entered is not None
                yield entered
            elif node not in seen:
                see(node)
                if node.src and node not in stop:
                    push(node)
                    push(None)
                    for operand in reversed(
                        node.src if enter_calls or node.op is not _CALL else node.src[1:]
                    ):
                        if operand not in seen:
                            push(operand)
                else:
                    yield node

    def iter_ops(self, *ops: Op) -> Iterator[UOp]:
        """The nodes of the graph whose op is one of `ops`, operands first."""
        return (node for node in self.toposort() if node.op in ops)

    @property
    def shape(self) -> tuple[SInt, ...]:
        """Sizes of each axis, ints or index-typed nodes.

        Raises:
            GraphError: if nodes of this op have no shape.
        """
        # Inlined `find_shape`: shape is the most frequently read property of a node.
        shape = self.find_shape() if self._shape is _UNSET else self._shape
        if shape is None:
            raise GraphError(rule=f"{self.op.name} has no shape", node=self)
        return shape

    def find_shape(self) -> tuple[SInt, ...] | None:
        """The shape, or None for effects and structure."""
        if self._shape is _UNSET:
            _derive(self, "_shape")
        return self._shape

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The smallest and largest value that this node can have, from `svod_ir._bounds`."""
        if self._bounds is _UNSET:
            _derive(self, "_bounds")
        return self._bounds

    @property
    def vmin(self) -> Any:
        return self.bounds[0]

    @property
    def vmax(self) -> Any:
        return self.bounds[1]

    @property
    def ranges(self) -> frozenset[UOp]:
        """The RANGE nodes whose loops must contain this node."""
        if self._ranges is _UNSET:
            _derive(self, "_ranges")
        return self._ranges

    @property
    def content_hash(self) -> str:
        """A hash of the graph that is the same in every process and on every machine."""
        if self._hash is _UNSET:
            _derive(self, "_hash")
        return self._hash

    @property
    def sizes(self) -> tuple[SInt, ...]:
        """`arg` with each None replaced by the next of the operands after the first."""
        if len(self.src) == 1:
            return self.arg
        symbolic = iter(self.src[1:])
        return tuple(next(symbolic) if size is None else size for size in self.arg)

    @property
    def placement(self) -> Placement:
        """The device of this node's value, a `Sharding` over several, or None for a value computed
        from no memory.

        Raises:
            DeviceMismatchError: if operands are on different devices.
        """
        if self._placement is _UNSET:
            _derive(self, "_placement")
        return self._placement

    @property
    def device(self) -> str | tuple[str, ...] | None:
        """The device of `placement`, or the devices of its shards."""
        placement = self.placement
        return placement if placement is None or isinstance(placement, str) else placement.devices

    @staticmethod
    def const(dtype: DType, value: complex) -> UOp:
        """A constant of `dtype` (vector: the same value in each lane), wrapped or rounded to it.

        A complex constant is a COMPLEX of two constants.
        """
        if dtype.kind == "complex":
            components = (value.real, value.imag) if isinstance(value, complex) else (value, 0)
            return UOp(Op.COMPLEX, dtype, tuple([UOp.const(dtype.part, c) for c in components]))
        assert not isinstance(value, complex), value
        if dtype.lanes > 1:
            return UOp(_VCONST, dtype, (), (cast_value(value, dtype.scalar),) * dtype.lanes)
        return UOp(_CONST, dtype, (), cast_value(value, dtype))

    @staticmethod
    def range(end: SInt, axis_id: int, kind: AxisType) -> UOp:
        """The induction variable of a loop from 0 to `end` - 1.

        Args:
            end: trip count.
            axis_id: id of the loop, unique in a kernel.
            kind: how the loop is executed: sequentially, unrolled, by threads, ...
        """
        return UOp(Op.RANGE, index, (to_node(end),), RangeArg(axis_id, kind))

    @staticmethod
    def variable(name: str, low: int, high: int, dtype: DType = index) -> UOp:
        """Runtime variable `name` of a scalar `dtype`, with inclusive bounds `low` and `high`."""
        return UOp(Op.DEFINE_VAR, dtype, (), VariableArg(name, low, high))

    @staticmethod
    def sink(*effects: UOp, arg: Any = None) -> UOp:
        """Return the root of a graph with these effects."""
        return UOp(Op.SINK, void, effects, arg)

    def cast(self, dtype: DType) -> UOp:
        """Convert each lane to `dtype`'s scalar."""
        return _rules["cast"](self, dtype)

    def bitcast(self, dtype: DType) -> UOp:
        """Reinterpret the bits as another dtype; the node itself if it has that dtype."""
        return self if dtype is self.dtype else UOp(Op.BITCAST, dtype, (self,))

    def alu(self, op: Op, *others: Operand) -> UOp:
        """Apply an elementwise op; Python scalars become constants of this dtype."""
        return _rules["alu"](
            op, self, *(o if isinstance(o, UOp) else _to_constant(o, self.dtype) for o in others)
        )

    def where(self, x: UOp, y: Operand) -> UOp:
        """Select `x` where this bool is true, else `y`; a Python scalar `y` gets `x`'s dtype."""
        return _rules["alu"](
            Op.WHERE, self, x, y if isinstance(y, UOp) else _to_constant(y, x.dtype)
        )

    def after(self, *dependencies: UOp) -> UOp:
        """This value, ordered after the dependencies."""
        return UOp(Op.AFTER, self.dtype, (self, *dependencies)) if dependencies else self

    def index(self, *positions: UOp, gate: UOp | None = None, lanes: int = 1) -> UOp:
        """The location at the indices `positions` of this memory object (see `svod_ir.ops`)."""
        src = (self, *positions) if gate is None else (self, *positions, gate)
        return UOp(Op.INDEX, self.dtype if lanes == 1 else self.dtype.vec(lanes), src)

    def load(self, alternative: UOp | None = None) -> UOp:
        """The value at this location, or `alternative` where the location's gate is false."""
        return UOp(Op.LOAD, self.dtype, (self,) if alternative is None else (self, alternative))

    def store(self, value: UOp) -> UOp:
        """Return a STORE of `value` to the element that this INDEX names."""
        return UOp(Op.STORE, void, (self, value))

    def end(self, *ranges: UOp) -> UOp:
        """This effect, once for each value of the ranges."""
        return UOp(Op.END, void, (self, *ranges)) if ranges else self

    # Operands by the names that `svod_ir.ops.TABLE` gives them, for nodes whose op is known.

    @property
    def source(self) -> UOp:
        """The operand of a movement, cast, reduction, copy, AFTER, BUFFERIZE or unary function."""
        return self.src[0]

    @property
    def memory(self) -> UOp:
        """The memory object of an INDEX or BUFFER_VIEW."""
        return self.src[0]

    @property
    def position(self) -> UOp:
        """The first index of an INDEX; the indices of a GATHER or SCATTER."""
        return self.src[1]

    @property
    def base(self) -> UOp:
        """The tensor whose rows a SCATTER writes."""
        return self.src[2]

    @property
    def location(self) -> UOp:
        """The location that a LOAD reads or a STORE writes."""
        return self.src[0]

    @property
    def value(self) -> UOp:
        """The value that a STORE or ASSIGN writes, or that a BIND binds."""
        return self.src[1]

    @property
    def alternative(self) -> UOp:
        """The value of a LOAD where its gate is false."""
        return self.src[1]

    @property
    def target(self) -> UOp:
        """The memory that an ASSIGN writes."""
        return self.src[0]

    @property
    def symbol(self) -> UOp:
        """The variable of a BIND."""
        return self.src[0]

    @property
    def stop(self) -> UOp:
        """The end of a RANGE or SPECIAL, which begins at 0."""
        return self.src[0]

    @property
    def left(self) -> UOp:
        """The first operand of a binary op."""
        return self.src[0]

    @property
    def right(self) -> UOp:
        """The second operand of a binary op."""
        return self.src[1]

    @property
    def body(self) -> UOp:
        """The effect that an END repeats, or the kernel of a CALL."""
        return self.src[0]

    @property
    def loops(self) -> tuple[UOp, ...]:
        """The RANGEs of an END, REDUCE or BUFFERIZE."""
        return self.src[1:]

    @property
    def arguments(self) -> tuple[UOp, ...]:
        """The memory and the values that a CALL passes to its body."""
        return self.src[1:]

    @property
    def dependencies(self) -> tuple[UOp, ...]:
        """The effects that an AFTER waits for."""
        return self.src[1:]

    @property
    def dependency(self) -> UOp:
        """The first effect that an AFTER waits for."""
        return self.src[1]

    @property
    def condition(self) -> UOp:
        """The condition of a WHERE or LEAVE."""
        return self.src[0]

    @property
    def if_true(self) -> UOp:
        """The value of a WHERE where its condition holds."""
        return self.src[1]

    @property
    def if_false(self) -> UOp:
        """The value of a WHERE where its condition does not hold."""
        return self.src[2]

    @property
    def loop(self) -> UOp:
        """The RANGE of a SCAN, or the loop that a LEAVE ends."""
        return self.src[1]

    @property
    def count(self) -> UOp:
        """The trip count of a LOOP."""
        return self.src[0]

    @property
    def choice(self) -> UOp:
        """The index of the branch that a SWITCH takes."""
        return self.src[0]

    @property
    def operands(self) -> tuple[UOp, ...]:
        """The operands that the bodies of a LOOP or SWITCH have PARAMs for."""
        return self.src[1:]

    @property
    def initial(self) -> UOp:
        """The value of a CARRY in the first iteration."""
        return self.src[0]

    @property
    def accumulator(self) -> UOp:
        """The value that a WMMA adds its product to."""
        return self.src[2]

    @property
    def kernel(self) -> UOp:
        """The lowered kernel of a PROGRAM."""
        return self.src[0]

    @property
    def linear(self) -> UOp:
        """The LINEAR of a PROGRAM."""
        return self.src[1]

    @property
    def text(self) -> UOp:
        """The SOURCE of a PROGRAM."""
        return self.src[2]

    @property
    def binary(self) -> UOp:
        """The PROGRAM_BINARY of a PROGRAM."""
        return self.src[3]

    @property
    def operand_dtype(self) -> DType:
        """The operand dtype of an elementwise op, which differs from a comparison's or cast's own."""
        return self.src[-1].dtype

    @property
    def carried(self) -> tuple[UOp, ...]:
        """The CARRYs that an ADVANCE updates, with their values in the current iteration."""
        return self.src[: len(self.src) // 2]

    @property
    def next_values(self) -> tuple[UOp, ...]:
        """The values of an ADVANCE's CARRYs in the next iteration."""
        return self.src[len(self.src) // 2 :]

    @property
    def unordered(self) -> UOp:
        """This node, such as a location, without the AFTERs that order it."""
        node = self
        while node.op is _AFTER:
            node = node.src[0]
        return node

    def strip(self, ops: Collection[Op]) -> UOp:
        """Follow first operands, starting with this node, to the first node whose op is not in
        `ops`.

        Example:
            >>> from svod_dtype import float32
            >>> from svod_ir.ops import Op
            >>> from svod_ir.uop import UOp
            >>> i = UOp.variable("i", 0, 9)
            >>> (-i).cast(float32).strip({Op.CAST, Op.NEG}) is i
            True
        """
        node = self
        while node.op in ops:
            node = node.src[0]
        return node

    @property
    def gate(self) -> UOp | None:
        """The gate of an INDEX, or None."""
        last = self.src[-1]
        return (
            last if self.op is _INDEX and last.dtype.kind == "bool" and len(self.src) > 1 else None
        )

    def __add__(self, other: Operand) -> UOp:
        return self.alu(Op.ADD, other)

    def __radd__(self, other: Operand) -> UOp:
        return self.alu(Op.ADD, other)

    def __sub__(self, other: Operand) -> UOp:
        return self.alu(Op.SUB, other)

    def __rsub__(self, other: bool | int | float) -> UOp:
        return _to_constant(other, self.dtype).alu(Op.SUB, self)

    def __mul__(self, other: Operand) -> UOp:
        return self.alu(Op.MUL, other)

    def __rmul__(self, other: Operand) -> UOp:
        return self.alu(Op.MUL, other)

    def __floordiv__(self, other: Operand) -> UOp:
        return self.alu(Op.IDIV, other)

    def __rfloordiv__(self, other: bool | int | float) -> UOp:
        return _to_constant(other, self.dtype).alu(Op.IDIV, self)

    def __mod__(self, other: Operand) -> UOp:
        return self.alu(Op.MOD, other)

    def __rmod__(self, other: bool | int | float) -> UOp:
        return _to_constant(other, self.dtype).alu(Op.MOD, self)

    def __truediv__(self, other: Operand) -> UOp:
        return self.alu(Op.FDIV, other)

    def __neg__(self) -> UOp:
        return self.alu(Op.NEG)

    def __invert__(self) -> UOp:
        return self.alu(Op.NOT)

    def __and__(self, other: Operand) -> UOp:
        return self.alu(Op.AND, other)

    def __or__(self, other: Operand) -> UOp:
        return self.alu(Op.OR, other)

    def __xor__(self, other: Operand) -> UOp:
        return self.alu(Op.XOR, other)

    def __lshift__(self, other: Operand) -> UOp:
        return self.alu(Op.SHL, other)

    def __rshift__(self, other: Operand) -> UOp:
        return self.alu(Op.SHR, other)

    def __lt__(self, other: Operand) -> UOp:
        return self.alu(Op.LT, other)

    def __le__(self, other: Operand) -> UOp:
        return self.alu(Op.LE, other)

    def __gt__(self, other: Operand) -> UOp:
        return (other if isinstance(other, UOp) else _to_constant(other, self.dtype)).alu(
            Op.LT, self
        )

    def __ge__(self, other: Operand) -> UOp:
        return (other if isinstance(other, UOp) else _to_constant(other, self.dtype)).alu(
            Op.LE, self
        )

    def __bool__(self) -> bool:
        """Truth of a comparison that holds, or fails, for all values of its variables; True for any
        other node.

        Raises:
            UndecidedError: if a comparison holds for some values only.
        """
        sign = _SIGNS.get(self.op)
        if sign is None:
            return True
        low, high = self.vmin, self.vmax
        if low != high:
            left, right = self.src
            raise UndecidedError(left=left, sign=sign, right=right)
        return bool(low)

    def __int__(self) -> int:
        """The value of a constant.

        Raises:
            OperandError: if this node is not a constant. A variable's value differs between calls,
                even if it is bound now.
        """
        if self.op is not Op.CONST:
            hint = (
                "use the size without int(), as in x.shape[0] * 2; after computing,"
                " x.numpy().shape has plain integers"
            )
            raise OperandError(
                operation="int",
                found=f"the size {format_size(self)}",
                expected="a constant",
                hint=hint,
            )
        return int(self.arg)

    def eq(self, other: Operand) -> UOp:
        """Elementwise equality (`==` compares nodes)."""
        return self.alu(Op.EQ, other)

    def ne(self, other: Operand) -> UOp:
        """Elementwise inequality, as a bool."""
        return self.alu(Op.NE, other)

    def maximum(self, other: Operand) -> UOp:
        """Elementwise maximum."""
        return self.alu(Op.MAX, other)

    def minimum(self, other: Operand) -> UOp:
        """Elementwise minimum."""
        return self.alu(Op.MIN, other)


class _Entry(weakref.ref[UOp]):
    """Weak reference to a node of the intern table; dead once the node dies, so that a dying node
    cannot be found.
    """

    __slots__ = ("key",)
    key: Key


_table: dict[Key, _Entry] = {}
# No lock guards it: each change is one operation that is atomic in the interpreter.


def _forget(entry: _Entry) -> None:
    # A node made after this one died may already have the key; `_remove_dead_weakref` checks that,
    # as in `weakref.WeakValueDictionary`.
    _remove_dead_weakref(_table, entry.key)


def _get_rival(node: UOp, own: _Entry) -> UOp:
    """The node that another thread has interned under this key, or `node` if that node died."""
    while True:
        entry = _table.setdefault(own.key, own)
        winner = node if entry is own else entry()
        if winner is not None:
            return winner
        _forget(entry)


SInt = int | UOp
"""A size: an int, or an index-typed node."""
Operand = UOp | bool | int | float


def _to_constant(value: bool | int | float, dtype: DType) -> UOp:
    """A Python number as a constant of a node's dtype; a float that the dtype would truncate is an
    error.
    """
    if isinstance(value, float) and not dtype.is_float:
        hint = "cast the node, as in x.cast(float32)"
        raise OperandError(
            operation=f"arithmetic on {dtype}", found=value, expected="an int or a bool", hint=hint
        )
    return UOp.const(dtype, value)


def to_node(size: SInt) -> UOp:
    """A size as an index-typed node."""
    return size if isinstance(size, UOp) else UOp.const(index, size)


def _arg_key(op: Op, dtype: DType, arg: Any) -> object:
    # 0.0 == -0.0, 1 == True and nan != nan in Python, so constants are keyed by type and bits.
    if op is _CONST:
        return struct.pack("d", arg) if dtype.kind == "float" else (arg, arg.__class__)
    return (
        struct.pack(f"{len(arg)}d", *arg)
        if dtype.kind == "float"
        else tuple([(v, v.__class__) for v in arg])
    )


class _Kept(threading.local):
    """The last order that `toposort` computed in this thread; empty before the first, None outside
    of `keep_order`.
    """

    order: list[UOp] | None = None


_kept: Final = _Kept()

_MIN_KEPT: Final = 64
"""Minimum length of an order that is kept. Shorter ones, such as index expressions, are computed as
fast as they are copied, and would evict the graph's order.
"""


@contextmanager
def keep_order() -> Generator[None]:
    """Cache the last order of `toposort` in this thread: consecutive passes walk the same graph
    many times.

    The nodes of that order stay alive for as long.

    Example:
        >>> from svod_ir.uop import UOp, keep_order
        >>> i = UOp.variable("i", 0, 9)
        >>> with keep_order():
        ...     i.toposort() == i.toposort(), i.toposort() is i.toposort()
        (True, False)
    """
    outer, _kept.order = _kept.order, []
    try:
        yield
    finally:
        _kept.order = outer


def defines(name: str) -> Callable[[Rule], Rule]:
    """Register a rule that a higher module defines: it fills a slot, or implements a method of
    nodes.

    Example:
        >>> from svod_ir import UOp
        >>> from svod_ir.uop import defines
        >>> @defines("double")
        ... def double(node: UOp) -> UOp:
        ...     return node + node
        >>> double(UOp.variable("i", 0, 9)).bounds
        (0, 18)
    """

    def define(rule: Rule) -> Rule:
        _rules[name] = rule
        return rule

    return define


_rules: Final[dict[str, Callable[..., Any]]] = {}


def _derive(root: UOp, slot: str) -> None:
    """Fill `slot` of `root` and of every node below that lacks it, operands first.

    An explicit stack, since graphs are deeper than Python's recursion limit.
    """
    infer = _rules[slot]
    for operand in root.src:
        if getattr(operand, slot) is _UNSET:
            break
    else:
        setattr(root, slot, infer(root))
        return
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [s for s in node.src if getattr(s, slot) is _UNSET]
        if missing:
            stack.extend(missing)
            continue
        # A node that is the operand of two may be on the stack twice.
        if getattr(node, slot) is _UNSET:
            setattr(node, slot, infer(node))
        stack.pop()


def count_interned() -> int:
    """Number of live nodes."""
    return len(_table)


def clear_interned() -> None:
    """Forget every node, for tests: nodes made before and after are then never identical."""
    _table.clear()

"""Hypothesis strategies for dtypes, shapes, tensor graphs and index expressions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from hypothesis import strategies as st

from svod_dtype import ALL_DTYPES, DType, bool_, index, uint64
from svod_ir.args import GradientRule
from svod_ir.build import (
    make_alu,
    make_check,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter,
    make_scatter_add,
    make_shrink,
)
from svod_ir.derivatives import add_control_dependency, make_gradient, make_traced
from svod_ir.ops import BINARY, COMPARISON, FUNCTIONS, REDUCTIONS, UNARY, Op, takes
from svod_ir.testing.nodes import alu, buffer
from svod_ir.uop import UOp

__all__ = ["conditions", "dtypes", "expressions", "graphs", "shapes"]

_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31)
_MAX_ELEMENTS: Final = 600


def dtypes() -> st.SearchStrategy[DType]:
    """Generate all dtypes of tensors."""
    return st.sampled_from(ALL_DTYPES)


@st.composite
def shapes(
    draw: st.DrawFn,
    max_ndim: int = 4,
    max_elements: int = _MAX_ELEMENTS,
    *,
    allow_empty: bool = True,
) -> tuple[int, ...]:
    """Generate shapes of at most `max_ndim` axes and `max_elements` elements, with sizes 1, small,
    prime and near powers of two, and rarely 0 if `allow_empty`.
    """
    sizes: list[int] = []
    for _ in range(draw(st.integers(0, max_ndim))):
        room = max_elements // max(1, prod(sizes))
        sizes.append(draw(st.sampled_from([s for s in _SIZES if s <= room] or [1])))
    if allow_empty and sizes and draw(st.integers(0, 19)) == 0:
        sizes[draw(st.integers(0, len(sizes) - 1))] = 0
    return tuple(sizes)


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    kinds: Sequence[DType] = ALL_DTYPES,
    max_ops: int = 12,
    max_elements: int = _MAX_ELEMENTS,
    device: str = "CPU",
) -> UOp:
    """Generate a tensor: a sequence of operations on buffers, constants and ranges of integers.

    Its value is well conditioned: no operation with jumps or cancellation is applied to a value
    whose last bits may vary (a sum in another order, a function of the target), so that
    `assert_same` and comparison with numpy need only small tolerances.

    Args:
        draw: function of hypothesis.
        kinds: dtypes of the leaves.
        max_ops: maximum number of operations.
        max_elements: maximum number of elements of a tensor.
        device: device of the buffers.
    """
    builder = _Builder(draw, kinds, max_elements, device)
    builder.leaf()
    for _ in range(draw(st.integers(1, max_ops))):
        builder.extend()
    return builder.last.node


@st.composite
def expressions(draw: st.DrawFn, *, max_ops: int = 10, n_variables: int = 3) -> UOp:
    """Generate an index expression of at most `max_ops` ops over `n_variables` bounded variables,
    unfolded as passes may see it.
    """
    return _expression(draw, max_ops, n_variables, is_condition=False)


@st.composite
def conditions(draw: st.DrawFn, *, max_ops: int = 10, n_variables: int = 3) -> UOp:
    """Generate a bool expression of at most `max_ops` ops over `n_variables` bounded integer
    variables.
    """
    return _expression(draw, max_ops, n_variables, is_condition=True)


_INTEGER_OPS: Final = (Op.ADD, Op.ADD, Op.MUL, Op.SUB, Op.IDIV, Op.MOD, Op.MAX, Op.MIN)


def _expression(draw: st.DrawFn, max_ops: int, n_variables: int, *, is_condition: bool) -> UOp:
    integers = [_variable(draw, i) for i in range(n_variables)]
    booleans: list[UOp] = []
    for _ in range(draw(st.integers(1, max_ops))):
        x = draw(st.sampled_from(integers))
        y = (
            draw(st.sampled_from(integers))
            if draw(st.booleans())
            else UOp.const(index, draw(st.integers(-9, 40)))
        )
        choice = draw(st.integers(0, 9))
        if choice < 6:
            op = draw(st.sampled_from(_INTEGER_OPS))
            if op is Op.MUL:
                y = UOp.const(index, draw(st.integers(-5, 16)))
            elif op in (Op.IDIV, Op.MOD):
                y = UOp.const(
                    index,
                    draw(st.integers(1, 16))
                    if draw(st.integers(0, 4))
                    else draw(st.integers(-8, -1)),
                )
            integers.append(UOp(op, index, (x, y)))
        elif choice < 8 or not booleans:
            booleans.append(UOp(draw(st.sampled_from(_COMPARISONS)), bool_, (x, y)))
        elif choice == 8:
            booleans.append(
                UOp(
                    draw(st.sampled_from((Op.AND, Op.OR, Op.XOR))),
                    bool_,
                    (draw(st.sampled_from(booleans)), booleans[-1]),
                )
            )
        else:
            integers.append(alu(Op.WHERE, booleans[-1], x, y))
    if not is_condition:
        return integers[-1]
    return (
        booleans[-1]
        if booleans
        else alu(Op.LT, integers[-1], UOp.const(index, draw(st.integers(-9, 40))))
    )


_COMPARISONS: Final = (Op.LT, Op.LE, Op.EQ, Op.NE)


def _variable(draw: st.DrawFn, position: int) -> UOp:
    low = draw(st.sampled_from((0, 0, 0, 0, 1, -1, -7)))
    return UOp.variable(
        f"v{position}", low, low + draw(st.sampled_from((0, 1, 2, 3, 7, 8, 15, 31, 63)))
    )


@dataclass(frozen=True, slots=True)
class _Value:
    """A tensor and its precision: exact to the last bit, and not a product that an add may
    contract.
    """

    node: UOp
    is_exact: bool = True
    is_product: bool = False


_FUNCTIONS: Final = (FUNCTIONS & UNARY) - {Op.TAN}
"""Functions that are well conditioned for small arguments; TAN has a pole there."""
_SMOOTH_UNARY: Final = (Op.NEG, Op.ABS)
_EXACT_UNARY: Final = UNARY - FUNCTIONS
_COMBINING: Final = (
    BINARY - COMPARISON - FUNCTIONS - {Op.CDIV, Op.CMOD, Op.THREEFRY, Op.SHL, Op.SHR}
)


class _Builder:
    def __init__(
        self, draw: st.DrawFn, kinds: Sequence[DType], max_elements: int, device: str
    ) -> None:
        self.draw, self.kinds, self.max_elements, self.device = (
            draw,
            tuple(kinds),
            max_elements,
            device,
        )
        self.values: list[_Value] = []
        self.n_buffers = 0
        self.steps: tuple[Callable[[_Value], _Value | None], ...] = (
            self.unary,
            self.function,
            self.quotient,
            self.binary,
            self.binary,
            self.with_constant,
            self.shift,
            self.power,
            self.compare,
            self.select,
            self.cast,
            self.bitcast,
            self.reshape,
            self.permute,
            self.expand,
            self.pad,
            self.shrink,
            self.flip,
            self.gather,
            self.reduce,
            self.reduce,
            self.scan,
            self.scatter,
            self.scatter_add,
            self.mark,
        )

    @property
    def last(self) -> _Value:
        return self.values[-1]

    def pick(self, options: Collection[Op]) -> Op:
        return self.draw(st.sampled_from(sorted(options, key=lambda o: o.name)))

    def flip_coin(self) -> bool:
        return self.draw(st.booleans())

    def leaf(self) -> None:
        shape = self.draw(shapes(max_elements=self.max_elements))
        dtype = self.draw(st.sampled_from(self.kinds))
        choice = self.draw(st.integers(0, 9))
        if choice == 0 and dtype.is_int:
            node = make_reshape(make_iota(prod(shape), dtype), shape)
        elif choice == 1:
            node = make_expand(
                make_reshape(UOp.const(dtype, self.draw(st.integers(0, 3))), (1,) * len(shape)),
                shape,
            )
        else:
            node = self.new_buffer(dtype, shape)
        self.values.append(_Value(node))

    def new_buffer(self, dtype: DType, shape: tuple[int, ...]) -> UOp:
        # Ids start at 1 in each graph, so that equal graphs are equal nodes.
        self.n_buffers += 1
        return make_reshape(buffer(self.n_buffers, prod(shape), dtype, self.device), shape)

    def extend(self) -> None:
        """Add one value: usually an operation on the last one, sometimes a new leaf for binary ops."""
        if self.draw(st.integers(0, 7)) == 7:
            self.leaf()
            self.values.insert(0, self.values.pop())
            return
        source = (
            self.draw(st.sampled_from(self.values))
            if self.draw(st.integers(0, 7)) == 7
            else self.last
        )
        # If a step does not apply, the next one that does is used.
        first = self.draw(st.integers(0, len(self.steps) - 1))
        for step in (*self.steps[first:], *self.steps[:first]):
            value = step(source)
            if (
                value is not None
                and value.node is not source.node
                and prod(_sizes(value.node)) <= self.max_elements
            ):
                self.values.append(value)
                return

    # Elementwise.

    def unary(self, x: _Value) -> _Value | None:
        dtype = x.node.dtype
        options = _EXACT_UNARY if x.is_exact or not dtype.is_float else _SMOOTH_UNARY
        return _Value(
            make_alu(self.pick([o for o in options if takes(o, dtype)]), x.node), x.is_exact
        )

    def function(self, x: _Value) -> _Value | None:
        """Apply a function whose last bit depends on the target, to small arguments."""
        if not x.node.dtype.is_float or not x.is_exact:
            return None
        return _Value(make_alu(self.pick(_FUNCTIONS), self._clamp(x.node)), is_exact=False)

    def quotient(self, x: _Value) -> _Value | None:
        partners = self._partners(x)
        if not x.node.dtype.is_float or not x.is_exact or not partners[0].is_exact:
            return None
        return _Value(make_alu(Op.FDIV, x.node, partners[0].node))

    def _partners(self, x: _Value) -> list[_Value]:
        return [
            v
            for v in self.values
            if v.node.dtype is x.node.dtype and _sizes(v.node) == _sizes(x.node)
        ]

    def _clamp(self, node: UOp) -> UOp:
        low, high = (UOp.const(node.dtype, v) for v in (0.25, 4.0))
        return make_alu(Op.MIN, make_alu(Op.MAX, node, low), high)

    def binary(self, x: _Value) -> _Value | None:
        return self._combine(x, self.draw(st.sampled_from(self._partners(x))))

    def with_constant(self, x: _Value) -> _Value | None:
        value = (
            self.draw(st.integers(0, 3))
            if x.node.dtype.is_unsigned
            else self.draw(st.integers(-3, 3))
        )
        return self._combine(x, _Value(UOp.const(x.node.dtype, value)))

    def _combine(self, x: _Value, y: _Value) -> _Value | None:
        dtype = x.node.dtype
        is_exact = x.is_exact and y.is_exact
        # Cancellation and quotients magnify an error without bound.
        excluded = {Op.SUB} if dtype.is_bool else {Op.FDIV} if not is_exact else set[Op]()
        op = self.pick([o for o in _COMBINING - excluded if takes(o, dtype)])
        node = make_alu(op, x.node, y.node)
        if not dtype.is_float:
            return _Value(node)
        # The target may contract a product and an add to a fused multiply-add.
        joins = op in (Op.ADD, Op.SUB) and (x.is_product or y.is_product)
        return _Value(node, is_exact and not joins, op is Op.MUL)

    def shift(self, x: _Value) -> _Value | None:
        dtype = x.node.dtype
        if not dtype.is_int:
            return None
        if dtype is uint64 and self.flip_coin():
            return _Value(
                make_alu(Op.THREEFRY, x.node, self.draw(st.sampled_from(self._partners(x))).node)
            )
        amount = UOp.const(dtype, self.draw(st.integers(0, min(dtype.bits - 1, 40))))
        return _Value(make_alu(self.pick((Op.SHL, Op.SHR)), x.node, amount))

    def power(self, x: _Value) -> _Value | None:
        if x.node.dtype.is_float and not x.is_exact:
            return None
        # An integer power wraps; a float one is a function of the target.
        base = self._clamp(x.node) if x.node.dtype.is_float else x.node
        exponent = UOp.const(x.node.dtype, self.draw(st.integers(0, 4)))
        return _Value(make_alu(Op.POW, base, exponent), not x.node.dtype.is_float)

    def compare(self, x: _Value) -> _Value | None:
        partners = [v for v in self._partners(x) if v.is_exact]
        if not x.is_exact or bool_ not in self.kinds or not partners:
            return None
        return _Value(
            make_alu(self.pick(_COMPARISONS), x.node, self.draw(st.sampled_from(partners)).node)
        )

    def select(self, x: _Value) -> _Value | None:
        masks = [
            v for v in self.values if v.node.dtype is bool_ and _sizes(v.node) == _sizes(x.node)
        ]
        partners = self._partners(x)
        if not masks:
            return None
        y = self.draw(st.sampled_from(partners))
        node = make_alu(Op.WHERE, self.draw(st.sampled_from(masks)).node, x.node, y.node)
        return _Value(node, x.is_exact and y.is_exact, x.is_product or y.is_product)

    def cast(self, x: _Value) -> _Value | None:
        target = self.draw(st.sampled_from(self.kinds))
        if x.node.dtype.is_float and not target.is_float and not x.is_exact:
            return None
        return _Value(x.node.cast(target), x.is_exact)

    def bitcast(self, x: _Value) -> _Value | None:
        same = [
            d
            for d in self.kinds
            if d.itemsize == x.node.dtype.itemsize and not d.is_bool and not d.is_float
        ]
        if (
            not same
            or not x.is_exact
            or x.node.dtype.is_bool
            or x.node.op is Op.CONST
            or not _sizes(x.node)
        ):
            return None
        # The payload of a NaN from arithmetic depends on the target.
        if x.node.dtype.is_float:
            is_number = make_alu(Op.EQ, x.node, x.node)
            node = make_alu(Op.WHERE, is_number, x.node, UOp.const(x.node.dtype, 1))
            return _Value(node.bitcast(self.draw(st.sampled_from(same))))
        return _Value(x.node.bitcast(self.draw(st.sampled_from(same))))

    # Movement.

    def _moved(self, x: _Value, node: UOp) -> _Value:
        return _Value(node, x.is_exact, x.is_product)

    def reshape(self, x: _Value) -> _Value | None:
        sizes = [s for s in _sizes(x.node) if s != 1]
        if len(sizes) > 1 and self.flip_coin():
            at = self.draw(st.integers(0, len(sizes) - 2))
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        elif sizes:
            at = self.draw(st.integers(0, len(sizes) - 1))
            divisors = [d for d in range(1, sizes[at] + 1) if sizes[at] % d == 0] or [1]
            divisor = self.draw(st.sampled_from(divisors))
            sizes[at : at + 1] = [divisor, sizes[at] // divisor]
        if len(sizes) < 4 and self.flip_coin():
            sizes.insert(self.draw(st.integers(0, len(sizes))), 1)
        return self._moved(x, make_reshape(x.node, sizes))

    def permute(self, x: _Value) -> _Value | None:
        return self._moved(
            x, make_permute(x.node, self.draw(st.permutations(range(len(x.node.shape)))))
        )

    def expand(self, x: _Value) -> _Value | None:
        sizes = list(_sizes(x.node))
        if 1 not in sizes:
            return None
        sizes[sizes.index(1)] = self.draw(st.sampled_from(_SIZES[1:8]))
        return (
            self._moved(x, make_expand(x.node, sizes)) if prod(sizes) <= self.max_elements else None
        )

    def pad(self, x: _Value) -> _Value | None:
        amounts = st.sampled_from((0, 0, 1, 2, 3))
        return self._moved(
            x, make_pad(x.node, [(self.draw(amounts), self.draw(amounts)) for _ in x.node.shape])
        )

    def shrink(self, x: _Value) -> _Value | None:
        bounds: list[tuple[int, int]] = []
        for size in _sizes(x.node):
            begin = self.draw(st.integers(0, min(3, size)))
            bounds.append((begin, self.draw(st.integers(max(begin, size - 3), size))))
        return self._moved(x, make_shrink(x.node, bounds))

    def flip(self, x: _Value) -> _Value | None:
        return self._moved(x, make_flip(x.node, [self.flip_coin() for _ in x.node.shape]))

    def gather(self, x: _Value) -> _Value | None:
        shape = _sizes(x.node)
        if not shape:
            return None
        indices = [v.node for v in self.values if v.node.dtype.is_int and len(v.node.shape) <= 2]
        integers = [d for d in self.kinds if d.is_int]
        if integers and (not indices or self.flip_coin()):
            indices = [
                self.new_buffer(self.draw(st.sampled_from(integers)), self.draw(shapes(2, 40)))
            ]
        if not indices:
            return None
        axis = self.draw(st.integers(0, len(shape) - 1))
        return self._moved(x, make_gather(x.node, self.draw(st.sampled_from(indices)), axis))

    def scatter(self, x: _Value) -> _Value | None:
        shape = _sizes(x.node)
        integers = [d for d in self.kinds if d.is_int]
        if not shape or not integers:
            return None
        axis = self.draw(st.integers(0, len(shape) - 1))
        indices = self.new_buffer(self.draw(st.sampled_from(integers)), self.draw(shapes(2, 12)))
        row_shape = (*shape[:axis], *_sizes(indices), *shape[axis + 1 :])
        if prod(row_shape) > self.max_elements:
            return None
        rows = self.new_buffer(x.node.dtype, row_shape)
        return self._moved(x, make_scatter(x.node, indices, rows, axis))

    def scatter_add(self, x: _Value) -> _Value | None:
        shape = _sizes(x.node)
        fitting = [
            (v.node, axis)
            for v in self.values
            if v.node.dtype.is_int and v.node.shape
            for axis in range(len(shape))
            if shape[axis : axis + len(v.node.shape)] == v.node.shape
        ]
        integers = [d for d in self.kinds if d.is_int]
        if shape and integers and (not fitting or self.flip_coin()):
            axis = self.draw(st.integers(0, len(shape) - 1))
            n_axes = self.draw(st.integers(1, min(2, len(shape) - axis)))
            dtype = self.draw(st.sampled_from(integers))
            fitting = [(self.new_buffer(dtype, shape[axis : axis + n_axes]), axis)]
        if not fitting:
            return None
        indices, axis = self.draw(st.sampled_from(fitting))
        size = self.draw(st.sampled_from(_SIZES[:8]))
        kept = prod(shape) // max(1, prod(_sizes(indices)))
        if kept * size > self.max_elements:
            return None
        return _Value(
            make_scatter_add(x.node, indices, axis, size), x.is_exact and not x.node.dtype.is_float
        )

    # Reductions.

    def reduce(self, x: _Value) -> _Value | None:
        axes = (
            self.draw(st.sets(st.integers(0, max(0, len(x.node.shape) - 1)), max_size=3))
            if x.node.shape
            else set[int]()
        )
        op = self.pick(tuple(REDUCTIONS))
        is_exact = x.is_exact and (not x.node.dtype.is_float or op in (Op.MAX, Op.MIN))
        if op is Op.MUL and x.node.dtype.is_float:
            return None
        return _Value(make_reduce_axis(x.node, op, sorted(axes)), is_exact)

    def scan(self, x: _Value) -> _Value | None:
        if not x.node.shape:
            return None
        op = self.pick((Op.ADD, Op.MAX, Op.MIN))
        is_exact = x.is_exact and (not x.node.dtype.is_float or op is not Op.ADD)
        return _Value(
            make_scan_axis(x.node, op, self.draw(st.integers(0, len(x.node.shape) - 1))), is_exact
        )

    def mark(self, x: _Value) -> _Value | None:
        op = self.pick(
            (
                Op.CONTIGUOUS,
                Op.DETACH,
                Op.TRACED,
                Op.GRADIENT,
                Op.CONTROL_DEPENDENCY,
                *((Op.CHECK,) if x.node.dtype.is_int else ()),
            )
        )
        match op:
            case Op.CHECK:
                node = make_check(x.node, "divide")
            case Op.TRACED:
                node = make_traced(x.node)
            case Op.CONTROL_DEPENDENCY:
                node = add_control_dependency(x.node, (x.node,))
            case Op.GRADIENT:
                node = make_gradient(x.node, (x.node,), GradientRule("any"), (0, "axis"))
            case _:
                node = UOp(op, x.node.dtype, (x.node,))
        return _Value(node, x.is_exact)


def _sizes(node: UOp) -> tuple[int, ...]:
    return tuple(s for s in node.shape if isinstance(s, int))

"""split-complex: write complex numbers as pairs of real ones.

before → after, for z * w of z = x + iy and w = u + iv:

    REAL(MUL(z, w))         SUB(MUL(x, u), MUL(y, v))
    IMAG(MUL(z, w))         ADD(MUL(x, v), MUL(y, u))
    AS_REAL(z)              x and y interleaved along a trailing axis of size 2
    REAL(AS_COMPLEX(p))     SHRINK(p), index 0 of the trailing axis

No later pass sees complex dtypes. Copies and movement ops of complex memory keep both components
interleaved, as memory holds them; every other op is computed for each component separately. A
complex matrix product becomes one real matrix product with an additional reduced axis: of the pairs
(x, y) with the rows (u, v) and (-v, u), which are materialized.

Source: division follows R. L. Smith, "Algorithm 116: Complex division", CACM 5(8), 1962, as in
numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from svod_dtype import DType
from svod_ir import (
    Op,
    SInt,
    UOp,
    make_alu,
    make_cast,
    make_concat,
    make_expand,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
)
from svod_ir.loops import get_bodies, map_bodies
from svod_ir.ops import MARKS, MOVEMENT
from svod_ir.origins import make_images, propagate_labels
from svod_ir.sizes import max_size

__all__ = ["split_complex"]

Pair = tuple[UOp, UOp]

_MOVING: Final = (
    frozenset({Op.COPY, Op.CONTIGUOUS, Op.MSTACK, Op.MSELECT, Op.MULTI, Op.RESHARD, Op.AFTER})
    | MOVEMENT
    | {Op.GATHER}
)
"""Ops that keep the components interleaved if their operand has them interleaved."""
_INTERLEAVED: Final = frozenset({Op.CONTIGUOUS, Op.MSTACK, Op.MSELECT, Op.MULTI, Op.RESHARD})
"""Ops on memory, which always holds interleaved components."""


def split_complex(sink: UOp) -> UOp:
    """Replace complex values in `sink`, and in the bodies of its loops and switches, by real ones.

    The operands of `sink` itself are real.
    """
    order = sink.toposort()
    if not any(node.dtype.is_complex or _has_complex_body(node) for node in order):
        return sink
    return _PairWriter().write(order)


def _has_complex_body(node: UOp) -> bool:
    return any(
        inner.dtype.is_complex or _has_complex_body(inner)
        for body in get_bodies(node)
        for inner in body.toposort()
    )


class _PairWriter:
    """Images of the nodes of a graph: a node for a real one, and for a complex one a pair of
    components, a node with interleaved components, or both.
    """

    def __init__(self) -> None:
        self.real = make_images()
        self.pairs: dict[UOp, Pair] = {}
        self.interleaved: dict[UOp, UOp] = {}

    def write(self, order: list[UOp]) -> UOp:
        """Rewrite the nodes of a graph, and return the image of the last one."""
        for node in order:
            if node.dtype.is_complex:
                self._split(node)
            else:
                self.real[node] = self._rewrite(node)
        return self.real[order[-1]]

    def _rewrite(self, node: UOp) -> UOp:
        """Return the image of a real node."""
        source = next(iter(node.src), None)
        if source is None or not any(s.dtype.is_complex for s in node.src):
            new = node.with_images(self.real)
            return map_bodies(new, split_complex) if get_bodies(new) else new
        match node.op:
            case Op.REAL:
                return self.get_pair(source)[0]
            case Op.IMAG:
                return self.get_pair(source)[1]
            case Op.AS_REAL:
                return self.get_interleaved(source)
            case Op.EQ | Op.NE:
                (a, b), (c, d) = self.get_pair(node.left), self.get_pair(node.right)
                return make_alu(
                    Op.AND if node.op is Op.EQ else Op.OR,
                    make_alu(node.op, a, c),
                    make_alu(node.op, b, d),
                )
            case Op.CAST:
                x, y = self.get_pair(source)
                return make_alu(Op.OR, make_cast(x, node.dtype), make_cast(y, node.dtype))
            case _:
                # Nodes that only depend on complex values depend on both components.
                operands = [
                    component
                    for s in node.src
                    for component in (self.get_pair(s) if s.dtype.is_complex else (self.real[s],))
                ]
                return node.with_src(tuple(operands))

    def get_pair(self, node: UOp) -> Pair:
        """Return the components of a complex node as two nodes."""
        # Both forms are kept once they exist: readers of one do not make others convert again.
        pair = self.pairs.get(node)
        if pair is None:
            both = self.interleaved[node]
            pair = self.pairs[node] = _take_component(both, 0), _take_component(both, 1)
        return pair

    def get_interleaved(self, node: UOp) -> UOp:
        """Return the components of a complex node along a trailing axis of one node."""
        both = self.interleaved.get(node)
        if both is None:
            x, y = (_broadcast(component, node.shape) for component in self.get_pair(node))
            both = self.interleaved[node] = _stack(x, y, -1)
        return both

    def _split(self, node: UOp) -> None:
        op = node.op
        if op is Op.AS_COMPLEX:
            self.interleaved[node] = self.real[node.source]
        elif op in MARKS:
            self._copy(node.source, node)
        elif op is Op.REDUCE_AXIS and _is_product(node.source):
            self.interleaved[node] = self._add_products(node)
        elif op in _INTERLEAVED or (
            op in _MOVING and node.source in self.interleaved and node.source not in self.pairs
        ):
            self.interleaved[node] = self._move_both(node)
        else:
            self.pairs[node] = self._make_pair(node)
        for image in (
            *self.pairs.get(node, ()),
            *((self.interleaved[node],) if node in self.interleaved else ()),
        ):
            propagate_labels(image, (node,))

    def _copy(self, source: UOp, node: UOp) -> None:
        if source in self.pairs:
            self.pairs[node] = self.pairs[source]
        if source in self.interleaved:
            self.interleaved[node] = self.interleaved[source]

    def _move_both(self, node: UOp) -> UOp:
        """Apply a movement or memory op to interleaved components."""
        if node.op is Op.MSTACK:
            return UOp(Op.MSTACK, node.dtype.part, tuple(map(self.get_interleaved, node.src)))
        return self._move(node, self.get_interleaved(node.source), 1)

    def _move(self, node: UOp, source: UOp, n_axes: int) -> UOp:
        """Apply `node` to `source`, which has `n_axes` additional trailing axes of size 2."""
        arg = node.arg
        if node.op in (Op.RESHAPE, Op.EXPAND):
            arg = (*arg, *[2] * n_axes)
        elif node.op is Op.PERMUTE:
            arg = (*arg, *range(len(arg), len(arg) + n_axes))
        elif node.op is Op.FLIP:
            arg = (*arg, *[False] * n_axes)
        elif node.op is Op.PAD:
            arg = (*arg, *[0] * 2 * n_axes)
        elif node.op is Op.SHRINK:
            arg = (*arg, *[0, 2] * n_axes)
        return UOp(node.op, source.dtype, (source, *[self.real[s] for s in node.src[1:]]), arg)

    def _make_pair(self, node: UOp) -> Pair:
        rule = _RULES.get(node.op)
        if rule is not None:
            return rule(
                node,
                *[
                    self.get_pair(s) if s.dtype.is_complex else (self.real[s], self.real[s])
                    for s in node.src
                ],
            )
        dtype = node.dtype.part
        # Movement, sums and copies apply to each component separately.
        x, y = [
            _broadcast(component, node.source.shape) for component in self.get_pair(node.source)
        ]
        operands = [
            component
            for s in node.src[1:]
            for component in (self.get_pair(s) if s.dtype.is_complex else (self.real[s],))
        ]
        return UOp(node.op, dtype, (x, *operands), node.arg), UOp(
            node.op, dtype, (y, *operands), node.arg
        )

    def _add_products(self, node: UOp) -> UOp:
        """Write a sum of complex products z * w as a sum of real products, with an additional
        reduced axis: of (x, y) with the rows (u, v) and (-v, u).
        """
        # The smaller operand is stored in the form of four components per number, twice its size;
        # the larger one stays interleaved, as it is in memory.
        chains = sorted(
            map(_list_moved, node.source.src), key=lambda chain: _count_elements(chain[-1])
        )
        (*moves, smaller), (larger, *_) = chains
        shape = smaller.shape
        u, v = [_broadcast(component, shape) for component in self.get_pair(smaller)]
        first, second = _stack(u, v, -1), _stack(make_alu(Op.NEG, v), u, -1)
        # Materialized, so that a step of the sum loads it without a select. The last axis and the
        # components are adjacent, for contiguous loads.
        last = len(shape) - 1 if shape else 0
        stored = _stack(first, second, last)
        block = UOp(Op.CONTIGUOUS, stored.dtype, (stored,))
        if shape:
            block = make_permute(
                block, [*[a for a in range(last + 3) if a not in (last, last + 2)], last, last + 2]
            )
        for move in reversed(moves):
            block = self._move(move, block, 2)
        both, n_axes = self.get_interleaved(larger), len(node.shape)
        pairs = make_expand(make_reshape(both, (*both.shape, 1)), (*both.shape, 2))
        total = make_reduce_axis(make_alu(Op.MUL, pairs, block), Op.ADD, (*node.arg.axes, n_axes))
        return make_reshape(total, (*node.shape, 2))


def _count_elements(node: UOp) -> int:
    return math.prod(map(max_size, node.shape))


def _is_product(node: UOp) -> bool:
    """Whether a node is a product of two broadcast operands, as in a matrix product."""
    return node.op is Op.MUL and all(
        s.shape == node.shape and any(n.op is Op.EXPAND for n in _list_moved(s)) for s in node.src
    )


def _list_moved(node: UOp) -> list[UOp]:
    """Return the chain of movement ops from `node` down to the first other node, inclusive."""
    chain = [node]
    while chain[-1].op in MOVEMENT:
        chain.append(chain[-1].source)
    return chain


def _stack(first: UOp, second: UOp, axis: int) -> UOp:
    """Stack two tensors of the same shape along a new axis, which may be negative."""
    shape = list(first.shape)
    axis = axis if axis >= 0 else len(shape) + 1 + axis
    shape.insert(axis, 1)
    return make_concat([make_reshape(first, shape), make_reshape(second, shape)], axis)


def _take_component(both: UOp, i: int) -> UOp:
    shape = both.shape[:-1]
    return make_reshape(make_shrink(both, [*[(0, s) for s in shape], (i, i + 1)]), shape)


def _broadcast(component: UOp, shape: tuple[SInt, ...]) -> UOp:
    """Broadcast a component to the shape of its complex node: it may be a scalar constant."""
    if component.shape == shape:
        return component
    return make_expand(make_reshape(component, (1,) * len(shape)), shape)


def _constant(dtype: DType, value: float) -> UOp:
    return UOp.const(dtype, value)


def _complex(_: UOp, real: Pair, imag: Pair) -> Pair:
    return real[0], imag[0]


def _cast(node: UOp, x: Pair) -> Pair:
    dtype = node.dtype.part
    if node.source.dtype.is_complex:
        return make_cast(x[0], dtype), make_cast(x[1], dtype)
    return make_cast(x[0], dtype), _constant(dtype, 0)


def _componentwise(node: UOp, *operands: Pair) -> Pair:
    return make_alu(node.op, *[o[0] for o in operands]), make_alu(
        node.op, *[o[1] for o in operands]
    )


def _mul(_: UOp, x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    return (
        make_alu(Op.SUB, make_alu(Op.MUL, a, c), make_alu(Op.MUL, b, d)),
        make_alu(Op.ADD, make_alu(Op.MUL, a, d), make_alu(Op.MUL, b, c)),
    )


def _divide(_: UOp, x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    zero = _constant(c.dtype, 0)
    # Dividing by the larger component of the divisor keeps the ratio at most 1, so that no
    # intermediate value overflows.
    is_real_larger = make_alu(Op.LE, make_alu(Op.ABS, d), make_alu(Op.ABS, c))
    large, small = (
        make_alu(Op.WHERE, is_real_larger, c, d),
        make_alu(Op.WHERE, is_real_larger, d, c),
    )
    ratio = make_alu(Op.FDIV, small, large)
    denominator = make_alu(Op.ADD, large, make_alu(Op.MUL, small, ratio))
    numerator, cross = (
        make_alu(Op.WHERE, is_real_larger, a, b),
        make_alu(Op.WHERE, is_real_larger, b, a),
    )
    real = make_alu(
        Op.FDIV, make_alu(Op.ADD, numerator, make_alu(Op.MUL, cross, ratio)), denominator
    )
    difference = make_alu(Op.SUB, cross, make_alu(Op.MUL, numerator, ratio))
    imag = make_alu(
        Op.FDIV,
        make_alu(Op.WHERE, is_real_larger, difference, make_alu(Op.NEG, difference)),
        denominator,
    )
    # A zero divisor divides each component by 0, as numpy does.
    is_zero = make_alu(Op.AND, make_alu(Op.EQ, c, zero), make_alu(Op.EQ, d, zero))
    at_zero = make_alu(Op.ABS, c)
    return (
        make_alu(Op.WHERE, is_zero, make_alu(Op.FDIV, a, at_zero), real),
        make_alu(Op.WHERE, is_zero, make_alu(Op.FDIV, b, at_zero), imag),
    )


def _reciprocal(node: UOp, x: Pair) -> Pair:
    dtype = node.dtype.part
    return _divide(node, (_constant(dtype, 1), _constant(dtype, 0)), x)


_RULES: Final[dict[Op, Callable[..., Pair]]] = {
    Op.COMPLEX: _complex,
    Op.CAST: _cast,
    Op.MUL: _mul,
    Op.FDIV: _divide,
    Op.RECIPROCAL: _reciprocal,
    **dict.fromkeys((Op.ADD, Op.SUB, Op.NEG, Op.WHERE), _componentwise),
}

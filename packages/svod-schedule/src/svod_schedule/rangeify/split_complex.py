"""split-complex: write complex numbers as pairs of real ones.

before → after, for z * w of z = x + iy and w = u + iv:

    REAL(MUL(z, w))         SUB(MUL(x, u), MUL(y, v))
    IMAG(MUL(z, w))         ADD(MUL(x, v), MUL(y, u))
    AS_REAL(z)              x and y, one after the other along a last axis
    REAL(AS_COMPLEX(p))     SHRINK(p), its first half along the last axis

Nothing behind this pass knows complex numbers. What only moves pairs that are in memory, a copy of
one or a part of it, moves both parts at once, as memory holds them; everything else is computed
part by part. A sum of products, as in a product of matrices, is one of real products, over one axis
more: of the pairs (x, y) and the rows (u, v) and (-v, u), which are stored.

Source: a quotient is computed as by R. L. Smith, "Algorithm 116: Complex division", CACM 5(8),
1962, and as numpy does."""

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

_KEPT: Final = (
    frozenset({Op.COPY, Op.CONTIGUOUS, Op.MSTACK, Op.MSELECT, Op.MULTI, Op.AFTER})
    | MOVEMENT
    | {Op.GATHER}
)
"""What moves both parts at once where its operand holds both."""
_WHOLE: Final = frozenset({Op.CONTIGUOUS, Op.MSTACK, Op.MSELECT, Op.MULTI})
"""What is about memory, which holds both parts."""


def split_complex(sink: UOp) -> UOp:
    """`sink`, and the bodies of its loops and choices, without complex numbers; its own operands
    are real.
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
    """What the nodes of a graph became: real ones a node, complex ones a pair, or one node with
    both parts.
    """

    def __init__(self) -> None:
        self.real = make_images()
        self.pairs: dict[UOp, Pair] = {}
        self.wholes: dict[UOp, UOp] = {}

    def write(self, order: list[UOp]) -> UOp:
        """The last node of a graph, rewritten."""
        for node in order:
            if node.dtype.is_complex:
                self._split(node)
            else:
                self.real[node] = self._rewrite(node)
        return self.real[order[-1]]

    def _rewrite(self, node: UOp) -> UOp:
        """What a real node became."""
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
                return self.get_whole(source)
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
                # What only waits for complex values waits for both parts.
                operands = [
                    p
                    for s in node.src
                    for p in (self.get_pair(s) if s.dtype.is_complex else (self.real[s],))
                ]
                return node.with_src(tuple(operands))

    def get_pair(self, node: UOp) -> Pair:
        """The parts of a complex node."""
        found = self.pairs.get(node)
        if found is None:
            whole = self.wholes[node]
            found = self.pairs[node] = _take(whole, 0), _take(whole, 1)
        return found

    def get_whole(self, node: UOp) -> UOp:
        """The parts of a complex node along a last axis."""
        found = self.wholes.get(node)
        if found is None:
            x, y = self.get_pair(node)
            found = self.wholes[node] = _join(_spread(x, node.shape), _spread(y, node.shape), -1)
        return found

    def _split(self, node: UOp) -> None:
        op = node.op
        if op is Op.AS_COMPLEX:
            self.wholes[node] = self.real[node.source]
        elif op in MARKS:
            self._copy(node.source, node)
        elif op is Op.REDUCE_AXIS and _is_product(node.source):
            self.wholes[node] = self._add_products(node)
        elif op in _WHOLE or (
            op in _KEPT and node.source in self.wholes and node.source not in self.pairs
        ):
            self.wholes[node] = self._move_both(node)
        else:
            self.pairs[node] = self._make_pair(node)
        for image in (
            *self.pairs.get(node, ()),
            *((self.wholes[node],) if node in self.wholes else ()),
        ):
            propagate_labels(image, (node,))

    def _copy(self, source: UOp, node: UOp) -> None:
        if source in self.pairs:
            self.pairs[node] = self.pairs[source]
        if source in self.wholes:
            self.wholes[node] = self.wholes[source]

    def _move_both(self, node: UOp) -> UOp:
        """A node that moves numbers, with a last axis more."""
        if node.op is Op.MSTACK:
            return UOp(Op.MSTACK, node.dtype.part, tuple(map(self.get_whole, node.src)))
        return self._move(node, self.get_whole(node.source), 1)

    def _move(self, node: UOp, source: UOp, n_axes: int) -> UOp:
        """What `node` does, of numbers with some axes of 2 more behind their own."""
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
        # The same of each part: movement, sums, copies.
        x, y = [_spread(part, node.source.shape) for part in self.get_pair(node.source)]
        others = [
            part
            for s in node.src[1:]
            for part in (self.get_pair(s) if s.dtype.is_complex else (self.real[s],))
        ]
        return UOp(node.op, dtype, (x, *others), node.arg), UOp(
            node.op, dtype, (y, *others), node.arg
        )

    def _add_products(self, node: UOp) -> UOp:
        """A sum of products z w as one of real ones, over one axis more: of (x, y), and the rows
        (u, v) and (-v, u).
        """
        chains = sorted(map(_list_moved, node.source.src), key=lambda chain: _count(chain[-1]))
        (*moves, smaller), (other, *_) = chains
        shape = smaller.shape
        u, v = [_spread(part, shape) for part in self.get_pair(smaller)]
        first, second = _join(u, v, -1), _join(make_alu(Op.NEG, v), u, -1)
        # In memory, so that a step of the sum reads it and chooses nothing; the last axis and the
        # parts are in one row.
        last = len(shape) - 1 if shape else 0
        stored = _join(first, second, last)
        block = UOp(Op.CONTIGUOUS, stored.dtype, (stored,))
        if shape:
            block = make_permute(
                block, [*[a for a in range(last + 3) if a not in (last, last + 2)], last, last + 2]
            )
        for move in reversed(moves):
            block = self._move(move, block, 2)
        whole, n_axes = self.get_whole(other), len(node.shape)
        pairs = make_expand(make_reshape(whole, (*whole.shape, 1)), (*whole.shape, 2))
        total = make_reduce_axis(make_alu(Op.MUL, pairs, block), Op.ADD, (*node.arg.axes, n_axes))
        return make_reshape(total, (*node.shape, 2))


def _count(node: UOp) -> int:
    return math.prod(map(max_size, node.shape))


def _is_product(node: UOp) -> bool:
    """Whether a node is a product that repeats elements of both operands, as one of
    matrices does.
    """
    return node.op is Op.MUL and all(
        s.shape == node.shape and any(n.op is Op.EXPAND for n in _list_moved(s)) for s in node.src
    )


def _list_moved(node: UOp) -> list[UOp]:
    """Movements, down to what is moved."""
    found = [node]
    while found[-1].op in MOVEMENT:
        found.append(found[-1].source)
    return found


def _join(first: UOp, second: UOp, axis: int) -> UOp:
    """Two tensors of one shape along a new axis, which may be counted from the end."""
    shape = list(first.shape)
    axis = axis if axis >= 0 else len(shape) + 1 + axis
    shape.insert(axis, 1)
    return make_concat([make_reshape(first, shape), make_reshape(second, shape)], axis)


def _take(whole: UOp, part: int) -> UOp:
    shape = whole.shape[:-1]
    return make_reshape(make_shrink(whole, [*[(0, s) for s in shape], (part, part + 1)]), shape)


def _spread(part: UOp, shape: tuple[SInt, ...]) -> UOp:
    """A part in the shape of its number: a constant may stand for all of them."""
    return (
        part if part.shape == shape else make_expand(make_reshape(part, (1,) * len(shape)), shape)
    )


def _number(dtype: DType, value: float) -> UOp:
    return UOp.const(dtype, value)


def _complex(_: UOp, real: Pair, imag: Pair) -> Pair:
    return real[0], imag[0]


def _cast(node: UOp, x: Pair) -> Pair:
    dtype = node.dtype.part
    if node.source.dtype.is_complex:
        return make_cast(x[0], dtype), make_cast(x[1], dtype)
    return make_cast(x[0], dtype), _number(dtype, 0)


def _each(node: UOp, *operands: Pair) -> Pair:
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
    zero = _number(c.dtype, 0)
    # By the larger part of the divisor, the ratio of both is at most 1, and nothing overflows on
    # the way.
    is_flat = make_alu(Op.LE, make_alu(Op.ABS, d), make_alu(Op.ABS, c))
    large, small = make_alu(Op.WHERE, is_flat, c, d), make_alu(Op.WHERE, is_flat, d, c)
    ratio = make_alu(Op.FDIV, small, large)
    size = make_alu(Op.ADD, large, make_alu(Op.MUL, small, ratio))
    first, second = make_alu(Op.WHERE, is_flat, a, b), make_alu(Op.WHERE, is_flat, b, a)
    real = make_alu(Op.FDIV, make_alu(Op.ADD, first, make_alu(Op.MUL, second, ratio)), size)
    step = make_alu(Op.SUB, second, make_alu(Op.MUL, first, ratio))
    imag = make_alu(Op.FDIV, make_alu(Op.WHERE, is_flat, step, make_alu(Op.NEG, step)), size)
    # By 0 each part is divided by 0.
    is_zero = make_alu(Op.AND, make_alu(Op.EQ, c, zero), make_alu(Op.EQ, d, zero))
    at_zero = make_alu(Op.ABS, c)
    return (
        make_alu(Op.WHERE, is_zero, make_alu(Op.FDIV, a, at_zero), real),
        make_alu(Op.WHERE, is_zero, make_alu(Op.FDIV, b, at_zero), imag),
    )


def _reciprocal(node: UOp, x: Pair) -> Pair:
    dtype = node.dtype.part
    return _divide(node, (_number(dtype, 1), _number(dtype, 0)), x)


_RULES: Final[dict[Op, Callable[..., Pair]]] = {
    Op.COMPLEX: _complex,
    Op.CAST: _cast,
    Op.MUL: _mul,
    Op.FDIV: _divide,
    Op.RECIPROCAL: _reciprocal,
    **dict.fromkeys((Op.ADD, Op.SUB, Op.NEG, Op.WHERE), _each),
}

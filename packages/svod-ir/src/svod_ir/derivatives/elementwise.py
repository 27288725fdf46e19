"""The derivatives of elementwise ops: partial derivatives, which both modes share.

A cotangent of exactly 0 stays 0 whatever the partial derivative is: elements that a `where` or a
mask left out contribute nothing, even where the function is infinite or undefined there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from svod_ir.build import make_alu, make_cast, make_real
from svod_ir.derivatives.rule import (
    Derivative,
    Parts,
    Wanted,
    collapse,
    scale,
    scale_guarded,
    spread,
)
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["CAST", "FUNCTIONS", "OPERATORS", "WHERE", "ZERO"]


class _Partial(NamedTuple):
    """Partial derivative by an operand; `is_safe` if it is finite for all finite operands."""

    factor: UOp
    is_safe: bool = False


def _multiply(derivative: UOp, partial: _Partial) -> UOp:
    return (
        scale(derivative, partial.factor)
        if partial.is_safe
        else scale_guarded(derivative, partial.factor)
    )


def _make(list_partials: Callable[[UOp], Sequence[Callable[[], _Partial]]]) -> Derivative:
    """The derivative of an op from the functions that build its partial derivatives."""

    def reverse(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
        partials = list_partials(node)
        return [
            collapse(_multiply(cotangent, make()), operand) if is_wanted else None
            for make, operand, is_wanted in zip(partials, node.src, wanted, strict=True)
        ]

    def forward(node: UOp, tangents: Parts) -> UOp | None:
        total: UOp | None = None
        for make, tangent in zip(list_partials(node), tangents, strict=True):
            if tangent is not None:
                # A 0-d operand is broadcast to all elements, and so is its tangent.
                term = _multiply(spread(tangent, node.shape), make())
                total = term if total is None else make_alu(Op.ADD, total, term)
        return total

    return Derivative(reverse, forward)


def _function(find_factor: Callable[[UOp, UOp], UOp]) -> Derivative:
    """The derivative of a function of one operand, from the operand and the value."""
    return _make(lambda node: [lambda: _Partial(find_factor(node.source, node))])


def _constant(like: UOp, value: float) -> UOp:
    return UOp.const(like.dtype, value)


def _times(x: UOp, y: UOp | float) -> UOp:
    return make_alu(Op.MUL, x, y if isinstance(y, UOp) else _constant(x, y))


def _over(x: float, y: UOp) -> UOp:
    return make_alu(Op.FDIV, _constant(y, x), y)


def _plus(x: UOp, y: float) -> UOp:
    return make_alu(Op.ADD, x, _constant(x, y))


def _one_minus(x: UOp) -> UOp:
    return make_alu(Op.SUB, _constant(x, 1), x)


def _function_of(op: Op) -> Callable[[UOp, UOp], UOp]:
    return lambda x, _: make_alu(op, x)


FUNCTIONS: Final[dict[Op, Derivative]] = {
    # The subgradient at 0 is 0.
    Op.ABS: _function(_function_of(Op.SIGN)),
    Op.SQRT: _function(lambda _, y: _over(0.5, y)),
    Op.RSQRT: _function(lambda x, y: _times(make_alu(Op.FDIV, y, x), -0.5)),
    Op.RECIPROCAL: _function(lambda _, y: make_alu(Op.NEG, _times(y, y))),
    Op.EXP: _function(lambda _, y: y),
    Op.EXP2: _function(lambda _, y: _times(y, math.log(2))),
    Op.EXPM1: _function(lambda _, y: _plus(y, 1)),
    Op.LOG: _function(lambda x, _: _over(1, x)),
    Op.LOG2: _function(lambda x, _: _over(1 / math.log(2), x)),
    Op.LOG1P: _function(lambda x, _: _over(1, _plus(x, 1))),
    Op.SIN: _function(_function_of(Op.COS)),
    Op.COS: _function(lambda x, _: make_alu(Op.NEG, make_alu(Op.SIN, x))),
    Op.TAN: _function(lambda _, y: _plus(_times(y, y), 1)),
    Op.SINH: _function(_function_of(Op.COSH)),
    Op.COSH: _function(_function_of(Op.SINH)),
    # (1 - y) (1 + y) keeps its digits where y is near 1.
    Op.TANH: _function(lambda _, y: _times(_one_minus(y), _plus(y, 1))),
    Op.ERF: _function(
        lambda x, _: _times(
            make_alu(Op.EXP, make_alu(Op.NEG, _times(x, x))), 2 / math.sqrt(math.pi)
        )
    ),
}
"""Functions of one operand."""


def _list_product(node: UOp) -> list[Callable[[], _Partial]]:
    return [lambda: _Partial(node.right, is_safe=True), lambda: _Partial(node.left, is_safe=True)]


def _list_quotient(node: UOp) -> list[Callable[[], _Partial]]:
    divisor = node.right
    is_safe = divisor.op is Op.CONST and divisor.arg != 0
    return [
        lambda: _Partial(_over(1, divisor), is_safe),
        lambda: _Partial(make_alu(Op.NEG, make_alu(Op.FDIV, node, divisor)), is_safe),
    ]


def _list_remainder(node: UOp) -> list[Callable[[], _Partial]]:
    x, y = node.src
    return [
        lambda: _Partial(_constant(x, 1), is_safe=True),
        lambda: _Partial(make_alu(Op.NEG, make_alu(Op.TRUNC, make_alu(Op.FDIV, x, y)))),
    ]


def _list_power(node: UOp) -> list[Callable[[], _Partial]]:
    base, exponent = node.src
    zero, unit = _constant(base, 0), _constant(base, 1)

    def by_base() -> _Partial:
        if exponent.op is Op.CONST:
            if exponent.arg in (1, 2):
                return _Partial(_times(base, 2) if exponent.arg == 2 else unit, is_safe=True)
            return _Partial(
                zero
                if exponent.arg == 0
                else _times(make_alu(Op.POW, base, _plus(exponent, -1)), exponent)
            )
        # 0 ** 0 and NaN ** 0 are 1, so the derivative by these bases is 0. For other bases the
        # general formula stays, since its derivative by the exponent is nonzero there.
        has_none = make_alu(Op.NOT, make_alu(Op.LT, zero, make_alu(Op.ABS, base)))
        is_flat = make_alu(Op.AND, make_alu(Op.EQ, exponent, zero), has_none)
        lower = make_alu(Op.WHERE, is_flat, unit, _plus(exponent, -1))
        return _Partial(
            make_alu(Op.WHERE, is_flat, zero, _times(make_alu(Op.POW, base, lower), exponent))
        )

    def by_exponent() -> _Partial:
        # 0 ** y is 0 near every positive y, and falls from infinity for negative y. A negative base
        # has the logarithm NaN, and so the derivative NaN.
        is_flat = make_alu(
            Op.AND, make_alu(Op.EQ, base, zero), make_alu(Op.NOT, make_alu(Op.LT, exponent, zero))
        )
        return _Partial(make_alu(Op.WHERE, is_flat, zero, _times(make_alu(Op.LOG, base), node)))

    return [by_base, by_exponent]


def _list_extremum(node: UOp) -> list[Callable[[], _Partial]]:
    """Partial derivatives of MAX and MIN: 1 for the chosen operand; one half each for equal ones."""
    left, right = node.src

    def make(x: UOp, y: UOp) -> _Partial:
        less, more = (y, x) if node.op is Op.MAX else (x, y)
        shared = make_alu(Op.WHERE, make_alu(Op.EQ, x, y), _constant(x, 0.5), _constant(x, 0))
        return _Partial(
            make_alu(Op.WHERE, make_alu(Op.LT, less, more), _constant(x, 1), shared), is_safe=True
        )

    return [lambda: make(left, right), lambda: make(right, left)]


def _reverse_sum(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
    signs = (False, node.op is Op.SUB)
    return [
        collapse(make_alu(Op.NEG, cotangent) if is_negated else cotangent, operand)
        if is_wanted
        else None
        for operand, is_negated, is_wanted in zip(node.src, signs, wanted, strict=True)
    ]


def _forward_sum(node: UOp, tangents: Parts) -> UOp | None:
    left, right = tangents
    if left is not None and right is not None:
        return spread(make_alu(node.op, left, right), node.shape)
    if left is not None:
        return spread(left, node.shape)
    assert right is not None
    return spread(make_alu(Op.NEG, right) if node.op is Op.SUB else right, node.shape)


_SUM: Final = Derivative(_reverse_sum, _forward_sum)


def _reverse_negated(_: UOp, cotangent: UOp, __: Wanted) -> Parts:
    return [make_alu(Op.NEG, cotangent)]


def _forward_negated(_: UOp, tangents: Parts) -> UOp | None:
    return None if tangents[0] is None else make_alu(Op.NEG, tangents[0])


OPERATORS: Final[dict[Op, Derivative]] = {
    Op.NEG: Derivative(_reverse_negated, _forward_negated),
    Op.ADD: _SUM,
    Op.SUB: _SUM,
    Op.MUL: _make(_list_product),
    Op.FDIV: _make(_list_quotient),
    Op.FMOD: _make(_list_remainder),
    Op.POW: _make(_list_power),
    Op.MAX: _make(_list_extremum),
    Op.MIN: _make(_list_extremum),
}


def _reverse_where(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
    condition, x, y = node.src
    zero = _constant(cotangent, 0)
    return [
        None,
        collapse(make_alu(Op.WHERE, condition, cotangent, zero), x) if wanted[1] else None,
        collapse(make_alu(Op.WHERE, condition, zero, cotangent), y) if wanted[2] else None,
    ]


def _forward_where(node: UOp, tangents: Parts) -> UOp | None:
    zero = _constant(node, 0)
    x, y = (zero if t is None else t for t in tangents[1:])
    return spread(make_alu(Op.WHERE, node.src[0], x, y), node.shape)


WHERE: Final = Derivative(_reverse_where, _forward_where)


def _reverse_cast(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    dtype = node.source.dtype
    # A real operand gets the real part of the cotangent.
    return [make_cast(cotangent if dtype.is_complex else make_real(cotangent), dtype)]


def _forward_cast(node: UOp, tangents: Parts) -> UOp | None:
    return None if tangents[0] is None else make_cast(tangents[0], node.dtype)


CAST: Final = Derivative(_reverse_cast, _forward_cast)
"""Casts between floats and complex numbers; other dtypes have no derivative."""


def _reverse_zero(node: UOp, _: UOp, __: Wanted) -> Parts:
    return [None] * len(node.src)


def _forward_zero(_: UOp, __: Parts) -> None:
    return None


ZERO: Final = Derivative(_reverse_zero, _forward_zero)
"""Derivative of piecewise constant functions."""

"""Exactness of derivative rules: functions in 50 digits, transposes in integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_dtype import float64, int64
from svod_ir import (
    Op,
    UOp,
    make_alu,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter_add,
    make_shrink,
)
from svod_ir.derivatives import make_cotangents, make_tangents, make_traced
from svod_ir.evaluate import evaluate
from svod_ir.testing import count_examples
from svod_ir.testing.nodes import buffer

_MEANINGS: dict[Op, Callable[..., Any]] = {
    Op.NEG: lambda x: -x,
    Op.ABS: abs,
    Op.SIGN: mpmath.sign,
    Op.SQRT: mpmath.sqrt,
    Op.RSQRT: lambda x: 1 / mpmath.sqrt(x),
    Op.RECIPROCAL: lambda x: 1 / x,
    Op.EXP: mpmath.exp,
    Op.EXP2: lambda x: mpmath.mpf(2) ** x,
    Op.EXPM1: mpmath.expm1,
    Op.LOG: mpmath.log,
    Op.LOG2: lambda x: mpmath.log(x, 2),
    Op.LOG1P: mpmath.log1p,
    Op.SIN: mpmath.sin,
    Op.COS: mpmath.cos,
    Op.TAN: mpmath.tan,
    Op.SINH: mpmath.sinh,
    Op.COSH: mpmath.cosh,
    Op.TANH: mpmath.tanh,
    Op.ERF: mpmath.erf,
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.FDIV: lambda x, y: x / y,
    Op.POW: lambda x, y: x**y,
    Op.MAX: max,
    Op.MIN: min,
    Op.EQ: lambda x, y: x == y,
    Op.LT: lambda x, y: x < y,
    Op.WHERE: lambda condition, x, y: x if condition else y,
    Op.TRACED: lambda x: x,
    Op.NOT: lambda x: not x,
    Op.AND: lambda x, y: x and y,
    Op.OR: lambda x, y: x or y,
    Op.GRADIENT: lambda value, *_: value,
}
_FUNCTIONS = [
    op
    for op in _MEANINGS
    if op not in (Op.EQ, Op.LT, Op.WHERE, Op.TRACED, Op.NOT, Op.AND, Op.OR, Op.GRADIENT)
]
_SHAPE = (2, 3, 2)
_BINARY = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.POW, Op.MAX, Op.MIN})


def _evaluate(root: UOp, given: dict[UOp, Any]) -> Any:
    """The value of a graph of numbers in the digits of mpmath."""
    actual = dict(given)
    for node in root.toposort():
        if node in actual:
            continue
        if node.op is Op.CONST:
            # A constant such as log(2) is as exact as its dtype.
            actual[node] = mpmath.mpf(node.arg)
        else:
            actual[node] = _MEANINGS[node.op](*(actual[s] for s in node.src))
    return actual[root]


@pytest.mark.parametrize("op", _FUNCTIONS, ids=str)
@given(st.floats(0.01, 3), st.floats(0.01, 3))
@settings(max_examples=count_examples(40), deadline=None)
def test_partial_derivatives_of_functions_are_exact(op: Op, first: float, second: float) -> None:
    """Numerical derivative by mpmath in 50 digits, to the 16 digits of the constants in the
    rules.
    """
    memories = [UOp.variable("x", 0, 1, float64), UOp.variable("y", 0, 1, float64)][
        : 2 if op in _BINARY else 1
    ]
    sources = [make_traced(m) for m in memories]
    node = make_alu(op, *sources)
    values = [mpmath.mpf(v) for v in (first, second)][: len(sources)]
    if len(values) == 2 and abs(first - second) < 1e-3:
        values[1] += 1  # the larger of two is not smooth where they are equal
    given_values = dict(zip(memories, values, strict=True))
    with mpmath.workdps(50):
        weight = mpmath.mpf("1.7")
        cotangent = UOp.variable("c", 0, 1, float64)
        pieces = make_cotangents([node], [cotangent], sources)
        for n, (source, part) in enumerate(zip(sources, pieces, strict=True)):
            expected = weight * mpmath.diff(
                lambda v, n=n: _MEANINGS[op](*(v if k == n else w for k, w in enumerate(values))),
                values[n],
                h=mpmath.mpf("1e-20"),
            )
            actual = (
                mpmath.mpf(0)
                if part is None
                else _evaluate(part, {**given_values, cotangent: weight})
            )
            assert abs(actual - expected) <= 1e-15 * (abs(expected) + 1e-300) + mpmath.mpf("1e-18")
            (along,) = make_tangents([node], [source], [cotangent])
            same = (
                mpmath.mpf(0)
                if along is None
                else _evaluate(along, {**given_values, cotangent: weight})
            )
            assert same == actual


@st.composite
def _linear_steps(draw: st.DrawFn) -> Callable[[UOp], UOp]:
    """A chain of linear ops, applied to a node of a known shape."""
    seeds = st.integers(0, 5039)
    steps = draw(st.lists(st.tuples(st.sampled_from(_STEPS), seeds), min_size=1, max_size=5))

    def apply(x: UOp) -> UOp:
        for step, seed in steps:
            x = step(x, seed)
        return x

    return apply


def _sizes(x: UOp) -> list[int]:
    return [int(s) for s in x.shape]  # pyright: ignore[reportArgumentType]


def _places(n: int, size: int, seed: int) -> UOp:
    """Indices with repetitions, some of them out of bounds."""
    step = make_alu(Op.MUL, make_iota(n, int64), UOp.const(int64, 1 + seed % 3))
    return make_alu(
        Op.SUB, make_alu(Op.MOD, step, UOp.const(int64, size + 1)), UOp.const(int64, seed % 2)
    )


def _reshape(x: UOp, seed: int) -> UOp:
    total = int(np.prod(_sizes(x)))
    first = _pick_divisor(total, seed)
    second = _pick_divisor(total // first, seed // 7)
    return make_reshape(x, (first, second, total // first // second))


def _pick_divisor(total: int, seed: int) -> int:
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    return divisors[seed % len(divisors)]


def _permute(x: UOp, seed: int) -> UOp:
    return make_permute(x, np.random.default_rng(seed).permutation(len(x.shape)).tolist())


def _expand(x: UOp, seed: int) -> UOp:
    wide = make_reshape(x, (1, *_sizes(x)))
    return make_reshape(make_expand(wide, (2, *_sizes(x))), (2 * _sizes(x)[0], *_sizes(x)[1:]))


def _pad(x: UOp, seed: int) -> UOp:
    return make_pad(x, [(seed % 2, (seed + a) % 3) for a in range(len(x.shape))])


def _shrink(x: UOp, seed: int) -> UOp:
    return make_shrink(x, [(min(seed % 2, s - 1), s) for s in _sizes(x)])


def _flip(x: UOp, seed: int) -> UOp:
    return make_flip(x, [bool((seed >> a) & 1) for a in range(len(x.shape))])


def _gather(x: UOp, seed: int) -> UOp:
    axis = seed % len(x.shape)
    return make_gather(x, _places(3, _sizes(x)[axis], seed), axis)


def _scatter(x: UOp, seed: int) -> UOp:
    axis = seed % len(x.shape)
    return make_scatter_add(x, _places(_sizes(x)[axis], 4, seed), axis, 4)


def _add_up(x: UOp, seed: int) -> UOp:
    return make_reduce_axis(x, Op.ADD, (seed % len(x.shape),))


def _scan(x: UOp, seed: int) -> UOp:
    return make_scan_axis(x, Op.ADD, seed % len(x.shape))


_STEPS = [_reshape, _permute, _expand, _pad, _shrink, _flip, _gather, _scatter, _add_up, _scan]


@given(_linear_steps(), st.integers(0, 2**32 - 1))
@settings(max_examples=count_examples(200), deadline=None)
def test_transposes_are_exact(apply: Callable[[UOp], UOp], seed: int) -> None:
    """<A x, y> = <x, A' y> in whole numbers, where nothing is rounded; and A is its own
    derivative.
    """
    rng = np.random.default_rng(seed)
    memory, tangent = buffer(0, 12, float64), buffer(1, 12, float64)
    x = make_traced(memory)
    y = apply(make_reshape(x, _SHAPE))
    cotangent = buffer(2, max(int(np.prod(_sizes(y))), 1), float64)
    (back,) = make_cotangents([y], [make_reshape(cotangent, y.shape)], [x])
    (along,) = make_tangents([y], [x], [tangent])
    assert back is not None
    assert along is not None
    given_values = {
        node: rng.integers(-9, 10, node.arg.size).astype("f8")
        for node in (memory, tangent, cotangent)
    }
    forward = np.asarray(evaluate(y, given_values))
    np.testing.assert_array_equal(
        np.asarray(evaluate(along, given_values)),
        np.asarray(evaluate(apply(make_reshape(tangent, _SHAPE)), given_values)),
    )
    pulled = np.asarray(evaluate(back, given_values))
    assert np.sum(forward.reshape(-1) * given_values[cotangent]) == np.sum(
        given_values[memory] * pulled
    )

"""Derivatives of loops and switches against finite differences, and the choice of residuals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_dtype import float64, int64
from svod_ir import (
    Op,
    UOp,
    make_alu,
    make_cast,
    make_expand,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
)
from svod_ir.args import GradientRule
from svod_ir.derivatives import (
    drop_marks,
    list_operands,
    make_cotangents,
    make_gradient,
    make_tangents,
    make_traced,
)
from svod_ir.derivatives.residuals import choose_kept
from svod_ir.evaluate import evaluate
from svod_ir.loops import get_slots, make_counter, make_loop, make_parameter, make_switch
from svod_ir.testing.nodes import buffer

STATE = np.array([0.3, -0.2, 0.5])
SLICES = np.array([[0.1, 0.7, -0.3], [0.4, -0.6, 0.2]])


def repeat(x: UOp, xs: UOp, weight: UOp, *, is_reversed: bool) -> UOp:
    operands = [x, xs, weight]
    state, part, factor = (
        make_parameter(operand, slot, is_slice=n == 1)
        for n, (operand, slot) in enumerate(zip(operands, get_slots(operands), strict=True))
    )
    number = make_alu(Op.ADD, make_counter("i", 2), UOp.const(make_counter("i", 2).dtype, 1)).cast(
        float64
    )
    new = make_alu(
        Op.MUL, make_alu(Op.SIN, make_alu(Op.ADD, make_alu(Op.MUL, state, factor), part)), number
    )
    total = make_reshape(make_reduce_axis(make_alu(Op.MUL, new, state), Op.ADD, (0,)), ())
    last, sums = make_loop(
        UOp.sink(new, total),
        2,
        operands,
        n_carried=1,
        n_sliced=1,
        counter="i",
        is_reversed=is_reversed,
    )
    return make_alu(
        Op.MUL, last, make_expand(make_reshape(make_reduce_axis(sums, Op.ADD, (0,)), (1,)), (3,))
    )


def choose(x: UOp, xs: UOp, weight: UOp, *, is_reversed: bool) -> UOp:
    operands = [x, make_reshape(make_shrink(xs, [(0, 1), (0, 3)]), (3,)), weight]
    a, b, c = (
        make_parameter(o, slot) for o, slot in zip(operands, get_slots(operands), strict=True)
    )
    bodies = [UOp.sink(make_alu(Op.MUL, a, b)), UOp.sink(make_alu(Op.EXP, make_alu(Op.MUL, a, c)))]
    (built,) = make_switch(UOp.const(int64, int(is_reversed)), bodies, operands)
    return make_alu(Op.MUL, built, built)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("make", [repeat, choose])
def test_both_modes_agree_with_finite_differences(
    make: Callable[..., UOp], is_reversed: bool
) -> None:
    memories = [buffer(n, size, float64) for n, size in enumerate((3, 6, 3))]
    values = [STATE, SLICES.reshape(-1), STATE + 1]
    x, xs, weight = (make_traced(m) for m in memories)
    y = make(x, make_reshape(xs, (2, 3)), weight, is_reversed=is_reversed)
    rng = np.random.default_rng(0)
    along, back = [rng.normal(size=v.size) for v in values], rng.normal(size=3)
    ends = [
        evaluate(
            y, {m: v + sign * 1e-6 * d for m, v, d in zip(memories, values, along, strict=True)}
        )
        for sign in (1, -1)
    ]
    expected = float(np.sum(back * (np.asarray(ends[0]) - np.asarray(ends[1]))) / 2e-6)
    inputs = [buffer(10 + n, v.size, float64) for n, v in enumerate(values)]
    (tangent,) = make_tangents([y], [x, xs, weight], inputs)
    bound = dict(zip([*memories, *inputs], [*values, *along], strict=True))
    assert tangent is not None
    assert float(np.sum(back * np.asarray(evaluate(tangent, bound)))) == pytest.approx(
        expected, rel=1e-7
    )
    cotangent = buffer(20, 3, float64)
    actual = make_cotangents([y], [cotangent], [x, xs, weight])
    bound = {**dict(zip(memories, values, strict=True)), cotangent: back}
    total = sum(
        float(np.sum(np.asarray(evaluate(part, bound)) * d))
        for part, d in zip(actual, along, strict=True)
        if part is not None
    )
    assert total == pytest.approx(expected, rel=1e-7)


def test_residuals_have_the_fewest_bytes() -> None:
    state, other = buffer(0, 64, float64), buffer(1, 64, float64)
    product = make_reduce_axis(make_reshape(make_alu(Op.MUL, state, other), (2, 32)), Op.ADD, (1,))
    built = make_alu(Op.EXP, product)
    again = make_alu(Op.SIN, built)
    assert choose_kept([built, again], {state}, {state}, set()) == [product]
    assert choose_kept([again, state], {state}, {state}, {again}) == [state, again]
    assert choose_kept([again], {state}, {state}, {again}) == [again]
    assert choose_kept([other], {state}, {state}, set()) == []


def test_the_choice_of_residuals_counts_rereading_slices() -> None:
    state, row = buffer(0, 64, float64), buffer(1, 2, float64)
    product = make_reduce_axis(make_reshape(state, (2, 32)), Op.ADD, (1,))
    built = make_alu(Op.EXP, make_alu(Op.ADD, make_reshape(product, (2,)), row))
    again = make_alu(Op.SIN, built)
    assert choose_kept([built, again], {state}, {state, row}, set()) == [built]
    assert choose_kept([built, row], {state}, {state, row}, set()) == [built]


def test_residuals_are_stored_in_the_computed_order() -> None:
    state = buffer(0, 64, float64)
    square = make_reshape(state, (8, 8))
    turned = make_permute(square, (1, 0))
    assert choose_kept([turned, square], {state}, {state}, set()) == [square]
    assert choose_kept([turned], {state}, {state}, {turned}) == [turned]


def test_marks_in_bodies_are_dropped_from_what_is_computed() -> None:
    x = buffer(0, 3, float64)
    state = make_parameter(x, 0)

    def make(value: UOp, *, is_recomputed: bool) -> UOp:
        (last,) = make_loop(UOp.sink(value), 3, [x], n_carried=1, is_recomputed=is_recomputed)
        return last.source

    plain = make(make_alu(Op.SIN, state), is_recomputed=False)
    marked = make(make_traced(make_alu(Op.SIN, make_traced(state))), is_recomputed=True)
    assert drop_marks(marked) is plain
    assert drop_marks(plain) is plain


def test_a_rule_that_builds_a_loop_may_use_the_counter_of_the_outer_loop() -> None:
    """Derivatives in a body, by a rule that builds loops without knowing the outer ones; in both modes,
    and twice.
    """

    def scale(start: UOp, factor: UOp) -> UOp:
        """start * factor * (1 + 2 + 3)"""
        counter = make_counter("loop_counter_0", 3)
        term = (
            make_parameter(start, 1) * make_parameter(factor, 2) * make_cast(counter + 1, float64)
        )
        zero = UOp.const(float64, 0)
        body = UOp.sink(make_parameter(zero, 0) + term)
        return make_loop(body, 3, (zero, start, factor), n_carried=1, counter="loop_counter_0")[0]

    def backward(node: UOp, cotangent: UOp, wanted: object) -> tuple[UOp]:
        (x,) = list_operands(node)
        return (scale(cotangent, x + x),)

    x = make_reshape(buffer(1, 1, float64), ())
    rule = GradientRule("six squares", backward)
    counter = make_counter("loop_counter_0", 2)
    state = make_parameter(x, 0)
    square = make_gradient(state * state * 6.0, (state,), rule) * make_cast(counter + 1, float64)
    (last,) = make_loop(
        UOp.sink(square), 2, (x,), n_carried=1, counter="loop_counter_0"
    )  # 2 * 6 * (6 * x**2)**2
    one = UOp.const(float64, 1)
    derivatives = {
        "forward": lambda y: make_tangents([y], [x], [one])[0],
        "reverse": lambda y: make_cotangents([y], [one], [x])[0],
    }
    inputs = {x.source: np.full(1, 0.5)}
    assert evaluate(last, inputs) == 432 * 0.5**4
    for first, derive in derivatives.items():
        slope = derive(last)
        assert evaluate(slope, inputs) == pytest.approx(4 * 432 * 0.5**3), first
        for second, derive_again in derivatives.items():
            assert evaluate(derive_again(slope), inputs) == pytest.approx(12 * 432 * 0.5**2), (
                first,
                second,
            )

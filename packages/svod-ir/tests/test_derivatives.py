"""The table of derivatives, against the table of ops and against finite differences of the
reference semantics.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_dtype import float64, int64
from svod_ir import (
    NotDifferentiableError,
    Op,
    UOp,
    make_alu,
    make_constant_like,
    make_gather,
    make_iota,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter_add,
    parse_graph,
    print_graph,
)
from svod_ir.args import GradientRule
from svod_ir.derivatives import (
    DERIVATIVES,
    make_cotangents,
    make_gradient,
    make_tangents,
    make_traced,
    scale_guarded,
)
from svod_ir.evaluate import evaluate
from svod_ir.ops import ELEMENTWISE, TABLE, UNARY, takes
from svod_ir.testing.nodes import buffer

_SHAPE = (2, 3)


def test_each_op_of_a_graph_has_a_derivative_or_a_reason() -> None:
    graph_ops = {op for op, row in TABLE.items() if "graph" in row.stages.split()}
    assert set(DERIVATIVES) == graph_ops


def test_each_function_of_floats_has_a_derivative_except_bitwise_and_boolean_ones() -> None:
    without = {
        op
        for op in DERIVATIVES
        if op in ELEMENTWISE and takes(op, float64) and isinstance(DERIVATIVES[op], str)
    }
    assert without == {Op.BITCAST, Op.LT, Op.LE, Op.EQ, Op.NE}


_VALUES = np.array([[0.7, -1.3, 2.1], [-0.4, 0.2, 1.6]])
_POSITIVE = frozenset({Op.SQRT, Op.RSQRT, Op.LOG, Op.LOG2, Op.LOG1P, Op.POW})


def _compute(node: UOp, x: UOp, values: np.ndarray) -> np.ndarray:
    return np.asarray(evaluate(node, {x: values.reshape(-1)}))


def _check(make: Callable[[UOp], UOp], values: np.ndarray) -> None:
    """Both modes against central differences, along random directions."""
    memory = buffer(0, values.size, float64)
    x = make_traced(memory)
    y = make(x)
    rng = np.random.default_rng(0)
    direction, weight = (
        rng.normal(size=values.size),
        rng.normal(size=_compute(y, memory, values).shape),
    )
    step = 1e-6
    flat = values.reshape(-1)
    ends = [_compute(y, memory, flat + sign * step * direction) for sign in (1, -1)]
    expected = np.sum(weight * (ends[0] - ends[1])) / (2 * step)

    tangent, cotangent = buffer(1, values.size, float64), buffer(2, weight.size, float64)
    (along,) = make_tangents([y], [x], [tangent])
    actual = (
        0.0 if along is None else np.asarray(evaluate(along, {memory: flat, tangent: direction}))
    )
    assert np.sum(actual * weight) == pytest.approx(expected, rel=1e-6, abs=1e-8)

    (back,) = make_cotangents([y], [make_reshape(cotangent, y.shape)], [x])
    assert back is None or back.shape == x.shape
    actual = (
        0.0
        if back is None
        else np.asarray(evaluate(back, {memory: flat, cotangent: weight.reshape(-1)}))
    )
    assert np.sum(actual * direction) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("op", sorted((op for op in UNARY if takes(op, float64)), key=str))
def test_functions_agree_with_finite_differences(op: Op) -> None:
    _check(lambda x: make_alu(op, x), np.abs(_VALUES) if op in _POSITIVE else _VALUES)


@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.POW, Op.MAX, Op.MIN])
def test_operators_agree_with_finite_differences_by_both_operands(op: Op) -> None:
    values = np.abs(_VALUES) if op is Op.POW else _VALUES
    _check(lambda x: make_alu(op, x, make_alu(Op.SIN, x)), values)
    _check(lambda x: make_alu(op, make_alu(Op.EXP, x), make_alu(Op.SIN, x)), values)
    _check(lambda x: make_alu(op, x, UOp.const(float64, 1.5)), values)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
def test_reductions_and_scans_agree_with_finite_differences(op: Op) -> None:
    _check(lambda x: make_reduce_axis(make_reshape(x, _SHAPE), op, (1,)), _VALUES)
    _check(lambda x: make_reduce_axis(make_reshape(x, _SHAPE), op, (0, 1)), _VALUES)
    _check(lambda x: make_scan_axis(make_reshape(x, _SHAPE), op, 1), _VALUES)
    _check(lambda x: make_scan_axis(make_reshape(x, _SHAPE), op, 0), _VALUES)


def _differentiate(
    make: Callable[[UOp], UOp], values: list[float]
) -> tuple[list[float], list[float]]:
    """The gradient of the sum of the elements, and the tangent along ones."""
    memory, ones = buffer(0, len(values), float64), buffer(1, len(values), float64)
    x = make_traced(memory)
    y = make(x)
    inputs = {memory: np.array(values), ones: np.ones(len(values))}
    (along,) = make_tangents([y], [x], [ones])
    (back,) = make_cotangents([y], [make_constant_like(y, 1)], [x])
    return np.asarray(evaluate(back, inputs)).tolist(), np.asarray(evaluate(along, inputs)).reshape(
        -1
    ).tolist()


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
def test_nothing_flows_from_an_extremum_that_is_nan(op: Op) -> None:
    back, along = _differentiate(lambda x: make_reduce_axis(x, op, (0,)), [1.0, np.nan, 3.0])
    assert (back, along) == ([0.0, 0.0, 0.0], [0.0])


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
def test_a_running_extremum_takes_the_derivative_of_the_first_nan(op: Op) -> None:
    back, along = _differentiate(
        lambda x: make_scan_axis(x, op, 0), [1.0, np.nan, 3.0, np.nan, 0.0]
    )
    assert (back, along) == ([1.0, 4.0, 0.0, 0.0, 0.0], [1.0] * 5)


def test_powers_of_zero_have_derivatives_without_nan() -> None:
    exponents = [0.5, 1.0, 2.0, 3.0]
    zero = UOp.const(float64, 0.0)
    assert _differentiate(lambda y: make_alu(Op.POW, zero, y), exponents) == ([0.0] * 4, [0.0] * 4)
    expected = [0.0, 1.0, 0.0]
    for exponent, target in zip([0.0, 1.0, 2.0], expected, strict=True):
        number = UOp.const(float64, exponent)
        back, along = _differentiate(lambda x, n=number: make_alu(Op.POW, x, n), [0.0, 2.0])
        assert back == along == [target, exponent * 2.0 ** (exponent - 1)]


def test_gathers_and_scatters_agree_with_finite_differences() -> None:
    places = make_alu(Op.MOD, make_iota(4, int64), UOp.const(int64, 3))
    _check(lambda x: make_gather(make_reshape(x, _SHAPE), places, 1), _VALUES)
    _check(
        lambda x: make_scatter_add(make_gather(make_reshape(x, _SHAPE), places, 1), places, 1, 5),
        _VALUES,
    )


def test_a_custom_rule_replaces_the_derivative_of_its_value() -> None:
    rule = GradientRule(
        "three", lambda node, cotangent, wanted: (cotangent.alu(Op.MUL, UOp.const(float64, 3)),)
    )
    memory, cotangent = buffer(0, 3, float64), buffer(1, 3, float64)
    x = make_traced(memory)
    y = make_gradient(make_alu(Op.EXP, x), (x,), rule)
    (back,) = make_cotangents([y], [cotangent], [x])
    (along,) = make_tangents([y], [x], [cotangent])
    inputs = {memory: np.ones(3), cotangent: np.array([1.0, 2.0, 4.0])}
    assert np.asarray(evaluate(back, inputs)).tolist() == [3.0, 6.0, 12.0]
    assert np.asarray(evaluate(along, inputs)).tolist() == [3.0, 6.0, 12.0]


def test_a_rule_may_define_the_tangent() -> None:
    rule = GradientRule(
        "two_and_three",
        lambda node, cotangent, wanted: (cotangent * 2.0,),
        lambda node, tangents: tangents[0] * 3.0,
    )
    x = make_traced(buffer(0, 3, float64))
    y = make_gradient(make_alu(Op.EXP, x), (x,), rule)
    one = make_constant_like(y, 1)
    (back,), (along,) = make_cotangents([y], [one], [x]), make_tangents([y], [x], [one])
    assert np.asarray(evaluate(back, {})).tolist() == [2.0] * 3
    assert np.asarray(evaluate(along, {})).tolist() == [3.0] * 3


def test_a_cotangent_of_zero_has_a_derivative_where_the_factor_is_finite() -> None:
    memory = buffer(0, 3, float64)
    cotangent, factor = make_traced(memory), buffer(1, 3, float64)
    product = scale_guarded(cotangent, factor)
    again = scale_guarded(product, factor)
    one = make_constant_like(product, 1)
    inputs = {memory: np.array([0.0, 0.0, 2.0]), factor: np.array([3.0, np.inf, 5.0])}
    for value, expected in ((product, [3.0, 0.0, 5.0]), (again, [9.0, 0.0, 25.0])):
        (back,), (along,) = (
            make_cotangents([value], [one], [cotangent]),
            make_tangents([value], [cotangent], [one]),
        )
        assert np.asarray(evaluate(back, inputs)).tolist() == expected
        assert np.asarray(evaluate(along, inputs)).tolist() == expected
    assert np.asarray(evaluate(again, inputs)).tolist() == [0.0, 0.0, 50.0]


def test_the_graph_below_a_constant_is_not_walked() -> None:
    memory = buffer(0, 3, float64)
    x = make_traced(memory)
    y = make_alu(Op.EXP, x)
    z = make_alu(Op.MUL, y, x)
    (actual,) = make_cotangents([z], [make_constant_like(z, 1)], [x], [y])
    assert np.asarray(evaluate(actual, {memory: np.zeros(3)})).tolist() == [1.0, 1.0, 1.0]
    (actual,) = make_cotangents([z], [make_constant_like(z, 1)], [x])
    assert np.asarray(evaluate(actual, {memory: np.ones(3)})).tolist() == [2 * np.e] * 3


def test_a_rule_parsed_from_text_is_unknown() -> None:
    x = make_traced(buffer(0, 3, float64))
    y = make_gradient(make_alu(Op.EXP, x), (x,), GradientRule("of_another_process"))
    assert parse_graph(print_graph(y)) is y
    with pytest.raises(NotDifferentiableError, match="of_another_process"):
        make_cotangents([y], [y], [x])


def test_no_derivative_flows_through_integers_and_bitcasts_are_errors() -> None:
    x = make_traced(buffer(0, 3, float64))
    full = x.cast(int64).cast(float64)
    assert make_cotangents([full], [full], [x]) == (None,)
    bits = x.bitcast(int64).bitcast(float64)
    with pytest.raises(NotDifferentiableError, match="bits have no derivative"):
        make_cotangents([bits], [bits], [x])

"""Simplification against the meaning of ops, on random expressions: integers of every width, bools
and floats.
"""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_dtype import DType, bool_, cast_value, float16, float32, index, int8, int32, uint8, uint64
from svod_ir import AxisType, Op, UOp, evaluate_scalar, graph_rewrite
from svod_ir.ops import COMPARISON
from svod_ir.testing import count_examples
from svod_ir.testing.nodes import cast, register
from svod_schedule.symbolic import SYMBOLIC, simplify, simplify_condition, simplify_under

Value = bool | int | float
ARITHMETIC = (
    Op.ADD,
    Op.ADD,
    Op.ADD,
    Op.SUB,
    Op.MUL,
    Op.MUL,
    Op.IDIV,
    Op.IDIV,
    Op.MOD,
    Op.MOD,
    Op.MAX,
    Op.MIN,
)
ORDERS = (Op.LT, Op.LT, Op.LE, Op.EQ, Op.NE)
DIVISORS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, math.inf, -math.inf, math.nan, 1e-45, 3e38)

quick = settings(
    max_examples=count_examples(40), deadline=None, suppress_health_check=list(HealthCheck)
)


def evaluate(root: UOp, values: dict[UOp, Value]) -> Value:
    """The value of a graph of scalars, by the meaning that constant folding has."""
    found = dict(values)
    for node in root.toposort():
        if node.op is Op.CONST:
            found[node] = node.arg
        elif node not in found and node.op is not Op.RANGE:
            value = evaluate_scalar(node.op, node.dtype, tuple(found[s] for s in node.src))
            assert value is not None
            found[node] = value
    return found[root]


def make(op: Op, *operands: UOp) -> UOp:
    return UOp(op, bool_ if op in COMPARISON else operands[-1].dtype, operands)


def variables(dtype: DType, draw: st.DrawFn) -> list[UOp]:
    made: list[UOp] = []
    for number in range(3):
        low = draw(st.integers(0 if dtype is uint8 else -9, 9))
        high = low + draw(st.integers(0, 12))
        if dtype in (int8, uint8) and draw(st.integers(0, 3)) == 0:
            low, high = int(dtype.min), int(dtype.max)
        if dtype is index and high >= 0 and draw(st.booleans()):
            made.append(UOp.range(high + 1, number, AxisType.LOOP))
        else:
            made.append(UOp.variable(f"v{number}", low, high, dtype))
    return made


@st.composite
def expressions(
    draw: st.DrawFn, dtype: DType, leaves: list[UOp], depth: int, wants_bool: bool = False
) -> UOp:
    if wants_bool:
        kind = draw(st.integers(0, 3)) if depth > 1 else 0
        if kind == 0:
            return make(
                draw(st.sampled_from(ORDERS)),
                *(draw(expressions(dtype, leaves, max(depth - 1, 0))) for _ in range(2)),
            )
        parts = [
            draw(expressions(dtype, leaves, depth - 1, True)) for _ in range(1 if kind == 3 else 2)
        ]
        return make((Op.AND, Op.OR, Op.NOT)[kind - 1], *parts)
    if depth == 0 or draw(st.integers(0, 6)) == 0:
        if draw(st.integers(0, 2)):
            return draw(st.sampled_from(leaves))
        return UOp.const(dtype, draw(st.integers(0 if dtype is uint8 else -13, 13)))
    op = draw(st.sampled_from((*ARITHMETIC, Op.WHERE, Op.NEG)))
    if op is Op.NEG:
        return make(op, draw(expressions(dtype, leaves, depth - 1)))
    if op is Op.WHERE:
        condition = draw(expressions(dtype, leaves, depth - 1, True))
        return make(op, condition, *(draw(expressions(dtype, leaves, depth - 1)) for _ in range(2)))
    first = draw(expressions(dtype, leaves, depth - 1))
    if op in (Op.MUL, Op.IDIV, Op.MOD) and draw(st.integers(0, 5)):
        sign = -1 if dtype is not uint8 and draw(st.integers(0, 4)) == 0 else 1
        return make(op, first, UOp.const(dtype, sign * draw(st.sampled_from(DIVISORS))))
    return make(op, first, draw(expressions(dtype, leaves, depth - 1)))


def points(leaves: list[UOp], draw: st.DrawFn) -> list[dict[UOp, Value]]:
    """Corners of the variables' box, and points inside."""
    corners = itertools.product(*((v.vmin, v.vmax) for v in leaves))
    inside = [[draw(st.integers(int(v.vmin), int(v.vmax))) for v in leaves] for _ in range(12)]
    return [dict(zip(leaves, values, strict=True)) for values in (*corners, *inside)]


@pytest.mark.parametrize("dtype", [index, int8, uint8, int32])
@pytest.mark.parametrize("wants_bool", [False, True], ids=["integer", "bool"])
@quick
@given(data=st.data())
def test_simplifying_changes_no_value(dtype: DType, wants_bool: bool, data: st.DataObject) -> None:
    leaves = variables(dtype, data.draw)
    before = data.draw(expressions(dtype, leaves, 4, wants_bool))
    after = simplify(before)
    assert after.dtype is before.dtype
    for values in points(leaves, data.draw):
        expected = evaluate(before, values)
        assert evaluate(after, values) == expected, values
        assert before.vmin <= expected <= before.vmax
        assert after.vmin <= expected <= after.vmax


@quick
@given(data=st.data())
def test_simplification_is_idempotent(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from((index, int8, int32)))
    after = simplify(data.draw(expressions(dtype, variables(dtype, data.draw), 4)))
    # A context makes the rewrite forget what it knows.
    assert graph_rewrite(SYMBOLIC, after, ctx=()) is after


@quick
@given(data=st.data())
def test_simplifying_under_a_condition_changes_no_value_where_it_holds(data: st.DataObject) -> None:
    leaves = variables(index, data.draw)
    valid = data.draw(expressions(index, leaves, 2, True)) & data.draw(
        expressions(index, leaves, 2, True)
    )
    before = data.draw(expressions(index, leaves, 3))
    after, condition = simplify_under(simplify(valid), before), simplify_condition(valid)
    for values in points(leaves, data.draw):
        holds = evaluate(valid, values)
        assert evaluate(condition, values) == holds
        assert not holds or evaluate(after, values) == evaluate(before, values)


@pytest.mark.parametrize("divisor", [-5, -4, -1, 0, 1, 2, 3, 4, 6, 7, 8, 12])
@pytest.mark.parametrize("scale", [-6, -4, -1, 1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("op", [Op.IDIV, Op.MOD])
def test_division_of_a_scaled_sum_is_exact_for_every_small_value(
    op: Op, scale: int, divisor: int
) -> None:
    x, y = UOp.variable("x", -7, 7), UOp.variable("y", 0, 3)
    for shift in (-5, 0, 3, 9):
        before = make(op, x * scale + y + shift, UOp.const(index, divisor))
        after = simplify(before)
        for a, b in itertools.product(range(-7, 8), range(4)):
            assert evaluate(after, {x: a, y: b}) == evaluate(before, {x: a, y: b}), (a, b, shift)


@pytest.mark.parametrize("dtype", [int8, uint8])
@pytest.mark.parametrize("outer", [Op.IDIV, Op.MOD, Op.LT, Op.EQ])
@pytest.mark.parametrize("inner", [Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD])
def test_every_byte_survives_two_operations(dtype: DType, outer: Op, inner: Op) -> None:
    x = UOp.variable("x", int(dtype.min), int(dtype.max), dtype)
    for c, d in itertools.product((1, 3, 4, 100), (1, 2, 8, 12, 127)):
        before = make(outer, make(inner, x, UOp.const(dtype, c)), UOp.const(dtype, d))
        after = simplify(before)
        for value in range(int(dtype.min), int(dtype.max) + 1):
            assert evaluate(after, {x: value}) == evaluate(before, {x: value}), (c, d, value)


def spell(value: Value) -> str:
    """What tells values apart that are equal to Python: 0.0 and -0.0, 1 and True; every NaN
    is one.
    """
    return repr(value)


@st.composite
def float_expressions(draw: st.DrawFn, leaves: list[UOp], depth: int) -> UOp:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return (
            draw(st.sampled_from(leaves))
            if draw(st.booleans())
            else UOp.const(float32, draw(st.sampled_from(SPECIAL)))
        )
    op = draw(
        st.sampled_from(
            (
                Op.ADD,
                Op.SUB,
                Op.MUL,
                Op.FDIV,
                Op.MAX,
                Op.MIN,
                Op.NEG,
                Op.ABS,
                Op.FLOOR,
                Op.TRUNC,
                Op.WHERE,
            )
        )
    )
    if op in (Op.NEG, Op.ABS, Op.FLOOR, Op.TRUNC):
        return make(op, draw(float_expressions(leaves, depth - 1)))
    operands = [draw(float_expressions(leaves, depth - 1)) for _ in range(2)]
    if op is Op.WHERE:
        order = make(
            draw(st.sampled_from(ORDERS)),
            *(draw(float_expressions(leaves, depth - 1)) for _ in range(2)),
        )
        return make(op, order if draw(st.booleans()) else make(Op.NOT, order), *operands)
    return make(op, *operands)


@settings(quick, max_examples=count_examples(60))
@given(data=st.data())
def test_simplifying_floats_keeps_every_bit(data: st.DataObject) -> None:
    leaves = [register(number, 1) for number in range(2)]
    before = data.draw(float_expressions(leaves, 3))
    after = simplify(before)
    for values in itertools.product([cast_value(v, float32) for v in SPECIAL], repeat=2):
        environment: dict[UOp, Value] = dict(zip(leaves, values, strict=True))
        assert spell(evaluate(after, environment)) == spell(evaluate(before, environment)), (
            environment
        )


MIXED = (index, bool_, int8, uint8, int32, uint64, float32, float16)
ANY_INTEGER = (*ARITHMETIC, Op.AND, Op.OR, Op.XOR, Op.CDIV, Op.CMOD)


@st.composite
def mixed_constants(draw: st.DrawFn, dtype: DType) -> UOp:
    if dtype.is_float:
        return UOp.const(dtype, draw(st.sampled_from(SPECIAL)))
    low, high = (0, 1) if dtype is bool_ else (-20, 20)
    ends = () if dtype is index else (dtype.min, dtype.max)
    return UOp.const(
        dtype, draw(st.sampled_from((*ends, 0, 1, 2, 7, 8, 255)) | st.integers(low, high))
    )


@st.composite
def mixed_expressions(draw: st.DrawFn, dtype: DType, leaves: dict[DType, UOp], depth: int) -> UOp:
    def operand(kind: DType) -> UOp:
        return draw(mixed_expressions(kind, leaves, depth - 1))

    choice = draw(st.integers(0, 9)) if depth else 0
    if choice == 0:
        return (
            leaves[dtype]
            if dtype in leaves and draw(st.integers(0, 2))
            else draw(mixed_constants(dtype))
        )
    if choice == 1:
        return cast(operand(draw(st.sampled_from(list(leaves)))), dtype)
    if choice == 2:
        return make(Op.WHERE, operand(bool_), operand(dtype), operand(dtype))
    if dtype.is_float:
        return make(
            draw(st.sampled_from((Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.MAX, Op.MIN))),
            operand(dtype),
            operand(dtype),
        )
    if dtype is bool_:
        if choice == 3:
            return make(Op.NOT, operand(dtype))
        compared = draw(st.sampled_from(list(leaves)))
        logic = (dtype, (Op.AND, Op.OR, Op.XOR, Op.ADD, Op.MUL))
        kind, ops = logic if choice < 6 else (compared, ORDERS)
        return make(draw(st.sampled_from(ops)), operand(kind), operand(kind))
    if choice == 3:
        return make(draw(st.sampled_from((Op.NEG, Op.NOT, Op.ABS, Op.SIGN))), operand(dtype))
    if choice == 4:
        return make(
            draw(st.sampled_from((Op.SHL, Op.SHR))),
            operand(dtype),
            UOp.const(dtype, draw(st.integers(0, 7))),
        )
    second = operand(dtype) if draw(st.booleans()) else draw(mixed_constants(dtype))
    return make(draw(st.sampled_from(ANY_INTEGER)), operand(dtype), second)


def evaluate_exactly(root: UOp, values: dict[UOp, Value]) -> Value | None:
    """The value, or None where a conversion has no defined result, or index arithmetic
    overflows.
    """
    found = dict(values)
    for node in root.toposort():
        if node.op is Op.CONST:
            found[node] = node.arg
        elif node not in found:
            operands = tuple(found[s] for s in node.src)
            value = evaluate_scalar(node.op, node.dtype, operands)
            if value is None or (node.dtype is index and abs(value) > 1 << 40):
                return None
            found[node] = value
    return found[root]


@settings(quick, max_examples=count_examples(60))
@given(data=st.data())
def test_simplifying_mixed_dtypes_keeps_every_bit(data: st.DataObject) -> None:
    kinds = dict.fromkeys((bool_, *(data.draw(st.sampled_from(MIXED)) for _ in range(2))))
    leaves: dict[DType, UOp] = {}
    for dtype in kinds:
        low, high = (-300, 300) if dtype is index else (dtype.min, dtype.max)
        arg = (0, 1) if dtype.is_float else (f"v_{dtype.short}", low, high)
        leaves[dtype] = UOp(Op.DEFINE_REG if dtype.is_float else Op.DEFINE_VAR, dtype, (), arg)
    before = data.draw(mixed_expressions(data.draw(st.sampled_from(list(kinds))), leaves, 4))
    after = simplify(before)
    for _ in range(8):
        values = {leaf: data.draw(mixed_constants(leaf.dtype)).arg for leaf in leaves.values()}
        expected, found = evaluate_exactly(before, values), evaluate_exactly(after, values)
        if expected is not None and found is not None:
            assert spell(found) == spell(expected), values

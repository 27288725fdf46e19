from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_dtype import ALL_DTYPES, DType, bool_, complex64, float32, index, int8, int32, uint8, void
from svod_ir._arithmetic import apply_elementwise, quiet
from svod_ir._bounds import dtype_bounds
from svod_ir._constant import evaluate_scalar
from svod_ir.ops import (
    BINARY,
    COMPARISON,
    COMPLEX_PARTS,
    ELEMENTWISE,
    REDUCTIONS,
    UNARY,
    AxisType,
    Op,
    count_operands,
    takes,
)
from svod_ir.testing import count_examples
from svod_ir.testing.nodes import alu, bind, reduce_over, register, special
from svod_ir.uop import UOp

UNARY_OPS, BINARY_OPS = (
    sorted((op for op in ops if takes(op, int8)), key=lambda op: op.value)
    for ops in (UNARY, BINARY)
)
BYTES = (int8, uint8)


def variable(name: str, low: int, high: int, dtype: DType = index) -> UOp:
    return UOp.variable(name, low, high, dtype)


def apply(op: Op, *operands: UOp) -> UOp:
    return UOp(op, bool_ if op in COMPARISON else operands[-1].dtype, operands)


@st.composite
def byte_intervals(draw: st.DrawFn, dtype: DType) -> tuple[int, int]:
    low, high = int(dtype.min), int(dtype.max)
    ends = st.one_of(
        st.sampled_from((low, low + 1, max(low, -1), 0, 1, 7, 8, high - 1, high)),
        st.integers(low, high),
    )
    first, second = draw(ends), draw(ends)
    return min(first, second), max(first, second)


@pytest.mark.parametrize("op", BINARY_OPS)
@pytest.mark.parametrize("dtype", BYTES)
@settings(max_examples=count_examples(25), deadline=None)
@given(data=st.data())
def test_no_pair_of_bytes_gives_a_value_outside_the_bounds(
    op: Op, dtype: DType, data: st.DataObject
) -> None:
    first, second = data.draw(byte_intervals(dtype)), data.draw(byte_intervals(dtype))
    node = apply(op, variable("x", *first, dtype), variable("y", *second, dtype))
    x, y = (np.arange(low, high + 1).astype(dtype.numpy) for low, high in (first, second))
    if op in (Op.SHL, Op.SHR):
        y = y[(y >= 0) & (y < dtype.bits)]
    assert_inside(node, x[:, None], y)


@pytest.mark.parametrize("op", UNARY_OPS)
@pytest.mark.parametrize("dtype", BYTES)
@settings(max_examples=count_examples(20), deadline=None)
@given(data=st.data())
def test_no_byte_gives_a_value_outside_the_bounds(
    op: Op, dtype: DType, data: st.DataObject
) -> None:
    low, high = data.draw(byte_intervals(dtype))
    assert_inside(
        apply(op, variable("x", low, high, dtype)), np.arange(low, high + 1).astype(dtype.numpy)
    )


def assert_inside(node: UOp, *operands: np.ndarray) -> None:
    with quiet():
        values = apply_elementwise(node.op, node.src[0].dtype, node.dtype, operands)
    low, high = node.bounds
    assert np.all((low <= values) & (values <= high))


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        (Op.ADD, (0, 9), (1, 2), (1, 11)),
        (Op.SUB, (0, 9), (1, 2), (-2, 8)),
        (Op.MUL, (-3, 4), (-2, 5), (-15, 20)),
        (Op.IDIV, (-7, 7), (2, 2), (-4, 3)),
        (Op.IDIV, (-7, 7), (-2, 2), (-7, 7)),
        (Op.MOD, (-7, 7), (4, 4), (0, 3)),
        (Op.MOD, (4, 6), (4, 4), (0, 2)),
        (Op.MOD, (0, 2), (4, 9), (0, 2)),
        (Op.MOD, (-7, 7), (-4, -4), (-3, 0)),
        (Op.CDIV, (-7, 7), (2, 2), (-3, 3)),
        (Op.CMOD, (-7, 3), (4, 4), (-3, 3)),
        (Op.MAX, (0, 9), (4, 5), (4, 9)),
        (Op.MIN, (0, 9), (4, 5), (0, 5)),
        (Op.AND, (-8, 7), (0, 3), (0, 3)),
        (Op.SHL, (1, 3), (0, 2), (1, 12)),
        (Op.SHR, (-8, 7), (1, 2), (-4, 3)),
        (Op.LT, (0, 3), (4, 5), (True, True)),
        (Op.LT, (4, 5), (0, 4), (False, False)),
        (Op.LE, (0, 4), (4, 5), (True, True)),
        (Op.EQ, (0, 3), (4, 5), (False, False)),
        (Op.NE, (0, 3), (4, 5), (True, True)),
        (Op.EQ, (0, 3), (3, 5), (False, True)),
    ],
)
def test_bounds_of_index_arithmetic_are_tight(
    op: Op, x: tuple[int, int], y: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert apply(op, variable("x", *x), variable("y", *y)).bounds == expected


def test_a_sum_that_may_wrap_has_the_whole_range() -> None:
    x = variable("x", 0, 100, int8)
    assert apply(Op.ADD, x, x).bounds == (-128, 127)


def test_index_arithmetic_stays_within_64_bits() -> None:
    x = variable("x", 0, 2**62)
    assert (x * 16).bounds == (0, 2**63 - 1)


def test_a_counter_runs_from_zero_to_below_its_end() -> None:
    assert UOp.range(7, 0, AxisType.LOOP).bounds == (0, 6)
    assert UOp.range(variable("n", 1, 12), 0, AxisType.LOOP).bounds == (0, 11)
    assert special("gidx0", 5).bounds == (0, 4)
    assert UOp(Op.IOTA, int8, (), 300).bounds == (-128, 127)


def test_a_counter_of_an_empty_loop_has_proper_bounds() -> None:
    assert UOp.range(0, 0, AxisType.LOOP).bounds == (0, 0)


def test_the_bound_value_of_a_variable_does_not_narrow_it() -> None:
    n = variable("n", 1, 8)
    assert bind(n, 5).bounds == (1, 8)


def test_a_float_is_unknown_unless_constant() -> None:
    x = register(0, 1)
    assert apply(Op.ADD, x, x).bounds == (-math.inf, math.inf)
    assert UOp.const(float32, 2.5).bounds == (2.5, 2.5)
    assert UOp.const(float32, math.nan).bounds == (-math.inf, math.inf)


@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.POW, Op.FDIV])
def test_a_complex_number_is_unknown(op: Op) -> None:
    z = UOp(Op.COMPLEX, complex64, (register(0, 1), register(1, 1)))
    assert apply(op, z, z).bounds == (-math.inf, math.inf)


def test_comparing_a_complex_number_with_itself_is_undecided() -> None:
    z = UOp(Op.COMPLEX, complex64, (register(0, 1), register(1, 1)))
    assert apply(Op.EQ, z, z).bounds == (False, True)
    assert apply(Op.NE, z, z).bounds == (False, True)


@pytest.mark.parametrize("op", [Op.LT, Op.LE, Op.EQ, Op.NE])
@pytest.mark.parametrize("value", [0.0, math.inf, -math.inf, math.nan])
def test_comparing_an_unknown_float_is_undecided(op: Op, value: float) -> None:
    x = register(0, 1)
    low, high = apply(op, x, UOp.const(float32, value)).bounds
    for given_x in (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan):
        assert low <= evaluate_scalar(op, bool_, (given_x, value)) <= high


def test_a_decided_condition_chooses_the_bounds_of_its_branch() -> None:
    i, x, y = variable("i", 0, 9), variable("x", 1, 2), variable("y", 5, 6)
    assert apply(Op.WHERE, i < 10, x, y).bounds == (1, 2)
    assert apply(Op.WHERE, apply(Op.LT, UOp.const(index, 9), i), x, y).bounds == (5, 6)
    assert apply(Op.WHERE, i < 4, x, y).bounds == (1, 6)


def test_a_cast_keeps_bounds_that_fit() -> None:
    x = variable("x", -3, 300)
    assert x.cast(int32).bounds == (-3, 300)
    assert x.cast(int8).bounds == (-128, 127)
    assert x.cast(bool_).bounds == (False, True)
    assert variable("y", 1, 4).cast(bool_).bounds == (True, True)
    assert UOp.const(float32, 2.75).cast(int8).bounds == (2, 2)


def test_vectors_have_the_bounds_of_all_lanes() -> None:
    x, y = variable("x", 0, 3, int32), variable("y", 10, 12, int32)
    assert UOp(Op.VCONST, int32.vec(3), (), (4, -1, 2)).bounds == (-1, 4)
    assert UOp(Op.VECTORIZE, int32.vec(2), (x, y)).bounds == (0, 12)
    assert UOp(Op.BROADCAST, int32.vec(4), (x,)).bounds == (0, 3)
    assert UOp(Op.VCONST, float32.vec(2), (), (1.0, math.nan)).bounds == (-math.inf, math.inf)


def test_a_reduction_has_bounds_by_its_trip_counts() -> None:
    x, r = variable("x", -1, 3, int32), UOp.range(4, 0, AxisType.REDUCE)
    assert reduce_over(x, r).bounds == (-4, 12)
    assert reduce_over(x, r, op=Op.MAX).bounds == (-1, 3)
    lanes = UOp(Op.BROADCAST, int32.vec(8), (x,))
    assert reduce_over(lanes).bounds == (-8, 24)
    maybe_empty = UOp.range(variable("n", 0, 4), 1, AxisType.REDUCE)
    assert reduce_over(x, maybe_empty, op=Op.MAX).bounds == dtype_bounds(int32)


def test_padding_adds_zero() -> None:
    x = UOp(Op.EXPAND, int32, (variable("x", 4, 5, int32),), (3,))
    assert UOp(Op.PAD, int32, (x,), (1, 0)).bounds == (0, 5)


def test_effects_and_memory_have_the_bounds_of_their_dtype() -> None:
    assert UOp(Op.NOOP, void).bounds == (-math.inf, math.inf)
    assert register(0, 1, uint8).bounds == (0, 255)
    assert register(0, 1, bool_).bounds == (False, True)


def test_bounds_of_a_deep_graph_need_no_recursion() -> None:
    node = variable("x", 0, 1)
    for _ in range(20_000):
        node = alu(Op.ADD, node, UOp.const(index, 1))
    assert node.bounds == (20_000, 20_001)


# Dtypes without arithmetic are left out; `index` is checked above, by the tight intervals.
COMPUTED_DTYPES = [d for d in ALL_DTYPES if d not in (index, void)]
SAMPLE_VALUES = {
    "bool": (False, True),
    "int": (-128, -1, 0, 1, 7, 127),
    "uint": (0, 1, 7, 255),
    "float": (-math.inf, -2.5, -0.0, 0.0, 1.0, math.inf, math.nan),
    "complex": (0j, 1 + 2j, complex(math.inf, math.nan)),
}


def name_of(value: object) -> str:
    return str(value)


def list_operands(dtype: DType) -> list[UOp]:
    """Memory, whose values are unknown, and a constant for each sample value."""
    constants = [make_value(dtype, value) for value in SAMPLE_VALUES[dtype.kind]]
    return [make_value(dtype, None), *constants]


def load(number: int, dtype: DType) -> UOp:
    return register(number, 1, dtype).index(UOp.const(index, 0)).load()


def make_value(dtype: DType, value: Any) -> UOp:
    if not dtype.is_complex:
        return load(0, dtype) if value is None else UOp.const(dtype, value)
    if value is None:
        return UOp(Op.COMPLEX, dtype, (load(0, dtype.part), load(1, dtype.part)))
    return UOp.const(dtype, value)


def list_cases(ops: Iterable[Op]) -> list[tuple[Op, DType]]:
    return [
        (op, dtype)
        for op in sorted(ops, key=lambda op: op.value)
        for dtype in COMPUTED_DTYPES
        if takes(op, dtype)
    ]


@pytest.mark.parametrize(
    ("op", "dtype"),
    list_cases(ELEMENTWISE - {Op.CAST, Op.BITCAST, Op.COMPLEX, Op.WHERE}),
    ids=name_of,
)
def test_bounds_of_every_dtype_hold_the_value_of_constants(op: Op, dtype: DType) -> None:
    for operands in product(list_operands(dtype), repeat=count_operands(op)):
        node = UOp(op, get_result_dtype(op, dtype), operands)
        low, high = node.bounds
        assert low <= high
        assert node.shape == operands[0].shape
        if all(operand.op is Op.CONST for operand in operands) and not is_shift_out_of_range(node):
            assert_constant_inside(node)


def get_result_dtype(op: Op, dtype: DType) -> DType:
    if op in COMPARISON:
        return bool_
    return dtype.part if dtype.is_complex and op in COMPLEX_PARTS else dtype


def is_shift_out_of_range(node: UOp) -> bool:
    return node.op in (Op.SHL, Op.SHR) and not 0 <= node.src[1].arg < node.dtype.bits


def assert_constant_inside(node: UOp) -> None:
    with quiet():
        value = apply_elementwise(
            node.op,
            node.src[0].dtype,
            node.dtype,
            [np.asarray(s.arg, s.dtype.numpy) for s in node.src],
        )
    low, high = node.bounds
    if node.dtype.is_complex or value != value:
        assert (low, high) == (-math.inf, math.inf)
    else:
        assert low <= value <= high


@pytest.mark.parametrize("dtype", COMPUTED_DTYPES, ids=name_of)
def test_bounds_of_every_dtype_hold_for_where_cast_vector_and_movement(dtype: DType) -> None:
    condition = load(2, bool_)
    for x, y in product(list_operands(dtype), repeat=2):
        nodes = [UOp(Op.WHERE, dtype, (condition, x, y)), UOp(Op.VECTORIZE, dtype.vec(2), (x, y))]
        nodes += [UOp(Op.CAST, target, (x,)) for target in COMPUTED_DTYPES]
        for node in nodes:
            low, high = node.bounds
            assert low <= high
            if node.op is not Op.CAST:
                assert all(
                    low <= operand.bounds[0] and operand.bounds[1] <= high for operand in (x, y)
                )


@pytest.mark.parametrize("dtype", [d for d in COMPUTED_DTYPES if not d.is_complex], ids=name_of)
def test_bounds_of_a_vector_of_constants_hold_every_lane(dtype: DType) -> None:
    lanes = SAMPLE_VALUES[dtype.kind]
    low, high = UOp(Op.VCONST, dtype.vec(len(lanes)), (), lanes).bounds
    if any(lane != lane for lane in lanes):
        assert (low, high) == (-math.inf, math.inf)
    else:
        assert all(low <= lane <= high for lane in lanes)


@pytest.mark.parametrize(("op", "dtype"), list_cases(REDUCTIONS), ids=name_of)
def test_bounds_of_a_reduction_of_every_dtype_hold_its_value(op: Op, dtype: DType) -> None:
    counter = UOp.range(3, 0, AxisType.REDUCE)
    for operand in list_operands(dtype):
        low, high = reduce_over(operand, counter, op=op).bounds
        assert low <= high

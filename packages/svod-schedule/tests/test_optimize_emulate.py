from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from svod_dtype import (
    ALL_DTYPES,
    DType,
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    index,
    int8,
    int32,
    int64,
    uint32,
    uint64,
)
from svod_ir import KernelInfo, Op, Target, UOp, graph_rewrite
from svod_ir.evaluate import evaluate
from svod_ir.ops import ELEMENTWISE, UNARY
from svod_ir.testing.nodes import alu, param, reduce_over
from svod_schedule.errors import UnsupportedDtypeError
from svod_schedule.optimize.emulate import emulate, make_emulation
from svod_schedule.pipeline import Context, compile_kernel

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in cast:RuntimeWarning")

BARE = Target.generic()
WITH_HALF = replace(BARE, native_dtypes=BARE.native_dtypes | {float16})
NARROW = (float8_e4m3, float8_e5m2, float16, bfloat16)


def lower(graph: UOp, target: Target = BARE) -> UOp:
    return graph_rewrite(make_emulation(target), graph)


def variable(name: str, dtype: DType) -> UOp:
    return UOp.variable(name, dtype.min, dtype.max, dtype)


def check_native(graph: UOp, target: Target) -> None:
    """Only bits of the missing dtypes are moved; nothing computes with them or converts them."""
    missing = set(NARROW) - set(target.native_dtypes)
    for n in graph.toposort():
        if n.op in ELEMENTWISE - {Op.BITCAST}:
            assert n.dtype.scalar not in missing and all(
                s.dtype.scalar not in missing for s in n.src
            ), n


def every(dtype: DType) -> np.ndarray:
    bits = np.arange(1 << dtype.bits, dtype=np.uint16 if dtype.itemsize == 2 else np.uint8)
    return bits.view(dtype.numpy)


def assert_equal_floats(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    f, e = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(f, e)
    is_number = ~np.isnan(e)
    np.testing.assert_array_equal(np.signbit(f[is_number]), np.signbit(e[is_number]))


def around(dtype: DType) -> np.ndarray:
    """Float32 values at, beside and halfway between the values of a narrow dtype, and everywhere
    else.
    """
    values = np.unique(every(dtype).astype(np.float32))
    values = values[np.isfinite(values)]
    middle = (values[1:].astype(np.float64) + values[:-1]).astype(np.float32) / 2
    exact = np.concatenate([values, middle, values * 1.5])
    beside = np.concatenate(
        [np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(-np.inf))]
    )
    random = np.random.default_rng(1).integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45], dtype=np.float32)
    return np.concatenate([exact, beside, random, special])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_bit_pattern_widens_to_its_value(dtype: DType) -> None:
    x = variable("x", dtype)
    after = lower(x.cast(float32))
    check_native(after, BARE)
    with np.errstate(invalid="ignore"):
        assert_equal_floats(evaluate(after, {"x": every(dtype)}), every(dtype).astype(np.float32))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_bit_pattern_survives_widening_and_narrowing(dtype: DType) -> None:
    x = variable("x", dtype)
    values = every(dtype)
    found = evaluate(lower(x.cast(float32).cast(dtype)), {"x": values})
    with np.errstate(invalid="ignore"):
        number = ~np.isnan(values.astype(np.float32))
        assert np.isnan(found[~number].astype(np.float32)).all()
    bits = np.uint16 if dtype.itemsize == 2 else np.uint8
    np.testing.assert_array_equal(found[number].view(bits), values[number].view(bits))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_float32_rounds_to_nearest_even_with_subnormals_and_overflow(dtype: DType) -> None:
    x = variable("x", float32)
    after = lower(x.cast(dtype))
    check_native(after, BARE)
    values = around(dtype)
    with np.errstate(all="ignore"):
        assert_equal_floats(evaluate(after, {"x": values}), values.astype(dtype.numpy))


@pytest.mark.parametrize("target", [BARE, WITH_HALF], ids=["emulated half", "native half"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_float64_rounds_once(dtype: DType, target: Target) -> None:
    x = variable("x", float64)
    after = lower(x.cast(dtype), target)
    check_native(after, target)
    values = np.unique(every(dtype).astype(np.float64))
    values = values[np.isfinite(values)]
    middle = (values[1:] + values[:-1]) / 2
    # Just beside a tie, by less than float32 can tell.
    values = np.concatenate(
        [
            values,
            middle,
            middle * (1 + 2.0**-40),
            middle * (1 - 2.0**-40),
            [np.nan, np.inf, -np.inf, 1e300, -1e-300],
        ]
    )
    with np.errstate(all="ignore"):
        assert_equal_floats(evaluate(after, {"x": values}), evaluate(x.cast(dtype), {"x": values}))
        if dtype is float16:
            assert_equal_floats(evaluate(after, {"x": values}), values.astype(np.float16))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("other", ALL_DTYPES, ids=str)
def test_casts_from_every_dtype(other: DType, dtype: DType) -> None:
    x = variable("x", other)
    if other is bool_:
        values = np.array([False, True])
    elif other.is_float:
        values = (
            every(other)
            if other.itemsize <= 2
            else np.array([1.5, -2.25, 1e-7, 300.0, 6e4, 3.3895e38, np.nan]).astype(other.numpy)
        )
    else:
        low, high = int(other.min), int(other.max)
        near = [
            v + d
            for k in range(other.bits)
            for v in (1 << k, 3 << k, 257 << k, -(257 << k))
            for d in (-1, 0, 1)
        ]
        values = np.array([v for v in near if low <= v <= high] + [low, high, 0], dtype=other.numpy)
    after = lower(x.cast(dtype))
    check_native(after, BARE)
    with np.errstate(all="ignore"):
        assert_equal_floats(evaluate(after, {"x": values}), evaluate(x.cast(dtype), {"x": values}))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize(
    "other", [bool_, int8, int32, int64, uint32, uint64, float64, *NARROW], ids=str
)
def test_casts_to_other_dtypes(other: DType, dtype: DType) -> None:
    x = variable("x", dtype)
    values = every(dtype)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        if not other.is_float and not other.is_bool:
            values = values[
                np.isfinite(wide) & (wide >= float(other.min)) & (wide < float(other.max))
            ]
        after = lower(x.cast(other))
        check_native(after, BARE)
        expected = (
            values.astype(np.float64) != 0
            if other.is_bool
            else values.astype(np.float64).astype(other.numpy)
        )
        found = evaluate(after, {"x": values})
        assert_equal_floats(found, expected) if other.is_float else np.testing.assert_array_equal(
            found, expected
        )


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.MAX, Op.MIN], ids=str)
def test_arithmetic_rounds_once_like_a_float64_result(op: Op, dtype: DType) -> None:
    x, y = variable("x", dtype), variable("y", dtype)
    rng = np.random.default_rng(7)
    values = every(dtype)
    left, right = rng.choice(values, 4000), rng.choice(values, 4000)
    after = lower(x.alu(op, y))
    check_native(after, BARE)
    with np.errstate(all="ignore"):
        expected = evaluate(x.alu(op, y), {"x": left, "y": right})
        assert_equal_floats(evaluate(after, {"x": left, "y": right}), expected)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_comparisons_negation_and_selection(dtype: DType) -> None:
    x, y = variable("x", dtype), variable("y", dtype)
    rng = np.random.default_rng(8)
    left, right = rng.choice(every(dtype), 3000), rng.choice(every(dtype), 3000)
    right[:1000] = left[:1000]
    for before in (x < y, x <= y, x.eq(y), x.ne(y), (x < y).where(x, y), -x, x.alu(Op.ABS)):
        after = lower(before)
        check_native(after, BARE)
        with np.errstate(all="ignore"):
            found, expected = (evaluate(g, {"x": left, "y": right}) for g in (after, before))
            assert_equal_floats(found, expected)


def test_vectors_are_computed_in_vectors() -> None:
    vector = bfloat16.vec(8)
    x = UOp(Op.VCONST, vector, (), tuple(float(i) for i in range(8)))
    before = alu(Op.ADD, x, x)
    after = lower(before)
    check_native(after, BARE)
    assert all(n.dtype.lanes == 8 for n in after.toposort())
    np.testing.assert_array_equal(evaluate(after).astype(np.float32), np.arange(8) * 2.0)


def test_a_reduction_over_lanes_is_in_float32() -> None:
    x = UOp(Op.VCONST, float8_e5m2.vec(4), (), (1.0, 2.0, 4.0, 0.5))
    after = lower(reduce_over(x))
    reduce = next(after.iter_ops(Op.REDUCE))
    assert reduce.dtype is float32
    assert float(evaluate(after)) == 8.0


@pytest.mark.parametrize("target", [BARE, WITH_HALF], ids=["emulated half", "native half"])
def test_a_reduction_over_loops_accumulates_in_float32(target: Target) -> None:
    from svod_ir import AxisType

    memory = param(0, 3000, float16)
    k = UOp.range(3000, 0, AxisType.REDUCE)
    total = reduce_over(memory.index(k), k)
    after = lower(total, target)
    assert next(after.iter_ops(Op.REDUCE)).dtype is float32
    # One by one in half, the sum would stop at 2048.
    assert float(evaluate(after, {memory: np.ones(3000, np.float16)})) == 3000.0


@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("n", [0, 3])
def test_an_extreme_of_no_elements_is_the_identity_of_its_dtype(
    dtype: DType, op: Op, n: int
) -> None:
    from svod_ir import AxisType
    from svod_ir.ops import get_identity

    memory, size = param(0, 4, dtype), UOp.variable("n", 0, 4)
    k = UOp.range(size, 0, AxisType.REDUCE)
    extreme = UOp(Op.REDUCE, dtype, (memory.index(k), k), op)
    values = np.array([1, -2, 3, 9]).astype(dtype.numpy)
    found = evaluate(lower(extreme), {memory: values, size: n})
    chosen = (max if op is Op.MAX else min)(float(v) for v in values[:n]) if n else None
    assert float(found) == (get_identity(op, dtype) if chosen is None else chosen)


def test_native_dtypes_are_unchanged() -> None:
    x = variable("x", float16)
    assert lower(x + x, WITH_HALF) is x + x
    assert lower(x.cast(float32), WITH_HALF) is x.cast(float32)
    f = variable("f", float64)
    assert lower(f + f) is f + f
    assert lower(f.cast(float32)) is f.cast(float32)


def test_memory_keeps_its_dtype() -> None:

    memory = param(0, 8, bfloat16)
    location = memory.index(UOp.const(int32, 3))
    graph = location.store(location.load() + location.load())
    after = lower(graph)
    check_native(after, BARE)
    assert after.src[0] is location
    assert after.src[1].dtype is bfloat16
    assert after.src[1].op is Op.BITCAST


def test_float64_is_left_to_the_renderer_to_reject_where_the_target_lacks_it() -> None:
    target = replace(Target.generic(), native_dtypes=Target.generic().native_dtypes - {float64})
    x = param(0, 4, float64).index(UOp.const(index, 0)).load()
    assert graph_rewrite(make_emulation(target), x + x) is x + x


NO_DOUBLE = replace(BARE, name="simple", native_dtypes=BARE.native_dtypes - {float64})


@pytest.mark.parametrize(
    "make", [lambda x: x + x, lambda x: -x, lambda x: x < x, lambda x: x.cast(float32)]
)
def test_arithmetic_on_float64_is_an_error_if_the_target_has_none(
    make: Callable[[UOp], UOp],
) -> None:
    graph = UOp.sink(make(variable("x", float64)))
    with pytest.raises(UnsupportedDtypeError) as caught:
        emulate(graph, NO_DOUBLE)
    assert str(caught.value) == (
        f"simple has no arithmetic on float64, and {graph.src[0].op.name} needs it\n"
        '  hint: compute on another device or in another dtype: x.to("CPU") or x.cast(float32)'
    )
    assert emulate(graph, BARE) is graph


@pytest.mark.parametrize("op", [Op.SIN, Op.COS, Op.TAN, Op.POW])
def test_functions_that_need_float64_are_errors_if_the_target_has_none(
    op: Op,
) -> None:
    x = variable("x", float32)
    graph = UOp.sink(UOp(op, float32, (x,) * (2 if op is Op.POW else 1)))
    with pytest.raises(
        UnsupportedDtypeError, match=f"no arithmetic on float64, and {op.name} needs it"
    ):
        emulate(graph, NO_DOUBLE)
    assert emulate(graph, replace(NO_DOUBLE, native_ops=NO_DOUBLE.native_ops | {op})) is graph


def test_whole_numbers_become_bfloat16_through_float64() -> None:
    with pytest.raises(UnsupportedDtypeError):
        emulate(UOp.sink(variable("x", int32).cast(bfloat16)), NO_DOUBLE)
    emulate(
        UOp.sink(variable("x", int8).cast(bfloat16), variable("x", int32).cast(float16)), NO_DOUBLE
    )


def test_lowering_adds_no_float64_to_a_target_without_it() -> None:
    x = param(1).index(UOp.const(index, 0))
    others = sorted(UNARY - {Op.NOT, Op.SIN, Op.COS, Op.TAN, Op.THREEFRY}, key=lambda op: op.name)
    out = param(0, len(others))
    stores = [
        out.index(UOp.const(index, i)).store(UOp(op, float32, (x,))) for i, op in enumerate(others)
    ]
    _, linear = compile_kernel(
        UOp.sink(*stores, arg=KernelInfo()), Context(target=NO_DOUBLE, opts=())
    )
    assert not [n for n in linear if n.dtype.scalar is float64]


def test_float64_is_moved_where_there_is_no_arithmetic_on_it() -> None:
    x, condition = variable("x", float64), variable("c", bool_)
    moved = UOp.sink(condition.where(x, UOp.const(float64, 2.0)), x.bitcast(int64))
    assert emulate(moved, NO_DOUBLE) is moved

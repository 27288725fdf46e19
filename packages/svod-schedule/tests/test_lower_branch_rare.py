"""branch-rare: the right values with and without rare arguments, and the rare work inside of a
loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from math import cos, sin, tan

import numpy as np
import pytest

from svod_dtype import DType, float32, float64, index, void
from svod_ir import AxisType, Op, Target, UOp
from svod_ir.evaluate import evaluate_kernel, evaluate_linear
from svod_ir.testing.nodes import param
from svod_schedule.linearize import linearize
from svod_schedule.lower.branch_rare import MIN_CALLS, branch_rare, define_shared

TARGET = replace(Target.generic(), has_fma=True)
SHARING = replace(TARGET, shared_ops=frozenset({Op.SIN, Op.COS, Op.TAN}))
TRUE: dict[Op, Callable[[float], float]] = {Op.SIN: sin, Op.COS: cos, Op.TAN: tan}
MODERATE = (0.0, -0.5, 3.0, 1e4, -99.0, 2.5, -7.0, 1.0)
HUGE = (1e6, -0.5, 3.0, 1e30, -99.0, -2e9, 1e12, 1.0)


def make_kernel(op: Op, dtype: DType, lanes: int, size: int) -> UOp:
    """A loop over a buffer, `lanes` elements at a time."""
    source, target = (param(slot, size, dtype) for slot in (1, 0))
    loop = UOp.range(size // lanes, 0, AxisType.LOOP)
    at = loop * UOp.const(index, lanes)
    value = source.index(at, lanes=lanes).load().alu(op)
    return UOp.sink(target.index(at, lanes=lanes).store(value).end(loop))


@pytest.mark.parametrize("arguments", [MODERATE, HUGE], ids=["moderate", "huge"])
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("op", TRUE)
def test_lowered_functions_have_their_values(
    op: Op, dtype: DType, lanes: int, arguments: tuple[float, ...]
) -> None:
    points = np.array(arguments, dtype.numpy)
    kernel = branch_rare(make_kernel(op, dtype, lanes, len(points)), TARGET)
    assert not list(kernel.iter_ops(*TRUE))
    expected = np.array([TRUE[op](float(x)) for x in points])
    for run in (evaluate_kernel, lambda sink, buffers: evaluate_linear(linearize(sink), buffers)):
        found = np.zeros_like(points)
        run(kernel, {0: found, 1: points})
        np.testing.assert_allclose(found, expected, rtol=float(np.finfo(dtype.numpy).eps))


@pytest.mark.parametrize("has_fma", [True, False], ids=["fma", "no fma"])
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [float32, float64])
def test_the_remainder_of_floats_is_exact(dtype: DType, lanes: int, has_fma: bool) -> None:
    rng = np.random.default_rng(3)
    info = np.finfo(dtype.numpy)
    special = [0.0, -0.0, 3.0, -0.1, info.max, info.tiny, info.smallest_subnormal, np.inf, np.nan]
    pairs = np.array(np.meshgrid(special, special), dtype.numpy).reshape(2, -1)[:, :80]
    bits = rng.integers(0, 256, (2, 40 * dtype.itemsize), np.uint8).view(dtype.numpy)
    near = rng.standard_normal((2, 40)).astype(dtype.numpy)
    x, y = np.concatenate([pairs, bits, near], axis=1)
    kernel = branch_rare(
        make_remainder_kernel(dtype, lanes, len(x)), replace(TARGET, has_fma=has_fma)
    )
    assert not list(kernel.iter_ops(Op.FMOD))
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
        for run in (
            evaluate_kernel,
            lambda sink, buffers: evaluate_linear(linearize(sink), buffers),
        ):
            found = np.zeros_like(x)
            run(kernel, {0: found, 1: x, 2: y})
            np.testing.assert_array_equal(found, expected)
            is_number = ~np.isnan(expected)
            np.testing.assert_array_equal(
                np.signbit(found)[is_number], np.signbit(expected)[is_number]
            )


def make_remainder_kernel(dtype: DType, lanes: int, size: int) -> UOp:
    target, x, y = (param(slot, size, dtype) for slot in (0, 1, 2))
    loop = UOp.range(size // lanes, 0, AxisType.LOOP)
    at = loop * UOp.const(index, lanes)
    left, right = (operand.index(at, lanes=lanes).load() for operand in (x, y))
    return UOp.sink(target.index(at, lanes=lanes).store(left.alu(Op.FMOD, right)).end(loop))


def test_the_work_for_rare_arguments_is_in_the_inner_loop() -> None:
    nodes = linearize(branch_rare(make_kernel(Op.SIN, float32, 4, 8), TARGET))
    begin = max(i for i, node in enumerate(nodes) if node.op is Op.RANGE)
    end = min(i for i, node in enumerate(nodes) if node.op is Op.END)
    # The multiplications of integers are those of the reduction by many bits of 2 / pi.
    products = [
        i for i, node in enumerate(nodes) if node.op is Op.MUL and node.dtype.kind == "uint"
    ]
    assert products
    assert all(begin < i < end for i in products)


def test_a_second_run_changes_nothing() -> None:
    once = branch_rare(make_kernel(Op.TAN, float64, 2, 8), TARGET)
    assert branch_rare(once, TARGET) is once


def test_a_function_that_the_target_has_stays() -> None:
    kernel = make_kernel(Op.COS, float32, 4, 8)
    assert branch_rare(kernel, replace(TARGET, native_ops=TARGET.native_ops | {Op.COS})) is kernel


@pytest.mark.parametrize("op", TRUE)
def test_a_shared_function_stays_in_the_inner_loop(op: Op) -> None:
    kernel = branch_rare(make_kernel(op, float32, 4, 8), SHARING)
    (call,) = kernel.iter_ops(*TRUE)
    assert any(r.stop.op is Op.CAST for r in call.ranges)
    points, found = np.array(HUGE, "f4"), np.zeros(8, "f4")
    evaluate_kernel(kernel, {0: found, 1: points})
    np.testing.assert_allclose(found, [TRUE[op](float(x)) for x in points], rtol=2e-7)


def make_sum_kernel(op: Op, n_uses: int, *, n_iterations: UOp, size: int = 8) -> UOp:
    """A kernel that stores the sum of a function of `n_uses` multiples of each element."""
    out, points = param(0, size, float32), param(1, size, float32)
    loop = UOp.range(size // 2, 0, AxisType.LOOP)
    inner = UOp.range(n_iterations, 1, AxisType.LOOP)
    at = loop * 2 + inner
    x = points.index(at).load()
    values = [(x * float(1 + k)).alu(op) for k in range(n_uses)]
    total = reduce(UOp.__add__, values)
    return UOp.sink(out.index(at).store(total).end(inner).end(loop))


@pytest.mark.parametrize("op", TRUE)
def test_a_function_of_many_arguments_stays_as_a_call(op: Op) -> None:
    for n_uses, n_calls in ((MIN_CALLS - 1, 0), (MIN_CALLS, MIN_CALLS)):
        kernel = make_sum_kernel(op, n_uses, n_iterations=UOp.const(index, 2))
        lowered = branch_rare(kernel, SHARING)
        is_call = [all(r.stop.op is Op.CONST for r in n.ranges) for n in lowered.iter_ops(op)]
        assert is_call.count(True) == n_calls
        assert is_call.count(False) == n_uses - n_calls


def test_sine_and_cosine_of_an_argument_count_once() -> None:
    x = param(1, 8, float32).index(UOp.const(index, 0)).load()
    arguments = [x * float(1 + k) for k in range(MIN_CALLS - 1)]
    values = [a.alu(op) for a in arguments for op in (Op.SIN, Op.COS, Op.TAN)]
    out = param(0, 8, float32).index(UOp.const(index, 0))
    kernel = UOp.sink(out.store(reduce(UOp.__add__, values)))
    assert all(n.ranges for n in branch_rare(kernel, SHARING).iter_ops(*TRUE))
    more = UOp.sink(out.store(reduce(UOp.__add__, [*values, (x * 0.5).alu(Op.COS)])))
    calls = [n.op for n in branch_rare(more, SHARING).iter_ops(*TRUE) if not n.ranges]
    assert calls.count(Op.SIN) == MIN_CALLS - 1
    assert calls.count(Op.COS) == MIN_CALLS
    assert Op.TAN not in calls


def test_no_call_is_for_all_arguments_inside_of_a_branch() -> None:
    """A renderer takes a call there for one of rare arguments."""
    flag = param(2, 1, float32).index(UOp.const(index, 0)).load()
    kernel = make_sum_kernel(Op.SIN, 2 * MIN_CALLS, n_iterations=(flag < 1.0).cast(index))
    calls = list(branch_rare(kernel, SHARING).iter_ops(Op.SIN))
    assert len(calls) == 2 * MIN_CALLS
    assert all(len(n.ranges) == 3 for n in calls)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("ops", [(Op.SIN,), (Op.SIN, Op.COS), (Op.TAN,)])
def test_shared_functions_have_the_values_of_all_arguments(
    ops: tuple[Op, ...], dtype: DType, lanes: int
) -> None:
    shared = define_shared(ops, dtype.vec(lanes), SHARING)
    points = np.array([*HUGE, *MODERATE], dtype.numpy)
    size = len(points)
    loop = UOp.range(size // lanes, 0, AxisType.LOOP)
    at = loop * UOp.const(index, lanes)
    read = param(len(ops), size, dtype).index(at, lanes=lanes).load()
    stores = [
        param(k, size, dtype).index(at, lanes=lanes).store(shared.is_rare.where(rare, common))
        for k, (rare, common) in enumerate(zip(shared.rare, shared.common, strict=True))
    ]
    kernel = UOp.sink(UOp(Op.GROUP, void, tuple(stores)).end(loop)).substitute(
        {shared.argument: read}
    )
    found = [np.zeros(size, dtype.numpy) for _ in ops]
    evaluate_kernel(kernel, {**dict(enumerate(found)), len(ops): points})
    for op, values in zip(ops, found, strict=True):
        expected = [TRUE[op](float(x)) for x in points]
        np.testing.assert_allclose(values, expected, rtol=float(np.finfo(dtype.numpy).eps))

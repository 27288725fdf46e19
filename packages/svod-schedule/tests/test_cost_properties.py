"""Estimates of work and time are finite, not negative, and grow with sizes: for every op, dtype and
kind of size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from math import inf, isfinite

import pytest

from svod_dtype import ALL_DTYPES, DType, SvodError, bool_, void
from svod_ir import AxisType, KernelInfo, Op, ParamArg, SInt, Target, UOp, make_alu
from svod_ir.ops import ASSOCIATIVE, ELEMENTWISE, TABLE, TERNARY, UNARY
from svod_schedule.estimate import Work, estimate_work
from svod_schedule.optimize.cost_model.expected_time import Cost, estimate_cost

GENERIC = Target.generic()
TARGETS = [
    GENERIC,
    replace(GENERIC, has_fma=True, has_gather=True, has_masked_access=True, cores=1, l3_bytes=0),
    replace(GENERIC, vector_bits=32, vector_registers=1),
]
DTYPES = [dtype for dtype in ALL_DTYPES if dtype.itemsize]
KINDS = [
    AxisType.LOOP,
    AxisType.UPCAST,
    AxisType.UNROLL,
    AxisType.THREAD,
    AxisType.GLOBAL,
    AxisType.LOCAL,
]
SIZES = [1, 2, 7, 64, 4096]


def load(slot: int, dtype: DType, size: int, position: UOp) -> UOp:
    return UOp(Op.PARAM, dtype, (), ParamArg(slot, size)).index(position)


def make_kernel(value: UOp, loop: UOp, size: int) -> UOp:
    out = UOp(Op.PARAM, value.dtype, (), ParamArg(0, size))
    return UOp(Op.SINK, void, (out.index(loop).store(value).end(loop),), KernelInfo("kernel"))


def apply(op: Op, dtype: DType, condition: UOp, operands: list[UOp]) -> UOp | None:
    """A node of the op on values of one dtype, None where the op does not take it."""
    if op in (Op.CAST, Op.BITCAST):
        return UOp(op, dtype, (operands[0],))
    n_operands = 1 if op in UNARY else 3 if op in TERNARY else 2
    src = (condition, *operands[:2]) if op is Op.WHERE else operands[:n_operands]
    try:
        return make_alu(op, *src)
    except SvodError:
        return None


def iter_kernels(
    size: SInt, largest: int, kind: AxisType = AxisType.LOOP
) -> Iterator[tuple[Op, DType, UOp]]:
    loop = UOp.range(size, 0, kind)
    for dtype in DTYPES:
        operands = [load(slot, dtype, largest, loop) for slot in (1, 2, 3)]
        condition = load(4, bool_, largest, loop)
        for op in sorted(ELEMENTWISE, key=str):
            value = apply(op, dtype, condition, operands)
            if value is not None:
                yield op, dtype, make_kernel(value, loop, largest)


def check_work(work: Work) -> None:
    assert isinstance(work.n_operations, int) and isinstance(work.n_bytes, int)
    assert work.n_operations >= 0 and work.n_bytes >= 0


def check_cost(cost: Cost) -> None:
    for name, value in asdict(cost).items():
        assert isfinite(value) and value >= 0, (name, value)
    parts = (
        cost.issue_seconds + cost.latency_seconds,
        cost.l2_seconds,
        cost.l3_seconds,
        cost.memory_seconds,
    )
    assert cost.seconds >= cost.start_seconds + max(parts)


def test_every_op_has_a_number_of_instructions() -> None:
    for op in ELEMENTWISE:
        assert 0 < TABLE[op].instructions < inf, op


@pytest.mark.parametrize("size", SIZES)
def test_elementwise_kernels_of_every_dtype_move_their_arrays_once(size: int) -> None:
    seen = set[tuple[Op, DType]]()
    for op, dtype, kernel in iter_kernels(size, size):
        work = estimate_work(kernel)
        check_work(work)
        read = [n for n in kernel.toposort() if n.op is Op.PARAM]
        assert work.n_bytes == size * sum(n.dtype.itemsize for n in read), (op, dtype)
        assert work.n_operations <= 4 * size
        seen.add((op, dtype))
    assert {op for op, _ in seen} >= ELEMENTWISE - {Op.MULACC}
    assert {dtype for _, dtype in seen} == set(DTYPES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_costs_of_every_dtype_are_finite_and_grow_with_the_size(
    kind: AxisType, target: Target
) -> None:
    before: dict[tuple[Op, DType], Cost] = {}
    for size in (1, 8, 64):
        for op, dtype, kernel in iter_kernels(size, size, kind):
            cost = estimate_cost(kernel, target)
            check_cost(cost)
            last = before.get((op, dtype))
            if last is not None:
                assert cost.n_bytes >= last.n_bytes and cost.n_operations >= last.n_operations, (
                    op,
                    dtype,
                )
                if kind is AxisType.LOOP:
                    assert cost.seconds >= last.seconds, (op, dtype, size)
            before[op, dtype] = cost


@pytest.mark.parametrize("op", sorted(ASSOCIATIVE, key=str))
@pytest.mark.parametrize("target", TARGETS)
def test_reductions_of_every_dtype_count_each_element(op: Op, target: Target) -> None:
    n_taken = 0
    for dtype in DTYPES:
        last: Cost | None = None
        for size in SIZES:
            row, column = UOp.range(3, 0, AxisType.LOOP), UOp.range(size, 1, AxisType.REDUCE)
            try:
                value = UOp(
                    Op.REDUCE, dtype, (load(1, dtype, 3 * size, row * size + column), column), op
                )
            except SvodError:
                break
            kernel = make_kernel(value, row, 3)
            work, cost = estimate_work(kernel), estimate_cost(kernel, target)
            check_work(work)
            check_cost(cost)
            assert work == Work(3 * size, dtype.itemsize * 3 * (size + 1))
            assert last is None or (cost.seconds, cost.n_bytes) >= (last.seconds, last.n_bytes)
            last, n_taken = cost, n_taken + 1
    assert n_taken


def test_variables_count_with_their_largest_value_for_work_and_their_middle_for_time() -> None:
    n = UOp.variable("n", 1, 63)
    for (_, _, symbolic), (_, _, largest), (_, _, middle) in zip(
        iter_kernels(n, 63), iter_kernels(63, 63), iter_kernels(32, 63), strict=True
    ):
        check_work(estimate_work(symbolic))
        assert estimate_work(symbolic) == estimate_work(largest)
        cost = estimate_cost(symbolic, GENERIC)
        check_cost(cost)
        assert cost.n_operations == estimate_cost(middle, GENERIC).n_operations


def test_a_kernel_without_iterations_has_no_work() -> None:
    for _, _, kernel in iter_kernels(0, 0):
        assert estimate_work(kernel) == Work(0, 0)
        check_cost(estimate_cost(kernel, GENERIC))
    for _, _, kernel in iter_kernels(UOp.variable("n", 0, 5), 5):
        check_work(estimate_work(kernel))
        check_cost(estimate_cost(kernel, GENERIC))


def test_larger_dtypes_move_more_bytes() -> None:
    loop = UOp.range(64, 0, AxisType.LOOP)
    found = [
        estimate_work(make_kernel(load(1, dtype, 64, loop), loop, 64)).n_bytes for dtype in DTYPES
    ]
    assert found == [2 * 64 * dtype.itemsize for dtype in DTYPES]

"""Loops in plans: LOOP and SWITCH nodes, made by hand, give what a loop in Python gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_ir.loops import get_slots, make_counter, make_loop, make_parameter, make_switch
from svod_tensor import PrepareConfig, Tensor, clear_caches, float32, int32, int64, switch

Body = Callable[..., Sequence[UOp]]
MODES = ["arena", "remap", "disabled"]


@pytest.fixture(autouse=True, params=["in a kernel", "of kernels"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loops as they are chosen, most of these small ones inside a kernel; and all of them as calls
    that are repeated.
    """
    if request.param == "of kernels":
        monkeypatch.setattr("svod_schedule.rangeify.fuse_loops.MAX_INSTRUCTIONS", -1)
    clear_caches()
    yield
    clear_caches()


def _loop(
    body: Body,
    count: Any,
    carried: Sequence[Tensor],
    sliced: Sequence[Tensor] = (),
    constants: Sequence[Tensor] = (),
    *,
    has_counter: bool = False,
    is_reversed: bool = False,
    is_conditional: bool = False,
) -> list[Tensor]:
    operands = [t.uop for t in (*carried, *sliced, *constants)]
    slots = get_slots(operands)
    params = [
        make_parameter(o, slot, is_slice=len(carried) <= i < len(carried) + len(sliced))
        for i, (o, slot) in enumerate(zip(operands, slots, strict=True))
    ]
    most = count if isinstance(count, int) else 1000
    counter = [make_counter("loop_counter_0", most)] if has_counter else []
    sink = UOp.sink(*body(*counter, *params))
    size = count if isinstance(count, int) else count.uop
    found = make_loop(
        sink,
        size,
        operands,
        n_carried=len(carried),
        n_sliced=len(sliced),
        counter="loop_counter_0" if has_counter else None,
        is_reversed=is_reversed,
        is_conditional=is_conditional,
    )
    return [Tensor.from_uop(node) for node in found]


def _values(tensors: Sequence[Tensor]) -> list[Any]:
    Tensor.realize_batch(tensors)
    return [t.numpy() for t in tensors]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 100])
def test_a_carry_that_reads_all_of_its_previous_value_agrees_with_numpy(count: int) -> None:
    a = np.random.default_rng(0).normal(size=(5, 5)).astype("f4") * 0.3
    x = np.arange(5, dtype="f4")

    def body(v: UOp, m: UOp) -> list[UOp]:
        t, w = Tensor.from_uop(v), Tensor.from_uop(m)
        return [((w @ t) + 1).uop]

    (found,) = _values(_loop(body, count, [Tensor(x)], constants=[Tensor(a)]))
    want = x
    for _ in range(count):
        want = a @ want + 1
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_several_values_are_carried_and_may_be_swapped() -> None:
    a, b = np.arange(4, dtype="f4"), np.ones(4, "f4")
    found = _values(
        _loop(
            lambda x, y: [y, (Tensor.from_uop(x) + Tensor.from_uop(y)).uop],
            9,
            [Tensor(a), Tensor(b)],
        )
    )
    for _ in range(9):
        a, b = b, a + b
    np.testing.assert_array_equal(found, [a, b])


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_slices_are_taken_and_stacked_in_order(n: int, is_reversed: bool) -> None:
    xs = np.random.default_rng(1).integers(0, 9, (n, 3)).astype("i4")
    ws = np.random.default_rng(2).integers(0, 9, (3, 3)).astype("i4")

    def body(s: UOp, x: UOp, w: UOp) -> list[UOp]:
        state, row, weights = map(Tensor.from_uop, (s, x, w))
        new = (state * 2 + row @ weights) % 1000
        return [new.uop, new.sum().uop, (state - row).uop]

    found = _values(
        _loop(
            body,
            n,
            [Tensor(np.zeros(3, "i4"))],
            [Tensor(xs)],
            [Tensor(ws)],
            is_reversed=is_reversed,
        )
    )
    state, sums, rows = np.zeros(3, "i4"), np.zeros(n, "i4"), np.zeros((n, 3), "i4")
    for i in reversed(range(n)) if is_reversed else range(n):
        new = ((state * 2 + xs[i] @ ws) % 1000).astype("i4")
        sums[i], rows[i], state = new.sum(), state - xs[i], new
    for got, want in zip(found, [state, sums, rows], strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_counter_is_a_number_in_the_body() -> None:
    def body(i: UOp, s: UOp, x: UOp) -> list[UOp]:
        state, rows = Tensor.from_uop(s), Tensor.from_uop(x)
        row = rows[Tensor.from_uop(i.cast(int32))]
        return [(state + row * Tensor.from_uop(i.cast(float32))).uop]

    x = np.random.default_rng(3).normal(size=(7, 4)).astype("f4")
    (found,) = _values(
        _loop(body, 7, [Tensor(np.zeros(4, "f4"))], constants=[Tensor(x)], has_counter=True)
    )
    np.testing.assert_allclose(found, sum(i * x[i] for i in range(7)), rtol=1e-6)


@pytest.mark.parametrize("count", [-3, 0, 1, 6])
def test_a_trip_count_may_be_computed(count: int) -> None:
    n = (Tensor([count]).sum() + 0).cast(int64)
    x = np.arange(6, dtype="f4").reshape(2, 3)

    def body(s: UOp) -> list[UOp]:
        t = Tensor.from_uop(s)
        return [(t.sum(axis=0, keepdims=True) + t * 0.5).uop]

    (found,) = _values(_loop(body, n, [Tensor(x)]))
    want = x
    for _ in range(max(count, 0)):
        want = want.sum(0, keepdims=True) + want * np.float32(0.5)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("start", [0.0, 5.0, 90.0, 200.0])
def test_a_loop_ends_after_the_iteration_with_a_false_condition(start: float) -> None:
    def body(s: UOp, n: UOp) -> list[UOp]:
        t, steps = Tensor.from_uop(s), Tensor.from_uop(n)
        new = t * 1.5 + 1
        return [new.uop, (steps + 1).uop, (new.sum() < 100).uop]

    x = np.full(3, start / 3, "f4")
    most = ((Tensor(x).sum() < 100).cast(int64) * (2**31 - 1)).cast(int64)
    value, steps = _values(_loop(body, most, [Tensor(x), Tensor(0)], is_conditional=True))
    n = 0
    while x.sum() < 100:
        x, n = x * np.float32(1.5) + 1, n + 1
    np.testing.assert_allclose(value, x, rtol=1e-6)
    assert steps == n


def test_a_carry_is_updated_in_place() -> None:
    def body(i: UOp, c: UOp) -> list[UOp]:
        cache = Tensor.from_uop(c)
        row = cache.sum(axis=0) + 1
        target = UOp(Op.SHRINK, c.dtype, (c, i, i + 1), (None, None, 0, 3))
        value = row.reshape(1, 3).uop
        assign = UOp(Op.ASSIGN, c.dtype, (target, value))
        memory = next(c.iter_ops(Op.PARAM))
        state = UOp(Op.AFTER, c.dtype, (memory, assign))
        return [UOp(Op.RESHAPE, c.dtype, (state,), (5, 3))]

    (found,) = _values(_loop(body, 5, [Tensor(np.ones((5, 3), "f4"))], has_counter=True))
    want = np.ones((5, 3), "f4")
    for i in range(5):
        want[i] = want.sum(0) + 1
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("number", [-2, 0, 1, 2, 9])
def test_one_branch_of_a_choice_runs(number: int) -> None:
    x = np.arange(12, dtype="f4").reshape(3, 4)
    operand = Tensor(x).uop
    param = make_parameter(operand, 0)
    t = Tensor.from_uop(param)
    bodies = [UOp.sink(v.uop) for v in (t.sum(axis=0), (t * 2).sum(axis=0), t.max(axis=0))]
    (result,) = make_switch(Tensor(number).cast(int64).uop, bodies, [operand])
    want = [x.sum(0), (x * 2).sum(0), x.max(0)][min(max(number, 0), 2)]
    np.testing.assert_array_equal(Tensor.from_uop(result).numpy(), want)


def test_loops_may_be_nested() -> None:
    def inner(s: UOp) -> list[UOp]:
        t = Tensor.from_uop(s)
        return [(t.sum() * 0.1 + t).uop]

    def body(s: UOp) -> list[UOp]:
        param = make_parameter(s, 0)
        (found,) = make_loop(UOp.sink(*inner(param)), 3, [s], n_carried=1)
        return [(Tensor.from_uop(found) + 1).uop]

    x = np.arange(4, dtype="f8")
    (found,) = _values(_loop(body, 4, [Tensor(x)]))
    for _ in range(4):
        for _ in range(3):
            x = x.sum() * 0.1 + x
        x = x + 1
    np.testing.assert_allclose(found, x, rtol=1e-12)


def test_10_and_10_000_iterations_are_plans_of_one_size() -> None:
    def body(s: UOp) -> list[UOp]:
        t = Tensor.from_uop(s)
        return [(t.sum() * 1e-6 + t).uop]

    plans = [_loop(body, n, [Tensor(np.ones(9, "f8"))])[0].prepare() for n in (10, 10_000)]
    assert len({len(plan.prepared_ops) for plan in plans}) == 1
    assert len({len(plan.kernels()) for plan in plans}) == 1


def test_a_plan_with_a_loop_runs_again_on_new_values() -> None:
    def body(s: UOp, w: UOp) -> list[UOp]:
        t, m = Tensor.from_uop(s), Tensor.from_uop(w)
        return [(m @ t).uop]

    a, x = Tensor(np.eye(3, dtype="f4") * 2), Tensor(np.ones(3, "f4"))
    plan = _loop(body, 5, [x], constants=[a])[0].prepare()
    for start in (1, 1, 2):
        plan.buffer(x.uop.arg.id if x.uop.op is Op.BUFFER else x.uop.source.arg.id).copyin(
            np.full(3, start, "f4")
        )
        plan.execute()
        found = np.empty(3, "f4")
        plan.output_buffer.copyout(found)
        np.testing.assert_array_equal(found, start * 32)


@pytest.mark.parametrize("planner", MODES)
def test_every_planner_gives_the_same(planner: Any) -> None:
    def body(s: UOp) -> list[UOp]:
        t = Tensor.from_uop(s)
        u = (t - t.sum()) * 0.5
        return [(u + u.max() * t.min()).uop]

    found = _loop(body, 7, [Tensor(np.arange(8, dtype="f4") / 8)])[0]
    config = PrepareConfig(memory_planner=planner)
    want = np.arange(8, dtype="f4") / 8
    for _ in range(7):
        u = (want - want.sum()) * np.float32(0.5)
        want = u + u.max() * want.min()
    np.testing.assert_allclose(found.realize_with(config).numpy(), want, rtol=1e-5)


def test_a_body_may_assign_to_its_carry_and_return_another_tensor() -> None:
    def body(v: UOp, w: UOp) -> list[UOp]:
        (memory,) = v.iter_ops(Op.PARAM)
        target = UOp(Op.SHRINK, v.dtype, (memory,), (1, 3))
        assign = UOp(Op.ASSIGN, v.dtype, (target, (Tensor.from_uop(v)[:2] + 1).uop))
        state = Tensor.from_uop(UOp(Op.AFTER, v.dtype, (memory, assign)))
        return [(Tensor.from_uop(w) @ state).uop]

    a = np.random.default_rng(5).normal(size=(4, 4)).astype("f4") * 0.4
    x = np.arange(4, dtype="f4")
    start = Tensor(x).realize()
    for count in (0, 1, 4, 5):
        (found,) = _values(_loop(body, count, [start], constants=[Tensor(a)]))
        want = x
        for _ in range(count):
            changed = want.copy()
            changed[1:3] = want[:2] + 1
            want = a @ changed
        np.testing.assert_allclose(found, want, rtol=1e-5)
        np.testing.assert_array_equal(start.numpy(), x)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_operands_of_a_switch_are_overwritten_after_each_branch_has_read_them(number: int) -> None:
    rng = np.random.default_rng(number)
    a, b = (rng.normal(size=(64, 64)).astype("f4") for _ in range(2))
    x, w = Tensor(a).realize(), Tensor(b).realize()
    branches = [
        lambda x: x @ w,
        lambda x: (x @ w).abs().sum(0).broadcast_to((64, 64)),
        lambda x: x.T @ w,
    ]
    chosen = switch(Tensor(number).realize(), branches, x)
    x[:10] = 5.0
    Tensor.realize_batch([x, chosen])
    want = [a @ b, np.broadcast_to(np.abs(a @ b).sum(0), (64, 64)), a.T @ b][number]
    np.testing.assert_allclose(chosen.numpy(), want, rtol=1e-4, atol=1e-4)
    assert (x.numpy()[:10] == 5).all()

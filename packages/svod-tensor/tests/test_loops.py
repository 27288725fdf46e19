from __future__ import annotations

import operator
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_ir.evaluate import evaluate
from svod_ir.loops import read_loop
from svod_tensor import Generator, Tensor, Variable, cond, fori_loop, jit, scan, switch, while_loop
from svod_tensor.engine import memory_nodes
from svod_tensor.engine.bindings import resolve_size

RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 3)).astype(np.float32)
W = RNG.normal(size=(3, 3)).astype(np.float32)


def mean(*tensors: Tensor) -> list[np.ndarray]:
    """The values of tensors by the reference meaning of their graphs, which kernels give too."""
    sink = UOp.sink(*(t.uop for t in tensors))
    inputs: dict[Any, Any] = {
        memory: memory_nodes.get_buffer(memory).as_numpy().copy()
        for memory in sink.iter_ops(Op.BUFFER)
    }
    inputs.update((bind.symbol.arg.name, bind.value.arg) for bind in sink.iter_ops(Op.BIND))
    values = evaluate(sink, inputs)
    found = [
        np.asarray(v).reshape(tuple(map(resolve_size, t.shape)))
        for v, t in zip(values, tensors, strict=True)
    ]
    Tensor.realize_batch(tensors)
    for value, tensor in zip(found, tensors, strict=True):
        np.testing.assert_allclose(tensor.numpy(), value, rtol=1e-5, atol=1e-6)
    return found


def find_loop(tensor: Tensor) -> UOp:
    """The outermost loop that computes a tensor."""
    return [*tensor.uop.iter_ops(Op.LOOP, Op.SWITCH)][-1]


def assert_equal(tensor: Tensor, expected: object) -> None:
    np.testing.assert_allclose(mean(tensor)[0], np.asarray(expected), rtol=1e-4, atol=1e-5)


# what the functions mean


def test_scan_carries_and_stacks():
    def f(carry: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return (carry @ Tensor(W)).tanh() + x, carry * 2

    after, ys = scan(f, Tensor(X[0]), Tensor(X))
    carry, rows = X[0], []
    for x in X:
        rows.append(carry * 2)
        carry = np.tanh(carry @ W) + x
    assert_equal(after, carry)
    assert_equal(ys, rows)


def test_a_reversed_scan_takes_the_last_slice_first_and_keeps_the_order_of_results():
    after, ys = scan(lambda c, x: (c * 2 + x, c), 1, Tensor([1, 2, 3]), reverse=True)
    assert [v.tolist() for v in mean(after, ys)] == [(((1 * 2 + 3) * 2) + 2) * 2 + 1, [12, 5, 1]]


def test_scan_repeats_by_its_length_where_there_are_no_slices():
    after, ys = scan(lambda c, x: (c * 2, x), Tensor([1, 2]), None, 5)
    assert ys is None
    assert_equal(after, [32, 64])


class Pair(NamedTuple):
    low: Any
    high: Any


def test_carries_slices_and_results_may_be_nested():
    def f(carry: dict[str, Any], x: Pair) -> tuple[dict[str, Any], list[Any]]:
        assert carry["none"] is None
        return {"none": None, "b": [carry["b"][0] + x.low], "a": carry["a"] * x.high[0]}, [
            x.low,
            (carry["a"],),
            None,
        ]

    init = {"a": 1.0, "none": None, "b": [np.array([0, 1], np.int32)]}
    after, ys = scan(f, init, Pair(Tensor([[1, 2], [3, 4]]), (Tensor([2.0, 3.0]),)))
    assert list(after) == ["a", "none", "b"] and after["none"] is None and ys[2] is None
    found = mean(after["a"], after["b"][0], ys[0], ys[1][0])
    assert [v.tolist() for v in found] == [6.0, [4, 7], [[1, 2], [3, 4]], [1.0, 2.0]]


def test_fori_loop_counts_from_lower_to_upper():
    assert_equal(fori_loop(2, 6, lambda i, x: x * 10 + i, Tensor([0, 1])), [2345, 12345])


@pytest.mark.parametrize("bounds", [(0, 0), (3, 1)])
def test_a_loop_without_iterations_gives_the_initial_value(bounds: tuple[int, int]):
    x, total = Tensor([1.0, 2.0]), Tensor(0.0)

    def body(i: Tensor, x: Tensor) -> Tensor:
        total.assign(total + i)
        return x + 1

    assert_equal(fori_loop(*bounds, body, x), [1, 2])
    assert_equal(fori_loop(bounds[0], Tensor(bounds[1]), body, x), [1, 2])
    assert_equal(total, 0)
    after, ys = scan(lambda c, x: (c + 1, x), x, Tensor.zeros((0, 4)))
    assert_equal(after, [1, 2])
    assert ys.shape == (0, 4)


@pytest.mark.parametrize("upper", [Tensor(4), Variable("n", 0, 10).bind(4), Tensor(np.int64(4))])
def test_bounds_may_be_variables_and_computed(upper: Any):
    assert_equal(fori_loop(1, upper, lambda i, x: x * 10 + i, 0), 123)


def test_a_variable_may_be_bound_when_the_plan_runs():
    n = Variable("steps", 1, 100)
    loop = find_loop(fori_loop(0, n, lambda i, x: x * 2, Tensor(1.0)))
    assert loop.src[0] is n.uop


@pytest.mark.parametrize("count", [-3, -1, 0, 1, 4])
def test_a_negative_trip_count_means_no_iterations(count: int):
    upper, x = Variable("upper", -5, 5).bind(count), Tensor(7)
    expected = 7 + 3 * max(count, 0)
    assert_equal(fori_loop(0, upper, lambda _, t: t + 3, x), expected)
    assert_equal(
        fori_loop(0, upper, lambda _, t: (t + 1.5) * 1.0, Tensor(0.0)), 1.5 * max(count, 0)
    )
    step = jit(lambda x, n: fori_loop(0, n, lambda _, t: t + 3, x))
    assert int(step(x, upper).numpy()) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda i, t: t + i, 10),
        (lambda i, t: i + t, 10),
        (lambda i, t: t + 2 * i + 1, 25),
        (lambda i, t: t + 3, 15),
    ],
)
def test_an_integer_carry_may_grow_by_the_counter(body: Any, expected: int):
    assert_equal(fori_loop(0, 5, body, 0), expected)
    assert int(jit(lambda t: fori_loop(0, 5, body, t))(Tensor(7)).numpy()) == 7 + expected


def test_while_loop_ends_at_the_first_value_with_a_false_condition():
    def body(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return state[0] * 2, state[1] + 1

    x, n = while_loop(lambda s: s[0].sum() < 100, body, (Tensor([1, 3]), 0))
    assert [v.tolist() for v in mean(x, n)] == [[32, 96], 5]
    x, n = while_loop(lambda s: s[0].sum() < 3, body, (Tensor([1, 3]), 0))
    assert [v.tolist() for v in mean(x, n)] == [[1, 3], 0]


@pytest.mark.parametrize(
    ("pred", "expected"), [(True, [2, 3]), (False, [-1, -2]), (Tensor(3) > 2, [2, 3])]
)
def test_cond_computes_one_branch(pred: Any, expected: list[int]):
    assert_equal(cond(pred, lambda x, y: x + y, lambda x, y: -x, Tensor([1, 2]), 1), expected)


@pytest.mark.parametrize(
    ("index", "expected"), [(-3, 11), (0, 11), (1, 100), (2, -10), (9, -10), (Tensor(1), 100)]
)
def test_switch_takes_the_branch_of_its_index_or_the_nearest(index: Any, expected: int):
    assert_equal(
        switch(index, [lambda x: x + 1, lambda x: x * 10, operator.neg], Tensor(10)), expected
    )


def test_branches_may_return_constants_operands_and_outer_tensors():
    w = Tensor([5.0, 6.0])
    for position, expected in enumerate([[1, 2], [5, 6], [0, 0], [7, 8]]):
        branches = [
            lambda x: x,
            lambda x: w,
            lambda x: Tensor.zeros(2),
            lambda x: Tensor([7.0, 8.0]),
        ]
        assert_equal(switch(Tensor(position), branches, Tensor([1.0, 2.0])), expected)


def test_branches_that_write_different_tensors_leave_the_others_unchanged():
    for index, expected in enumerate([([11, 12], [3, 4]), ([1, 2], [30, 40]), ([1, 2], [3, 4])]):
        x, y = Tensor([1, 2]).clone(), Tensor([3, 4]).clone()

        def add(x: Tensor = x) -> Tensor:
            x.assign(x + 10)
            return x.sum()

        def scale(y: Tensor = y) -> Tensor:
            y.assign(y * 10)
            return y.sum()

        switch(Tensor(index), [add, scale, lambda: Tensor(0)])
        assert ([*map(int, x.numpy())], [*map(int, y.numpy())]) == expected


# what is carried


def test_values_may_be_swapped_and_occur_twice():
    x = Tensor([1, 1])
    a, b = fori_loop(0, 10, lambda i, ab: (ab[1], ab[0] + ab[1]), (x, x))
    assert [v.tolist() for v in mean(a, b)] == [[89, 89], [144, 144]]
    a, b = fori_loop(0, 3, lambda i, ab: (ab[0] + 1, ab[0]), (Tensor(5), 0))
    assert [int(v) for v in mean(a, b)] == [8, 7]


def test_a_number_takes_the_dtype_that_the_first_iteration_gives():
    after = fori_loop(0, 3, lambda i, x: x + Tensor(0.5), 0)
    assert after.dtype.name == "float32"
    assert_equal(after, 1.5)
    after, ys = scan(lambda c, x: (c + x, c), 0, Tensor(np.ones(3)))
    assert (after.dtype.name, ys.dtype.name) == ("float64", "float64")


def test_a_number_may_be_returned_for_a_tensor():
    assert_equal(fori_loop(0, 3, lambda i, x: 2, Tensor(0.5)), 2.0)


def test_an_unchanged_carry_becomes_an_invariant():
    w, x = Tensor(W), Tensor(X[0])
    after = fori_loop(0, 4, lambda i, c: {"w": c["w"], "x": c["w"] @ c["x"]}, {"w": w, "x": x})
    assert after["w"].uop is w.uop
    assert find_loop(after["x"]).arg.n_carried == 1
    assert_equal(after["x"], np.linalg.matrix_power(W, 4) @ X[0])


def test_empty_values_are_passed_through():
    after, ys = scan(
        lambda c, x: ((c[0], c[1] + 1), c[0]), (Tensor.zeros((0, 2)), 0), Tensor.zeros((4, 0))
    )
    assert after[0].shape == (0, 2) and ys.shape == (4, 0, 2)
    assert_equal(after[1], 4)


def test_assignments_to_the_carry_are_in_place_and_leave_the_initial_value():
    def body(i: Tensor, cache: Tensor) -> Tensor:
        cache[i] = cache[i] + i
        cache[3 - i, 0] = -1.0
        return cache

    cache = Tensor(np.zeros((4, 2), np.float32))
    after = fori_loop(0, 4, body, cache)
    [state] = read_loop(find_loop(after)).next_values
    assert state.op is Op.RESHAPE and state.source.op is Op.AFTER
    expected = np.zeros((4, 2))
    for i in range(4):
        expected[i] += i
        expected[3 - i, 0] = -1
    assert_equal(after, expected)
    assert_equal(cache, np.zeros((4, 2)))


def test_a_copy_of_the_carry_keeps_the_old_version():
    def body(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        before = x.clone()
        view = x[1:]
        view[0] = i * 1.0
        return x, before + view.sum()

    after, stacked = scan(lambda c, i: body(i, c), Tensor([1.0, 2.0, 3.0]), Tensor([4, 5]))
    assert_equal(after, [1, 5, 3])
    assert_equal(stacked, [[1 + 7, 2 + 7, 3 + 7], [1 + 8, 4 + 8, 3 + 8]])


# what a body reads from outside


def test_loop_invariant_values_are_hoisted():
    x, w = Tensor(X[0]), Tensor(W)
    heavy = (w @ w).exp()
    after = fori_loop(0, 3, lambda i, v: v @ heavy.T + (w + 1).sum() + Tensor.arange(3) * 2, x)
    loop = find_loop(after)
    [body] = [loop.arg.body]
    kinds = {node.op for node in body.toposort()}
    assert Op.EXP not in kinds and Op.IOTA in kinds
    assert sum(node.op is Op.PARAM for node in body.toposort()) == 3
    expected = X[0]
    for _ in range(3):
        expected = expected @ np.exp(W @ W).T + (W + 1).sum() + np.arange(3) * 2
    assert_equal(after, expected)


def test_a_body_reads_slices_by_the_counter():
    table, out = Tensor(X), Tensor(np.zeros((6, 3), np.float32))

    def body(i: Tensor, total: Tensor) -> Tensor:
        out[i] = table[i] + total
        return total + table[i, 1] + table[5 - i : 6 - i].sum()

    total = fori_loop(0, 6, body, 0.0)
    expected, rows = 0.0, []
    for i in range(6):
        rows.append(X[i] + expected)
        expected += X[i, 1] + X[5 - i].sum()
    assert not [
        n for n in find_loop(total).arg.body.toposort() if n.op in (Op.GATHER, Op.CUSTOM_FUNCTION)
    ]
    found = mean(total, out)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], rows, rtol=1e-4, atol=1e-5)


def test_an_index_that_may_be_out_of_bounds_is_gathered():
    table = Tensor([1, 2, 3])
    assert_equal(fori_loop(0, 4, lambda i, c: c * 10 + table[i - 1], 0), 3123)


def test_equal_loops_are_one_node():
    def make(x: Tensor) -> UOp:
        def body(i: Tensor, v: Tensor) -> Tensor:
            v[i] = v[i] + 1
            return fori_loop(0, i, lambda j, u: u + i * j, v)

        return find_loop(fori_loop(0, 3, body, x))

    one, other = make(Tensor([1.0, 2.0, 3.0])), make(Tensor([4.0, 5.0, 6.0]))
    assert one.arg == other.arg and one.arg.body is other.arg.body
    x = Tensor([1.0, 2.0, 3.0])
    assert make(x) is make(x)


# writes to tensors outside


@pytest.mark.parametrize("kind", ["memory", "constant", "lazy"])
def test_assignments_of_a_body_to_outer_tensors_are_visible_after_the_loop(kind: str):
    x = Tensor(X[0])
    total = {"memory": Tensor(np.zeros(3, np.float32)), "constant": Tensor.zeros(3), "lazy": x * 0}[
        kind
    ]
    before = total + 100
    view = total[1:]

    def body(i: Tensor, v: Tensor) -> Tensor:
        v = v + total.sum() + before.sum()
        total.assign(total + v)
        view[0] = total[0] * 2
        return v * 0.01

    after = fori_loop(0, 3, body, x)
    v, t = X[0], np.zeros(3)
    for _ in range(3):
        v = v + t.sum() + 300
        t = t + v
        t[1] = t[0] * 2
        v = v * 0.01
    found = mean(after, total, view, before)
    for value, expected in zip(found, (v, t, t[1:], [100.0] * 3), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4)


def test_a_write_through_a_view_of_an_outer_tensor_is_one_to_the_tensor():
    x = Tensor(np.zeros((2, 3), np.float32))
    row = x[1]

    def body(i: Tensor, v: Tensor) -> Tensor:
        row.assign(row + v)
        return v + x[1, 0]

    after = fori_loop(0, 3, body, 1.0)
    found = mean(after, x)
    assert found[0] == 13 and found[1].tolist() == [[0, 0, 0], [8, 8, 8]]


def test_branches_write_where_they_are_taken():
    for pred, expected in ((Tensor(1) > 0, [1, 20, 3]), (Tensor(1) < 0, [10, 2, 3])):
        x = Tensor([1.0, 2.0, 3.0])
        y = x + 0

        def left(v: Tensor, x: Tensor = x) -> Tensor:
            x[1] = v * 10
            return v

        def right(v: Tensor, x: Tensor = x) -> Tensor:
            x[0] = x[0] * 10
            return v * 2

        found = mean(cond(pred, left, right, Tensor(2.0)), x, y)
        assert found[1].tolist() == expected and found[2].tolist() == [1, 2, 3]


def test_a_body_that_assigns_is_traced_twice_and_another_body_once():
    calls: list[str] = []
    total = Tensor(0)

    def body(i: Tensor, v: Tensor) -> Tensor:
        calls.append("writes")
        total.assign(total + i)
        return v

    fori_loop(0, 3, body, 0.0)
    scan(lambda c, x: (c + x, calls.append("plain")), 0.0, Tensor([1.0]))
    assert calls == ["writes", "writes", "plain"]


def test_random_numbers_agree_with_a_python_loop():
    def body(carry: Tensor, _: None) -> tuple[Tensor, Tensor]:
        x = Tensor.rand(2, generator=generator) + Tensor.rand(2, generator=other)
        return carry + x, x

    generator, other = Generator(3), Generator(4)
    carry, rows = Tensor.zeros(2), []
    for _ in range(3):
        carry, row = body(carry, None)
        rows.append(row.numpy())
    expected, state = carry.numpy(), generator.get_state()
    generator, other = Generator(3), Generator(4)
    found = mean(*scan(body, Tensor.zeros(2), length=3), Tensor.from_content(generator._state))
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], rows)
    assert tuple(found[2].tolist()) == state


# loops in loops, in captured functions, on several devices


def test_loops_nest():
    def outer(i: Tensor, v: Tensor) -> Tensor:
        def middle(j: Tensor, u: Tensor) -> Tensor:
            u = cond(j > i, lambda: u + 1, lambda: u * 2)
            return scan(lambda c, k: (c + k * i + j, None), u, Tensor.arange(j_max))[0]

        return fori_loop(i, 3, middle, v)

    j_max = 2
    expected = 1
    for i in range(3):
        for j in range(i, 3):
            expected = expected + 1 if j > i else expected * 2
            expected += sum(k * i + j for k in range(j_max))
    assert_equal(fori_loop(0, 3, outer, 1), expected)


def test_an_inner_loop_that_depends_only_on_the_outer_counter_is_not_hoisted():
    x = Tensor([1.0, 2.0, 3.0])
    after = fori_loop(0, 3, lambda i, v: v + fori_loop(0, 2, lambda j, u: u + x[i], 0.0), 0.0)
    assert_equal(after, 12)


def test_inner_writes_to_outer_tensors_are_carried_through_all_loops():
    log = Tensor(np.zeros((2, 3), np.int32))

    def outer(i: Tensor, v: Tensor) -> Tensor:
        def inner(j: Tensor, u: Tensor) -> Tensor:
            log[i, j] = u
            return u + 1

        return fori_loop(0, 3, inner, v)

    after = fori_loop(0, 2, outer, 5)
    found = mean(after, log)
    assert found[0] == 11 and found[1].tolist() == [[5, 6, 7], [8, 9, 10]]


def test_a_body_writes_to_tensors_of_enclosing_functions_and_bodies():
    @jit
    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        memory = Tensor.zeros(3)

        def outer(total: Tensor, row: Tensor) -> tuple[Tensor, None]:
            sums = Tensor.zeros(2)

            def inner(i: Tensor, count: Tensor) -> Tensor:
                memory[i] = memory[i] + row[i]
                sums[1:] = sums[1:] + row[i]
                return count + 1

            fori_loop(0, 3, inner, 0)
            return total + sums.sum(), None

        return scan(outer, 0.0, x)[0], memory

    total, memory = run(Tensor(X))
    np.testing.assert_allclose(total.numpy(), X.sum(), rtol=1e-4)
    np.testing.assert_allclose(memory.numpy(), X.sum(0), rtol=1e-4)


def test_a_where_on_values_of_a_slice_is_computed_for_each_slice():
    def body(_: tuple[()], row: Tensor) -> tuple[tuple[()], Tensor]:
        chosen = cond(
            row[0] > 0,
            lambda r: (Tensor(W) @ r).max().expand(2, 3),
            lambda r: Tensor.full((2, 3), 0.5),
            row,
        )
        return (), (chosen @ Tensor(W)).sum()

    found = scan(body, (), Tensor(X))[1].numpy()
    expected = [(np.full((2, 3), (W @ row).max() if row[0] > 0 else 0.5) @ W).sum() for row in X]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_captured_functions_are_part_of_a_body():
    step = jit(lambda x: x * 2 + 1)
    assert_equal(fori_loop(0, 3, lambda i, x: step(x), Tensor([1, 2])), [15, 23])


def test_sizes_may_be_variables():
    n = Variable("rows", 1, 6).bind(4)
    x = Tensor(X)[:n]
    after, ys = scan(lambda c, row: (c + row, c * 2), Tensor(X[0]), x)
    assert_equal(after, X[0] + X[:4].sum(0))
    assert mean(ys)[0].shape == (4, 3)
    after = fori_loop(0, 3, lambda i, v: v + x.sum() + n, x)
    total = X[:4].sum()
    assert_equal(after, X[:4] + 3 * (total + 4))


def test_values_of_constants_follow_the_device_of_other_operands():
    x = Tensor(X).shard(("CPU:0", "CPU:1"), 0)
    after, steps = scan(lambda c, _: ((c[0] * 2 + c[1], c[1] + 1), c[1]), (x, 1), length=5)
    expected, n = X, 1
    for _ in range(5):
        expected, n = expected * 2 + n, n + 1
    np.testing.assert_allclose(after[0].numpy(), expected, rtol=1e-6)
    assert (after[0].sharding, after[1].item(), steps.tolist()) == (x.sharding, 6, [1, 2, 3, 4, 5])


def test_shards_are_carried_and_resharded():
    devices = ("CPU", "CPU:1")
    x, w = Tensor(X).shard(devices, 0), Tensor(W).shard(devices)
    after, ys = scan(
        lambda c, s: ((c @ w + s.sum()).shard(devices, 1), c.sum(0)),
        x,
        Tensor(X[:2]).shard(devices),
    )
    assert after.sharding == x.sharding
    expected, rows = X, []
    for s in X[:2]:
        rows.append(expected.sum(0))
        expected = expected @ W + s.sum()
    shards = mean(*after.shards())
    np.testing.assert_allclose(np.concatenate(shards), expected, rtol=1e-4)
    np.testing.assert_allclose(mean(ys.shards()[0])[0], rows, rtol=1e-4)


def test_building_a_loop_computes_no_value():
    x = Tensor(X) * 2
    after, ys = scan(lambda c, row: (c + row, c), x.sum(0), x)
    assert not any(t.is_realized for t in (x, after, ys))


def test_a_tensor_that_a_captured_function_makes_can_be_assigned_to_in_a_body():
    @jit
    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        log = x.contiguous()

        def body(carry: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
            log[carry % 3] = part
            return carry + 1, log.sum()

        return scan(body, 0, x * 2)[1], log

    for array in (X[:, 0], X[:, 1]):
        log, sums = array.copy(), []
        for i, value in enumerate(array * 2):
            log[i % 3] = value
            sums.append(log.sum())
        found = run(Tensor(array[:]))
        np.testing.assert_allclose(found[0].numpy(), sums, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[1].numpy(), log, rtol=1e-5)


def draw_in_python(generator: Generator, *numbers_of_iterations: int) -> list[np.ndarray]:
    return [
        np.array([Tensor.rand(2, generator=generator).numpy() for _ in range(n)], np.float32)
        for n in numbers_of_iterations
    ]


def test_a_loop_that_samples_does_not_carry_the_generator_and_later_samples_do_not_wait():
    first, between, second = draw_in_python(Generator(5), 3, 1, 2)
    generator = Generator(5)

    def draw(n: int) -> Tensor:
        return scan(lambda c, x: (c + 1, Tensor.rand(2, generator=generator)), 0, None, n)[1]

    one = draw(3)
    assert find_loop(one).arg.n_carried == 0
    np.testing.assert_array_equal(Tensor.rand(2, generator=generator).numpy(), between[0])
    assert not one.is_realized and generator.get_state() == (5, 4)
    np.testing.assert_array_equal(draw(2).numpy(), second)
    np.testing.assert_array_equal(one.numpy(), first)


def test_plans_and_captured_functions_with_loops_sample_anew():
    expected = draw_in_python(Generator(5), 3, 3, 3, 3)
    generator = Generator(5)

    def draw() -> Tensor:
        return scan(lambda c, x: (c, Tensor.rand(2, generator=generator)), None, None, 3)[1]

    step = jit(draw)
    np.testing.assert_array_equal(step().numpy(), expected[0])
    np.testing.assert_array_equal(step().numpy(), expected[1])
    numbers = draw()
    plan = numbers.prepare()
    for row in expected[2:]:
        plan.execute()
        np.testing.assert_array_equal(numbers.numpy(), row)
    assert generator.get_state() == (5, 12)


@pytest.mark.parametrize("kind", ["computed", "while", "branch", "nested"])
def test_samples_of_loops_with_a_computed_trip_count_match_python(kind: str):
    [rows] = draw_in_python(Generator(5), 6)
    generator = Generator(5)

    def draw(i: Any, x: Tensor) -> Tensor:
        return x * 2 + Tensor.rand(2, generator=generator)

    if kind == "computed":
        found, n = fori_loop(0, Tensor(4), draw, Tensor.zeros(2)), 4
    elif kind == "while":
        found, n = (
            while_loop(
                lambda s: s[1] < 5, lambda s: (draw(0, s[0]), s[1] + 1), (Tensor.zeros(2), 0)
            )[0],
            5,
        )
    elif kind == "branch":
        body = lambda i, x: cond(i % 2 > 0, lambda: draw(i, x), lambda: x)  # noqa: E731
        found, n = fori_loop(0, 6, body, Tensor.zeros(2)), 3
    else:
        found, n = (
            fori_loop(0, 2, lambda i, x: draw(i, fori_loop(0, 2, draw, x)), Tensor.zeros(2)),
            6,
        )
    expected = np.zeros(2)
    for row in rows[:n]:
        expected = expected * 2 + row
    assert_equal(found, expected)
    assert generator.get_state() == (5, n)


def test_induction_variables_are_computed_from_the_counter():
    step = Tensor([2, 3], dtype="int8")
    (x, n), ys = scan(
        lambda c, s: ((c[0] + step, c[1] + 1), c[0] * c[1]),
        (Tensor([100, 0], dtype="int8"), 5),
        None,
        20,
    )
    assert find_loop(ys).arg.n_carried == 0
    steps = np.arange(21)[:, None] * np.array([2, 3])
    xs = (np.array([100, 0]) + steps).astype(np.int8)
    found = mean(x, n, ys)
    np.testing.assert_array_equal(found[0], xs[20])
    assert found[1] == 25
    np.testing.assert_array_equal(found[2], xs[:20].astype(np.int32) * (np.arange(20) + 5)[:, None])


def test_captured_functions_and_plans_run_loops_again_on_new_values():
    n = Variable("n", 0, 20)
    total = Tensor(np.zeros((), np.float32)).realize()

    def repeat(x: Tensor, count: Any) -> Tensor:
        def body(i: Tensor, v: Tensor) -> Tensor:
            total.assign(total + v.sum())
            return v * 2 + i

        return fori_loop(0, count, body, x)

    step = jit(repeat)
    sums = 0.0
    for count, start in ((3, [1.0, 2.0]), (5, [0.5, 1.0]), (0, [1.0, 1.0])):
        expected = np.array(start)
        for i in range(count):
            sums += expected.sum()
            expected = expected * 2 + i
        np.testing.assert_allclose(step(Tensor(start), n.bind(count)).numpy(), expected)
        np.testing.assert_allclose(total.numpy(), sums)
    assert step.n_captures == 1


def test_a_donated_cache_is_filled_by_a_loop():
    @jit(donate="cache")
    def fill(cache: Tensor, x: Tensor) -> Tensor:
        def body(i: Tensor, cache: Tensor) -> Tensor:
            cache[i] = cache[i] + x[i]
            return cache

        return fori_loop(0, 6, body, cache)

    cache = Tensor(np.zeros_like(X)).realize()
    for _ in range(3):
        cache = fill(cache, Tensor(X))
    np.testing.assert_allclose(cache.numpy(), 3 * X, rtol=1e-6)


def test_a_variable_is_the_number_of_iterations_of_a_loop_in_a_loop() -> None:
    n = Variable("n", 0, 9).bind(3)
    found = fori_loop(
        0, 20, lambda i, x: fori_loop(0, n, lambda j, y: y * 0.5 + j, x), Tensor([1.0, 2.0])
    )
    expected = np.array([1.0, 2.0], np.float32)
    for _ in range(20):
        for j in range(3):
            expected = expected * np.float32(0.5) + j
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_numbers_and_constants_follow_the_device_of_other_operands():
    devices = ("CPU", "CPU:1")
    x = Tensor(X).shard(devices, 0)
    zeros = Tensor.zeros(6, 3)
    after, _ = scan(lambda c, i: (c + x * i, None), zeros, Tensor.arange(3))
    assert after.sharding == x.sharding
    assert_equal(after.to("CPU"), 3 * X)
    assert_equal(scan(lambda c, i: (c * i, None), x, Tensor.arange(1, 4))[0].to("CPU"), 6 * X)
    assert_equal(cond(Tensor(1) > 0, lambda c: c, lambda c: c + x, zeros).to("CPU"), 0 * X)
    there = fori_loop(0, 2, lambda i, c: c + Tensor(X).to("CPU:1"), zeros)
    assert there.device == "CPU:1"
    assert_equal(there, 2 * X)


def test_branches_compute_no_operand_of_the_other_branch():
    x, y = Tensor(X), Tensor(W).exp()

    def left() -> Tensor:
        return fori_loop(0, 5, lambda i, v: v * 2, x.sum(0)).sin() + y.sum()

    chosen = cond(Tensor(1) > 2, left, lambda: x[0] * 3)
    switch_node = find_loop(chosen)
    assert all(node.op in (Op.BUFFER, Op.RESHAPE, Op.EXP) for node in switch_node.src[1:])
    assert any(node.op is Op.LOOP for node in switch_node.arg.bodies[1].toposort())
    assert_equal(chosen, X[0] * 3)
    assert_equal(cond(True, left, lambda: x[0] * 3), np.sin(X.sum(0) * 32) + np.exp(W).sum())


def test_a_body_may_return_a_tensor_that_it_writes_and_have_it_as_initial_value():
    start = np.array([1, 2, 3], np.float32)
    x = Tensor(start)

    def body(i: Tensor, v: Tensor) -> Tensor:
        x[i] = v.sum() * 0.5
        return x

    after = fori_loop(0, 3, body, x)
    array, v = start.copy(), start
    for i in range(3):
        array[i] = v.sum() * 0.5
        v = array.copy()
    found = mean(after, x)
    np.testing.assert_allclose(found[0], array)
    np.testing.assert_allclose(found[1], array)


def test_a_body_may_write_to_the_initial_value():
    x = Tensor([1.0, 2.0])

    def body(i: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        x.assign(x * 2)
        v[0] = v[0] + x[1]
        return v + i, v

    after, ys = scan(lambda v, i: body(i, v), x, Tensor([0, 1, 2]))
    array, v, rows = np.array([1.0, 2.0]), np.array([1.0, 2.0]), []
    for i in range(3):
        array = array * 2
        v = np.array([v[0] + array[1], v[1]])
        rows.append(v)
        v = v + i
    for value, expected in zip(mean(after, ys, x), (v, rows, array), strict=True):
        np.testing.assert_allclose(value, expected)


def test_loops_that_write_follow_each_other_in_the_order_of_the_program():
    x = Tensor(np.zeros(4, np.float32))

    def add(i: Tensor, v: Tensor) -> Tensor:
        x[i] = x[i] + v
        return v + x.sum()

    first = fori_loop(0, 4, add, 1.0)
    between = x * 1
    x[1] = -5.0
    second = fori_loop(0, 4, add, first)
    array, v, expected = np.zeros(4), 1.0, []
    for _ in range(2):
        for i in range(4):
            array[i] += v
            v += array.sum()
        expected += [v, array.copy()]
        array[1] = -5 if len(expected) == 2 else array[1]
    for value, wanted in zip(mean(first, between, second, x), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


def test_threads_make_loops_at_once():
    log = [Tensor(np.zeros(3, np.float32)) for _ in range(4)]
    shared, found = Tensor(W), [0.0] * 4

    def work(number: int) -> None:
        for _ in range(5):

            def body(i: Tensor, v: Tensor) -> Tensor:
                log[number][i] = v.sum()
                return v @ shared + number

            found[number] = float(fori_loop(0, 3, body, Tensor([1.0, 0.0, 0.0])).sum().item())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        v, sums = np.array([1.0, 0, 0]), []
        for _ in range(3):
            sums.append(v.sum())
            v = v @ W + number
        np.testing.assert_allclose(found[number], v.sum(), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(log[number].numpy(), sums, rtol=1e-3, atol=1e-4)


def test_loops_of_different_trip_counts_sample_sequentially() -> None:
    n = Variable("n", 0, 40)
    generator, other = Generator(7), Generator(7)

    def draw(_i: Tensor, total: Tensor) -> Tensor:
        return total + Tensor.rand(3, generator=generator)

    for count in (13, 2, 0, 5):
        found = fori_loop(0, n.bind(count), draw, Tensor.zeros(3)).numpy()
        want = np.zeros(3, np.float32)
        for _ in range(count):
            want = want + Tensor.rand(3, generator=other).numpy()
        np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(
        Tensor.rand(3, generator=generator).numpy(), Tensor.rand(3, generator=other).numpy()
    )


def test_a_branch_reads_constants_that_got_memory_before_it_is_computed():
    fours = Tensor.full((4,), 4, dtype="int32")[1:]
    total = fours.sum()
    rest = total % 4
    chosen = switch(rest + -1, [lambda x: rest & total, lambda x: fours.max()], Tensor([1.0]))
    rest.realize()
    assert_equal(chosen, 0)

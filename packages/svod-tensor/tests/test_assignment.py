from __future__ import annotations

import gc
import random

import numpy as np
import pytest

from svod_device import ReadOnlyError
from svod_ir import Op, ShapeError
from svod_tensor import Tensor, Variable, linalg
from svod_tensor.engine import memory_nodes, versions
from svod_tensor.engine.caches import SCHEDULES
from svod_tensor.errors import AssignmentDtypeError
from svod_testing import check

_S = np.s_
OVERLAPPING = [
    (_S[1:], _S[:-1]),
    (_S[:-1], _S[1:]),
    (_S[::-1], _S[:]),
    (_S[2:6], _S[0:4]),
    (_S[::2], _S[1::2]),
    (_S[:], _S[::-1]),
]


def test_assigning_replaces_the_elements_and_returns_the_tensor() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    assert x.assign([4.0, 5.0, 6.0]) is x
    assert x.tolist() == [4.0, 5.0, 6.0]
    assert x.assign(7).tolist() == [7.0] * 3
    assert x.assign(x * 2 + 1).tolist() == [15.0] * 3
    assert x.assign(np.float32(2)).tolist() == [2.0] * 3


def test_assigning_keeps_the_buffer() -> None:
    x = Tensor([1.0, 2.0])
    x.assign(x + 1).realize()
    buffer = x.buffer()
    x.assign(x + 1)
    assert not x.is_realized
    assert x.realize().buffer() is buffer
    assert x.tolist() == [3.0, 4.0]


def test_a_tensor_assigned_to_itself_is_unchanged() -> None:
    x = Tensor([1.0, 2.0])
    node = x.uop
    x.assign(x)
    x[:] = x
    assert x.uop is node


def test_views_of_a_buffer_see_assignments_and_graphs_keep_old_values() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor(a)
    row, column, flat, turned, flipped = x[1], x[:, 2], x.reshape(12), x.T, x[::-1]
    wide, other, graph = x[0].expand(2, 4), Tensor(x), x + 1
    x[1:] = x[:-1]
    b = a.copy()
    b[1:] = a[:-1]
    check(graph, a + 1)
    views = [
        (row, b[1]),
        (column, b[:, 2]),
        (flat, b.reshape(12)),
        (turned, b.T),
        (flipped, b[::-1]),
    ]
    for tensor, expected in [*views, (other, a), (wide, np.stack([b[0]] * 2)), (x, b)]:
        check(tensor, expected)
    assert a.tolist() == np.arange(12).reshape(3, 4).tolist()


def test_a_write_through_a_view_is_visible_in_its_base() -> None:
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    x = Tensor(a)
    b = a.copy()
    x[1].T[2] = 5
    b[1].T[2] = 5
    x[0][::-1].assign(x[1] * 2)
    b[0][::-1] = b[1] * 2
    x.reshape(6, 4)[3, 1:3] += 1
    b.reshape(6, 4)[3, 1:3] += 1
    check(x, b)


@pytest.mark.parametrize(("target", "source"), OVERLAPPING, ids=str)
def test_values_are_computed_before_the_memory_that_they_read_changes(
    target: object, source: object
) -> None:
    for shape in ((8,), (8, 3)):
        a = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        x = Tensor(a)
        x[target] = x[source]
        b = a.copy()
        b[target] = a[source]
        check(x, b)
    x = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4))
    assert (
        x.assign(x.T + x).tolist()
        == (np.arange(16).reshape(4, 4) + np.arange(16).reshape(4, 4).T).tolist()
    )


def test_each_graph_between_two_assignments_reads_the_version_of_its_construction() -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0])
    before = x * 10
    x[0] = 5
    between = x * 10
    x[1:3] = x[:2]
    after = x * 10
    Tensor.realize_batch([after])
    assert before.is_realized
    assert between.is_realized
    assert before.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert between.tolist() == [50.0, 20.0, 30.0, 40.0]
    assert after.tolist() == [50.0, 50.0, 20.0, 40.0]
    assert x.tolist() == [5.0, 5.0, 2.0, 4.0]


def test_a_reader_of_an_old_version_is_right_as_operand_of_a_later_assignment() -> None:
    x = Tensor([1.0, 2.0])
    old = x + 0
    x.assign(x * 10)
    middle = x + 0
    x.assign(old + x)
    del old
    assert middle.tolist() == [10.0, 20.0]
    assert x.tolist() == [11.0, 22.0]


def test_old_and_new_versions_can_be_mixed() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    old, turned, last = x * 10, x[::-1], x[2] + 0
    turned = turned + 0
    x.assign(x + 1)
    total = x.sum()
    x[0] = 100
    mixed = old + turned * 1000 + x + total * last
    del old, turned, last, total
    assert mixed.tolist() == [3010.0 + 100 + 27, 2020.0 + 3 + 27, 1030.0 + 4 + 27]


def test_two_buffers_can_be_swapped() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    old = x + 0
    x.assign(y)
    y.assign(old)
    Tensor.realize_batch([y, x])
    assert (x.tolist(), y.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_elements_that_are_not_a_view_are_assigned_in_place_too() -> None:
    a = np.arange(10, dtype=np.float32)
    x = Tensor(a)
    view = x[2:5]
    x[x > 6] = -1
    x[[0, 3]] = [7, 8]
    x[::3] = 0
    b = a.copy()
    b[b > 6] = -1
    b[[0, 3]] = [7, 8]
    b[::3] = 0
    check(x, b)
    check(view, b[2:5])


def test_assignment_rebinds_a_tensor_without_memory() -> None:
    x = Tensor([1.0, 2.0]) + 1
    x.assign(x * 2)
    assert x.tolist() == [4.0, 6.0]
    y = Tensor.zeros(2)
    z = y.reshape(2, 1)
    y[0] = 3
    assert (y.tolist(), z.tolist()) == ([3.0, 0.0], [[3.0], [0.0]])


def test_empty_parts_can_be_assigned() -> None:
    x = Tensor([1.0, 2.0])
    x[2:] = 5
    x[:0].assign(x[2:])
    assert x.is_realized
    Tensor.zeros(0, 3).assign(1)


def test_invalid_arguments_are_errors() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    with pytest.raises(
        AssignmentDtypeError, match="cannot assign a tensor of int32 to one of float32"
    ):
        x.assign(Tensor([1, 2, 3]))
    with pytest.raises(ShapeError, match="operands could not be broadcast together with"):
        x.assign([1.0, 2.0])
    with pytest.raises(ShapeError, match="operands could not be broadcast together with"):
        x[:2] = [1.0, 2.0, 3.0]
    x[:] = Tensor([7, 8, 9])
    assert x.tolist() == [7.0, 8.0, 9.0]


def test_files_are_not_written(tmp_path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(8)))
    x = Tensor.from_file(path)
    for write in (lambda: x.assign(1), lambda: x.__setitem__(0, 1), lambda: x[2:4].assign(0)):
        with pytest.raises(ReadOnlyError, match="read-only"):
            write()
    assert path.read_bytes() == bytes(range(8))


def test_a_plan_writes_at_each_execution() -> None:
    mean = Tensor(np.zeros(3, np.float32))
    x = Tensor(np.ones(3, np.float32))
    mean.assign(mean * 0.5 + x)
    plan = mean.prepare()
    expected = np.zeros(3, np.float32)
    for _ in range(4):
        plan.execute()
        expected = expected * np.float32(0.5) + np.float32(1)
        check(mean, expected)
    x.assign(x * 3).realize()
    plan.execute()
    check(mean, expected * np.float32(0.5) + np.float32(3))


def test_a_plan_of_a_training_step_updates_the_weights() -> None:
    rng = np.random.default_rng(3)
    a, b = (
        rng.standard_normal((8, 4)).astype(np.float32),
        rng.standard_normal((8, 2)).astype(np.float32),
    )
    w0 = rng.standard_normal((4, 2)).astype(np.float32)
    w, x, y = Tensor(w0), Tensor(a), Tensor(b)
    error = x @ w - y
    loss = (error * error).mean()
    w.assign(w - (x.T @ error) * 0.05)
    plan = Tensor.prepare_batch([loss, w])
    for _ in range(5):
        plan.execute()
        expected_error = a @ w0 - b
        np.testing.assert_allclose(loss.item(), (expected_error**2).mean(), rtol=1e-5)
        w0 = w0 - (a.T @ expected_error) * np.float32(0.05)
        np.testing.assert_allclose(w.numpy(), w0, rtol=1e-5, atol=1e-6)


def test_a_cache_is_filled_at_the_index_of_each_execution() -> None:
    cache = Tensor.empty(2, 5, 3).assign(Tensor.zeros(2, 5, 3)).realize()
    position = Variable("position", 0, 4)
    token = Tensor(np.zeros((2, 1, 3), np.float32))
    at = position.bind(2)
    cache[:, at : at + 1] = token * 2
    total = cache.sum(1)
    plan = total.prepare()
    expected = np.zeros((2, 5, 3), np.float32)
    rng = np.random.default_rng(0)
    for number in (2, 0, 4, 3, 3):
        new = rng.standard_normal((2, 1, 3)).astype(np.float32)
        token.assign(new).realize()
        plan.execute_with_vars({"position": number})
        expected[:, number : number + 1] = new * 2
        check(cache, expected)
        check(total, expected.sum(1), rtol=1e-5)


def test_memory_of_an_array_is_never_written() -> None:
    store = np.zeros(32, np.float32)
    start = -store.ctypes.data % 64 // 4
    a = store[start : start + 8]
    x = Tensor.from_numpy(a, copy=False)
    view, graph = x[2:], x + 1
    x[3] = 7
    assert view.tolist() == [0.0, 7.0, 0.0, 0.0, 0.0, 0.0]
    assert a.tolist() == [0.0] * 8
    assert graph.tolist() == [1.0] * 8


def test_preparing_computes_readers_of_the_old_version_outside_of_the_plan() -> None:
    x = Tensor([1.0, 2.0])
    old = x * 10
    x.assign(x + 1)
    plan = x.prepare()
    assert old.is_realized
    plan.execute()
    plan.execute()
    assert (x.tolist(), old.tolist()) == ([3.0, 4.0], [10.0, 20.0])


def test_readers_of_memory_that_a_reader_writes_are_computed_before() -> None:
    x, y = Tensor([1.0, 2.0]).clone().realize(), Tensor([3.0, 4.0]).clone().realize()
    old = y * 10
    y.assign(y + 1)
    total = x + y
    x.assign(x * 0)
    # The reader of `x` writes `y`, whose former version `old` reads.
    x.realize()
    assert (old.tolist(), total.tolist(), y.tolist()) == ([30.0, 40.0], [5.0, 7.0], [4.0, 5.0])


def test_equal_reordered_copies_of_overwritten_memory_keep_the_old_elements() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = Tensor(a).clone().realize()
    first, second = (x.T.reshape(6) for _ in range(2))
    x[0] = 7
    Tensor.realize_batch([first, x])
    assert first.tolist() == second.tolist() == a.T.reshape(6).tolist()


def test_readers_of_the_new_version_are_not_computed_with_the_write() -> None:
    x = Tensor([1.0, 2.0]).clone().realize()
    x[0] = x[1] * 3
    reader = x + 1
    x.realize()
    assert not reader.is_realized
    assert reader.tolist() == [7.0, 3.0]


def test_no_assignment_is_pending_after_a_realization() -> None:
    x = Tensor([1.0, 2.0])
    x.assign(x + 1)
    y = x * 2
    y.realize()
    assert x.is_realized
    assert versions.get_pending_versions(y.uop) == {}
    assert x.tolist() == [2.0, 3.0]


def test_random_programs_of_views_and_writes_agree_with_numpy() -> None:
    for seed in range(12):
        _run_program(random.Random(seed))
        gc.collect()
    assert memory_nodes.find_base(Tensor([1.0]).uop) is not None


def _run_program(draw: random.Random) -> None:
    """Views are read only at the end, since a view that is realized has memory of its own."""
    start = np.arange(12, dtype=np.float32)
    arrays, tensors = [start.copy()], [Tensor(start)]
    results: list[tuple[Tensor, np.ndarray]] = []
    for _ in range(draw.randrange(3, 12)):
        number = draw.randrange(len(arrays))
        a, x = arrays[number], tensors[number]
        match draw.randrange(4):
            case 0:
                index = _random_index(draw, a.shape, steps=(1,))
                arrays.append(a[index])
                tensors.append(x[index])
            case 1:
                other = draw.randrange(len(arrays))
                if arrays[other].shape != a.shape:
                    continue
                x.assign(tensors[other] * 2 + x)
                a[...] = arrays[other] * 2 + a
            case 2:
                index = _random_index(draw, a.shape, steps=(1, 2, 3))
                value = draw.randrange(100)
                x[index] = value
                a[index] = value
            case _:
                results.append((x + 1, a + 1))
                if draw.random() < 0.3:
                    check(*results[-1])
    for tensor, array in [*results, *zip(tensors, arrays, strict=True)]:
        check(tensor, array)


def _random_index(
    draw: random.Random, shape: tuple[int, ...], *, steps: tuple[int, ...]
) -> tuple[slice, ...]:
    def draw_slice(size: int) -> slice:
        begin = draw.randrange(size)
        end = draw.randrange(begin, size) + 1
        return (
            slice(begin, end, draw.choice(steps)) if draw.random() < 0.7 else slice(None, None, -1)
        )

    return tuple(draw_slice(size) for size in shape)


def test_a_view_with_memory_of_its_own_follows_its_tensor() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor(a).clone().realize() * 2
    row = x[1].realize()
    assert row.is_realized
    assert not x.is_realized
    x[1] = 7
    assert not row.is_realized
    assert row.realize().tolist() == [7] * 4
    base = Tensor(a).clone().realize()
    y, equal = base * 3, base * 3
    row = y[1].realize()
    equal.realize()
    # All three read one memory again.
    assert versions.find_version(row.uop) is versions.find_version(y.uop)
    assert versions.find_version(row.uop) is versions.find_version(equal.uop)


def test_a_part_of_shared_memory_is_read_from_a_copy_of_the_whole() -> None:
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).clone().realize()
    y = x.clone()
    y[1].realize()
    assert y.is_realized
    assert versions.find_version(y.uop) is not versions.find_version(x.uop)
    assert y[1].tolist() == [4, 5, 6, 7]


def test_views_remain_views_after_they_were_read() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor(a)
    views = [
        (x[1], a[1]),
        (x.T, a.T),
        (x[::-1, 1:3], a[::-1, 1:3]),
        (x.reshape(12)[2:9], a.reshape(12)[2:9]),
    ]
    for view, array in views:
        check(view, array)
        x[1] = x[1] * 2 + 1
        a[1] = a[1] * 2 + 1
        check(view, array)
        view.assign(view + 1)
        array[...] = array + 1
        check(view, array)
        check(x, a)
    check(x[1:, None].expand(2, 5, 4), np.broadcast_to(a[1:, None], (2, 5, 4)))


def test_elements_of_memory_are_read_without_a_kernel() -> None:
    x = Tensor(np.arange(60, dtype=np.float32).reshape(3, 4, 5)).realize()
    before = SCHEDULES.counts()
    assert [float(row[2, 1]) for row in x] == [11.0, 31.0, 51.0]
    assert x.T[4, :, 2].tolist() == [44.0, 49.0, 54.0, 59.0]
    assert [x[i, 0, -1].item() for i in range(3)] == [4.0, 24.0, 44.0]
    assert int(x[2, 3, 4]) == 59
    assert SCHEDULES.counts() == before


@pytest.mark.parametrize(
    "index",
    [(1,), (-1,), (0, 2), (slice(None), 1), (1, slice(None), -1), (slice(None), 0, 3), (5,)],
)
def test_an_index_from_a_tensor_is_written_by_comparison(
    index: tuple[int | slice, ...],
) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = Tensor(array)
    value = (
        7
        if index == (5,)
        else np.arange(array[index].size, dtype=np.float32).reshape(array[index].shape)
    )
    x[tuple(Tensor(i) if isinstance(i, int) else i for i in index)] = value
    if index != (5,):
        array[index] = value
    assert not any(node.op is Op.CUSTOM_FUNCTION for node in x.uop.toposort())
    np.testing.assert_array_equal(x.numpy(), array)


def test_circular_pending_assignments_are_computed():
    x, y, z = (Tensor(np.full(3, value, np.float32)).realize() for value in (1, 2, 4))
    both = x + y
    y.assign(x + y)
    y.assign(z + y)  # reads z before it changes
    z.assign(both + x)  # reads y before it changes, which it did first
    del both
    Tensor.realize_batch([x, y, z])
    assert (x.tolist(), y.tolist(), z.tolist()) == ([1.0] * 3, [7.0] * 3, [4.0] * 3)


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (lambda x: x[:, :2], (8,)),
        (lambda x: x.T, (24,)),
        (lambda x: x[::2], (12,)),
        (lambda x: x[:, 1:5], (2, 8)),
    ],
    ids=["columns", "transposed", "every other row", "inner columns"],
)
def test_a_reshape_that_is_not_expressible_by_strides_is_a_copy(view, shape):
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = Tensor(a).clone().realize()
    wanted = a.copy()
    part, found = view(wanted).reshape(shape), view(x).reshape(shape)
    assert not np.shares_memory(part, wanted)
    found.assign(found * 0 - 1)
    np.testing.assert_array_equal(found.numpy(), np.full(shape, -1, np.float32))
    np.testing.assert_array_equal(x.numpy(), a)


def test_complex_numbers_are_written_in_reverse_order():
    a = (np.arange(6) + 1j * np.arange(10, 16)).reshape(2, 3).astype(np.complex64)
    x = Tensor(a).clone().realize()
    values = a * 2 + 1
    x[::-1] = Tensor(values)
    a[::-1] = values
    np.testing.assert_array_equal(x.numpy(), a)
    x[:, ::-1].assign(Tensor(values))
    a[:, ::-1] = values
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.parametrize("is_realized", [False, True])
def test_a_constant_that_replaces_a_tensor_is_on_its_device(is_realized):
    x = Tensor([1.0, 2.0], device="CPU:1") * 2
    if is_realized:
        x.realize()
    x.assign(Tensor.full((2,), 5.0))
    assert x.device == "CPU:1"
    assert (x + 1).realize().device == "CPU:1"
    assert x.tolist() == [5.0, 5.0]


def test_the_result_of_a_host_function_is_not_copied_before_it_is_subtracted() -> None:
    w = Tensor.eye(5).realize()
    w -= linalg.inv(w @ w.T + Tensor.eye(5)) * 0.5
    plan = w.prepare()
    # The matrix that is inverted, and the difference.
    assert len(plan.kernels()) == 2
    plan.execute()
    np.testing.assert_allclose(w.numpy(), 0.75 * np.eye(5))

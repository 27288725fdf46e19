"""`np.asarray(tensor)` shares the memory of the tensor: what is written to the array is seen by
what is built afterwards.
"""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, Variable, cond, fori_loop, grad, jit
from svod_tensor.errors import CaptureError, DonatedTensorError


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other threads run, which other tests may have left behind, memory that a graph may read
    is copied first.
    """
    monkeypatch.setattr(threading, "active_count", lambda: 1)


DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def make(*values: float) -> Tensor:
    """A tensor in memory of its own."""
    return (Tensor(list(values)) + 0.0).realize()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 3), (0, 4), (1, 1)])
def test_every_dtype_and_shape_is_shared(dtype: str, shape: tuple[int, ...]) -> None:
    x = Tensor.zeros(*shape, dtype=dtype)
    array = np.asarray(x)
    assert array.flags.writeable
    assert (array.shape, array.dtype) == (x.shape, x.dtype.numpy)
    array[...] = 1
    np.testing.assert_array_equal(x.numpy(), np.ones(shape, x.dtype.numpy))


def test_graphs_built_before_a_write_keep_the_old_version() -> None:
    x = make(1, 2, 3)
    before, copied, element = x + 1, x * 1, x[0]
    array = np.asarray(x)
    array[:] = 9
    between = x + 1
    array[:] = 7
    assert before.tolist() == [2, 3, 4]
    assert (copied.tolist(), element.item()) == ([1, 2, 3], 1)
    assert between.tolist() == [10, 10, 10]
    assert (x + 1).tolist() == [8, 8, 8]


def test_the_writes_of_a_loop_are_visible_after_each_step() -> None:
    x, array, sums = make(0, 0), None, []
    array = np.asarray(x)
    for number in range(5):
        array[number % 2] += number
        sums.append(x.sum())
    assert [s.item() for s in sums] == [0, 1, 3, 6, 10]


def test_a_view_and_its_base_show_writes_to_either() -> None:
    x = Tensor(np.arange(12).reshape(3, 4)).realize()
    view, turned = x[1:, ::2], x.T
    array, whole = np.asarray(view), np.asarray(x)
    array[:] = -1
    assert np.shares_memory(array, whole)
    np.testing.assert_array_equal(whole[1:, ::2], -1)
    np.testing.assert_array_equal(x.numpy(), whole)
    np.testing.assert_array_equal(turned.numpy(), whole.T)
    np.asarray(turned)[0] = 5
    assert (view[0, 0].item(), x[:, 0].tolist()) == (5, [5, 5, 5])


def test_tensors_of_one_memory_do_not_share_an_array() -> None:
    x = make(1, 2)
    same, cloned, copied = x * 1, x.clone(), copy.copy(x)
    np.asarray(x)[:] = 9
    np.asarray(same)[0] = 5
    assert [t.tolist() for t in (x, same, cloned, copied)] == [[9, 9], [5, 2], [1, 2], [1, 2]]


@pytest.mark.usefixtures("one_thread")
def test_memory_without_readers_is_not_copied() -> None:
    x = make(1, 2)
    buffer = x.buffer()
    array = np.asarray(x)
    assert array.ctypes.data == buffer.address
    assert np.shares_memory(array, np.asarray(x))
    np.asarray(x)[:] = 4
    del array
    assert (x.tolist(), x.buffer()) == ([4, 4], buffer)
    assert x.assign(5).realize().buffer() is buffer


@pytest.mark.usefixtures("one_thread")
def test_memory_of_a_read_only_array_is_not_shared() -> None:
    x = make(1, 2)
    first = x.numpy()
    np.asarray(x)[0] = 9
    assert (first.tolist(), x.tolist()) == ([1, 2], [9, 2])


def test_memory_that_another_thread_may_read_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    x = make(1, 2)
    node = x.uop
    np.asarray(x)[:] = 9
    assert (Tensor.from_uop(node).tolist(), x.tolist()) == ([1, 2], [9, 9])


@pytest.mark.usefixtures("one_thread")
def test_a_captured_function_does_not_write_memory_that_was_lent_after_its_last_call() -> None:
    held = make(1, 2)
    step = jit(lambda x: held.assign(held + x) * 1)
    for _ in range(3):
        step(make(1, 1))
    array = np.asarray(held)
    assert step(make(1, 1)).tolist() == [5, 6]
    assert (array.tolist(), held.tolist()) == ([4, 5], [5, 6])


def test_an_array_of_numpy_never_changes() -> None:
    x = make(1, 2)
    first = x.numpy()
    array = np.asarray(x)
    array[:] = 3
    second, capsule = x.numpy(), np.from_dlpack(x)
    array[:] = 4
    assert not second.flags.writeable
    assert [a.tolist() for a in (first, second, capsule, x.numpy())] == [
        [1, 1 + 1],
        [3, 3],
        [3, 3],
        [4, 4],
    ]


def test_an_assignment_does_not_change_the_memory_of_an_array() -> None:
    x = make(1, 2, 3)
    array, view = np.asarray(x), x[1:]
    array[0] = 9
    x += 1
    assert (array.tolist(), x.tolist()) == ([9, 2, 3], [10, 3, 4])
    array[:] = 0
    assert (view.tolist(), x.tolist()) == ([3, 4], [10, 3, 4])
    np.asarray(x)[:] = 8
    assert (array.tolist(), x.tolist()) == ([0, 0, 0], [8, 8, 8])


@pytest.mark.parametrize("lives", [True, False])
def test_a_value_that_is_computed_from_the_array_is_assigned(lives: bool) -> None:
    x = make(1, 2)
    kept = np.asarray(x) if lives else None
    x.assign(np.asarray(x) * 2)
    np.add(np.asarray(x), 1, out=np.asarray(x))
    np.copyto(np.asarray(x)[:1], 50)
    np.asarray(x)[::-1].sort()
    assert x.tolist() == [50, 5]
    assert kept is None or kept.tolist() == [1, 2]


def test_an_element_and_a_number_are_read_from_the_memory() -> None:
    x = make(1, 2)
    array, element = np.asarray(x), x[1]
    array[1] = 7
    assert (element.item(), x[1].item(), float(x.sum()), repr(x[1:])) == (2, 7, 8, repr(make(7)))


def test_equal_elements_are_one_graph() -> None:
    x = make(1, 2)
    array = np.asarray(x)
    node = x.uop
    array[:] = array.copy()
    assert x.uop is node
    array[0] = 5
    assert x.uop is not node


def test_nan_and_signed_zeros_are_distinguished_by_their_bits() -> None:
    x = make(float("nan"), 0.0)
    array, node = np.asarray(x), x.uop
    assert x.uop is node
    array[1] = -0.0
    assert np.signbit((x * 1).numpy()[1])


READ_ONLY: dict[str, Callable[[], Tensor]] = {
    "repeated": lambda: make(1).expand(3),
    "foreign": lambda: Tensor.from_numpy(np.ones(64, np.float32)),
    "part of foreign": lambda: Tensor.from_numpy(np.ones(64, np.float32))[2:],
    "sharded": lambda: Tensor(np.ones(4, np.float32)).shard(("CPU:1", "CPU:2"), axis=0),
    "shard": lambda: Tensor(np.ones(4, np.float32)).shard(("CPU:1", "CPU:2"), axis=0).shards()[0],
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_arrays_of_tensors_that_cannot_be_written_are_read_only(name: str) -> None:
    x = READ_ONLY[name]()
    array = np.asarray(x)
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, 1)


def test_a_file_is_read_only(tmp_path: Any) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(4, dtype=np.uint8).tobytes())
    x = (
        Tensor.from_file(path)
        if hasattr(Tensor, "from_file")
        else Tensor.empty(4, dtype="uint8", device=f"DISK:{path}")
    )
    assert not np.asarray(x).flags.writeable
    assert path.read_bytes() == bytes(range(4))


def test_a_foreign_array_is_never_written_through_a_tensor_that_was_assigned() -> None:
    foreign = np.zeros(64, np.float32)
    x = Tensor.from_numpy(foreign)
    x[0] = 1
    array = np.asarray(x)
    array[:] = 5
    assert (x.sum().item(), foreign.sum()) == (320, 0)


def test_another_dtype_is_a_copy() -> None:
    x = make(1, 2)
    array = np.asarray(x, dtype=np.float64)
    array[:] = 0
    np.array(x)[:] = 0
    assert x.tolist() == [1, 2]


def test_symbolic_sizes_are_shared() -> None:
    n = Variable("n", 1, 8).bind(3)
    x = (Tensor(np.arange(8, dtype=np.float32)).realize()[:n] + 0).realize()
    array = np.asarray(x)
    assert array.flags.writeable
    before = x + 1
    array[:] = 5
    assert (x.tolist(), before.tolist(), (x + 1).tolist()) == ([5, 5, 5], [1, 2, 3], [6, 6, 6])


def test_a_captured_function_reads_the_memory_of_its_argument() -> None:
    double, x = jit(lambda x: x * 2), make(1, 2)
    array, results = np.asarray(x), []
    for number in range(4):
        array[:] = number
        results.append(double(x))
    assert [r.tolist() for r in results] == [[0, 0], [2, 2], [4, 4], [6, 6]]
    assert double.n_captures == 1


RESULTS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sum": lambda held, y: held + y,
    "copy": lambda held, y: held * 1,
    "copy and sum": lambda held, y: (held * 1, held + y),
    "view": lambda held, y: held[1:],
    "copy of a view": lambda held, y: held[1:] * 1,
}


@pytest.mark.parametrize("is_lent_at_capture", [True, False])
@pytest.mark.parametrize("name", RESULTS)
def test_a_captured_function_sees_writes_to_a_captured_tensor(
    name: str, is_lent_at_capture: bool
) -> None:
    function, held, y = RESULTS[name], make(1, 2), make(10, 20)
    captured, mirror, found, wanted = (
        jit(lambda y: function(held, y)),
        np.array([1.0, 2], np.float32),
        [],
        [],
    )
    array = np.asarray(held) if is_lent_at_capture else None
    for number in range(8):
        found.append(captured(y))
        # A view of what the function holds sees later writes, as in numpy.
        wanted.append(function(mirror, np.array([10, 20], np.float32)))
        if number == 4:
            array = None
        if number % 2:
            array = np.asarray(held)
        if array is not None:
            array[:] = number + 5
            mirror[:] = number + 5
    assert array is not None
    for ours, theirs in zip(found, wanted, strict=True):
        for a, b in zip(
            *[r if isinstance(r, tuple) else (r,) for r in (ours, theirs)], strict=True
        ):
            np.testing.assert_array_equal(a.numpy(), b)


def test_a_captured_function_that_assigns_does_not_change_the_array() -> None:
    held = make(0, 0)

    def step() -> None:
        held.assign(held + 1)

    run, arrays = jit(step), []
    for number in range(4):
        run()
        arrays.append(np.asarray(held))
        arrays[-1][0] += 10
        assert held.tolist() == [11 * (number + 1), number + 1]
    assert [a[1] for a in arrays] == [1, 2, 3, 4]


@pytest.mark.parametrize("lives", [True, False])
def test_an_assignment_to_an_argument_does_not_change_the_array(lives: bool) -> None:
    step, x = jit(lambda x: x.assign(x + 1)), make(1, 2)
    step(x)
    array = np.asarray(x)
    array[:] = 5
    kept = array if lives else None
    del array
    step(x)
    assert x.tolist() == [6, 6]
    assert kept is None or kept.tolist() == [5, 5]


def test_donation_does_not_change_the_array() -> None:
    double, x = jit(lambda x: x * 2, donate=0), make(1, 2)
    array = np.asarray(x)
    array[0] = 4
    result = double(x)
    array[:] = 0
    assert result.tolist() == [8, 4]
    with pytest.raises(DonatedTensorError):
        np.asarray(x)
    y = make(1, 2)
    _ = y.uop
    del array
    np.asarray(y)[:] = 3
    assert double(y).tolist() == [6, 6]


def test_donation_of_a_result_does_not_change_the_array() -> None:
    double, copy = jit(lambda x: x * 2, donate=0), jit(lambda x: x + 0)
    double(make(1, 2))
    x = make(1, 2)
    for _ in range(3):
        result = copy(x)
        array = np.asarray(result)
        assert double(result).tolist() == [2, 4]
        assert array.tolist() == [1, 2]


def test_memory_that_is_left_to_an_array_is_not_read_by_a_captured_function() -> None:
    held, y = make(1, 2), make(10, 20)
    add, increment = jit(lambda y: held + y), jit(lambda x: x.assign(x + 1))
    increment(make(1, 2))
    for _ in range(2):
        add(y)
    array = np.asarray(held)
    add(y)
    increment(held)
    array[:] = 100
    assert add(y).tolist() == [12, 23]
    assert held.tolist() == [2, 3]


def test_memory_that_is_left_to_another_tensor_is_not_read_by_a_captured_function() -> None:
    other, y = make(1, 2), make(10, 20)
    held = other.clone()
    add, increment = jit(lambda y: held + y), jit(lambda x: x.assign(x + 1))
    increment(make(1, 2))
    for _ in range(3):
        add(y)
    increment(held)
    assert add(y).tolist() == [12, 23]
    assert (held.tolist(), other.tolist()) == ([2, 3], [1, 2])


def test_memory_that_moves_is_read_by_a_captured_function() -> None:
    held, y = make(1, 2), make(10, 20)
    add = jit(lambda y: held + y)
    add(y)
    kept = held.numpy()
    held[0] = 5
    assert add(y).tolist() == [15, 22]
    assert kept.tolist() == [1, 2]


@pytest.mark.usefixtures("one_thread")
def test_plans_read_written_arrays() -> None:
    x = make(1, 2)
    y = x * 2
    plan = y.prepare()
    np.asarray(x)[:] = 5
    plan.execute()
    assert y.tolist() == [10, 10]


@pytest.mark.usefixtures("one_thread")
def test_a_plan_writes_memory_that_an_array_shows() -> None:
    x = make(1, 2)
    plan = x.assign(x + 1).prepare()
    plan.execute()
    array = np.asarray(x)
    array[0] = 10
    plan.execute()
    assert x.tolist() == [11, 4] == array.tolist()


def test_gradients_use_the_elements_at_the_call() -> None:
    x = make(1, 2)
    array = np.asarray(x)
    before = grad(lambda x: (x * x).sum())(x)
    array[:] = 5
    assert before.tolist() == [2, 4]
    assert grad(lambda x: (x * x).sum())(x).tolist() == [10, 10]
    assert jit(grad(lambda x: (x * x).sum()))(x).tolist() == [10, 10]


def test_an_array_within_a_derivative_is_read_only() -> None:
    held = make(1, 2)

    def loss(x: Tensor) -> Tensor:
        assert not np.asarray(held).flags.writeable
        return (x * held).sum()

    assert grad(loss)(make(3, 4)).tolist() == [1, 2]
    with pytest.raises(CaptureError):
        jit(lambda x: x + np.asarray(held)[0])(make(1))


def test_loops_read_and_write_lent_memory() -> None:
    x = make(1, 2)
    array = np.asarray(x)
    array[0] = 4

    def body(_: Tensor, total: Tensor) -> Tensor:
        x.assign(x + 1)
        return total + x.sum()

    total = fori_loop(0, 3, body, Tensor(0.0))
    array[:] = 0
    assert (total.item(), x.tolist()) == (8 + 10 + 12, [7, 5])
    array = np.asarray(x)
    chosen = cond(Tensor(True), lambda: x * 2, lambda: x)
    array[:] = 1
    assert chosen.tolist() == [14, 10]


def test_copies_pickles_and_devices_have_the_elements_of_their_line() -> None:
    x = make(1, 2)
    array = np.asarray(x)
    array[:] = 3
    made = [
        pickle.loads(pickle.dumps(x)),
        copy.deepcopy(x),
        x.to("CPU:1"),
        Tensor(x),
        x.contiguous(),
    ]
    array[:] = 4
    assert [t.tolist() for t in made] == [[3, 3]] * 5


def test_memory_of_other_devices_of_the_host_is_shared() -> None:
    x = Tensor([1, 2], device="CPU:1")
    np.asarray(x)[:] = 3
    assert x.tolist() == [3, 3]


def test_views_of_an_array_keep_the_loan() -> None:
    x = make(1, 2)
    shown = memoryview(np.asarray(x)[1:])
    gc.collect()
    before = x + 0.5
    shown[0] = 9
    assert (before.tolist(), x.tolist()) == ([1.5, 2.5], [1, 9])


def test_threads_read_consistent_states() -> None:
    x = Tensor(np.zeros(1000, np.float32)).realize()
    array, wrong, stop = np.asarray(x), [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            y = x + 0
            first = y.numpy(copy=True)
            if not np.array_equal(first, y.numpy()):
                wrong.append(first)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(200):
        array[:] = number
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert x.tolist() == [199] * 1000

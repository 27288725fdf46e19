"""Plans that check themselves: positions out of range, integers divided by 0, and kernels that make
NaNs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from svod_ir import Op
from svod_runtime import NonFiniteError
from svod_tensor import PrepareConfig, Tensor, Variable, jit, track_origins
from svod_tensor.errors import IndexTensorError, IntegerDivisionError

CHECKED = PrepareConfig(check_operands=True)
TWO = ("CPU", "CPU:1")


def table() -> Tensor:
    return Tensor(np.arange(12, dtype=np.float32).reshape(4, 3)).realize()


def positions(*values: object, dtype: str = "int32") -> Tensor:
    return Tensor(list(values), dtype=dtype).realize()


LOOKUPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "take": lambda x, i: x.take(i, 0),
    "indexing": lambda x, i: x[i],
    "embedding": lambda x, i: i.embedding(x),
    "take_along_axis": lambda x, i: x[:, 0].take_along_axis(i, 0),
}


@pytest.mark.parametrize("operation", LOOKUPS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("wrong", [4, -5, 100])
def test_an_out_of_range_index_is_an_error_with_its_position_value_and_size(
    operation, dtype, wrong
):
    found = LOOKUPS[operation](table(), positions(0, -4, wrong, 3, dtype=dtype))
    with pytest.raises(IndexTensorError) as caught:
        found.realize_with(CHECKED)
    error = caught.value
    assert isinstance(error, IndexError)
    assert (error.operation, error.position, error.value, error.axis, error.size) == (
        operation,
        (2,),
        wrong,
        0,
        4,
    )
    assert str(error).startswith(
        f"{operation}: element (2,) of the indices is {wrong}, out of bounds for axis 0 with size 4"
    )


@pytest.mark.parametrize("operation", LOOKUPS)
def test_indices_within_bounds_give_the_unchecked_result(operation):
    indices = positions(0, -4, 3, -1)
    checked = LOOKUPS[operation](table(), indices).realize_with(CHECKED)
    np.testing.assert_array_equal(checked.numpy(), LOOKUPS[operation](table(), indices).numpy())


def test_without_checks_an_index_out_of_bounds_reads_0_and_no_kernel_is_added():
    found = table().take(positions(1, 9), 0)
    plan = found.prepare()
    plan.execute()
    assert plan.num_kernels == 1
    np.testing.assert_array_equal(found.numpy(), [[3, 4, 5], [0, 0, 0]])


def test_indices_that_are_provably_within_bounds_are_not_checked():
    small = positions(0, 3, dtype="uint8").bitwise_and(3)
    for known in (
        table().take(small, 0),
        positions(4, 5) // 3,
        table().take([0, 3], 0),
        table().sort(0),
    ):
        assert not list(known.uop.iter_ops(Op.CHECK))


def test_errors_show_the_largest_unsigned_indices():
    with pytest.raises(IndexTensorError, match=f"is {2**64 - 1}, out of bounds"):
        table().take(positions(2**64 - 1, dtype="uint64"), 0).realize_with(CHECKED)


def test_a_scalar_index_has_no_position():
    with pytest.raises(
        IndexTensorError, match=r"^take: the index is 7, out of bounds for axis 1 with size 3"
    ):
        table().take(Tensor(7).realize(), 1).realize_with(CHECKED)


def test_each_of_several_index_arrays_is_checked_against_its_own_axis():
    with pytest.raises(IndexTensorError) as caught:
        table()[positions(0, 3), positions(0, 3)].realize_with(CHECKED)
    assert (caught.value.axis, caught.value.size, caught.value.position) == (1, 3, (1,))


def test_empty_index_tensors_pass_the_check():
    assert table().take(Tensor(np.zeros((0, 2), np.int32)), 0).add(1).realize_with(
        CHECKED
    ).shape == (0, 2, 3)
    empty = Tensor(np.zeros((0,), np.int32))
    total = table().take(empty, 0).sum(0) + table()[positions(1, 2)].sum(0)
    np.testing.assert_array_equal(total.realize_with(CHECKED).numpy(), [9, 11, 13])


@pytest.mark.parametrize(
    ("operation", "function"),
    [("floor_divide", Tensor.floor_divide), ("remainder", Tensor.remainder)],
)
def test_an_integer_divided_by_0_is_an_error(operation, function):
    x, y = positions(4, 5, 6), positions(2, 0, 0)
    with pytest.raises(IntegerDivisionError) as caught:
        function(x, y).realize_with(CHECKED)
    assert isinstance(caught.value, ZeroDivisionError)
    assert (caught.value.operation, caught.value.position) == (operation, (1,))
    np.testing.assert_array_equal(function(x, y).numpy()[1:], [0, 0])
    np.testing.assert_array_equal(
        function(x, y.maximum(1)).realize_with(CHECKED).numpy(), function(x, y.maximum(1)).numpy()
    )


def test_errors_name_the_line_where_lines_are_tracked():
    x, indices = table(), positions(9)
    with track_origins():
        found = x.take(indices, 0)
    with pytest.raises(IndexTensorError, match=r"it comes from test_checks.py:\d+ take") as caught:
        found.realize_with(CHECKED)
    assert caught.value.origins[0].operation == "take"


def test_checks_are_enabled_by_the_environment(monkeypatch):
    monkeypatch.setenv("SVOD_CHECK_OPERANDS", "1")
    with pytest.raises(IndexTensorError):
        table().take(positions(9), 0).realize()


def test_a_plan_checks_at_each_execution_and_has_no_additional_output():
    indices = positions(1, 9)
    found = table().take(indices, 0)
    plan = found.prepare_with(CHECKED)
    assert plan.num_outputs == 1
    for run in (plan.execute, plan.execute_profiled, plan.execute):
        with pytest.raises(IndexTensorError):
            run()
    indices.buffer().copyin(np.array([1, 2], np.int32))
    plan.execute()
    np.testing.assert_array_equal(found.numpy(), [[3, 4, 5], [6, 7, 8]])


def test_a_graph_is_planned_again_for_checks():
    for config in (None, CHECKED, None):
        found = table().take(positions(1, 9), 0)
        if config is None:
            found.realize()
        else:
            with pytest.raises(IndexTensorError):
                found.realize_with(config)


def test_a_captured_function_checks_at_each_call():
    @jit(config=CHECKED)
    def look_up(x: Tensor, i: Tensor) -> Tensor:
        return x[i] * 2

    np.testing.assert_array_equal(
        look_up(table(), positions(1, 2)).numpy(), [[6, 8, 10], [12, 14, 16]]
    )
    with pytest.raises(IndexTensorError):
        look_up(table(), positions(1, 4))
    np.testing.assert_array_equal(
        look_up(table(), positions(1, 2)).numpy(), [[6, 8, 10], [12, 14, 16]]
    )


def test_sizes_are_taken_from_the_execution():
    n = Variable("n", 1, 4)
    for size in (3, 2, 4):
        head = table()[: n.bind(size)]
        assert head.take(positions(size - 1), 0).realize_with(CHECKED).shape == (1, 3)
        with pytest.raises(IndexTensorError) as caught:
            head.take(positions(0, size), 0).realize_with(CHECKED)
        assert (caught.value.value, caught.value.size) == (size, size)
    indices = positions(0, 1, 8, 9)
    with pytest.raises(IndexTensorError, match=r"element \(2,\) of the indices is 8"):
        table().take(indices[: n.bind(3)], 0).realize_with(CHECKED)
    assert table().take(indices[: n.bind(2)], 0).sum().realize_with(CHECKED).item() == 15


@pytest.mark.parametrize("axis", [None, 0])
def test_sharded_indices_are_checked(axis):
    x = table().shard(TWO)
    with pytest.raises(IndexTensorError) as caught:
        x.take(positions(0, 1, 2, 9).shard(TWO, axis), 0).realize_with(CHECKED)
    assert (caught.value.position, caught.value.value) == ((3,), 9)
    found = x.take(positions(0, 1, 2, 3).shard(TWO, axis), 0).realize_with(CHECKED)
    np.testing.assert_array_equal(found.numpy(), table().numpy())


@pytest.mark.parametrize(("mode", "value"), [("nan", -1.0), ("inf", 0.0)])
def test_the_kernel_that_first_makes_a_nan_is_named_with_its_line(mode, value):
    x = Tensor([1.0, value, 2.0]).realize()
    with track_origins():
        twice = (x * 2).contiguous()
        logarithm = twice.log().contiguous()
        total = (logarithm + 1).sum()
    with pytest.raises(NonFiniteError, match="log") as caught:
        total.realize_with(PrepareConfig(check_floats=mode))
    assert isinstance(caught.value, FloatingPointError)
    assert (caught.value.element, caught.value.count) == (1, 1)
    assert "log" in {origin.operation for origin in caught.value.origins}


def test_nans_in_inputs_blame_no_kernel():
    x = Tensor([float("nan"), 1.0]).realize()
    result = ((x + 1).contiguous() * 2).realize_with(PrepareConfig(check_floats="nan"))
    np.testing.assert_array_equal(result.numpy(), [np.nan, 4.0])


def test_infinities_pass_a_check_for_nans():
    assert (
        Tensor([0.0]).realize().reciprocal().realize_with(PrepareConfig(check_floats="nan")).item()
        == np.inf
    )


def test_a_kernel_with_partial_writes_is_not_blamed_for_old_elements():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    x[:1] = Tensor([float("nan")]).realize()
    x.realize()
    x[1:2] = Tensor([4.0]).realize().sqrt()
    np.testing.assert_array_equal(
        x.realize_with(PrepareConfig(check_floats="nan")).numpy(), [np.nan, 2.0, 3.0]
    )
    x[2:] = Tensor([-4.0]).realize().sqrt()
    with pytest.raises(NonFiniteError) as caught:
        x.realize_with(PrepareConfig(check_floats="nan"))
    assert (caught.value.element, caught.value.count) == (2, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float8_e5m2"])
def test_every_float_dtype_is_checked(dtype):
    x = Tensor([1.0, -1.0], dtype=dtype).realize()
    with pytest.raises(NonFiniteError):
        x.sqrt().realize_with(PrepareConfig(check_floats="nan"))
    assert x.abs().sqrt().realize_with(PrepareConfig(check_floats="inf")).tolist() == [1.0, 1.0]


def test_threads_that_call_a_captured_function_at_once_are_all_checked():
    @jit(config=CHECKED)
    def look_up(x: Tensor, i: Tensor) -> Tensor:
        return x[i] * 2

    x, good, wrong = table(), positions(1, 2), positions(1, 4)
    look_up(x, good)
    barrier = Barrier(4)

    def call(number: int) -> bool:
        barrier.wait()
        for _ in range(20):
            if number % 2:
                with pytest.raises(IndexTensorError):
                    look_up(x, wrong)
            else:
                np.testing.assert_array_equal(look_up(x, good).numpy(), [[6, 8, 10], [12, 14, 16]])
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(4)))

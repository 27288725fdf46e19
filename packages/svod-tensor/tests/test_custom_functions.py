"""Custom functions in graphs, plans and jit; and views of bytes, through the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import svod_tensor
from svod_ir import OperandError, ShapeError
from svod_runtime import (
    PreparedBufferView,
    PreparedCustomFunction,
    PreparedKernel,
    UnsupportedError,
    clear_custom_functions,
)
from svod_tensor import (
    PrepareConfig,
    Tensor,
    Variable,
    custom_function,
    float32,
    float64,
    int16,
    int32,
    jit,
    register_custom_function,
    uint8,
    uint32,
)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    yield
    clear_custom_functions()


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_custom_function_runs_between_kernels() -> None:
    a = array(3, 8)
    register_custom_function(
        "spectrum", lambda out, x, scale: np.copyto(out, np.abs(np.fft.fft(x)) * scale)
    )
    y = custom_function("spectrum", Tensor(a) * 2, outputs=((3, 8), float32), numbers=(0.1,)) + 1
    plan = y.prepare()
    assert [type(op) for op in plan.prepared_ops] == [
        PreparedKernel,
        PreparedCustomFunction,
        PreparedKernel,
    ]
    plan.execute()
    np.testing.assert_allclose(y.numpy(), np.abs(np.fft.fft(a * 2)) * 0.1 + 1, rtol=1e-5)
    assert len(plan.execute_profiled()) == 2
    report = plan.profile(n_runs=3)
    assert [function.name for function in report.functions] == ["spectrum"] * 3
    assert min(function.elapsed_ns for function in report.functions) > 0
    assert not report.transfer_times


def test_the_calls_of_a_custom_function_in_a_loop_are_one_row_of_a_profile() -> None:
    register_custom_function("twice", lambda out, x: np.copyto(out, x * 2))

    def body(_: Tensor, x: Tensor) -> Tensor:
        return custom_function("twice", x, outputs=((4,), float32)) - 1

    report = svod_tensor.fori_loop(0, 100, body, Tensor.ones((4,))).prepare().profile(n_runs=2)
    assert [(f.name, f.n_launches) for f in report.functions] == [("twice", 100)] * 2
    (row,) = [row for row in report.summaries() if row.name == "twice"]
    assert (row.n_launches, row.device) == (200, "CPU")
    assert 0 < row.fastest_ns <= row.elapsed_ns / 200


def test_arrays_are_the_memory_itself_with_their_shapes_and_dtypes() -> None:
    seen: list[Any] = []

    def look(out: np.ndarray, x: np.ndarray, y: np.ndarray, *numbers: object) -> None:
        seen.extend(
            [out.shape, out.dtype, x.shape, x.flags.writeable, numbers, x.ctypes.data, y.dtype]
        )
        out[...] = 7

    register_custom_function("look", look)
    x = Tensor(array(2, 3)).realize()
    y = custom_function(
        "look",
        x,
        Tensor([1, 2], dtype=int16),
        outputs=((2, 2), int32),
        numbers=(True, 1 << 40, 0.1),
    )
    assert y.tolist() == [[7, 7], [7, 7]]
    expected = [(2, 2), np.int32, (2, 3), False, (True, 1 << 40, 0.1), x.buffer().address, np.int16]
    assert seen == expected
    assert [type(n) for n in seen[4]] == [bool, int, float]


def test_several_outputs_come_from_one_call() -> None:
    calls: list[int] = []

    def split(values: np.ndarray, order: np.ndarray, x: np.ndarray) -> None:
        calls.append(1)
        order[...] = np.argsort(x, -1)
        values[...] = np.sort(x, -1)

    register_custom_function("split", split)
    a = array(4, 5)
    values, order = custom_function(
        "split", Tensor(a), outputs=[((4, 5), float32), ((4, 5), int32)]
    )
    Tensor.realize_batch([values, order])
    np.testing.assert_array_equal(values.numpy(), np.sort(a, -1))
    np.testing.assert_array_equal(order.numpy(), np.argsort(a, -1))
    assert len(calls) == 1
    (only,) = custom_function("split", Tensor(a), outputs=[((4, 5), float32), ((4, 5), int32)])[:1]
    np.testing.assert_array_equal((only + 1).numpy(), np.sort(a, -1) + 1)


def test_variables_reach_a_custom_function_at_each_execution() -> None:
    n, at = Variable("n", 1, 8), Variable("at", 0, 3)

    def scale(out: np.ndarray, rest: np.ndarray, x: np.ndarray, position: int) -> None:
        out[...], rest[...] = x * position, len(x)

    register_custom_function("scale", scale)
    a = array(8, 2)
    size = n.bind(3)
    y, rest = custom_function(
        "scale",
        Tensor(a)[:size],
        outputs=[((size, 2), float32), ((1,), int32)],
        numbers=(at.bind(1),),
    )
    y = y + 1
    plan = Tensor.prepare_batch([y, rest])
    for length, position in ((1, 0), (8, 3), (5, 2)):
        plan.execute_with_vars({"n": length, "at": position})
        np.testing.assert_allclose(y.numpy(), a[:length] * position + 1, rtol=1e-6)
        assert rest.tolist() == [length]


def test_a_jitted_function_calls_it_each_time() -> None:
    calls: list[int] = []

    def negate(out: np.ndarray, x: np.ndarray) -> None:
        calls.append(1)
        out[...] = -x

    register_custom_function("negate", negate)
    step = jit(lambda x: custom_function("negate", x + 1, outputs=(x.shape, x.dtype)) * 2)
    for start in range(3):
        a = array(4) + start
        np.testing.assert_allclose(step(Tensor(a)).numpy(), (a + 1) * -2, rtol=1e-6)
    assert len(calls) == 3


@pytest.mark.parametrize("planner", ["arena", "remap", "disabled"])
def test_every_memory_planner_preserves_inputs_of_custom_functions(planner: Any) -> None:
    def both(a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        a[...], b[...] = x + y, x - y

    register_custom_function("both", both)
    a = array(64)
    x = Tensor(a)
    for _ in range(4):
        p, q = custom_function(
            "both", x * 2, (x + 1).exp(), outputs=[((64,), float32), ((64,), float32)]
        )
        x = (p * q).tanh()
        u, v = a * 2, np.exp(a + 1)
        a = np.tanh((u + v) * (u - v))
    x.realize_with(PrepareConfig(memory_planner=planner))
    np.testing.assert_allclose(x.numpy(), a, rtol=1e-4, atol=1e-5)


def test_a_function_that_fails_leaves_its_plan_usable() -> None:
    fails = [False]

    def fill(out: np.ndarray, x: np.ndarray) -> None:
        if fails[0]:
            raise ZeroDivisionError("not today")
        out[...] = x

    register_custom_function("fill", fill)
    x = Tensor([1.0, 2.0])
    y = custom_function("fill", x, outputs=((2,), float32)) * 3
    plan = y.prepare()
    fails[0] = True
    with pytest.raises(ZeroDivisionError, match="not today") as caught:
        plan.execute()
    assert caught.value.__notes__[0].startswith("raised by custom function 'fill' (op ")
    fails[0] = False
    plan.execute()
    assert y.tolist() == [3.0, 6.0]


def test_invalid_calls_are_errors() -> None:
    x = Tensor([1.0, 2.0])
    with pytest.raises(UnsupportedError, match="custom function 'nobody' is not registered"):
        custom_function("nobody", x, outputs=((2,), float32)).realize()
    with pytest.raises(
        ShapeError, match=r"custom function 'f': zero-size .* are not supported: \(0, 2\)"
    ):
        custom_function("f", x, outputs=((0, 2), float32))
    with pytest.raises(
        OperandError, match="custom function 'f': expected tensors on one device, got"
    ):
        custom_function("f", x.shard(("CPU", "CPU:1"), axis=0), outputs=((2,), float32))


def test_bytes_of_a_file_are_read_where_they_are(tmp_path: Path) -> None:
    a = array(6, 4)
    path = tmp_path / "weights"
    path.write_bytes(b"headers!" + a.tobytes() + b"xyz")
    part = Tensor.from_file(path)[8 : 8 + a.nbytes].reshape(6, 16).bitcast(float32)
    y = part * 2
    plan = y.prepare()
    assert [type(op) for op in plan.prepared_ops] == [PreparedBufferView, PreparedKernel]
    plan.execute()
    np.testing.assert_array_equal(y.numpy(), a * 2)
    np.testing.assert_array_equal(part.numpy(), a)
    odd = Tensor.from_file(path)[9 : 9 + 8].bitcast(uint32)
    np.testing.assert_array_equal(odd.numpy(), np.frombuffer(path.read_bytes()[9:17], np.uint32))


def test_bitcast_to_a_dtype_of_another_size() -> None:
    a = array(3, 4)
    x = Tensor(a)
    np.testing.assert_array_equal(x.bitcast(uint8).numpy(), a.view(np.uint8))
    np.testing.assert_array_equal(x.bitcast(float64).numpy(), a.view(np.float64))
    np.testing.assert_array_equal(x[1:].bitcast(int16).numpy(), a[1:].view(np.int16))
    np.testing.assert_array_equal(
        x.T.bitcast(int16).numpy(), np.ascontiguousarray(a.T).view(np.int16)
    )
    np.testing.assert_array_equal((x * 2).bitcast(uint8).bitcast(float32).numpy(), a * 2)
    n = Variable("n", 1, 3)
    np.testing.assert_array_equal(x[: n.bind(2)].bitcast(uint8).numpy(), a[:2].view(np.uint8))
    assert Tensor(np.zeros((0, 4), np.float32)).bitcast(uint8).shape == (0, 16)
    for wrong, to in ((Tensor(array(3)), float64), (Tensor(1.0), uint8), (Tensor([True]), uint8)):
        with pytest.raises(
            OperandError, match="bitcast: expected a last axis whose size in bytes is"
        ):
            wrong.bitcast(to)


def test_a_bitcast_view_keeps_the_version_that_it_was_built_from() -> None:
    x = Tensor([1.0, 2.0]).realize()
    late, early = x.bitcast(uint32) + 0, x.bitcast(uint8)
    early.realize()
    x.assign(x * 2)
    after = x.bitcast(uint32)
    np.testing.assert_array_equal(after.numpy(), np.array([2, 4], np.float32).view(np.uint32))
    np.testing.assert_array_equal(late.numpy(), np.array([1, 2], np.float32).view(np.uint32))
    np.testing.assert_array_equal(early.numpy(), np.array([1, 2], np.float32).view(np.uint8))
    y = Tensor([1.0, 2.0]).realize()
    wide = y.bitcast(uint8)
    total = wide.sum()
    y.assign(y * 2)
    both = total + y.bitcast(uint8).sum()
    expected = (
        np.array([1, 2], np.float32).view(np.uint8).sum()
        + np.array([2, 4], np.float32).view(np.uint8).sum()
    )
    assert both.item() == expected


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "float64"])
@pytest.mark.parametrize("value", [0, 1, 2])
def test_a_constant_that_is_also_a_result_remains_a_scalar_of_the_function(
    dtype: str, value: int
) -> None:
    x = Tensor(np.array([[4.0, 1.0], [1.0, 3.0]], np.float32))

    def call(x: Tensor) -> tuple[Tensor, ...]:
        constants = [Tensor.full(shape, value, dtype=dtype) for shape in ((), (1, 1))]
        return (
            svod_tensor.fft.fft(x),
            svod_tensor.linalg.svdvals(x),
            *svod_tensor.linalg.eigh(x),
            *constants,
        )

    expected = [result.numpy() for result in call(x)]
    assert expected[-1] == np.full((1, 1), value, dtype)
    together = call(x)
    Tensor.realize_batch(together)
    for results in (together, svod_tensor.jit(call)(x)):
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result.numpy(), wanted)


def test_a_constant_that_is_also_a_result_remains_the_trip_count_and_initial_value_of_a_loop() -> (
    None
):
    def call(x: Tensor) -> tuple[Tensor, ...]:
        start = Tensor.full((), 3, dtype="int64")
        return (
            svod_tensor.fori_loop(0, 3, lambda i, c: c + x.sum() + i, start),
            start,
            svod_tensor.fft.fft(x),
        )

    x = Tensor([1, 2])
    for results in (call(x), svod_tensor.jit(call)(x)):
        assert [result.tolist() for result in results] == [15, 3, [3 + 0j, -1 + 0j]]

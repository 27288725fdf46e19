"""Several results of one computation: views, copies, operands and repetitions of one another, of
inputs and of constants.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from svod_device import Buffer, get_allocator
from svod_dtype import uint8
from svod_tensor import Tensor, jit
from svod_tensor.errors import DonationError
from svod_testing import check

N_PROGRAMS = 40
SHAPE = (4, 6)


class Step(NamedTuple):
    """An operation on earlier values of a program, on tensors and on arrays."""

    name: str
    operands: tuple[int, ...]
    on_tensors: Callable[..., Any]
    on_arrays: Callable[..., Any]


UNARY: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("x + 1", lambda x: x + 1, lambda a: a + 1),
    ("x.clone()", lambda x: x.clone(), np.copy),
    ("x.contiguous()", lambda x: x.contiguous(), np.copy),
    ("(x * 2).contiguous()", lambda x: (x * 2).contiguous(), lambda a: a * 2),
    ("x.reshape(-1)", lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
    ("x.flip(0)", lambda x: x.flip(0), lambda a: np.flip(a, 0)),
    ("x.flip(0).flip(0).clone()", lambda x: x.flip(0).flip(0).clone(), np.copy),
    ("x.permute", lambda x: x.permute(*reversed(range(x.ndim))), np.transpose),
    ("x[1:]", lambda x: x[1:] if x.shape[0] > 1 else x, lambda a: a[1:] if a.shape[0] > 1 else a),
    ("x[0]", lambda x: x[0] if x.ndim > 1 else x, lambda a: a[0] if a.ndim > 1 else a),
    (
        "x.repeat_interleave(2, 0)",
        lambda x: x.repeat_interleave(2, 0),
        lambda a: np.repeat(a, 2, 0),
    ),
    (
        "x.repeat_interleave(3, 0)[1]",
        lambda x: x.repeat_interleave(3, 0)[1],
        lambda a: np.repeat(a, 3, 0)[1],
    ),
    ("x.sort(0)", lambda x: x.sort(0), lambda a: np.sort(a, 0)),
    ("x.cumsum(0)", lambda x: x.cumsum(0), lambda a: np.cumsum(a, 0, dtype=a.dtype)),
    (
        "x.sum(0, keepdims=True)",
        lambda x: x.sum(0, keepdims=True),
        lambda a: a.sum(0, keepdims=True, dtype=a.dtype),
    ),
    ("zeros like x", lambda x: Tensor.zeros(*x.shape), np.zeros_like),
    (
        "bytes of x",
        lambda x: x.reshape(-1).bitcast("uint8").cast("float32"),
        lambda a: a.reshape(-1).view(np.uint8).astype(np.float32),
    ),
    ("x.bitcast", lambda x: x.bitcast("int32").bitcast("float32"), np.copy),
]


COPIES = [step for step in UNARY if step[2] is np.copy]


def draw_program(draw: random.Random, n_inputs: int) -> tuple[list[Step], list[int]]:
    """Steps on `n_inputs` values of `SHAPE`, and the values that are the results."""
    steps: list[Step] = []
    for number in range(draw.randrange(2, 9)):
        n_values = n_inputs + number
        if draw.random() < 0.2:
            x = draw.randrange(n_values)
            steps.append(
                Step(
                    "x * y", (x, x), lambda x, y: x * 0.5 + y * 0.5, lambda a, b: a * 0.5 + b * 0.5
                )
            )
        else:
            # Most results are another way to say what an earlier value is.
            name, on_tensors, on_arrays = draw.choice(UNARY if draw.random() < 0.5 else COPIES)
            steps.append(Step(name, (draw.randrange(n_values),), on_tensors, on_arrays))
    n_values = n_inputs + len(steps)
    return steps, [draw.randrange(n_values) for _ in range(draw.randrange(3, 9))]


def run(steps: Sequence[Step], inputs: Sequence[Any], *, tensors: bool) -> list[Any]:
    values = list(inputs)
    for step in steps:
        operation = step.on_tensors if tensors else step.on_arrays
        values.append(operation(*(values[n] for n in step.operands)))
    return values


def describe(seed: int, steps: Sequence[Step], results: Sequence[int]) -> str:
    return (
        f"seed {seed}: "
        + "; ".join(f"{s.name} of {s.operands}" for s in steps)
        + f"; results {results}"
    )


def draw_arrays(seed: int, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-8, 8, SHAPE).astype(np.float32) for _ in range(n)]


def leave_garbage(sizes: Iterable[int]) -> None:
    """Let memory of these sizes that is given next hold NaNs, and not what would be right by
    chance.
    """
    for size in sizes:
        buffers = [Buffer(get_allocator("CPU"), uint8, size) for _ in range(16)]
        for buffer in buffers:
            buffer.copyin(np.full(size, 0xFF, np.uint8))


def check_values(found: Sequence[Tensor], wanted: Sequence[np.ndarray], what: str) -> None:
    for position, (tensor, a) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(tensor.numpy(), a, err_msg=f"result {position}; {what}")


@pytest.mark.parametrize("donate", [(), 0, (0, 1)])
@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_each_call_of_a_captured_function_gives_every_result(
    seed: int, donate: int | tuple[int, ...]
) -> None:
    steps, results = draw_program(random.Random(seed), 2)
    what = describe(seed, steps, results)

    def program(x: Tensor, y: Tensor) -> list[Tensor]:
        values = run(steps, (x, y), tensors=True)
        return [values[n] for n in results]

    captured = jit(program, donate=donate)
    calls = []
    for call in range(3):
        arrays = draw_arrays(seed + call, 2)
        values = run(steps, arrays, tensors=False)
        wanted = [values[n] for n in results]
        leave_garbage({a.nbytes for a in wanted})
        calls.append((captured(*(Tensor(a).clone().realize() for a in arrays)), wanted))
        check_values(*calls[-1], f"call {call}; {what}")
    for found, wanted in calls:
        check_values(found, wanted, f"afterwards; {what}")


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_a_plan_has_an_output_for_each_tensor_in_order(seed: int) -> None:
    steps, results = draw_program(random.Random(1000 + seed), 2)
    what = describe(seed, steps, results)
    inputs = [Tensor(a).clone().realize() for a in draw_arrays(seed, 2)]
    tensors = run(steps, inputs, tensors=True)
    chosen = [*(tensors[n] for n in results), tensors[-1] + 1]
    plan = Tensor.prepare_batch(chosen)
    for execution in range(3):
        arrays = draw_arrays(seed + execution, 2)
        for tensor, a in zip(inputs, arrays, strict=True):
            tensor.buffer().copyin(a)
        plan.execute()
        values = run(steps, arrays, tensors=False)
        wanted = [*(values[n] for n in results), values[-1] + 1]
        check_values(chosen, wanted, what)
        for buffer, a in zip(plan.output_buffers, wanted, strict=True):
            np.testing.assert_array_equal(buffer.as_numpy().reshape(a.shape), a, err_msg=what)


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_a_plan_with_explicit_inputs_has_an_output_for_each_tensor(seed: int) -> None:
    steps, results = draw_program(random.Random(2000 + seed), 2)
    arrays = draw_arrays(seed, 2)
    inputs = [Tensor(a).clone().realize() for a in arrays]
    tensors, values = run(steps, inputs, tensors=True), run(steps, arrays, tensors=False)
    # What is an input itself, under any shape, cannot be given away and be a result.
    chosen = [n for n in results if not tensors[n].is_realized]
    found, wanted = (
        [*(tensors[n] for n in chosen), tensors[-1] + 1],
        [*(values[n] for n in chosen), values[-1] + 1],
    )
    del tensors
    plan = Tensor.prepare_batch(found, donate=inputs)
    plan.execute()
    check_values(found, wanted, describe(seed, steps, results))


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_writes_to_a_realized_result_are_visible_only_in_its_views(seed: int) -> None:
    steps, results = draw_program(random.Random(3000 + seed), 2)
    arrays = draw_arrays(seed, 2)
    tensors, values = (
        run(steps, list(map(Tensor, arrays)), tensors=True),
        run(steps, arrays, tensors=False),
    )
    chosen = list(dict.fromkeys(results))
    found, wanted = [tensors[n] for n in chosen], [values[n] for n in chosen]
    del tensors
    Tensor.realize_batch(found)
    for position, (tensor, array) in enumerate(zip(found, wanted, strict=True)):
        tensor.assign(tensor * 0 + position)
        array[...] = position
    check_values(found, wanted, describe(seed, steps, results))


def test_results_of_known_counterexamples_are_written() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((8, 64, 8), np.float32), rng.random((4, 5), np.float32)

    @jit
    def sort(x: Tensor) -> tuple[Tensor, Tensor]:
        s, i = x.sort(1, descending=True), x.argsort(1, descending=True)
        return x.take_along_axis(i, 1), s

    @jit
    def repeat(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        v = x.repeat_interleave(3, 0).unbind(0)
        return v[1], v[0], y

    @jit
    def outer(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        product = x.outer(y)
        return product, product.contiguous()

    for _ in range(3):
        leave_garbage([a.nbytes, b[0].nbytes, b.nbytes, 80])
        check_values(sort(Tensor(a)), [-np.sort(-a, 1)] * 2, "sort")
        check_values(repeat(Tensor(b), Tensor(b)), [b[0], b[0], b], "repeat")
        check_values(
            outer(Tensor(b[:, 0].copy()), Tensor(b[0].copy())),
            [np.outer(b[:, 0], b[0])] * 2,
            "outer",
        )


def test_a_plan_has_outputs_for_equal_tensors_inputs_and_tensors_without_elements() -> None:
    x = Tensor([1.0, 2.0])
    same = x + 1
    tensors = [x + 1, x + 1, x * 2, x, Tensor.zeros(0, 3), x.reshape(2, 1), same, same]
    plan = Tensor.prepare_batch(tensors)
    plan.execute()
    expected = [[2, 3], [2, 3], [2, 4], [1, 2], [], [1, 2], [2, 3], [2, 3]]
    assert [buffer.as_numpy().tolist() for buffer in plan.output_buffers] == expected
    assert len({buffer.storage_id for buffer in plan.output_buffers}) == 6
    assert plan.output_buffer_at(6) is plan.output_buffer_at(7) is same.buffer()
    assert plan.output_buffer_at(3) is plan.output_buffer_at(5)
    plan.replace_buffer(
        plan.output_indices[3], Buffer.from_host(np.array([5, 6], np.float32), tensors[3].dtype)
    )
    plan.execute()
    expected = [[6, 7], [6, 7], [10, 12], [5, 6], [], [5, 6], [6, 7], [6, 7]]
    assert [buffer.as_numpy().tolist() for buffer in plan.output_buffers] == expected


def test_a_plan_has_an_output_for_each_shard() -> None:
    x = (
        Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
        .shard(("CPU:0", "CPU:1"), axis=0)
        .realize()
    )
    plan = Tensor.prepare_batch([x.sum(1), x, x + 1, x.sum()])
    plan.execute()
    found = [buffer.as_numpy().tolist() for buffer in plan.output_buffers]
    assert found == [[1, 5], [9], [0, 1, 2, 3], [4, 5], [1, 2, 3, 4], [5, 6], [15], [15]]


def test_a_result_of_a_plan_cannot_be_donated_to_it() -> None:
    x = Tensor([1.0, 2.0]).clone().realize()
    y = x.reshape(2, 1)
    with pytest.raises(
        DonationError,
        match=r"cannot donate donate\[0\] to a plan: it has the memory of tensor 1, which",
    ):
        Tensor.prepare_batch([x + 1, y], donate=[x])
    check(y, np.array([[1], [2]], np.float32))


def test_the_bytes_of_an_argument_may_be_a_result() -> None:
    words = jit(lambda x: (x.bitcast("uint8"), x.bitcast("uint8").reshape(2, -1), x))
    for n in range(3):
        a = np.arange(n, n + 4, dtype=np.float32)
        check_values(
            words(Tensor(a)), [a.view(np.uint8), a.view(np.uint8).reshape(2, -1), a], f"call {n}"
        )

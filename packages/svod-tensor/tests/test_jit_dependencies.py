from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from svod_tensor import Tensor, depend_on, fori_loop, grad, jit

FACTOR = 2.0


def test_a_number_of_an_outer_function_may_change() -> None:
    factor = 2

    @jit
    def scale(x: Tensor) -> Tensor:
        return x * factor

    x = Tensor([1.0, 2.0])
    found = [scale(x).tolist()]
    for value in (3, 2, 3, 2.0):
        factor = value
        found.append(scale(x).tolist())
    assert found == [[2.0, 4.0], [3.0, 6.0], [2.0, 4.0], [3.0, 6.0], [2.0, 4.0]]
    assert scale.n_captures == 3, "one for each number: 2 and 2.0 are two"
    assert "`factor` is 3 instead of 2" in scale.explain()


def test_a_global_number_may_change(monkeypatch) -> None:
    @jit
    def scale(x: Tensor) -> Tensor:
        return sum((x * FACTOR for _ in range(2)), Tensor(0.0))

    before = scale(Tensor([1.0])).item()
    monkeypatch.setitem(globals(), "FACTOR", -0.0)
    after = scale(Tensor([1.0])).item()
    assert (before, after, scale.n_captures) == (4.0, 0.0, 2)
    monkeypatch.setitem(globals(), "FACTOR", 0.0)
    assert math.copysign(1, (scale(Tensor([1.0])) * 1).item()) == 1
    assert scale.n_captures == 3
    assert "the global `FACTOR` is 0.0 instead of -0.0" in scale.explain()


def test_a_replaced_object_is_seen_and_the_old_one_is_released() -> None:
    weight = Tensor([1.0])

    @jit
    def scale(x: Tensor) -> Tensor:
        return x * weight

    assert scale(Tensor([3.0])).item() == 3
    weight = Tensor([2.0])
    assert scale(Tensor([3.0])).item() == 6
    assert "`weight` is another object" in scale.explain()
    weight.assign(Tensor([5.0]))
    assert scale(Tensor([3.0])).item() == 15
    assert scale.n_captures == 1


def test_a_function_s_own_changes_do_not_invalidate_its_capture() -> None:
    n_runs = 0

    @jit
    def count(x: Tensor) -> Tensor:
        nonlocal n_runs
        n_runs += 1
        return x + 1

    for _ in range(3):
        count(Tensor([1.0]))
    assert n_runs == count.n_captures == 1


def test_a_name_without_a_value_is_no_dependency() -> None:
    @jit
    def choose(x: Tensor) -> Tensor:
        return x if x.ndim else later  # noqa: F821

    assert [choose(Tensor([1.0])).item() for _ in range(2)] == [1.0, 1.0]
    later = Tensor(2.0)
    assert choose(Tensor([1.0])).item() == 1.0
    del later


@pytest.mark.parametrize("around", ["plain", "loop", "derivative"])
def test_values_that_called_functions_read_are_seen(around: str) -> None:
    mode = {"scale": 2.0}

    def compute(x: Tensor) -> Tensor:
        return x * depend_on("the scale", lambda: mode["scale"])

    def run(x: Tensor) -> Tensor:
        if around == "loop":
            return fori_loop(0, 1, lambda _, value: compute(value), x)
        if around == "derivative":
            return grad(lambda value: compute(value).sum())(x)
        return compute(x)

    step = jit(run)
    found = [step(Tensor([1.0])).item()]
    for mode["scale"] in (3.0, 2.0):
        found.append(step(Tensor([1.0])).item())
    assert (found, step.n_captures) == ([2.0, 3.0, 2.0], 2)
    assert "the scale is 3.0 instead of 2.0" in step.explain()


def test_depend_on_outside_of_captured_functions_only_reads_the_value() -> None:
    assert depend_on("a number", lambda: 7) == 7


def test_a_function_that_is_captured_repeatedly_warns() -> None:
    scale = jit(lambda x, factor: x * factor)
    with pytest.warns(
        RuntimeWarning,
        match=r"was captured 32 times.* args\[1\] is 31 instead of .*numbers as tensors",
    ):
        for factor in range(40):
            scale(Tensor([1.0]), factor)


@pytest.mark.parametrize("writes", [False, True], ids=["reads", "writes"])
@pytest.mark.parametrize("part", [False, True], ids=["all", "part"])
def test_a_pending_assignment_is_visible_in_captured_tensors(writes: bool, part: bool) -> None:
    weight = Tensor([2.0, 2.0])

    @jit
    def step(x: Tensor) -> Tensor:
        result = x * weight
        if writes:
            weight.assign(weight + 1)
        return result

    x = Tensor([3.0, 3.0])
    expected = 2.0
    for value in (None, 5.0, 7.0):
        if value is not None:
            (weight[1:] if part else weight).assign(Tensor.full((1,) if part else (2,), value))
            expected = value
        assert step(x).tolist()[1] == 3 * expected
        expected += writes
    assert weight.tolist()[1] == expected


CONSTANTS: dict[str, Callable[[], Tensor]] = {
    "zeros": lambda: Tensor.zeros(3),
    "ones": lambda: Tensor.ones(3),
    "a number": lambda: Tensor(2.0),
    "what numbers make": lambda: Tensor.full((3,), 2.0) * 2,
    "a range": lambda: Tensor.arange(3).cast("float32"),
    "a function of a range": lambda: Tensor.arange(3).cast("float32").sin(),
    "elements": lambda: Tensor([1.0, 2.0, 3.0]),
}
USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "added": lambda x, held: x + held,
    "a factor": lambda x, held: x * held,
    "in a sum": lambda x, held: x + (held * 2).sum(),
    "reversed": lambda x, held: x + held.reshape(-1)[::-1],
    "seen in part": lambda x, held: x + held.reshape(-1)[:1],
}


@pytest.mark.parametrize("use", list(USES))
@pytest.mark.parametrize("kind", list(CONSTANTS))
def test_assignments_to_a_captured_constant_are_visible(kind: str, use: str) -> None:
    held, x, apply = CONSTANTS[kind](), Tensor([1.0, 2.0, 3.0]).realize(), USES[use]
    step = jit(lambda v: apply(v, held))
    for number in range(3):
        expected = apply(x, Tensor(held.clone().numpy())).numpy()
        for _ in range(3):
            np.testing.assert_allclose(step(x).numpy(), expected, rtol=1e-6)
        if number:
            held[...] = 10.0 * number
        else:
            held.assign(Tensor(np.full(held.shape, 7, np.float32)))
    assert step.n_captures <= 3


def test_assignments_to_a_constant_that_a_loop_body_reads_are_visible() -> None:
    held, x = Tensor.ones(3), Tensor([1.0, 2.0, 3.0]).realize()
    step = jit(lambda v: fori_loop(0, 3, lambda _, w: w + held, v))
    assert step(x).tolist() == [4.0, 5.0, 6.0]
    held.assign(Tensor([0.0, 1.0, 2.0]))
    assert step(x).tolist() == [1.0, 5.0, 9.0]

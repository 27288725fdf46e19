"""Results that go through the same memory are computed by one kernel, and are what they are
apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_ir.testing import count_examples
from svod_tensor import Tensor, jit

N = 6


def make(seed: int, n: int = N) -> Tensor:
    return Tensor(np.random.default_rng(seed).uniform(0.5, 1.5, n).astype(np.float32)).realize()


KINDS = ["add", "mul", "flip", "sum", "assign", "assign", "part", "store", "forget"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 50), st.integers(0, 50)),
    min_size=2,
    max_size=10,
)


@given(STEPS)
@settings(max_examples=count_examples(120), deadline=None)
def test_programs_that_assign_and_store_agree_with_numpy(steps):
    states = [make(seed) for seed in range(3)]
    arrays = [s.numpy().copy() for s in states]
    results, expected = [], []
    for kind, i, j in steps:
        tensors, values = [*states, *results], [*arrays, *expected]
        x, y = tensors[i % len(tensors)], tensors[j % len(tensors)]
        a, b = values[i % len(values)], values[j % len(values)]
        new, wanted = {
            "add": lambda x=x, y=y, a=a, b=b: (x + y, a + b),
            "mul": lambda x=x, y=y, a=a, b=b: (x * y * 0.5, a * b * np.float32(0.5)),
            "flip": lambda x=x, y=y, a=a, b=b: (x.flip(0) - y, a[::-1] - b),
            "sum": lambda x=x, y=y, a=a, b=b: (
                x / N + y.sum() / N,
                a / np.float32(N) + b.sum() / np.float32(N),
            ),
        }.get(kind, lambda x=x, y=y, a=a, b=b: (x * 0.5 + y, a * np.float32(0.5) + b))()
        if kind in ("assign", "part"):
            place = slice(1, 4) if kind == "part" else slice(None)
            states[j % 3][place] = new[place]
            arrays[j % 3][place] = wanted[place]
        elif kind == "forget" and results:
            del results[-1], expected[-1]
        else:
            results.append(new.contiguous() if kind == "store" else new)
            expected.append(wanted)
    Tensor.realize_batch([*states, *results])
    for tensor, array in zip([*states, *results], [*arrays, *expected], strict=True):
        np.testing.assert_allclose(tensor.numpy(), array, rtol=2e-5, atol=1e-5)


def test_an_optimizer_step_reads_and_writes_each_parameter_once():
    shapes = [(5, 3), (3,), (5, 3), (7,)]
    parameters, averages, gradients = (
        [make(i, int(np.prod(s))).reshape(s).clone().realize() for i, s in enumerate(shapes)]
        for _ in range(3)
    )
    count = Tensor(np.float32(0)).realize()

    @jit
    def step(gradients):
        count.assign(count + 1)
        for p, m, g in zip(parameters, averages, gradients, strict=True):
            new = m * 0.5 + g
            p.assign(p - new / count)
            m.assign(new)
        return count

    expected = [
        (p.numpy().copy(), m.numpy().copy()) for p, m in zip(parameters, averages, strict=True)
    ]
    for n in (1, 2):
        step(gradients)
        expected = [
            (p - (m / 2 + g.numpy()) / n, m / 2 + g.numpy())
            for (p, m), g in zip(expected, gradients, strict=True)
        ]
    for p, m, (wanted, average) in zip(parameters, averages, expected, strict=True):
        np.testing.assert_allclose(p.numpy(), wanted, rtol=1e-6)
        np.testing.assert_allclose(m.numpy(), average, rtol=1e-6)
    (plan,) = step.plans()
    assert len(plan.kernels()) == len(shapes) + 1
    assert len({k.kernel for k in plan.kernels()}) == 4  # the count, and one for each shape


def test_all_results_are_written_in_the_memory_of_donated_arguments():
    @jit
    def step(p, m, v, g):
        m, v = m * 0.5 + g, v + g * g
        return p - m / (v + 1), m, v

    given_away = jit(step.function, donate=("p", "m", "v"))
    inputs = [make(seed, 100) for seed in range(4)]
    expected = [t.numpy() for t in step(*inputs)]
    found = given_away(*(t.clone().realize() for t in inputs))
    for tensor, array in zip(found, expected, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert "3 outputs" in given_away.explain().splitlines()[-1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_donated_memory_is_not_written_before_other_results_have_read_it(order):
    def compute(a, b):
        return b + 1, a * 2 + b, a - b

    a, b = make(1, 100), make(2, 100)
    expected = compute(a.numpy(), b.numpy())
    found = jit(lambda a, b: tuple(compute(a, b)[i] for i in order), donate=(0, 1))(a, b)
    for place, tensor in zip(order, found, strict=True):
        np.testing.assert_allclose(tensor.numpy(), expected[place], rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("is_stacked", [False, True])
def test_concatenated_parts_of_equal_size_are_stored_directly(
    n: int, axis: int, *, is_stacked: bool
):
    x = make(0, 30).reshape(2, 3, 5)
    parts = [(x * (k + 1)).exp() + 1 for k in range(n)]
    joined = Tensor.stack(parts, axis) if is_stacked else parts[0].concat(*parts[1:], axis=axis)
    plan = (joined * 2).prepare()
    expected = [np.exp(x.numpy() * (k + 1)) + 1 for k in range(n)]
    plan.execute()
    wanted = np.stack(expected, axis) if is_stacked else np.concatenate(expected, axis)
    np.testing.assert_allclose(joined.numpy(), wanted, rtol=1e-6)


def take_step(step: str, x: Any, y: Any, axis: int, lib: Any) -> Any:
    """A step of a program that joins parts, in svod or numpy; each value has the shape of the
    operands.
    """
    match step:
        case "exp":
            return lib.exp(-x)
        case "mul":
            return x * y
        case "flip":
            return lib.flip(x, axis) + y
        case "concat":
            joined = lib.concatenate([x, lib.sin(y)], axis)
            return joined[::2] if axis == 0 else joined[:, ::2]
        case "stack":
            return lib.stack([lib.cos(x), y, x + y], axis).sum(axis)
        case _:
            return lib.copy(x)


class Joining:
    """The functions of numpy that steps use; what is joined is stored."""

    exp, sin, cos = Tensor.exp, Tensor.sin, Tensor.cos
    flip, copy = Tensor.flip, Tensor.contiguous

    @staticmethod
    def concatenate(parts: list[Tensor], axis: int) -> Tensor:
        return parts[0].concat(*parts[1:], axis=axis).contiguous()

    @staticmethod
    def stack(parts: list[Tensor], axis: int) -> Tensor:
        return Tensor.stack(parts, axis).contiguous()


STEP_KINDS = st.sampled_from(["exp", "mul", "flip", "concat", "stack", "copy"])
JOINING = st.lists(
    st.tuples(STEP_KINDS, st.integers(0, 20), st.integers(0, 20), st.integers(0, 1)),
    min_size=3,
    max_size=12,
)


@given(JOINING)
@settings(max_examples=count_examples(60), deadline=None)
def test_programs_that_concatenate_agree_with_numpy(steps):
    tensors = [make(seed, 2048).reshape(4, 512) for seed in range(2)]
    arrays = [x.numpy() for x in tensors]
    for step, i, j, axis in steps:
        n = len(tensors)
        tensors.append(take_step(step, tensors[i % n], tensors[j % n], axis, Joining))
        arrays.append(take_step(step, arrays[i % n], arrays[j % n], axis, np))
    Tensor.realize_batch(tensors)
    for tensor, array in zip(tensors, arrays, strict=True):
        np.testing.assert_allclose(tensor.numpy(), array, rtol=2e-4, atol=2e-4)

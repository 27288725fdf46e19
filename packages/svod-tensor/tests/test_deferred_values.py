from __future__ import annotations

import numpy as np
import pytest

from svod_tensor import Generator, Tensor, defer_values, grad, is_deferred, jit, realize_deferred
from svod_tensor.cells import deferred
from svod_tensor.errors import CaptureError


def sample(*shape: int) -> Tensor:
    return Tensor.rand(*shape, generator=Generator(3))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (0,), (3, 0), (129, 65)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool", "complex64"])
def test_deferred_values_agree_with_the_plain_tensor(shape, dtype):
    plain, waiting = ((sample(*shape) * 3).cast(dtype) for _ in range(2))
    assert defer_values(waiting) is waiting
    assert is_deferred(waiting) == (plain.size != 0)
    f = jit(lambda: waiting.clone())
    np.testing.assert_array_equal(f().numpy(), plain.numpy())
    assert waiting.is_realized or plain.size == 0
    assert not is_deferred(waiting)
    np.testing.assert_array_equal(waiting.numpy(), plain.numpy())


def test_an_assigned_value_replaces_a_deferred_one_that_is_never_computed():
    x = defer_values(sample(3))
    x.assign(Tensor([1.0, 2.0, 3.0])).realize()
    assert not is_deferred(x)
    realize_deferred([x])
    assert x.tolist() == [1, 2, 3]
    y = defer_values(sample(3))
    y[1] = 5.0
    assert is_deferred(y)
    wanted = sample(3).numpy().copy()
    wanted[1] = 5
    np.testing.assert_array_equal(jit(lambda: y + 0)().numpy(), wanted)


def test_copies_are_deferred_and_views_read_the_tensor():
    x = defer_values(sample(2, 3))
    copied, view = x.clone(), x.T
    assert is_deferred(copied)
    assert is_deferred(view)
    realize_deferred([view, copied])
    assert x.is_realized
    assert copied.is_realized
    x.assign(x * 0).realize()
    assert copied.numpy().all()
    assert not view.numpy().any()


def test_tensors_that_have_memory_are_not_deferred():
    x = Tensor([1.0, 2.0])
    assert not is_deferred(defer_values(x))
    assert not is_deferred(defer_values(sample(2).realize()))


def test_a_captured_function_makes_no_initial_values():
    with pytest.raises(CaptureError, match="makes initial values while it is captured"):
        jit(lambda: defer_values(sample(2)))()


def test_a_plan_reads_memory_and_a_written_tensor_keeps_the_writes():
    x = defer_values(sample(4))
    wanted = sample(4).numpy()

    @jit
    def step() -> Tensor:
        x.assign(x + 1)
        return x.sum()

    for number in (1, 2):
        np.testing.assert_allclose(step().numpy(), (wanted + number).sum(), rtol=1e-6)
    np.testing.assert_allclose(x.numpy(), wanted + 2, rtol=1e-6)
    assert step.n_captures == 1


def test_derivatives_and_executions_of_a_plan_see_one_value():
    x = defer_values(sample(4))
    wanted = sample(4).numpy()
    np.testing.assert_allclose(
        grad(lambda y: (x * y).sum())(Tensor.ones(4)).numpy(), wanted, rtol=1e-6
    )
    y = x * 2
    plan = y.prepare()
    for _ in range(2):
        plan.execute()
        np.testing.assert_allclose(y.numpy(), wanted * 2, rtol=1e-6)


def test_entries_of_dead_tensors_leave_the_table():
    before = len(deferred._deferred)
    x = defer_values(sample(4))
    assert len(deferred._deferred) == before + 1
    del x
    assert len(deferred._deferred) == before

"""Derivatives in several threads at once, and of arguments that are donated."""

from __future__ import annotations

from functools import partial

import numpy as np

from svod_ir.testing import run_in_threads
from svod_tensor import Tensor, checkpoint, fori_loop, grad, jit, jvp, value_and_grad

N_THREADS = 4
W, X = (np.random.default_rng(0).normal(size=shape) for shape in ((4, 3), (5, 4)))


def loss(w: Tensor, x: Tensor) -> Tensor:
    hidden = checkpoint(lambda w: (x @ w).tanh())(w)
    return (fori_loop(0, 3, lambda i, h: (h * 0.9 + i).sin(), hidden) ** 2).mean()


def test_threads_take_gradients_and_call_captured_steps_at_once() -> None:
    expected = [grad(loss)(Tensor(W * (1 + n)), Tensor(X)).numpy() for n in range(N_THREADS)]
    shared = jit(value_and_grad(loss))

    def work(number: int) -> None:
        for k in range(3):
            w, x = Tensor(W * (1 + number)), Tensor(X)
            alone = grad(loss)(w, x)
            _, captured = shared(w, x)
            along = jvp(lambda w: loss(w, x), (w,), (Tensor(X[:4, :3] + k),))[1]  # noqa: B023
            np.testing.assert_allclose(captured.numpy(), expected[number], rtol=1e-12)
            np.testing.assert_allclose(alone.numpy(), expected[number], rtol=1e-12)
            assert np.isclose(along.item(), (expected[number] * (X[:4, :3] + k)).sum(), rtol=1e-10)

    run_in_threads(*(partial(work, number) for number in range(N_THREADS)), switching_often=True)


def test_threads_train_their_own_models() -> None:
    def train(number: int) -> np.ndarray:
        w = Tensor(W * (1 + number)).realize()

        @jit
        def step(x: Tensor) -> None:
            w.assign(w - 0.1 * grad(loss)(w, x))

        for k in range(4):
            step(Tensor(X + k))
        return w.numpy()

    expected = [train(n) for n in range(N_THREADS)]
    found: dict[int, np.ndarray] = {}
    run_in_threads(
        *(partial(lambda n: found.__setitem__(n, train(n)), n) for n in range(N_THREADS)),
        switching_often=True,
    )
    for number, array in enumerate(expected):
        np.testing.assert_array_equal(found[number], array)


def test_an_argument_may_be_donated_to_the_step_that_takes_its_gradient() -> None:
    plain = jit(lambda w, x: w - 0.1 * grad(loss)(w, x))
    donating = jit(lambda w, x: w - 0.1 * grad(loss)(w, x), donate=(0,))
    expected, found = Tensor(W), Tensor(W).clone().realize()
    for k in range(4):
        expected, found = plain(expected, Tensor(X + k)), donating(found, Tensor(X + k))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())

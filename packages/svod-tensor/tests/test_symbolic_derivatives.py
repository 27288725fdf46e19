"""Derivatives of functions of tensors whose sizes are variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, Variable, checkpoint, custom_gradient, grad, jit

_RNG = np.random.default_rng(0)
_N = Variable("n", 1, 6)
_ROWS, _W = _RNG.normal(size=(6, 5)), _RNG.normal(size=(5, 3))
_IMAGES, _FILTERS = _RNG.normal(size=(6, 2, 6, 6)), _RNG.normal(size=(3, 2, 3, 3))
_exp = custom_gradient(lambda x: (x.exp(), lambda c: c * x.exp()))

_OF_ROWS: dict[str, Callable[..., Tensor]] = {
    "matmul": lambda x, w: ((x @ w).tanh() ** 2).mean(),
    "softmax": lambda x, w: ((x @ w).softmax(-1).log() * (x @ w).softmax(0)).sum(),
    "reductions": lambda x, w: (
        x.logsumexp(0).sum() * x.var(0).sum() + x.max(0).sum() + x.min() + (x @ w).max()
    ),
    "products": lambda x, w: x.prod(1).sum() + x.prod(0).sum() * w.sum(),
    "running": lambda x, w: (
        ((x @ w).cumsum(0) ** 2 + (x @ w).cumprod(0)).sum() + (x.cummax(0) ** 2).sum()
    ),
    "movement": lambda x, w: (
        (x.pad(((1, 2), (0, 1))) ** 2).sum()
        + (x.flip(0) * x).sum()
        + ((x.T @ x) ** 2).sum() * w.sum()
    ),
    "indexing": lambda x, w: (
        (x.reshape(-1) ** 3).sum()
        + (x[0] * x).sum()
        + (x[:, Tensor([0, 2, 2])] ** 2).sum()
        + w.sum()
    ),
    "rows": lambda x, w: (
        (x[Tensor([0, 2, 2])] ** 2).sum() + (x.concat(x * 2, axis=0) ** 2).sum() + w.sum()
    ),
    "choices": lambda x, w: (
        (x > 0).where(x.sqrt(), x).sum() + (x.sort(1) * Tensor(np.arange(5.0))).sum() + w.sum()
    ),
    "rules": lambda x, w: (
        (checkpoint(lambda x: (x @ w).tanh())(x) ** 2).sum() + (_exp(x) * x).sum()
    ),
    "second": lambda x, w: (grad(lambda x: ((x @ w).exp() * x.sum()).sum())(x) ** 2).sum(),
}


def _check(f: Callable[..., Tensor], batch: Any, others: Any, count: int) -> None:
    found = grad(f, (0, 1))(Tensor(batch)[: _N.bind(count)], Tensor(others))
    expected = grad(f, (0, 1))(Tensor(batch[:count]), Tensor(others))
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(part.numpy(), other.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", _OF_ROWS)
def test_a_batch_of_any_size_has_the_gradients_of_that_size(name: str) -> None:
    _check(_OF_ROWS[name], _ROWS, _W, 4)


def test_convolutions_and_pooling() -> None:
    def f(images: Tensor, filters: Tensor) -> Tensor:
        y = images.conv2d(filters, padding=1)
        return (y.max_pool2d(2) ** 2).sum() + (y.avg_pool2d(2) ** 3).sum()

    _check(f, _IMAGES, _FILTERS, 3)


def test_one_plan_serves_all_sizes() -> None:
    step = jit(grad(lambda w, x: ((x @ w).tanh() ** 2).mean()))
    for count in (2, 5, 3):
        found = step(Tensor(_W), Tensor(_ROWS)[: _N.bind(count)])
        expected = grad(lambda w, count=count: ((Tensor(_ROWS[:count]) @ w).tanh() ** 2).mean())(
            Tensor(_W)
        )
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10)
    assert len(step.plans()) == 1

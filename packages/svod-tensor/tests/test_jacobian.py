"""`jacobian` and `hessian`, beside formulas and between their modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, Variable, hessian, jacobian, jit
from svod_tensor.errors import DerivativeError

_RNG = np.random.default_rng(0)
_W = _RNG.normal(size=(7, 5))
_X = _RNG.normal(size=5)


@pytest.mark.parametrize("mode", ["reverse", "forward", None])
def test_each_mode_gives_the_same_matrix(mode: Any) -> None:
    slope = 1 - np.tanh(_W @ _X) ** 2
    found = jacobian(lambda x: (Tensor(_W) @ x).tanh(), mode=mode)(Tensor(_X))
    np.testing.assert_allclose(found.numpy(), slope[:, None] * _W)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_results_and_arguments_may_be_nested(mode: Any) -> None:
    a, b = _RNG.normal(size=(2, 3)), _RNG.normal(size=3)

    def f(t: dict[str, Tensor], scale: float) -> tuple[dict[str, Tensor], int]:
        return {"product": t["a"] @ t["b"] * scale, "total": t["a"].sum(), "only": t["b"] ** 2}, 7

    found, aux = jacobian(f, has_aux=True, mode=mode)({"a": Tensor(a), "b": Tensor(b)}, 3.0)
    assert aux == 7
    np.testing.assert_allclose(
        found["product"]["a"].numpy(), 3 * np.einsum("ij,k->ijk", np.eye(2), b)
    )
    np.testing.assert_allclose(found["product"]["b"].numpy(), 3 * a)
    assert found["total"]["a"].tolist() == np.ones((2, 3)).tolist()
    assert found["total"]["b"].tolist() == [0.0, 0.0, 0.0]
    assert found["only"]["a"].shape == (3, 2, 3)
    assert not found["only"]["a"].numpy().any()
    np.testing.assert_allclose(found["only"]["b"].numpy(), np.diag(2 * b))


def test_several_arguments_give_tuples() -> None:
    by_x, by_y = jacobian(lambda x, y: x * y.sum(), argnums=(0, 1))(Tensor(_X), Tensor(_X[:2]))
    np.testing.assert_allclose(by_x.numpy(), np.eye(5) * _X[:2].sum())
    np.testing.assert_allclose(by_y.numpy(), np.stack([_X, _X], 1))


def test_second_derivatives() -> None:
    found = hessian(lambda x: (Tensor(_W) @ x).sin().sum())(Tensor(_X))
    np.testing.assert_allclose(found.numpy(), -_W.T @ np.diag(np.sin(_W @ _X)) @ _W, atol=1e-12)
    parts = hessian(lambda x, y: (x.exp() * y).sum(), argnums=(0, 1))(Tensor(_X), Tensor(_X + 2))
    np.testing.assert_allclose(parts[0][0].numpy(), np.diag(np.exp(_X) * (_X + 2)))
    np.testing.assert_allclose(parts[0][1].numpy(), np.diag(np.exp(_X)))
    assert not parts[1][1].numpy().any()


def test_the_number_of_kernels_does_not_depend_on_the_number_of_rows() -> None:
    def count(size: int) -> int:
        w = Tensor(np.eye(size)).realize()
        x = Tensor(np.ones(size)).realize()
        return len(list(jacobian(lambda x: (w @ (w @ x).tanh()).sin())(x).prepare().kernels()))

    assert count(90) == count(180)


def test_it_is_part_of_a_captured_function() -> None:
    step = jit(lambda x: jacobian(lambda x: x * x[0])(x).sum(0))
    for values in (_X, _X * 2):
        expected = values[0] * np.ones(5)
        expected[0] += values.sum()
        np.testing.assert_allclose(step(Tensor(values)).numpy(), expected)


def test_invalid_arguments_are_errors() -> None:
    with pytest.raises(DerivativeError, match="unknown mode"):
        jacobian(lambda x: x, mode="backward")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DerivativeError, match="not a scalar"):
        hessian(lambda x: x)(Tensor(_X))
    with pytest.raises(DerivativeError, match="int32"):
        jacobian(lambda x: x)(Tensor([1, 2]))
    n = Variable("n", 1, 5).bind(3)
    with pytest.raises(DerivativeError, match="variable"):
        jacobian(lambda x: x * 2)(Tensor(_X)[:n])

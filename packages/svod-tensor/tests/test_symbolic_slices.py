"""Loops whose slices and stacked values have sizes that are variables: what is beyond the size is
never seen.
"""

from __future__ import annotations

import numpy as np
import pytest

from svod_tensor import Tensor, Variable, fori_loop, grad, scan

_N, _M = Variable("n", 1, 8), Variable("m", 0, 8)
_X, _W = np.random.default_rng(0).normal(size=(2, 6, 8, 8)) / 2


@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_of_several_kernels_reads_and_stacks_slices_of_any_size(
    n: int, reverse: bool
) -> None:
    def step(carry: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        carry = (carry @ Tensor(_W[0])).tanh().contiguous()
        product = (rows @ carry).contiguous()
        return carry + product.sum(0) + rows.reshape(-1)[0], product.softmax(-1)

    last, stacked = scan(
        step, Tensor(np.eye(8)), Tensor(_X).realize()[:, : _N.bind(n)], reverse=reverse
    )
    carry, expected = np.eye(8), np.empty((6, n, 8))
    for i in reversed(range(6)) if reverse else range(6):
        carry = np.tanh(carry @ _W[0])
        product = _X[i, :n] @ carry
        expected[i] = np.exp(product) / np.exp(product).sum(-1, keepdims=True)
        carry = carry + product.sum(0) + _X[i, 0, 0]
    np.testing.assert_allclose(last.numpy(), carry, rtol=1e-12)
    np.testing.assert_allclose(stacked.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(4, 1), (2, 2), (3, 8), (8, 0)])
def test_a_nested_loop_with_a_symbolic_trip_count_has_a_gradient(n: int, m: int) -> None:
    def f(x: Tensor) -> Tensor:
        return fori_loop(
            0, _N.bind(n), lambda _, c: fori_loop(0, _M.bind(m), lambda _, d: (d * 0.9).sin(), c), x
        ).sum()

    value, expected = _X[0, 0], np.ones(8)
    for _ in range(n * m):
        value, expected = np.sin(value * 0.9), expected * 0.9 * np.cos(value * 0.9)
    np.testing.assert_allclose(grad(f)(Tensor(_X[0, 0])).numpy(), expected, rtol=1e-12)

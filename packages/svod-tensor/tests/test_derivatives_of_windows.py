"""The derivatives of convolutions and pooling: in reverse rules of their own, forward those of what
they are made of.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_ir import Op
from svod_tensor import Tensor, Variable, grad, jvp, vjp


def _check_transposed(
    f: Callable[..., Tensor], rng: np.random.Generator, *shapes: tuple[int, ...]
) -> None:
    """Check that (J u) v = u (J^T v), and the same for the derivative of J^T v."""
    args, along, again = (tuple(Tensor(rng.normal(size=s)) for s in shapes) for _ in range(3))
    y, tangent = jvp(f, args, along)
    cotangent = Tensor(rng.normal(size=y.shape))

    def pull(*xs: Tensor) -> tuple[Tensor, ...]:
        return vjp(f, *xs)[1](cotangent)

    def multiply(xs: tuple[Tensor, ...], ys: tuple[Tensor, ...]) -> float:
        return sum((x * y).sum().item() for x, y in zip(xs, ys, strict=True))

    assert multiply(pull(*args), along) == pytest.approx(
        (tangent * cotangent).sum().item(), rel=1e-9
    )
    _, second = jvp(pull, args, along)
    _, pull_second = vjp(pull, *args)
    assert multiply(pull_second(again), along) == pytest.approx(
        multiply(second, again), rel=1e-9, abs=1e-9
    )


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 4, 7, 6), (6, 2, 3, 2), {"stride": 2, "padding": 1, "groups": 2}),
        ((1, 2, 11), (3, 2, 3), {"stride": 2, "dilation": 3, "padding": 4}),
        ((2, 3, 7), (2, 3, 2), {"stride": 3, "padding": 2}),
        ((1, 2, 4, 4, 3), (2, 2, 2, 1, 2), {}),
    ],
)
def test_derivatives_of_convolutions_and_their_transposes(rng, x, w, options):
    _check_transposed(lambda a, b: a.conv2d(b, **options), rng, x, w)
    extra = {"output_padding": 1} if options.get("stride", 1) > 1 else {}
    y = Tensor.zeros(*x).conv2d(Tensor.zeros(*w), **options).shape
    _check_transposed(lambda a, b: a.conv_transpose2d(b, **options, **extra), rng, y, w)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (2, {}),
        (3, {"stride": 2, "padding": 1}),
        (2, {"stride": 3}),
        (2, {"stride": 1, "dilation": 2}),
    ],
)
def test_derivatives_of_pooling(rng, kernel, options):
    _check_transposed(lambda a: a.max_pool2d(kernel, **options), rng, (2, 7, 6))
    _check_transposed(
        lambda a: a.avg_pool2d(kernel, **options, count_include_pad=False), rng, (2, 7, 6)
    )


def test_the_first_of_equal_maxima_in_a_window_has_the_derivative():
    pool = grad(lambda a: a.max_pool2d(3, stride=2, padding=1).sum())
    x = Tensor([[[5.0, 5.0, 1.0, 7.0, 7.0]]])
    assert pool(x).tolist() == [[[1.0, 0.0, 0.0, 2.0, 0.0]]]
    lowest, nan = float("-inf"), float("nan")
    assert pool(Tensor([[[lowest, lowest, 1.0, nan, nan]]])).tolist() == [
        [[1.0, 0.0, 0.0, 2.0, 0.0]]
    ]


def test_gradients_of_windows_are_gathers():
    x, w = Tensor.empty(2, 3, 8, 8), Tensor.empty(4, 3, 3, 3)
    y = x.conv2d(w, stride=2, padding=1).max_pool2d(3, stride=2, padding=1).avg_pool2d(2, stride=1)
    gradients = y.sum().gradient(x, w)
    assert [g.shape for g in gradients] == [x.shape, w.shape]
    assert all(not any(True for _ in g.uop.iter_ops(Op.SCATTER)) for g in gradients)


def test_one_graph_has_the_gradients_for_all_lengths(rng):
    n = Variable("n", 4, 9)
    a, w = rng.normal(size=(2, 3, 9)), Tensor(rng.normal(size=(2, 3, 3)))

    def f(x: Tensor, w: Tensor) -> Tensor:
        return (x.conv2d(w, stride=2, padding=1).max_pool2d(2, stride=1) ** 2).sum()

    both = grad(f, argnums=(0, 1))
    for length in (4, 7):
        by_x, by_w = both(Tensor(a)[:, :, : n.bind(length)], w)
        expected_x, expected_w = both(Tensor(a[:, :, :length]), w)
        np.testing.assert_allclose(by_x.numpy(), expected_x.numpy(), rtol=1e-12)
        np.testing.assert_allclose(by_w.numpy(), expected_w.numpy(), rtol=1e-12)

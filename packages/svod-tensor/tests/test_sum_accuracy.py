"""Rounding errors of sums, means and variances, in units of the dtype's rounding error relative to
the sum of absolute values.

The reference is numpy in float64 (for float64: in extended precision). The data are the hard cases
of summation: constants, whose rounding errors have one sign; an offset, of which a variance cancels
all digits; sorted and alternating values."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_tensor import Tensor, Variable, grad, jit

BOUND = 16.0
"""In roundings. A single loop has an error of hundreds on the same data."""

RNG = np.random.default_rng(5)
DATA: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "constant": lambda shape: np.full(shape, 0.1),
    "offset": lambda shape: 1e6 + RNG.random(shape),
    "sorted": lambda shape: np.sort(RNG.standard_normal(shape), axis=None).reshape(shape),
    "alternating": lambda shape: (
        (RNG.random(shape) + 1) * (-1.0) ** np.arange(np.prod(shape)).reshape(shape)
    ),
    "decades": lambda shape: 10.0 ** RNG.uniform(-6, 6, shape),
}
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((1031,), None),
    ((100_000,), None),
    ((2_000_003,), None),
    ((5000, 33), 0),
    ((7, 10_007), 1),
    ((1000, 257), None),
    ((60, 30, 50), (0, 2)),
    ((3, 5, 7, 11, 13), (1, 3, 4)),
    ((64, 3, 20, 20), (0, 2, 3)),
]


def count_roundings(found: np.ndarray, x: np.ndarray, axis: Any) -> float:
    """Largest error of sums of `x`, in units of half the spacing of numbers at the sum of absolute
    values.
    """
    wide = x.astype(np.longdouble if x.dtype == np.float64 else np.float64)
    error = np.abs(found - wide.sum(axis))
    return float((error / np.abs(wide).sum(axis)).max() / (np.finfo(x.dtype).eps / 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_errors_of_sums_grow_with_the_logarithm(
    shape: tuple[int, ...], axis: Any, kind: str, dtype: str
) -> None:
    x = DATA[kind](shape).astype(dtype)
    assert count_roundings(Tensor(x).sum(axis).numpy(), x, axis) < BOUND


def test_ten_million_equal_numbers_keep_their_digits() -> None:
    x = np.full(10**7, 0.1, "f4")
    assert count_roundings(Tensor(x).sum().numpy(), x, None) < 4


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 70), min_size=1, max_size=4), st.data(), st.sampled_from(sorted(DATA))
)
def test_sums_of_random_shapes_and_axes(shape: list[int], data: Any, kind: str) -> None:
    axes = data.draw(
        st.sets(st.integers(0, len(shape) - 1), min_size=1).map(lambda s: tuple(sorted(s)))
    )
    x = DATA[kind](tuple(shape)).astype("f4")
    assert count_roundings(Tensor(x).sum(axes).numpy(), x, axes) < BOUND


def test_sums_of_a_size_that_varies() -> None:
    x = np.full(5000, 0.1, "f4")
    n = Variable("n", 1, 5000)
    run = jit(lambda x, n: x[:n].sum())
    for size in (1, 7, 16, 17, 64, 1000, 4999, 5000):
        assert count_roundings(run(Tensor(x), n.bind(size)).numpy(), x[:size], None) < BOUND


def test_sums_within_fused_kernels() -> None:
    x = np.full((8, 4000), 0.1, "f4")
    np.testing.assert_allclose(Tensor(x).softmax(-1).numpy(), 1 / 4000, rtol=1e-6)
    found = (Tensor(x) * 3).exp().sum(-1).numpy()
    np.testing.assert_allclose(
        found, 4000 * np.exp(np.float64(np.float32(0.1) * np.float32(3))), rtol=1e-6
    )
    half = np.full(5000, 0.1, "f2")
    assert Tensor(half).sum().item() == half.astype("f8").sum().astype("f2")


def test_a_mean_agrees_with_numpy() -> None:
    x = (1e6 + np.tile([0.0, 1.0], 5000)).astype("f4")
    assert Tensor(x).mean().item() == 1000000.5
    assert Tensor(x).var().item() == 0.25
    np.testing.assert_allclose(Tensor(x).layernorm()[:2].numpy(), [-1, 1], rtol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e7])
@pytest.mark.parametrize("n", [3, 10, 1000, 100_003])
def test_moments_keep_their_accuracy_at_an_offset(offset: float, n: int) -> None:
    x = (offset + RNG.standard_normal((4, n))).astype("f4")
    wide, t = x.astype("f8"), Tensor(x)
    variance = wide.var(1)
    standard = (wide - wide.mean(1, keepdims=True)) / np.sqrt(variance + 1e-5)[:, None]
    np.testing.assert_allclose(t.var(1).numpy(), variance, rtol=1e-6)
    np.testing.assert_allclose(t.std(1, correction=1).numpy(), wide.std(1, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(t.nanvar(1).numpy(), variance, rtol=1e-6)
    np.testing.assert_allclose(np.diag(t.cov().numpy()), wide.var(1, ddof=1), rtol=1e-6)
    weights = np.arange(1, 1 + n)
    np.testing.assert_allclose(
        t.cov(aweights=weights).numpy().diagonal(),
        np.diag(np.cov(wide, aweights=weights)),
        rtol=1e-5,
    )
    # A row whose variance is small keeps the digits that its differences have.
    np.testing.assert_allclose(t.layernorm().numpy(), standard, atol=1e-6)
    np.testing.assert_allclose(
        t.reshape(2, 2, n).group_norm(2).numpy().reshape(4, n), standard, atol=1e-6
    )


def test_the_variance_of_equal_elements_is_zero() -> None:
    for n in (1, 2, 3, 10, 1000):
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            x = Tensor.full((n,), 0.1, dtype=dtype)
            assert x.var().item() == 0 and x.std().item() == 0


def test_infinities_and_nan_have_no_variance() -> None:
    for special in (np.inf, -np.inf, np.nan):
        assert np.isnan(Tensor([1.0, special, 2.0]).var().item())
    assert np.isnan(Tensor(np.zeros(0, "f4")).var().item())


def test_the_gradient_of_layernorm_ignores_an_offset() -> None:
    x = (1e6 + RNG.standard_normal((3, 500))).astype("f4")
    near = (x - 1e6).astype("f4")
    slope = grad(lambda x: (x.layernorm() ** 3).sum())
    np.testing.assert_allclose(
        slope(Tensor(x)).numpy(), slope(Tensor(near)).numpy(), rtol=1e-6, atol=1e-5
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from([1, 2, 3, 7, 16, 17, 31, 64, 100, 257, 1031, 70_001]),
        min_size=1,
        max_size=2,
    ).filter(lambda shape: prod(shape) <= 1 << 21),
    st.data(),
    st.sampled_from(["sum", "mean", "var", "max", "prod"]),
)
def test_reductions_of_a_constant_value(shape: list[int], data: Any, name: str) -> None:
    axis = data.draw(st.sampled_from([None, *range(len(shape))]))
    x = np.ones(shape, "f4")
    for tensor in (Tensor.ones(*shape), Tensor([1.0]).realize().expand(*shape)):
        np.testing.assert_array_equal(getattr(tensor, name)(axis).numpy(), getattr(x, name)(axis))

"""How far values and gradients in float32 are from those in float64, over the whole range of
float32.

An error counts in units in the last place (ulp) of the result, or of the larger of what it is the
sum of where that is said. What a result below 2^-119 loses is not counted: below 2^-126 float32 has
fewer digits, and a factor in a product may be that small before the product is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

from svod_tensor import Tensor, grad

FLOOR = 2.0**-119
Function = Callable[[Any], Any]


def draw_range() -> np.ndarray:
    """Numbers of every exponent, and more of them where functions bend and where
    exponentials end.
    """
    rng = np.random.default_rng(0)
    sizes = np.concatenate(
        [10.0 ** rng.uniform(-38, 38.5, 3000), rng.uniform(0, 4, 3000), rng.uniform(0, 120, 3000)]
    )
    return np.concatenate([sizes, -sizes, [0.0]]).astype(np.float32)


X = draw_range()


def count_ulp(found: np.ndarray, wanted: np.ndarray, size: np.ndarray | None = None) -> float:
    """The largest error, in units in the last place of `size`."""
    size = np.abs(wanted) if size is None else size
    is_finite = np.isfinite(wanted) & (np.abs(wanted) < np.finfo(np.float32).max)
    np.testing.assert_array_equal(found[~is_finite], wanted[~is_finite].astype(np.float32))
    error = np.maximum(np.abs(found.astype(np.float64) - wanted) - FLOOR, 0)[is_finite]
    unit = np.spacing(np.maximum(size[is_finite], 2.0**-126).astype(np.float32)).astype(np.float64)
    return float((error / unit).max())


class Row(NamedTuple):
    """A function, its derivative, and what both are within.

    Attributes:
        call: of a tensor.
        value: the same of float64.
        slope: its derivative.
        bounds: in ulp, of the value and of the derivative.
        size: what errors of the derivative are relative to: its own, or that of the larger of its
            terms.
    """

    call: Function
    value: Function
    slope: Function
    bounds: tuple[float, float]
    size: Function | None = None


def phi(x: Any) -> Any:
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def one(x: Any) -> Any:
    return np.ones_like(x)


ROWS = {
    # Its derivative is that of its value y alone, y (1 - y): where y is nearly 1, it is exact to a
    # last place of 1.
    "sigmoid": Row(
        lambda x: x.sigmoid(),
        special.expit,
        lambda x: special.expit(x) * special.expit(-x),
        (2, 1),
        one,
    ),
    "tanh": Row(
        lambda x: x.tanh(),
        np.tanh,
        lambda x: 1 / np.cosh(np.minimum(abs(x), 700)) ** 2,
        (1, 2),
        one,
    ),
    "expm1": Row(lambda x: x.expm1(), np.expm1, np.exp, (1, 2), lambda x: np.maximum(np.exp(x), 1)),
    "log1p": Row(
        lambda x: x.abs().log1p(),
        lambda x: np.log1p(abs(x)),
        lambda x: np.sign(x) / (1 + abs(x)),
        (1, 2),
    ),
    "softplus": Row(
        lambda x: x.softplus(),
        lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))),
        special.expit,
        (2, 2),
    ),
    "gelu": Row(
        lambda x: x.gelu(),
        lambda x: x * special.erfc(-x / math.sqrt(2)) / 2,
        lambda x: special.erfc(-x / math.sqrt(2)) / 2 + x * phi(x),
        (6, 6),
        lambda x: special.erfc(-x / math.sqrt(2)) / 2 + abs(x) * phi(x),
    ),
    "silu": Row(
        lambda x: x.silu(),
        lambda x: x * special.expit(x),
        lambda x: special.expit(x) * (1 + x * special.expit(-x)),
        (3, 4),
        lambda x: special.expit(x) * (1 + abs(x) * special.expit(-x)),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_functions_and_their_derivatives_are_accurate_to_a_few_ulps(name: str) -> None:
    row, x = ROWS[name], X.astype(np.float64)
    given = Tensor(X)
    value, slope = row.call(given), grad(lambda x: row.call(x).sum())(given)
    Tensor.realize_batch([value, slope])
    with np.errstate(all="ignore"):
        assert count_ulp(value.numpy(), row.value(x)) <= row.bounds[0]
        size = None if row.size is None else row.size(x)
        assert count_ulp(slope.numpy(), row.slope(x), size) <= row.bounds[1]


def compute_exact_gelu(x: np.ndarray) -> np.ndarray:
    """x Phi(x) of float64, in extended precision where the platform has it."""
    size = np.minimum(np.abs(x), 40.0)
    power = np.exp(-(size.astype(np.longdouble) ** 2) / 2)
    tail = size * (special.erfcx(size / math.sqrt(2)) / 2) * power
    return np.maximum(x, 0.0) - tail


def test_gelu_is_accurate_to_four_ulps() -> None:
    x = np.concatenate([np.linspace(-14, 6, 300_001), X[np.abs(X) > 1e-30]]).astype(np.float32)
    wanted = compute_exact_gelu(x.astype(np.float64))
    assert count_ulp(Tensor(x).gelu().numpy(), wanted) <= 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gelu_of_each_narrow_float_is_rounded_once(dtype: str) -> None:
    x = Tensor(np.arange(1 << 16, dtype=np.uint16)).bitcast(dtype)
    numbers = x.cast("float64").numpy()
    found = x.gelu().cast("float64").numpy()
    np.testing.assert_array_equal(found[np.isnan(numbers)], np.nan)
    np.testing.assert_array_equal(found[numbers == np.inf], np.inf)
    np.testing.assert_array_equal(found[numbers == -np.inf], 0.0)
    is_finite = np.isfinite(numbers)
    wanted = compute_exact_gelu(numbers[is_finite])
    digits, smallest = (10, -14) if dtype == "float16" else (7, -126)
    exponent = np.maximum(np.frexp(wanted.astype(np.float64))[1] - 1, smallest)
    unit = np.ldexp(1.0, exponent - digits)
    assert (np.abs(found[is_finite] - wanted) / unit).max() < 0.502


def test_the_far_tail_of_gelu_keeps_its_digits_in_float64_too() -> None:
    x = np.linspace(-37, 5, 2000)
    # The distribution function of scipy rounds a square that an exponential multiplies by some
    # hundreds.
    wanted = x * special.erfcx(-np.minimum(x, 0) / math.sqrt(2)) / 2 * np.exp(-x * x / 2)
    wanted = np.where(x < 0, wanted, x * special.ndtr(x))
    np.testing.assert_allclose(Tensor(x).gelu().numpy(), wanted, rtol=3e-13, atol=1e-300)
    np.testing.assert_allclose(Tensor(x[x > -3]).gelu().numpy(), wanted[x > -3], rtol=4e-15)
    wanted = special.ndtr(x) + x * phi(x)
    scale = special.ndtr(x) + abs(x) * phi(x)
    found = grad(lambda x: x.gelu().sum())(Tensor(x)).numpy()
    assert (np.abs(found - wanted) / scale).max() < 2e-13


# Of rows: n elements, whose sums are of n terms.

ROW = 48


def draw_rows(spread: float, offset: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.normal(0, spread, (40, ROW)) + offset).astype(np.float32)


@pytest.mark.parametrize(
    ("spread", "offset"), [(1e-20, 0), (1, 0), (30, 0), (1e4, 0), (1e30, 0), (1, 1e4)]
)
def test_log_softmax_and_logsumexp_do_not_cancel(spread: float, offset: float) -> None:
    a = draw_rows(spread, offset)
    x, given = a.astype(np.float64), Tensor(a)
    total = special.logsumexp(x, 1, keepdims=True)
    weights = np.random.default_rng(2).normal(size=a.shape).astype(np.float32)
    # The value is a sum of the largest element and a logarithm.
    size = np.maximum(np.abs(x.max(1, keepdims=True)), math.log(ROW))
    assert count_ulp(given.logsumexp(1, keepdims=True).numpy(), total, size) <= 2
    assert (
        count_ulp(given.log_softmax(1).numpy(), x - total, np.maximum(np.abs(x - total), size)) <= 3
    )
    share = np.exp(x - total)
    found = grad(lambda x: x.logsumexp(1).sum())(given).numpy()
    assert np.abs(found - share).max() <= 4 * 2.0**-24 * max(1, math.log2(ROW))
    slope = weights - share * weights.sum(1, keepdims=True, dtype=np.float64)
    found = grad(lambda x: (x.log_softmax(1) * Tensor(weights)).sum())(given).numpy()
    assert np.abs(found - slope).max() <= 2.0**-18


@pytest.mark.parametrize("spread", [1e-12, 1.0, 1e12])
def test_norms_and_their_directions_are_accurate_to_a_few_ulps(spread: float) -> None:
    a = draw_rows(spread)
    x, given = a.astype(np.float64), Tensor(a)
    norm = np.linalg.norm(x, axis=1)
    assert count_ulp(given.norm(axis=1).numpy(), norm) <= 4
    found = grad(lambda x: x.norm(axis=1).sum())(given).numpy()
    assert count_ulp(found, x / norm[:, None]) <= 6


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_layer_norm_subtracts_the_mean_before_squaring(offset: float) -> None:
    a = draw_rows(1.0, offset)
    x, given = a.astype(np.float64), Tensor(a)
    centred = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt(centred.var(1, keepdims=True) + 1e-5)
    weights = np.random.default_rng(2).normal(size=a.shape)
    # Relative to what the mean is taken off.
    unit = 2.0**-23 * max(1.0, offset)
    assert np.abs(given.layernorm(1).numpy() - centred * scale).max() <= 4 * unit
    y = centred * scale
    slope = scale * (
        weights - weights.mean(1, keepdims=True) - y * (y * weights).mean(1, keepdims=True)
    )
    found = grad(lambda x: (x.layernorm(1) * Tensor(weights.astype(np.float32))).sum())(
        given
    ).numpy()
    assert np.abs(found - slope).max() <= 32 * unit


WEIGHTS = np.random.default_rng(5).integers(1, 5, 200).astype(np.float32)
MOMENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "var": lambda x: x.var(1),
    "var of all": lambda x: x.var(correction=1),
    "std": lambda x: x.std(0),
    "nanvar": lambda x: (x > x.max(1, keepdims=True)).where(math.nan, x).nanvar(1),
    "nanstd": lambda x: x.nanstd(1, correction=1),
    "cov": lambda x: x.cov(),
    "weighted cov": lambda x: x.cov(fweights=WEIGHTS, aweights=WEIGHTS),
    "corrcoef": lambda x: x.corrcoef(),
    "layernorm": lambda x: x.layernorm(-1),
}


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("name", MOMENTS)
def test_gradients_of_moments_keep_their_digits_at_an_offset(name: str, offset: float) -> None:
    rng = np.random.default_rng(4)
    a, along = (rng.normal(size=(4, 200)) + offset).astype(np.float32), rng.normal(size=(4, 200))

    def f(x: Tensor) -> Tensor:
        found = MOMENTS[name](x)
        return (
            found * Tensor(np.random.default_rng(6).normal(size=found.shape)).cast(x.dtype)
        ).sum()

    def slope(x: Tensor) -> Tensor:
        return (grad(f)(x) * Tensor(along).cast(x.dtype)).sum()

    for function in (f, slope):
        found, expected = (
            grad(function)(Tensor(a)).numpy(),
            grad(function)(Tensor(a.astype(np.float64))).numpy(),
        )
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())

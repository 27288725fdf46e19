"""Distributions against those of scipy, by tests that fixed seeds pass or fail for good."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import svod_tensor as sv
from svod_dtype import void
from svod_ir import OperandError, ShapeError
from svod_tensor import Generator, Tensor
from svod_tensor.ops.random import distributions

N = 40_000
LEAST = 1e-3
"""The p-value below which numbers are none of a distribution; the seeds are fixed."""

CONTINUOUS = {
    "rand": (lambda n, **k: Tensor.rand(n, **k), stats.uniform()),
    "randn": (lambda n, **k: Tensor.randn(n, **k), stats.norm()),
    "uniform": (lambda n, **k: Tensor.uniform(n, low=-3, high=5, **k), stats.uniform(-3, 8)),
    "normal": (lambda n, **k: Tensor.normal(n, mean=-2, std=3, **k), stats.norm(-2, 3)),
    "exponential": (lambda n, **k: Tensor.exponential(n, scale=0.5, **k), stats.expon(0, 0.5)),
    "truncated": (lambda n, **k: Tensor.truncated_normal(n, **k), stats.truncnorm(-2, 2)),
    "truncated_scaled": (
        lambda n, **k: Tensor.truncated_normal(n, low=0, high=0.5, mean=0.1, std=0.2, **k),
        stats.truncnorm(-0.5, 2, 0.1, 0.2),
    ),
    "truncated_below": (
        lambda n, **k: Tensor.truncated_normal(n, low=1, high=math.inf, **k),
        stats.truncnorm(1, math.inf),
    ),
    "truncated_above": (
        lambda n, **k: Tensor.truncated_normal(n, low=-math.inf, high=1, **k),
        stats.truncnorm(-math.inf, 1),
    ),
    "not_truncated": (
        lambda n, **k: Tensor.truncated_normal(n, low=-math.inf, high=math.inf, **k),
        stats.norm(),
    ),
}


def numbers(x: Tensor) -> np.ndarray:
    return x.numpy().astype(np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("draw", "expected"), CONTINUOUS.values(), ids=CONTINUOUS)
def test_numbers_have_their_distribution(
    draw: Callable[..., Tensor], expected: stats.rv_continuous, dtype: str
) -> None:
    x = draw(N, seed=1, dtype=dtype)
    assert (x.shape, x.dtype.name) == ((N,), dtype)
    found = numbers(x)
    assert stats.kstest(found, expected.cdf).pvalue > LEAST
    mean, variance = expected.stats("mv")
    assert abs(found.mean() - mean) < 5 * math.sqrt(variance / N)
    assert abs(found.var() - variance) < 10 * variance / math.sqrt(N)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name != "rand"])
def test_narrow_numbers_are_wide_numbers_rounded_once(name: str, dtype: str) -> None:
    draw, _ = CONTINUOUS[name]
    # Those of intervals are computed in float64.
    wide = "float64" if "truncated" in name else "float32"
    found, expected = draw(N, seed=1, dtype=dtype), draw(N, seed=1, dtype=wide)
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(found.numpy(), expected.cast(dtype).numpy())


@pytest.mark.parametrize(("draw", "expected"), CONTINUOUS.values(), ids=CONTINUOUS)
def test_samples_are_independent(
    draw: Callable[..., Tensor], expected: stats.rv_continuous
) -> None:
    generator = Generator(1)
    child, other = generator.spawn(2)
    found = [
        numbers(draw(N, generator=g, dtype="float64"))
        for g in (generator, generator, child, other, Generator(2))
    ]
    uniform = [expected.cdf(x) for x in found]
    for x, y in itertools.combinations(uniform, 2):
        assert abs(np.corrcoef(x, y)[0, 1]) < 4.5 / math.sqrt(N)
    for x in uniform:
        for distance in (1, 2, 7, 64):
            assert abs(np.corrcoef(x[:-distance], x[distance:])[0, 1]) < 4.5 / math.sqrt(N)
        pairs, *_ = np.histogram2d(x[::2], x[1::2], 8, ((0, 1), (0, 1)))
        assert stats.chisquare(pairs.ravel()).pvalue > LEAST
    # The first numbers of many draws, and of many generators, are a sample too.
    first = [draw(1, generator=generator, dtype="float64").item() for _ in range(300)]
    assert stats.kstest(first, expected.cdf).pvalue > LEAST


def test_the_first_numbers_of_consecutive_seeds_are_a_sample() -> None:
    found = [Tensor.rand(1, seed=seed).item() for seed in range(1000)]
    assert stats.kstest(found, stats.uniform.cdf).pvalue > LEAST
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.15


def test_bounds_scales_and_means_may_be_tensors() -> None:
    low, high = Tensor([[0.0], [10.0], [-5.0]]), Tensor([1.0, 2.0, 3.0, 4.0]) + 20
    x = Tensor.uniform(3, 4, low=low, high=high, seed=1)
    unit = Tensor.rand(3, 4, seed=1)
    np.testing.assert_allclose(x.numpy(), (low + (high - low) * unit).numpy(), rtol=1e-6)
    y = Tensor.normal(3, 4, mean=low, std=Tensor([0, 1, 2, 3]), seed=1)
    np.testing.assert_allclose(
        y.numpy(),
        (low + Tensor([0.0, 1.0, 2.0, 3.0]) * Tensor.randn(3, 4, seed=1)).numpy(),
        rtol=1e-5,
    )
    z = Tensor.exponential(3, 4, scale=high, seed=1, dtype="float64")
    assert z.dtype.name == "float64"
    np.testing.assert_allclose(
        z.numpy(),
        high.numpy() * Tensor.exponential(3, 4, seed=1, dtype="float64").numpy(),
        rtol=1e-12,
    )


def exponential_of(bits: list[int], dtype: str) -> np.ndarray:
    made = distributions._exponential_from_bits(
        Tensor(bits, dtype="uint64"), Tensor([], dtype=dtype).dtype
    )  # pyright: ignore[reportPrivateUsage]
    return numbers(made)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-14)])
def test_exponential_numbers_have_all_digits_in_both_tails(dtype: str, tolerance: float) -> None:
    bits = [
        0,
        1,
        2,
        3,
        12345,
        2**31 + 77,
        2**40,
        2**62,
        2**63 - 1,
        2**63,
        2**63 + 1,
        2**64 - 2**40,
        2**64 - 77,
        2**64 - 2,
        2**64 - 1,
    ]
    expected = [
        -math.log1p(-(b | 1) * 2.0**-64) if b < 2**63 else -math.log((2**64 - b) * 2.0**-64)
        for b in bits
    ]
    np.testing.assert_allclose(exponential_of(bits, dtype), expected, rtol=tolerance)


def test_the_normal_quantile_agrees_with_scipy() -> None:
    p = np.concatenate(
        [np.logspace(-300, -1, 500), np.linspace(0.001, 0.999, 999), 1 - np.logspace(-15, -1, 100)]
    )
    found = Tensor(p).ndtri().numpy()
    np.testing.assert_allclose(found, special.ndtri(p), rtol=3e-15, atol=1e-16)


@pytest.mark.parametrize(
    ("low", "high"),
    [(5, 6), (-6, -5), (5, math.inf), (30, 31), (-math.inf, -36), (-1e-9, 1e-9), (0, 40)],
)
def test_far_and_narrow_intervals_have_their_distribution(low: float, high: float) -> None:
    x = Tensor.truncated_normal(N, low=low, high=high, seed=1, dtype="float64").numpy()
    assert low <= x.min() < x.max() <= high
    assert stats.kstest(x, stats.truncnorm(low, high).cdf).pvalue > LEAST


@pytest.mark.parametrize(
    "bounds",
    [
        {"low": 1, "high": 1},
        {"low": 2, "high": 1},
        {"std": 0},
        {"std": -1},
        {"low": 38, "high": 50},
        {"low": math.nan},
        {"mean": math.inf},
    ],
)
def test_empty_intervals_are_errors(bounds: dict[str, float]) -> None:
    with pytest.raises(OperandError, match="truncated_normal"):
        Tensor.truncated_normal(3, **bounds)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_events_have_their_probability(dtype: str) -> None:
    p = [0.0, 0.125, 0.5, 0.9, 1.0]
    x = Tensor(p, dtype=dtype).expand(N, 5).bernoulli(seed=1)
    assert x.dtype.name == "bool"
    counts = x.numpy().sum(0)
    assert counts[0] == 0
    assert counts[-1] == N
    for count, probability in zip(counts[1:-1], p[1:-1], strict=True):
        assert (
            stats.binomtest(int(count), N, float(Tensor(probability, dtype=dtype).item())).pvalue
            > LEAST
        )
    assert Tensor([1, 0]).bernoulli(dtype="float32").tolist() == [1.0, 0.0]


WEIGHTS = np.array([1, 2, 3, 0, 4, 0.001, 10], np.float64)


def check_counts(positions: np.ndarray, weights: np.ndarray) -> None:
    counts = np.bincount(positions, minlength=len(weights))
    assert counts[weights == 0].sum() == 0
    likely = weights > 0.01
    assert (
        stats.chisquare(
            counts[likely], weights[likely] / weights[likely].sum() * counts[likely].sum()
        ).pvalue
        > LEAST
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_categories_have_probabilities_in_proportion_to_their_weights(dtype: str) -> None:
    weights = Tensor(WEIGHTS, dtype=dtype)
    exact = numbers(weights.cast("float64"))
    logits = weights.cast("float64").log().cast("float32" if dtype == "bfloat16" else dtype)
    x = logits.unsqueeze(1).expand(7, N).categorical(0, seed=1)
    assert (x.shape, x.dtype.name) == ((N,), "int64")
    check_counts(x.numpy(), exact)
    y = weights.multinomial(N, replacement=True, seed=2)
    assert (y.shape, y.dtype.name) == ((N,), "int64")
    check_counts(y.numpy(), exact)
    check_counts(weights.expand(N, 7).multinomial(1, seed=3).squeeze(-1).numpy(), exact)


def test_a_large_logit_does_not_overflow() -> None:
    assert Tensor([1e30, -1e30, 0.0]).categorical().item() == 0
    assert Tensor([-math.inf, -1e30, -math.inf]).categorical().item() == 1
    assert Tensor([-1e4, -1e4 + 50.0]).categorical().item() == 1


def test_the_first_of_many_categories_is_not_preferred() -> None:
    x = Tensor.zeros(400, 50_000).categorical(seed=1).numpy()
    assert stats.kstest(x / 50_000, stats.uniform.cdf).pvalue > LEAST


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_without_replacement_samples_are_distinct(n: int) -> None:
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    found = Tensor(weights).expand(N, 4).multinomial(n, seed=5).numpy()
    assert found.shape == (N, n)
    orders = list(itertools.permutations(range(4), n))
    expected: list[float] = []
    for order in orders:
        probability, left = 1.0, 10.0
        for position in order:
            probability, left = probability * weights[position] / left, left - weights[position]
        expected.append(probability * N)
    rows, counts = np.unique(found, axis=0, return_counts=True)
    assert [tuple(row) for row in rows] == orders
    assert stats.chisquare(counts, expected).pvalue > LEAST


def test_more_samples_than_weights_are_an_error() -> None:
    with pytest.raises(ShapeError, match="multinomial"):
        Tensor([1.0, 2.0]).multinomial(3)
    with pytest.raises(ShapeError, match="multinomial: weights must have at least 1 dimension"):
        Tensor(1.0).multinomial(1)


def test_permutations_are_uniform() -> None:
    generator = Generator(6)
    rows = [tuple(Tensor.permutation(4, generator=generator).tolist()) for _ in range(480)]
    orders = list(itertools.permutations(range(4)))
    assert stats.chisquare([rows.count(order) for order in orders]).pvalue > LEAST
    x = Tensor.permutation(N, seed=1)
    assert x.dtype.name == "int64"
    assert np.array_equal(np.sort(x.numpy()), np.arange(N))
    assert abs(np.corrcoef(x.numpy(), np.arange(N))[0, 1]) < 4.5 / math.sqrt(N)


def test_shuffle_permutes_slices_along_an_axis() -> None:
    x = Tensor.arange(60).reshape(3, 5, 4)
    for axis in (0, 1, -1):
        found = x.shuffle(axis, seed=4).numpy()
        order = Tensor.permutation(found.shape[axis], seed=4).numpy()
        np.testing.assert_array_equal(found, np.take(x.numpy(), order, axis))
    np.testing.assert_array_equal(x.numpy().ravel(), np.arange(60))


def test_empty_and_single_shapes() -> None:
    for draw in (
        Tensor.rand,
        Tensor.randn,
        Tensor.uniform,
        Tensor.normal,
        Tensor.exponential,
        Tensor.truncated_normal,
    ):
        assert draw().shape == ()
        assert draw(0, 3).shape == draw((0, 3)).numpy().shape == (0, 3)
        assert draw((2, 1)).numpy().shape == (2, 1)
        with pytest.raises(
            ShapeError, match=f"{draw.__name__}: negative dimensions are not allowed"
        ):
            draw(-1, 2)
        with pytest.raises(OperandError, match="floating-point"):
            draw(2, dtype="int32")
    assert Tensor.permutation(0).tolist() == []
    assert Tensor.permutation(1).tolist() == [0]
    assert Tensor.zeros(0, 2).shuffle().shape == (0, 2)
    assert Tensor.zeros(0).bernoulli().tolist() == []
    assert Tensor.zeros(0, 2).categorical().tolist() == []
    assert Tensor.ones(2, 3).multinomial(0).shape == (2, 0)
    assert Tensor.ones(3).multinomial(0, replacement=True).shape == (0,)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_weight_of_0_is_never_chosen(dtype: str, replacement: bool) -> None:
    rng = np.random.default_rng(0)
    weights = rng.random((40, 301)) * (rng.random((40, 301)) < 0.1)
    weights[:, 7], weights[3] = 1e-3, 0.0
    weights[3, 300], weights[4] = 2.0, 0.0
    weights[4, 0] = 0.5
    n = 1 if not replacement else 2000
    chosen = Tensor(weights, dtype=dtype).multinomial(n, replacement=replacement, seed=3).numpy()
    assert (np.take_along_axis(weights, chosen, 1) > 0).all()
    assert set(chosen[3]) == {300}
    assert set(chosen[4]) == {0}


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "multinomial: expected finite non-negative weights, at least 1"),
        ([1.0, math.nan], "multinomial: expected finite non-negative weights, at least 1"),
        ([1.0, math.inf], "multinomial: expected finite non-negative weights, at least 1"),
        ([[1.0, 1.0], [0.0, 0.0]], "multinomial: expected finite non-negative weights, at least 1"),
    ],
)
def test_weights_that_are_known_are_checked(
    weights: list[Any], message: str, replacement: bool
) -> None:
    with pytest.raises(OperandError, match=message):
        Tensor(weights).multinomial(1, replacement=replacement)


def test_too_few_weights_are_checked_where_they_are_known() -> None:
    with pytest.raises(
        OperandError, match="multinomial: expected finite non-negative weights, at least 2"
    ):
        Tensor([0.0, 1.0, 0.0]).multinomial(2)
    lazy = Tensor([0.0, 1.0, -3.0, math.nan]) * 2
    for choose in (lambda w: w.multinomial(2, seed=1), sv.jit(lambda w: w.multinomial(2, seed=1))):
        assert choose(Tensor([0.0, 1.0, -3.0, math.nan]) * 2).tolist() == [1, 4]
    assert lazy.multinomial(3, replacement=True).tolist() == [1, 1, 1]
    assert (Tensor([0.0, 0.0]) * 2).multinomial(2, replacement=True).tolist() == [2, 2]


def test_samples_with_replacement_take_no_memory_for_each_weight() -> None:
    weights = Tensor(np.random.default_rng(1).random(15_193), dtype="float32")
    graph = weights.multinomial(4000, replacement=True, seed=1)
    assert max(math.prod(n.shape) for n in graph.uop.toposort() if n.dtype is not void) <= 16_384


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_uniform_range_may_be_wider_than_the_largest_float(dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    for low, high in (
        (-largest, largest),
        (Tensor([-largest], dtype=dtype), Tensor([largest], dtype=dtype)),
    ):
        x = (
            Tensor.uniform(2000, low=low, high=high, seed=1, dtype=dtype).numpy().astype(np.float64)
            / largest
        )
        assert np.isfinite(x).all()
        assert stats.kstest(x, stats.uniform(-1, 2).cdf).pvalue > LEAST

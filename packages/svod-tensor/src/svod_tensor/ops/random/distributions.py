"""Distributions, sampled from uniform random bits and accurate in both tails, and permutations.

All accept `seed` and `generator` as `rand` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from svod_dtype import DType, bool_, float32, float64, int64, uint64
from svod_ir import Op, OperandError, ShapeError, SInt, UOp, make_alu, make_cast
from svod_ir.sizes import max_size
from svod_tensor._shapes import normalize_axis
from svod_tensor.cells.registry import find_capture
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.ops.core.operands import as_value
from svod_tensor.ops.core.operation import operation, static_operation
from svod_tensor.ops.core.rounding import accumulation_dtype
from svod_tensor.ops.random.bits import (
    float_dtype,
    randn,
    random_bits,
    random_bits_like,
    uniform_from_bits,
)
from svod_tensor.ops.special.error_functions import compute_ndtri
from svod_tensor.options import HOST_DEVICE
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._generator import Generator, Seed
    from svod_tensor.ops.core.base import Operand

__all__ = [
    "bernoulli",
    "categorical",
    "exponential",
    "multinomial",
    "normal",
    "permutation",
    "shuffle",
    "truncated_normal",
    "uniform",
]


@static_operation(
    test="test_distributions.py::test_numbers_have_their_distribution",
    is_function=False,
    is_variadic=True,
)
def uniform(
    shape: SInt | Sequence[SInt],
    *,
    low: Operand = 0.0,
    high: Operand = 1.0,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike = float,
    device: str | None = None,
) -> Tensor:
    """Sample from the uniform distribution over [low, high); rounding to `dtype` may reach `high`.

    Args:
        shape: the shape: an integer or a sequence of integers.
        low: lower bound, a number or a tensor that broadcasts to the shape.
        high: upper bound, a number or a tensor that broadcasts to the shape.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: a floating-point dtype.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        OperandError: if `dtype` is not a floating-point dtype.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor.uniform(2, 3, low=-1.0, high=1.0, seed=1)
        >>> x.shape, bool((x.abs() <= 1).all())
        ((2, 3), True)
    """
    kind, wide = _dtypes("uniform", dtype)
    x = uniform_from_bits(random_bits("uniform", shape, seed, generator, device), wide)
    first, last = as_value(low, x), as_value(high, x)
    span = last.sub(first)
    scaled = x.mul(span).add(first)
    is_narrow = all(
        isinstance(bound, (int, float)) and abs(bound) <= wide.finfo_max / 2
        for bound in (low, high)
    )
    if not is_narrow:
        # `high - low` overflows to infinity for a range wider than the largest float.
        scaled = span.isinf().where(x.mul(last).add(x.neg().add(1).mul(first)), scaled)
    return scaled.cast(kind)


@static_operation(
    test="test_distributions.py::test_numbers_have_their_distribution",
    is_function=False,
    is_variadic=True,
)
def normal(
    shape: SInt | Sequence[SInt],
    *,
    mean: Operand = 0.0,
    std: Operand = 1.0,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike = float,
    device: str | None = None,
) -> Tensor:
    """Sample from the normal distribution.

    Args:
        shape: the shape: an integer or a sequence of integers.
        mean: mean, a number or a tensor that broadcasts to the shape.
        std: standard deviation, a number or a tensor that broadcasts to the shape.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: a floating-point dtype.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        OperandError: if `dtype` is not a floating-point dtype.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor.normal(1000, mean=5.0, std=0.1, seed=1)
        >>> x.shape, bool((x.mean() - 5).abs() < 0.05)
        ((1000,), True)
    """
    kind, wide = _dtypes("normal", dtype)
    x = randn(shape, seed=seed, generator=generator, dtype=wide, device=device)
    return x.mul(as_value(std, x)).add(as_value(mean, x)).cast(kind)


@static_operation(
    test="test_distributions.py::test_numbers_have_their_distribution",
    is_function=False,
    is_variadic=True,
)
def exponential(
    shape: SInt | Sequence[SInt],
    *,
    scale: Operand = 1.0,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike = float,
    device: str | None = None,
) -> Tensor:
    """Sample from the exponential distribution with mean `scale`; values are 2^-64 to 44.4 times it.

    Args:
        shape: the shape: an integer or a sequence of integers.
        scale: mean, a number or a tensor that broadcasts to the shape.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: a floating-point dtype.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        OperandError: if `dtype` is not a floating-point dtype.

    Source: Devroye, Non-Uniform Random Variate Generation (1986), section II.2.1: -log(1 - u).

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor.exponential(2, 3, seed=1)
        >>> x.shape, bool((x > 0).all())
        ((2, 3), True)
    """
    kind, wide = _dtypes("exponential", dtype)
    x = _exponential_from_bits(random_bits("exponential", shape, seed, generator, device), wide)
    return x.mul(as_value(scale, x)).cast(kind)


@static_operation(
    test="test_distributions.py::test_numbers_have_their_distribution",
    is_function=False,
    is_variadic=True,
)
def truncated_normal(  # noqa: PLR0913 - as `normal`, with two bounds
    shape: SInt | Sequence[SInt],
    *,
    low: float = -2.0,
    high: float = 2.0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike = float,
    device: str | None = None,
) -> Tensor:
    """Sample from the normal distribution truncated to [low, high].

    Computed in float64 by inverting the cumulative distribution function.

    Args:
        shape: the shape: an integer or a sequence of integers.
        low: lower bound, as a value and not in units of `std`; -inf for no bound.
        high: upper bound; inf for no bound.
        mean: mean of the normal distribution before truncation.
        std: standard deviation before truncation.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: a floating-point dtype.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        OperandError: if the interval is empty or more than 37 `std` away from `mean`, or if `dtype`
            is not a floating-point dtype.

    Source: Devroye, Non-Uniform Random Variate Generation (1986), section II.2.1.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor.truncated_normal(100, low=0.0, high=1.0, seed=1)
        >>> bool(((x >= 0) & (x <= 1)).all())
        True
    """
    kind = float_dtype("truncated_normal", dtype)
    first, last = _standardize(low, high, mean, std)
    # Above the mean, cumulative probabilities are near 1 and their difference cancels; the mirrored
    # interval has probabilities near 0, which do not.
    is_mirrored = first > 0
    near, far = (-last, -first) if is_mirrored else (first, last)
    begin, end = _normal_probability(near), _normal_probability(far)
    # An odd multiple of 2^-53 is neither 0 nor 1, whose quantiles are infinite; the clip keeps that.
    u = uniform_from_bits(
        random_bits("truncated_normal", shape, seed, generator, device).bitwise_or(1 << 11), float64
    )
    x = compute_ndtri(u.mul(end - begin).add(begin).clip(2.0**-1022, 1 - 2.0**-53))
    x = x.neg() if is_mirrored else x
    # The cast may still round a bound outwards: 0.1 in float32 is larger than 0.1.
    return x.clip(first, last).mul(std).add(mean).clip(low, high).cast(kind)


@operation(test="test_distributions.py::test_events_have_their_probability", is_function=False)
def bernoulli(
    x: Tensor,
    /,
    *,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike = bool_,
) -> Tensor:
    """Sample from Bernoulli distributions: True with the probability given by each element, to within
    2^-24 (2^-53 for float64).

    Args:
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: dtype of the result; 0 and 1 if it is not bool.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([0.0, 1.0]).bernoulli().tolist()
        [False, True]
    """
    wide = _wide_dtype(x)
    return (
        uniform_from_bits(random_bits_like(x, "bernoulli", seed, generator), wide)
        # The uniform number is below 1: probability 1 is always True, and 0 never.
        .lt(x.cast(wide))
        .cast(dtype)
    )


@operation(
    test="test_distributions.py::test_categories_have_probabilities_in_proportion_to_their_weights",
    is_function=False,
)
def categorical(
    x: Tensor, /, axis: int = -1, *, seed: Seed | None = None, generator: Generator | None = None
) -> Tensor:
    """Sample an index for each row of logits along an axis, with probabilities `softmax(logits)`.

    The result (int64) has the shape without `axis`.

    Args:
        axis: axis of the logits; a logit of -inf has probability 0.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.

    Raises:
        AxisError: if `axis` is out of bounds.

    Source: Maddison et al., A* Sampling (2014), section 2: the index of the largest `logit +
    Gumbel noise`.

    Example:
        >>> import numpy as np
        >>> from svod_tensor import Tensor
        >>> Tensor([[0.0, -np.inf], [-np.inf, 0.0]]).categorical().tolist()
        [0, 1]
    """
    axis = normalize_axis("categorical", axis, x.ndim)
    return _add_gumbel(x, random_bits_like(x, "categorical", seed, generator)).argmax(axis)


@operation(
    test="test_distributions.py::test_without_replacement_samples_are_distinct", is_function=False
)
def multinomial(
    x: Tensor,
    /,
    n: int,
    *,
    replacement: bool = False,
    seed: Seed | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Sample `n` indices for each row of weights along the last axis, with probabilities
    proportional to the weights.

    The result (int64) has the shape (..., n). An index of weight 0 is never sampled. Weights that
    are realized in host memory are checked eagerly, outside of captured functions. Otherwise a
    negative or NaN weight counts as 0, and where a row has too few nonzero weights, the result is
    the out-of-range index `x.shape[-1]`.

    Args:
        n: number of samples for each row.
        replacement: whether to sample with replacement, by a search in the cumulative weights.
            Without replacement, each row needs at least `n` nonzero weights.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.

    Raises:
        ShapeError: if `n` is larger than the last axis, without replacement.
        OperandError: if known weights are negative, infinite or NaN, or too few are nonzero.

    Source: Kool et al., Stochastic Beams and Where to Find Them (2019), section 2.3: the largest
    `logit + Gumbel noise`, without replacement.

    Example:
        >>> from svod_tensor import Tensor
        >>> sorted(Tensor([1.0, 0.0, 3.0]).multinomial(2).tolist())
        [0, 2]
    """
    if not x.ndim:
        raise ShapeError(
            operation="multinomial", shape=x.shape, problem="weights must have at least 1 dimension"
        )
    # Checked only where reading needs neither a computation nor a transfer.
    if x.is_realized and x.device == HOST_DEVICE and find_capture() is None:
        _check_weights(x, min(n, 1) if replacement else n)
    # The comparison is False for NaN, which so has weight 0.
    weights = x.gt(0).where(x.cast(_wide_dtype(x)), 0.0)
    if replacement:
        bits = random_bits_like(x, "multinomial", seed, generator, (*x.shape[:-1], n))
        return _search_weights(weights, bits)
    noisy = _add_gumbel(weights.log(), random_bits_like(weights, "multinomial", seed, generator))
    # The logarithm of weight 0 is -inf, which no noise raises.
    largest, indices = noisy.topk(n)
    return largest.eq(-math.inf).where(_size_of(x), indices)


@static_operation(test="test_distributions.py::test_permutations_are_uniform", is_function=False)
def permutation(
    n: SInt,
    *,
    seed: Seed | None = None,
    generator: Generator | None = None,
    device: str | None = None,
) -> Tensor:
    """Return a random permutation of the integers (int64) from 0 to `n - 1`.

    Sorted by 64 random bits, which are distinct for each, so that no order is preferred.

    Args:
        n: number of integers.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Example:
        >>> from svod_tensor import Tensor
        >>> sorted(Tensor.permutation(4).tolist())
        [0, 1, 2, 3]
    """
    return random_bits("permutation", (n,), seed, generator, device).argsort()


@operation(
    test="test_distributions.py::test_shuffle_permutes_slices_along_an_axis", is_function=False
)
def shuffle(
    x: Tensor, /, axis: int = 0, *, seed: Seed | None = None, generator: Generator | None = None
) -> Tensor:
    """Shuffle the slices of this tensor along an axis.

    Args:
        axis: the axis to shuffle.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.

    Raises:
        AxisError: if `axis` is out of bounds.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([[1, 1], [2, 2], [3, 3]]).shuffle()
        >>> sorted(x.tolist())
        [[1, 1], [2, 2], [3, 3]]
    """
    axis = normalize_axis("shuffle", axis, x.ndim)
    return x.take(
        random_bits_like(x, "shuffle", seed, generator, x.shape[axis : axis + 1]).argsort(), axis
    )


def _add_gumbel(x: Tensor, /, bits: Tensor) -> Tensor:
    """Add Gumbel noise -log(E), where E is exponentially distributed: never 0, and accurate for
    small E, which decide the largest sums.
    """
    wide = _wide_dtype(x)
    return x.cast(wide).sub(_exponential_from_bits(bits, wide).log())


def _check_weights(weights: Tensor, n_needed: int) -> None:
    if not n_needed or not weights.size or n_needed > max_size(weights.shape[-1]):
        return
    is_wrong = weights.ge(0).logical_and(weights.lt(math.inf)).logical_not()
    count = weights.gt(0).count_nonzero(-1)
    # One read by the host in the usual case.
    if not is_wrong.any().logical_or(count.lt(n_needed).any()).item():
        return
    if is_wrong.any().item():
        problem = f"weight {weights.flatten().take(is_wrong.flatten().cast(int64).argmax()).item()}"
    else:
        problem = f"{count.min().item()} nonzero weights"
    expected = f"finite non-negative weights, at least {n_needed} of them nonzero"
    raise OperandError(operation="multinomial", found=problem, expected=expected)


def _size_of(weights: Tensor) -> Tensor | int:
    size = weights.shape[-1]
    return size if isinstance(size, int) else weights.from_uop(size.cast(int64))


def _search_weights(weights: Tensor, bits: Tensor) -> Tensor:
    """Inverse transform sampling: find the first index whose cumulative weight exceeds each number.

    The cumulative sum is sequential, so that it does not increase at a weight of 0, which is thus
    never sampled."""
    # In float32, small weights would vanish beside a large sum, and never be sampled.
    sums = weights.cast(float64).cumsum(-1)
    size = _size_of(weights)
    total = sums.gather(-1, sums.zeros_like(dtype=int64)[..., :1].add(size).sub(1))
    # Only even multiples of 2^-53: at least 2^-52 below 1, so that the product with the total is
    # rounded to less than the total.
    target = uniform_from_bits(bits.bitwise_and(~(1 << 11) & ((1 << 64) - 1)), float64).mul(total)
    index = target.zeros_like(dtype=int64)
    step = 1 << max_size(weights.shape[-1]).bit_length()
    while step := step // 2:
        end = index.add(step)
        is_before = sums.gather(-1, end.sub(1)).le(target).logical_and(end.le(size))
        index = is_before.where(end, index)
    return index


def _dtypes(operation: str, dtype: DTypeLike) -> tuple[DType, DType]:
    """Dtype of the result, and dtype of the computation."""
    kind = float_dtype(operation, dtype)
    return kind, accumulation_dtype(kind)


def _wide_dtype(x: Tensor) -> DType:
    return float64 if x.dtype is float64 else float32


def _exponential_from_bits(bits: Tensor, kind: DType) -> Tensor:
    """Compute -log(1 - u), where u is a 64-bit fixed-point fraction, accurately for u near 0 and
    near 1.
    """
    node = bits.uop
    half = UOp.const(uint64, 1 << 63)
    is_low = make_alu(Op.LT, node, half)

    def scale(word: UOp) -> Tensor:
        return bits.from_uop(make_alu(Op.MUL, make_cast(word, kind), UOp.const(kind, 2.0**-64)))

    # Odd, so never 0: the Gumbel noise is the logarithm of the result.
    near_zero = scale(make_alu(Op.OR, make_alu(Op.WHERE, is_low, node, half), UOp.const(uint64, 1)))
    # 2^64 - bits in integers: 1 - u is exact, and keeps its digits where it is small.
    near_one = scale(make_alu(Op.WHERE, is_low, half, make_alu(Op.NEG, node)))
    return bits.from_uop(is_low).where(near_zero.neg().log1p(), near_one.log()).neg()


def _standardize(low: float, high: float, mean: float, std: float) -> tuple[float, float]:
    """Standardize the bounds of an interval: (bound - mean) / std."""
    if not (low < high and std > 0 and math.isfinite(std) and math.isfinite(mean)):
        raise OperandError(
            operation="truncated_normal",
            found=f"low={low}, high={high}, mean={mean}, std={std}",
            expected="finite mean, finite std > 0, and low < high",
        )
    first, last = (low - mean) / std, (high - mean) / std
    if first > _FARTHEST or last < -_FARTHEST:
        raise OperandError(
            operation="truncated_normal",
            found=f"the interval [{low}, {high}]",
            expected=f"an interval within {_FARTHEST} std of the mean",
        )
    return first, last


_FARTHEST: Final = 37.0
"""Beyond this many standard deviations, tail probabilities are subnormal in float64."""


def _normal_probability(x: float) -> float:
    """Cumulative distribution function of the standard normal distribution."""
    return math.erfc(-x / math.sqrt(2)) / 2

"""Random tensors, as pure functions of a 64-bit key: independent of device and order of execution.

Word w of element i is threefry(i + w * 2^56, key). The key is the next key of a generator
(`svod_tensor._generator`), or a seed, which is the first key of a generator with that seed."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from svod_dtype import DType, float32, float64, int64, to_dtype, uint32, uint64
from svod_ir import (
    Op,
    OperandError,
    ShapeError,
    SInt,
    UOp,
    make_alu,
    make_cast,
    make_empty,
    make_iota,
    make_reshape,
)
from svod_ir.sizes import product
from svod_tensor._data import copy_to_device, default_int_dtype, place_by_default
from svod_tensor._shapes import Shape, to_shape
from svod_tensor._shards import move_like
from svod_tensor.errors import IntegerOverflowError
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.ops.core.operation import operation, static_operation
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.creation import check_sizes
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._generator import Generator, Seed

__all__ = [
    "dropout",
    "float_dtype",
    "rand",
    "randint",
    "randn",
    "random_bits",
    "random_bits_like",
    "random_words",
    "uniform_from_bits",
]

_WORDS: Final = 1 << 56
"""Offset between the counters of consecutive words."""


@static_operation(
    test="test_random.py::test_uniform_numbers_are_uniform", is_function=False, is_variadic=True
)
def rand(
    shape: SInt | Sequence[SInt],
    *,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike = float,
    device: str | None = None,
) -> Tensor:
    """Sample from the uniform distribution over [0, 1): multiples of 2^-p, where p is the precision
    of `dtype` in bits.

    Args:
        shape: the shape: an integer or a sequence of integers.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: a floating-point dtype.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        OperandError: if `dtype` is not a floating-point dtype.
        ShapeError: if a size is negative.

    Example:
        >>> from svod_tensor import Generator, Tensor
        >>> x = Tensor.rand(2, 3, generator=Generator(1))
        >>> x.shape, bool(((x >= 0) & (x < 1)).all())
        ((2, 3), True)
    """
    kind = float_dtype("rand", dtype)
    return uniform_from_bits(random_bits("rand", shape, seed, generator, device), kind)


@static_operation(
    test="test_random.py::test_normal_numbers_are_normal", is_function=False, is_variadic=True
)
def randn(
    shape: SInt | Sequence[SInt],
    *,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike = float,
    device: str | None = None,
) -> Tensor:
    """Sample from the standard normal distribution; magnitudes are at most 5.8, or 8.6 in float64.

    Args:
        shape: the shape: an integer or a sequence of integers.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: a floating-point dtype, or a complex dtype, whose parts have variance 1/2.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        OperandError: if `dtype` is not a floating-point or complex dtype.
        ShapeError: if a size is negative.

    Source: Box and Muller, A Note on the Generation of Random Normal Deviates (1958).

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor.randn(1000, seed=1)
        >>> bool(x.mean().abs() < 0.1), bool((x.std() - 1).abs() < 0.1)
        (True, True)
    """
    if to_dtype(dtype).is_complex:
        part_dtype = to_dtype(dtype).part
        pairs = randn(
            (*to_shape("randn", (shape,)), 2),
            seed=seed,
            generator=generator,
            dtype=part_dtype,
            device=device,
        )
        # As in torch, a complex number has variance 1, half of it in each part.
        return pairs.mul(math.sqrt(0.5)).as_complex()
    kind = float_dtype("randn", dtype)
    if kind is float64:
        # Two numbers of 53 bits need two words; below, two of 24 bits are halves of one.
        bits, second_bits = random_words("randn", shape, seed, generator, device, n_words=2)
        first, second = uniform_from_bits(bits, kind), uniform_from_bits(second_bits, kind)
    else:
        bits = random_bits("randn", shape, seed, generator, device)
        first, second = (
            uniform_from_bits(bits.lshift(32), float32),
            uniform_from_bits(bits, float32),
        )
    # 1 - u is in (0, 1], so that the logarithm is finite.
    radius = first.neg().add(1).log().mul(-2).sqrt()
    # The sine would be a second sample; without it, element i depends on counter i only, for every
    # shape.
    return radius.mul(second.mul(2 * math.pi).cos()).cast(kind)


@static_operation(
    test="test_random.py::test_integers_are_uniform_between_any_bounds",
    is_function=False,
    is_variadic=True,
)
def randint(
    shape: SInt | Sequence[SInt],
    *,
    low: int = 0,
    high: int,
    seed: Seed | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Sample integers from the discrete uniform distribution over [low, high).

    Probabilities differ by less than 2^-32 relative to each other, since 2^64 is not divisible by
    every range: by (high - low) / 2^64 at most, and by 2^-64 if `high - low` is more than 2^32.

    Args:
        shape: the shape: an integer or a sequence of integers.
        low: lower bound, inclusive.
        high: upper bound, exclusive.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.
        dtype: by default int32, or int64 or uint64 where the bounds do not fit.
        device: the device; by default the one that `SVOD_DEVICE` names.

    Raises:
        ShapeError: if `low` is not less than `high`, or a size is negative.
        IntegerOverflowError: if a bound is out of range for `dtype`.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor.randint(100, low=1, high=7, seed=1)
        >>> bool(((x >= 1) & (x <= 6)).all())
        True
    """
    low, high = operator.index(low), operator.index(high)
    if low >= high:
        raise ShapeError(
            operation="randint", shape=(low, high), problem=f"low >= high: {low} >= {high}"
        )
    kind = default_int_dtype(low, high - 1) if dtype is None else to_dtype(dtype)
    for bound in (low, high - 1):
        if kind.is_int and not kind.min <= bound <= kind.max:
            raise IntegerOverflowError(value=bound, dtype=kind)
    count = high - low
    if count <= 1 << 32:
        # Without rejection, which would need a loop for each element.
        offset = random_bits("randint", shape, seed, generator, device).remainder(count)
    else:
        first, second = random_words("randint", shape, seed, generator, device, n_words=2)
        offset = _scale(first, second, count)
    # Modulo 2^64, in which a negative bound is its two's complement.
    samples = offset.add(low % (1 << 64))
    return (samples if low >= 0 else samples.cast(int64)).cast(kind)


@operation(test="test_random.py::test_dropout_keeps_the_mean", is_function=False)
@rounds_once
def dropout(
    x: Tensor, /, p: float = 0.5, *, seed: Seed | None = None, generator: Generator | None = None
) -> Tensor:
    """Zero each element with probability `p`, and scale the others by 1 / (1 - p) to keep the mean.

    Args:
        p: probability of an element to be zeroed.
        seed: key of the samples, for reproducible results.
        generator: the random generator; by default the one that `manual_seed` seeds.

    Raises:
        OperandError: if `p` is not in [0, 1].

    Source: Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting
    (2014).

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor.ones(100).dropout(0.5, seed=1)
        >>> sorted(set(x.tolist()))
        [0.0, 2.0]
    """
    if not 0 <= p <= 1:
        raise OperandError(operation="dropout", found=p, expected="a probability in [0, 1]")
    if p == 0:
        return x.clone()
    keep = uniform_from_bits(random_bits_like(x, "dropout", seed, generator), float32).ge(p)
    # For p = 1 the factor would be infinite.
    return keep.where(x.mul(1 / (1 - p)) if p < 1 else x.zeros_like(), 0)


def random_bits(
    operation: str,
    shape: SInt | Sequence[SInt],
    seed: Seed | None,
    generator: Generator | None,
    device: str | None,
) -> Tensor:
    """Generate 64 random bits for each element."""
    return random_words(operation, shape, seed, generator, device)[0]


def random_words(
    operation: str,
    shape: SInt | Sequence[SInt],
    seed: Seed | None,
    generator: Generator | None,
    device: str | None,
    *,
    n_words: int = 1,
) -> tuple[Tensor, ...]:
    """Generate `n_words` tensors of 64 random bits for each element."""
    from svod_tensor._generator import get_key

    sizes = check_sizes(operation, to_shape(operation, (shape,)))
    key = get_key(operation, seed, generator)
    key = place_by_default(key) if device is None else copy_to_device(key, device)
    return tuple(Tensor.from_uop(_make_bits(key, sizes, word)) for word in range(n_words))


def random_bits_like(
    x: Tensor,
    operation: str,
    seed: Seed | None,
    generator: Generator | None,
    shape: Shape | None = None,
) -> Tensor:
    """Generate 64 random bits per element of `x`, or of `shape`, on the device of `x`."""
    from svod_tensor._generator import get_key

    # Only the key moves, 8 bytes: the bits are computed on the device of `x`.
    key = move_like(get_key(operation, seed, generator), x.uop)
    return x.from_uop(_make_bits(key, x.shape if shape is None else shape, 0))


def float_dtype(operation: str, dtype: DTypeLike) -> DType:
    """Return the dtype of samples from a real distribution.

    Raises:
        OperandError: if it is not a floating-point dtype.
    """
    kind = to_dtype(dtype)
    if not kind.is_float:
        raise OperandError(operation=operation, found=kind, expected="a floating-point dtype")
    return kind


def uniform_from_bits(bits: Tensor, kind: DType) -> Tensor:
    """Convert the upper bits of 64 random bits, as many as are exact, to a number of `kind` in
    [0, 1).
    """
    n_bits = kind.mantissa_bits + 1
    # Built from nodes, not tensors: for a small sample, building the graph would dominate.
    word = make_alu(Op.SHR, bits.uop, UOp.const(uint64, 64 - n_bits))
    wide = (
        make_cast(word, float64) if kind is float64 else make_cast(make_cast(word, uint32), float32)
    )
    scaled = make_alu(Op.MUL, wide, UOp.const(wide.dtype, 2.0**-n_bits))
    return bits.from_uop(make_cast(scaled, kind))


def _scale(high: Tensor, low: Tensor, count: int) -> Tensor:
    """Scale a 128-bit number from [0, 2^128) to [0, `count`), rounded down: floor((high * 2^64 +
    low) * count / 2^128).

    Source: Lemire, Fast Random Integer Generation in an Interval (2019), section 4, without
    rejection."""
    # The factor has 65 bits, more than `_high_product` takes.
    if count == 1 << 64:
        return high
    below, carried = high.mul(count), _high_product(low, count)
    return _high_product(high, count).add(below.add(carried).lt(below).cast(uint64))


def _high_product(x: Tensor, factor: int) -> Tensor:
    """Upper 64 bits of the 128-bit product, computed from 32-bit halves.

    Source: Knuth, The Art of Computer Programming, volume 2, section 4.3.1, algorithm M.
    """
    mask = (1 << 32) - 1
    x0, x1, f0, f1 = x.bitwise_and(mask), x.rshift(32), factor & mask, factor >> 32
    middle = x1.mul(f0).add(x0.mul(f0).rshift(32))
    crossed = x0.mul(f1).add(middle.bitwise_and(mask))
    return x1.mul(f1).add(middle.rshift(32)).add(crossed.rshift(32))


def _make_bits(key: UOp, sizes: tuple[SInt, ...], word: int) -> UOp:
    count = product(sizes)
    if isinstance(count, int) and not count:
        return make_empty(uint64, sizes)
    counter = make_iota(count, uint64)
    if word:
        counter = make_alu(Op.ADD, counter, UOp.const(uint64, word * _WORDS))
    return make_reshape(make_alu(Op.THREEFRY, counter, key), sizes)

"""Random tensors that depend on their seed alone: not on when they are computed, nor on how.

Element i of a tensor with seed s is threefry(i, s), so that no state is kept anywhere; a seed that
is not given is drawn from the operating system when the tensor is made.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Self, TypeVar

from svod_dtype import DType, float32, float64, int64, to_dtype, uint32, uint64
from svod_ir.build import make_alu, make_iota, make_reshape
from svod_ir.errors import OperandError, ShapeError
from svod_ir.ops import Op
from svod_ir.sizes import product
from svod_ir.uop import SInt, UOp
from svod_tensor.capture import check_not_capturing
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.windows import Windows
from svod_tensor.shapes import to_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Random"]

T = TypeVar("T", bound="Random")


@operations
class Random(Windows):
    """Tensors of random numbers."""

    __slots__ = ()

    @classmethod
    def rand(
        cls,
        *shape: SInt | Sequence[SInt],
        seed: int | None = None,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> Self:
        """Numbers from 0 up to but without 1, uniformly distributed."""
        kind = _float_dtype("rand", dtype)
        return cls._place(_uniform(cls._bits(shape, seed), kind is float64).cast(kind).uop, device)

    @classmethod
    def randn(
        cls,
        *shape: SInt | Sequence[SInt],
        seed: int | None = None,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> Self:
        """Normally distributed numbers with mean 0 and variance 1.

        Source: Box and Muller, A Note on the Generation of Random Normal Deviates (1958).
        """
        kind = _float_dtype("randn", dtype)
        bits = cls._bits(shape, seed)
        radius = _uniform_of_word(bits.cast(uint32)).neg().add(1).log().mul(-2).sqrt()
        angle = _uniform_of_word(bits.rshift(32).cast(uint32)).mul(2 * math.pi)
        return cls._place(radius.mul(angle.cos()).cast(kind).uop, device)

    @classmethod
    def randint(
        cls, *shape: SInt | Sequence[SInt], low: int = 0, high: int, seed: int | None = None, dtype: DTypeLike | None = None,
        device: str | None = None,
    ) -> Self:  # fmt: skip
        """Integers from `low` up to but without `high`."""
        if low >= high:
            raise ShapeError(operation="randint", shape=(low, high), problem="holds no integer")
        kind = cls([low, high - 1]).dtype if dtype is None else to_dtype(dtype)
        offset = cls._bits(shape, seed).remainder(high - low).cast(int64).add(low)
        return cls._place(offset.cast(kind).uop, device)

    @rounds_once
    def dropout(self, p: float = 0.5, *, seed: int | None = None) -> Self:
        """Each element with probability 1 - `p`, scaled to keep the mean, and 0 otherwise."""
        if not 0 <= p <= 1:
            raise OperandError(operation="dropout", found=p, expected="a probability")
        if p == 0:
            return self
        keep = self.rand(*self.shape, seed=seed).ge(p)
        return keep.where(self.mul(1 / (1 - p)) if p < 1 else self.zeros_like(), 0)

    @classmethod
    def _bits(cls, shape: Sequence[SInt | Sequence[SInt]], seed: int | None) -> Self:
        """64 random bits for each element."""
        sizes = to_shape("rand", shape)
        count = product(sizes)
        if seed is None:
            # Each run of a captured function would draw the same numbers.
            check_not_capturing("draws a seed")
        key = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        if isinstance(count, int) and not count:
            return cls.zeros(sizes, dtype=uint64)
        counter = make_iota(count, uint64)
        return cls.from_uop(make_reshape(make_alu(Op.THREEFRY, counter, UOp.const(uint64, key)), sizes))


def _uniform(bits: T, is_wide: bool) -> T:
    if is_wide:
        return bits.rshift(11).cast(float64).mul(2.0**-53)
    return _uniform_of_word(bits.rshift(32).cast(uint32))


def _uniform_of_word(word: T) -> T:
    return word.rshift(8).cast(float32).mul(2.0**-24)


def _float_dtype(operation: str, dtype: DTypeLike) -> DType:
    kind = to_dtype(dtype)
    if not kind.is_float:
        raise OperandError(operation=operation, found=kind, expected="a floating-point dtype")
    return kind

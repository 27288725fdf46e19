"""Exponentials, logarithms and roots. Integers and bools are computed as float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from svod_dtype import float64
from svod_ir.ops import Op
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Exponential"]


@operations
class Exponential(Theme):
    """Exponentials, logarithms, roots, and the error function."""

    __slots__ = ()

    def exp(self) -> Self:
        return self._to_float()._unary(Op.EXP)

    def exp2(self) -> Self:
        return self._to_float()._unary(Op.EXP2)

    def expm1(self) -> Self:
        """`exp(x) - 1`, accurate near 0."""
        return self._to_float()._unary(Op.EXPM1)

    def log(self) -> Self:
        return self._to_float()._unary(Op.LOG)

    def log2(self) -> Self:
        return self._to_float()._unary(Op.LOG2)

    def log10(self) -> Self:
        return self._through_float64(lambda x: x.log().mul(1.0 / math.log(10.0)))

    def log1p(self) -> Self:
        """`log(1 + x)`, accurate near 0."""
        return self._to_float()._unary(Op.LOG1P)

    @rounds_once
    def logaddexp(self, other: Operand) -> Self:
        """`log(exp(x) + exp(y))` without overflow."""
        x, y = self._float_pair(other)
        high, low = x.maximum(y), x.minimum(y)
        difference = low.sub(high)
        return (high.eq(low)).where(high.add(math.log(2.0)), high.add(difference.exp().log1p()))

    def sqrt(self) -> Self:
        return self._to_float()._unary(Op.SQRT)

    def rsqrt(self) -> Self:
        return self._to_float()._unary(Op.RSQRT)

    def cbrt(self) -> Self:
        """The cube root, of negative numbers too."""
        x = self._to_float()
        wide = x.cast(float64)
        size = wide.abs()
        # Scaled by a cube, so that the cube of the root is a normal number.
        is_small = size.lt(2.0**-960)
        size = is_small.where(size.mul(2.0**99), size)
        root = size.pow(1.0 / 3.0)
        root = root.sub(root.mul(root).mul(root).sub(size).div(root.mul(root).mul(3.0)))
        root = is_small.where(root.mul(2.0**-33), root)
        has_none = wide.eq(0).logical_or(wide.isfinite().logical_not())
        return has_none.where(wide, wide.lt(0).where(root.neg(), root)).cast(x.dtype)

    def hypot(self, other: Operand) -> Self:
        """`sqrt(x^2 + y^2)`."""
        x, y = self._float_pair(other)
        dtype = x.dtype
        x, y = x.cast(float64).abs(), y.cast(float64).abs()
        large, small = x.maximum(y), x.minimum(y)
        ratio = small.div(large.eq(0).where(1.0, large))
        result = ratio.square().add(1).sqrt().mul(large)
        infinite = x.isinf().logical_or(y.isinf())
        return infinite.where(math.inf, result).cast(dtype)

    @rounds_once
    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-x))`."""
        return self._to_float().neg().exp().add(1).reciprocal()

    def erf(self) -> Self:
        return self._to_float()._unary(Op.ERF)

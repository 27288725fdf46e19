"""Exponentials, logarithms and roots. Integers and bools are computed as float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, TypeVar

from svod_dtype import float64
from svod_ir import Op
from svod_tensor.ops.complex_functions import apply_function, compute_function
from svod_tensor.ops.composed import gradient_rule, with_rule
from svod_tensor.ops.naming import operations
from svod_tensor.ops.partials import CBRT, HYPOT, LOGADDEXP
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Exponential"]


T = TypeVar("T", bound=Theme)


@gradient_rule("sigmoid", is_symmetric=True)
def _sigmoid_gradient(cotangent: T, value: T, _: object, __: object) -> tuple[T]:
    """From the value alone, which does not overflow."""
    return (cotangent.mul(value.mul(value.neg().add(1))),)


@operations
class Exponential(Theme):
    """Exponentials, logarithms, roots, and the error function."""

    __slots__ = ()

    def exp(self) -> Self:
        """e to the power of each element. Integers become float32.

        Example:
            >>> Tensor([0.0, 1.0]).exp().round(4).numpy()
            array([1.    , 2.7183], dtype=float32)
        """
        return apply_function(Op.EXP, self._to_float())

    def exp2(self) -> Self:
        """2 to the power of each element. Integers become float32.

        Example:
            >>> Tensor([0.0, 3.0, -1.0]).exp2().tolist()
            [1.0, 8.0, 0.5]
        """
        return apply_function(Op.EXP2, self._to_float())

    def expm1(self) -> Self:
        """`exp(x) - 1`, accurate near 0. Integers become float32.

        Example:
            >>> Tensor([1e-10], dtype="float64").expm1().tolist()
            [1.00000000005e-10]
        """
        return apply_function(Op.EXPM1, self._to_float())

    def log(self) -> Self:
        """The natural logarithm; NaN of negative numbers. Integers become float32.

        Example:
            >>> Tensor([1.0, 10.0, 0.0]).log().round(4).numpy()
            array([0.    , 2.3026,   -inf], dtype=float32)
        """
        return apply_function(Op.LOG, self._to_float())

    def log2(self) -> Self:
        """The logarithm to base 2; NaN of negative numbers. Integers become float32.

        Example:
            >>> Tensor([1.0, 8.0]).log2().tolist()
            [0.0, 3.0]
        """
        return apply_function(Op.LOG2, self._to_float())

    def log10(self) -> Self:
        """The logarithm to base 10; NaN of negative numbers. Integers become float32.

        Example:
            >>> Tensor([1.0, 1000.0]).log10().tolist()
            [0.0, 3.0]
        """
        if self.dtype.is_complex:
            return compute_function("log10", self)
        return self._through_float64(lambda x: x.log().mul(1.0 / math.log(10.0)))

    def log1p(self) -> Self:
        """`log(1 + x)`, accurate near 0. Integers become float32.

        Example:
            >>> Tensor([1e-10], dtype="float64").log1p().tolist()
            [9.999999999500001e-11]
        """
        return apply_function(Op.LOG1P, self._to_float())

    @rounds_once
    def logaddexp(self, other: Operand) -> Self:
        """`log(exp(x) + exp(other))` without overflow. Shapes broadcast and dtypes promote; integers become float32.

        Example:
            >>> Tensor([1000.0]).logaddexp(1000.0).round(4).numpy()
            array([1000.6932], dtype=float32)
        """
        x, y = self._float_pair(other)
        high, low = x.maximum(y), x.minimum(y)
        difference = low.sub(high)
        value = high.eq(low).where(high.add(math.log(2.0)), high.add(difference.exp().log1p()))
        return with_rule(LOGADDEXP, value, (x, y))

    def sqrt(self) -> Self:
        """The square root; NaN of negative numbers. Integers become float32.

        Example:
            >>> Tensor([4, 9]).sqrt().tolist()
            [2.0, 3.0]
        """
        return apply_function(Op.SQRT, self._to_float())

    def rsqrt(self) -> Self:
        """`1 / sqrt(x)`. Integers become float32.

        Example:
            >>> Tensor([4.0, 0.25]).rsqrt().tolist()
            [0.5, 2.0]
        """
        return apply_function(Op.RSQRT, self._to_float())

    def cbrt(self) -> Self:
        """The cube root, of negative numbers too. Integers become float32.

        Example:
            >>> Tensor([-8.0, 27.0]).cbrt().tolist()
            [-2.0, 3.0]
        """
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
        value = has_none.where(wide, wide.lt(0).where(root.neg(), root))
        return with_rule(CBRT, value, (wide,)).cast(x.dtype)

    def hypot(self, other: Operand) -> Self:
        """`sqrt(x^2 + other^2)` without overflow. Shapes broadcast and dtypes promote; integers become float32.

        Example:
            >>> Tensor([3.0, 5.0]).hypot([4.0, 12.0]).tolist()
            [5.0, 13.0]
        """
        x, y = self._float_pair(other)
        dtype = x.dtype
        wide = x.cast(float64), y.cast(float64)
        x, y = wide[0].abs(), wide[1].abs()
        large, small = x.maximum(y), x.minimum(y)
        ratio = small.div(large.eq(0).where(1.0, large))
        result = ratio.square().add(1).sqrt().mul(large)
        infinite = x.isinf().logical_or(y.isinf())
        return with_rule(HYPOT, infinite.where(math.inf, result), wide).cast(dtype)

    @rounds_once
    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-x))`. Integers become float32.

        Example:
            >>> Tensor([0.0, 2.0]).sigmoid().round(4).numpy()
            array([0.5   , 0.8808], dtype=float32)
        """
        x = self._to_float()
        return with_rule(_sigmoid_gradient, x.neg().exp().add(1).reciprocal(), (x,))

    def erf(self) -> Self:
        """The error function. Integers become float32.

        Example:
            >>> Tensor([0.0, 1.0]).erf().round(4).numpy()
            array([0.    , 0.8427], dtype=float32)
        """
        return self._to_float()._unary(Op.ERF)

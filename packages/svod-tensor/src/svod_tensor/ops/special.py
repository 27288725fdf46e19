"""Special functions: gamma and its relatives, error functions, and Bessel functions.

Each is computed in float64, by polynomials and without a branch, and rounded once: float32 and narrower floats are exact to
half a unit in the last place nearly everywhere. `docs/accuracy.md` has the errors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, TypeVar

from svod_dtype import float64
from svod_ir import OperandError
from svod_tensor.ops.bessel_functions import compute_i0, compute_i0e, compute_i1, compute_i1e, compute_j0, compute_j1
from svod_tensor.ops.composed import elementwise_rule, with_rule
from svod_tensor.ops.gamma_functions import (
    compute_digamma,
    compute_gamma,
    compute_lgamma,
    compute_polygamma,
    compute_zeta,
    sine_of_pi,
)
from svod_tensor.ops.naming import operations
from svod_tensor.ops.normal_functions import (
    compute_erfc,
    compute_erfcx,
    compute_erfinv,
    compute_log_ndtr,
    compute_ndtr,
    compute_ndtri,
)
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Special"]

T = TypeVar("T", bound=Theme)


@elementwise_rule("beta")
def _beta_slopes(value: T, operands: tuple[T, T], __: object) -> tuple[T, T]:
    x, y = operands
    both = compute_digamma(x.add(y))
    return value.mul(compute_digamma(x).sub(both)), value.mul(compute_digamma(y).sub(both))


@elementwise_rule("xlogy")
def _xlogy_slopes(_: T, operands: tuple[T, T], __: object) -> tuple[T, T]:
    """Those of the product; where it is 0 by definition, the logarithm by `x` all the same."""
    x, y = operands
    return y.log(), x.eq(0).logical_and(y.eq(0)).where(0.0, x.div(y))


@elementwise_rule("sinc")
def _sinc_slope(value: T, operands: tuple[T], __: object) -> tuple[T]:
    (x,) = operands
    angle = x.sub(x.round()).mul(math.pi)
    cosine = x.round().remainder(2).eq(0).where(angle.cos(), angle.cos().neg())
    square = x.mul(math.pi).square()
    # Near 0 the difference cancels.
    near = square.mul(-1 / 45360).add(1 / 840).mul(square).sub(1 / 30).mul(square).add(1 / 3).mul(x).mul(-(math.pi**2))
    is_near = x.abs().lt(0.05)
    return (is_near.where(near, cosine.sub(value).div(is_near.where(1.0, x))),)


@operations
class Special(Theme):
    """Gamma, error and Bessel functions, with their derivatives."""

    __slots__ = ()

    def gamma(self) -> Self:
        """The gamma function, `(x - 1)!` of whole numbers; NaN at negative ones. Integers become float32.

        Example:
            >>> Tensor([0.5, 5.0]).gamma().round(4).numpy()
            array([ 1.7725, 24.    ], dtype=float32)
        """
        return self._through_float64(compute_gamma)

    def lgamma(self) -> Self:
        """The logarithm of `abs(gamma(x))`. Integers become float32.

        Example:
            >>> Tensor([0.5, 100.0]).lgamma().round(4).numpy()
            array([  0.5724, 359.1342], dtype=float32)
        """
        return self._through_float64(compute_lgamma)

    def digamma(self) -> Self:
        """The derivative of `lgamma`; NaN at negative whole numbers. Integers become float32.

        Example:
            >>> Tensor([1.0, 10.0]).digamma().round(4).numpy()
            array([-0.5772,  2.2518], dtype=float32)
        """
        return self._through_float64(compute_digamma)

    def erfc(self) -> Self:
        """`1 - erf(x)`, exact where that is tiny. Integers become float32.

        Example:
            >>> Tensor([0.0, 5.0], dtype="float64").erfc().tolist()
            [1.0, 1.5374597944280347e-12]
        """
        return self._through_float64(compute_erfc)

    def erfcx(self) -> Self:
        """`exp(x ** 2) * erfc(x)`, which is finite where its factors are not. Integers become float32.

        Example:
            >>> Tensor([0.0, 100.0]).erfcx().round(4).numpy()
            array([1.    , 0.0056], dtype=float32)
        """
        return self._through_float64(compute_erfcx)

    def erfinv(self) -> Self:
        """The number whose `erf` is `x`: infinite at 1 and -1, NaN beyond. Integers become float32.

        Example:
            >>> Tensor([0.0, 0.5]).erfinv().round(4).numpy()
            array([0.    , 0.4769], dtype=float32)
        """
        return self._through_float64(compute_erfinv)

    def ndtr(self) -> Self:
        """The probability that a normal number is below `x`. Integers become float32.

        Example:
            >>> Tensor([0.0, -1.0]).ndtr().round(4).numpy()
            array([0.5   , 0.1587], dtype=float32)
        """
        return self._through_float64(compute_ndtr)

    def log_ndtr(self) -> Self:
        """The logarithm of `ndtr`, finite far below 0 too. Integers become float32.

        Example:
            >>> Tensor([0.0, -50.0]).log_ndtr().numpy()
            array([-6.9314718e-01, -1.2548314e+03], dtype=float32)
        """
        return self._through_float64(compute_log_ndtr)

    def ndtri(self) -> Self:
        """The inverse of `ndtr`: below which a normal number is with probability `x`. Integers become float32.

        Example:
            >>> Tensor([0.5, 0.975]).ndtri().round(4).numpy()
            array([0.  , 1.96], dtype=float32)
        """
        return self._through_float64(compute_ndtri)

    def i0(self) -> Self:
        """The modified Bessel function of the first kind and order 0. Integers become float32.

        Example:
            >>> Tensor([0.0, 2.0]).i0().round(4).numpy()
            array([1.    , 2.2796], dtype=float32)
        """
        return self._through_float64(compute_i0)

    def i0e(self) -> Self:
        """`exp(-abs(x)) * i0(x)`, which does not overflow. Integers become float32.

        Example:
            >>> Tensor([0.0, 2.0]).i0e().round(4).numpy()
            array([1.    , 0.3085], dtype=float32)
        """
        return self._through_float64(compute_i0e)

    def i1(self) -> Self:
        """The modified Bessel function of the first kind and order 1. Integers become float32.

        Example:
            >>> Tensor([0.0, 2.0]).i1().round(4).numpy()
            array([0.    , 1.5906], dtype=float32)
        """
        return self._through_float64(compute_i1)

    def i1e(self) -> Self:
        """`exp(-abs(x)) * i1(x)`, which does not overflow. Integers become float32.

        Example:
            >>> Tensor([0.0, 2.0]).i1e().round(4).numpy()
            array([0.    , 0.2153], dtype=float32)
        """
        return self._through_float64(compute_i1e)

    def j0(self) -> Self:
        """The Bessel function of the first kind and order 0. Integers become float32.

        Example:
            >>> Tensor([0.0, 2.0]).j0().round(4).numpy()
            array([1.    , 0.2239], dtype=float32)
        """
        return self._through_float64(compute_j0)

    def j1(self) -> Self:
        """The Bessel function of the first kind and order 1. Integers become float32.

        Example:
            >>> Tensor([0.0, 2.0]).j1().round(4).numpy()
            array([0.    , 0.5767], dtype=float32)
        """
        return self._through_float64(compute_j1)

    def polygamma(self, n: int) -> Self:
        """The derivative of order `n` of `digamma`, which is that of order 0. Integers become float32.

        Infinite at 0 and at negative integers.

        Args:
            n: the order.

        Raises:
            OperandError: if the order is negative.

        Example:
            >>> Tensor([1.0, 2.0]).polygamma(1).round(4).numpy()
            array([1.6449, 0.6449], dtype=float32)
        """
        if n < 0:
            raise OperandError(operation="polygamma", found=n, expected="an order of 0 or more")
        return self._through_float64(lambda x: compute_polygamma(x, n))

    def zeta(self, q: Operand = 1) -> Self:
        """The sum of `(k + q) ** -x` for k from 0, Riemann's by default: infinite at 1, NaN below. Integers become float32.

        Args:
            q: of 0 or more; NaN where it is negative.

        Example:
            >>> Tensor([2.0, 4.0]).zeta().round(4).numpy()
            array([1.6449, 1.0823], dtype=float32)
        """
        x, y = self._float_pair(q)
        return compute_zeta(x.cast(float64), y.cast(float64)).cast(x.dtype)

    def beta(self, other: Operand) -> Self:
        """`gamma(x) * gamma(y) / gamma(x + y)` of positive numbers. Shapes broadcast and dtypes promote; integers become
        float32.

        It is computed from logarithms, whose size is lost from the digits of float64.

        Args:
            other: y.

        Example:
            >>> Tensor([1.0, 2.0]).beta(3.0).round(4).numpy()
            array([0.3333, 0.0833], dtype=float32)
        """
        x, y = self._float_pair(other)
        wide = x.cast(float64), y.cast(float64)
        logarithm = compute_lgamma(wide[0]).add(compute_lgamma(wide[1])).sub(compute_lgamma(wide[0].add(wide[1])))
        return with_rule(_beta_slopes, logarithm.exp(), wide).cast(x.dtype)

    def xlogy(self, other: Operand) -> Self:
        """`x * log(other)`, and 0 where `x` is 0 unless the other one is NaN. Shapes broadcast and dtypes promote; integers
        become float32.

        Example:
            >>> Tensor([0.0, 2.0]).xlogy([0.0, 1.0]).tolist()
            [0.0, 0.0]
        """
        x, y = self._float_pair(other)
        wide = x.cast(float64), y.cast(float64)
        is_none = wide[0].eq(0).logical_and(wide[1].isnan().logical_not())
        return with_rule(_xlogy_slopes, is_none.where(0.0, wide[0].mul(wide[1].log())), wide).cast(x.dtype)

    def logit(self) -> Self:
        """`log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN outside. Integers become float32.

        Example:
            >>> Tensor([0.5, 0.75]).logit().round(4).numpy()
            array([0.    , 1.0986], dtype=float32)
        """
        return self._through_float64(_compute_logit)

    def sinc(self) -> Self:
        """`sin(pi * x) / (pi * x)`, 1 at 0. Integers become float32.

        Example:
            >>> Tensor([0.0, 0.5, 1.5]).sinc().round(4).numpy()
            array([ 1.    ,  0.6366, -0.2122], dtype=float32)
        """
        return self._through_float64(_compute_sinc)


@elementwise_rule("logit")
def _logit_slope(_: T, operands: tuple[T], __: object) -> tuple[T]:
    """1 / (x (1 - x)) as a sum, whose derivative is not NaN at 0 and 1; NaN outside, as the value."""
    (x,) = operands
    is_inside = x.ge(0).logical_and(x.le(1))
    return (is_inside.where(x.reciprocal().add(x.neg().add(1).reciprocal()), math.nan),)


def _compute_logit(x: T) -> T:
    # Near one half, where the quotient is nearly 1, from how far it is from there.
    away = x.mul(2).sub(1)
    near = away.log1p().sub(away.neg().log1p())
    value = away.abs().lt(0.5).where(near, x.log().sub(x.neg().log1p()))
    return with_rule(_logit_slope, value, (x,))


def _compute_sinc(x: T) -> T:
    is_zero = x.eq(0)
    value = sine_of_pi(x).div(is_zero.where(1.0, x).mul(math.pi))
    value = x.isinf().where(0.0, is_zero.where(1.0, value))
    return with_rule(_sinc_slope, value, (x,))

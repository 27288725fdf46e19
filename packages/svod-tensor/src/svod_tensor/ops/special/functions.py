"""Special functions: gamma and related functions, error functions, and Bessel functions.

All are computed in float64, by polynomials and without branches, and rounded once: results in float32
and narrower are within half a unit in the last place nearly everywhere. `docs/accuracy.md` lists the
errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_dtype import float64
from svod_ir import OperandError
from svod_tensor.ops.core.gradient_rules import elementwise_rule, with_rule
from svod_tensor.ops.core.operands import promote_to_float, through_float64
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.special.bessel import (
    compute_i0,
    compute_i0e,
    compute_i1,
    compute_i1e,
    compute_j0,
    compute_j1,
)
from svod_tensor.ops.special.error_functions import (
    compute_erfc,
    compute_erfcx,
    compute_erfinv,
    compute_log_ndtr,
    compute_ndtr,
    compute_ndtri,
)
from svod_tensor.ops.special.gamma import (
    compute_digamma,
    compute_gamma,
    compute_lgamma,
    compute_polygamma,
    compute_zeta,
    sine_of_pi,
)

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "beta",
    "digamma",
    "erfc",
    "erfcx",
    "erfinv",
    "gamma",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "lgamma",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "polygamma",
    "sinc",
    "xlogy",
    "zeta",
]


@elementwise_rule("beta")
def _beta_slopes(
    value: Tensor, operands: tuple[Tensor, Tensor], __: object
) -> tuple[Tensor, Tensor]:
    x, y = operands
    digamma_of_sum = compute_digamma(x.add(y))
    return value.mul(compute_digamma(x).sub(digamma_of_sum)), value.mul(
        compute_digamma(y).sub(digamma_of_sum)
    )


@elementwise_rule("xlogy")
def _xlogy_slopes(_: Tensor, operands: tuple[Tensor, Tensor], __: object) -> tuple[Tensor, Tensor]:
    """Partial derivatives of the product; log(y) with respect to x also where the value is 0."""
    x, y = operands
    return y.log(), x.eq(0).logical_and(y.eq(0)).where(0.0, x.div(y))


@elementwise_rule("sinc")
def _sinc_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    # The subtraction is exact; the product of pi and a large x would be rounded to a wrong angle.
    angle = x.sub(x.round()).mul(math.pi)
    cosine = x.round().remainder(2).eq(0).where(angle.cos(), angle.cos().neg())
    square = x.mul(math.pi).square()
    # Near 0 the difference cancels, so a Taylor series is used.
    near = (
        square.mul(-1 / 45360)
        .add(1 / 840)
        .mul(square)
        .sub(1 / 30)
        .mul(square)
        .add(1 / 3)
        .mul(x)
        .mul(-(math.pi**2))
    )
    is_near = x.abs().lt(0.05)
    return (is_near.where(near, cosine.sub(value).div(is_near.where(1.0, x))),)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def gamma(x: Tensor, /) -> Tensor:
    """Gamma function, the integral of `t ** (x - 1) * exp(-t)` over t >= 0, which is `(x - 1)!` for
    positive integers; NaN at negative integers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gamma(sv.Tensor([0.5, 5.0])).round(4).numpy()
        array([ 1.7725, 24.    ], dtype=float32)
    """
    return through_float64(compute_gamma, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def lgamma(x: Tensor, /) -> Tensor:
    """Logarithm of the absolute value of the gamma function, infinite at 0 and negative integers.
    Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.lgamma(sv.Tensor([0.5, 100.0])).round(4).numpy()
        array([  0.5724, 359.1342], dtype=float32)
    """
    return through_float64(compute_lgamma, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def digamma(x: Tensor, /) -> Tensor:
    """Digamma function, the derivative of `lgamma`; NaN at negative integers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.digamma(sv.Tensor([1.0, 10.0])).round(4).numpy()
        array([-0.5772,  2.2518], dtype=float32)
    """
    return through_float64(compute_digamma, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def erfc(x: Tensor, /) -> Tensor:
    """Complementary error function `1 - erf(x)`, accurate in the tail. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erfc(sv.Tensor([0.0, 5.0], dtype="float64")).tolist()
        [1.0, 1.5374597944280347e-12]
    """
    return through_float64(compute_erfc, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def erfcx(x: Tensor, /) -> Tensor:
    """Scaled complementary error function `exp(x ** 2) * erfc(x)`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erfcx(sv.Tensor([0.0, 100.0])).round(4).numpy()
        array([1.    , 0.0056], dtype=float32)
    """
    return through_float64(compute_erfcx, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def erfinv(x: Tensor, /) -> Tensor:
    """Inverse error function, `erf(erfinv(x)) = x`: infinite at 1 and -1, NaN outside. Integers
    become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erfinv(sv.Tensor([0.0, 0.5])).round(4).numpy()
        array([0.    , 0.4769], dtype=float32)
    """
    return through_float64(compute_erfinv, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def ndtr(x: Tensor, /) -> Tensor:
    """Standard normal cumulative distribution function `(1 + erf(x / sqrt(2))) / 2`. Integers
    become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ndtr(sv.Tensor([0.0, -1.0])).round(4).numpy()
        array([0.5   , 0.1587], dtype=float32)
    """
    return through_float64(compute_ndtr, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def log_ndtr(x: Tensor, /) -> Tensor:
    """Logarithm of `ndtr`, the normal cumulative distribution function, without underflow in the
    lower tail. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log_ndtr(sv.Tensor([0.0, -50.0])).numpy()
        array([-6.9314718e-01, -1.2548314e+03], dtype=float32)
    """
    return through_float64(compute_log_ndtr, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def ndtri(x: Tensor, /) -> Tensor:
    """Quantile function of the standard normal distribution, the inverse of `ndtr`. Integers become
    float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ndtri(sv.Tensor([0.5, 0.975])).round(4).numpy()
        array([0.  , 1.96], dtype=float32)
    """
    return through_float64(compute_ndtri, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def i0(x: Tensor, /) -> Tensor:
    """Modified Bessel function of the first kind of order 0, the sum of
    `(x / 2) ** (2 * k) / k! ** 2` over k >= 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i0(sv.Tensor([0.0, 2.0])).round(4).numpy()
        array([1.    , 2.2796], dtype=float32)
    """
    return through_float64(compute_i0, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def i0e(x: Tensor, /) -> Tensor:
    """Exponentially scaled modified Bessel function `exp(-abs(x)) * i0(x)`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i0e(sv.Tensor([0.0, 2.0])).round(4).numpy()
        array([1.    , 0.3085], dtype=float32)
    """
    return through_float64(compute_i0e, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def i1(x: Tensor, /) -> Tensor:
    """Modified Bessel function of the first kind of order 1, the sum of
    `(x / 2) ** (2 * k + 1) / (k! * (k + 1)!)` over k >= 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i1(sv.Tensor([0.0, 2.0])).round(4).numpy()
        array([0.    , 1.5906], dtype=float32)
    """
    return through_float64(compute_i1, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def i1e(x: Tensor, /) -> Tensor:
    """Exponentially scaled modified Bessel function `exp(-abs(x)) * i1(x)`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i1e(sv.Tensor([0.0, 2.0])).round(4).numpy()
        array([0.    , 0.2153], dtype=float32)
    """
    return through_float64(compute_i1e, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def j0(x: Tensor, /) -> Tensor:
    """Bessel function of the first kind of order 0, the sum of
    `(-1) ** k * (x / 2) ** (2 * k) / k! ** 2` over k >= 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.j0(sv.Tensor([0.0, 2.0])).round(4).numpy()
        array([1.    , 0.2239], dtype=float32)
    """
    return through_float64(compute_j0, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def j1(x: Tensor, /) -> Tensor:
    """Bessel function of the first kind of order 1, the sum of
    `(-1) ** k * (x / 2) ** (2 * k + 1) / (k! * (k + 1)!)` over k >= 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.j1(sv.Tensor([0.0, 2.0])).round(4).numpy()
        array([0.    , 0.5767], dtype=float32)
    """
    return through_float64(compute_j1, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy", is_function=False)
@reuse_graph
def polygamma(x: Tensor, /, n: int) -> Tensor:
    """Polygamma function, the `n`-th derivative of `digamma`. Integers become float32.

    Infinite at 0 and at negative integers.

    Args:
        n: order of the derivative; 0 is `digamma`.

    Raises:
        OperandError: if the order is negative.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1.0, 2.0]).polygamma(1).round(4).numpy()
        array([1.6449, 0.6449], dtype=float32)
    """
    if n < 0:
        raise OperandError(operation="polygamma", found=n, expected="a non-negative order n")
    return through_float64(lambda x: compute_polygamma(x, n), x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def zeta(x: Tensor, /, q: Operand = 1) -> Tensor:
    """Hurwitz zeta function, the sum of `(k + q) ** -x` over k >= 0: infinite at 1, NaN below.
    Integers become float32.

    Args:
        q: non-negative offset, by default 1 for the Riemann zeta function; NaN if negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.zeta(sv.Tensor([2.0, 4.0])).round(4).numpy()
        array([1.6449, 1.0823], dtype=float32)
    """
    x, y = promote_to_float(x, q)
    return compute_zeta(x.cast(float64), y.cast(float64)).cast(x.dtype)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def beta(x1: Tensor, x2: Operand, /) -> Tensor:
    """Beta function `gamma(x1) * gamma(x2) / gamma(x1 + x2)` for positive numbers. Shapes broadcast
    and dtypes promote; integers become float32.

    Computed from logarithms in float64, so the relative error grows with their magnitude.

    Example:
        >>> import svod_tensor as sv
        >>> sv.beta(sv.Tensor([1.0, 2.0]), 3.0).round(4).numpy()
        array([0.3333, 0.0833], dtype=float32)
    """
    x, y = promote_to_float(x1, x2)
    wide = x.cast(float64), y.cast(float64)
    # The gamma functions themselves overflow from 171.7 on.
    logarithm = (
        compute_lgamma(wide[0])
        .add(compute_lgamma(wide[1]))
        .sub(compute_lgamma(wide[0].add(wide[1])))
    )
    return with_rule(_beta_slopes, logarithm.exp(), wide).cast(x.dtype)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def xlogy(x1: Tensor, x2: Operand, /) -> Tensor:
    """Compute `x1 * log(x2)`, with 0 where `x1` is 0 unless `x2` is NaN. Shapes broadcast and dtypes
    promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.xlogy(sv.Tensor([0.0, 2.0]), [0.0, 1.0]).tolist()
        [0.0, 0.0]
    """
    x, y = promote_to_float(x1, x2)
    wide = x.cast(float64), y.cast(float64)
    # As in SciPy, 0 * log(0) is 0, its limit in entropies.
    is_none = wide[0].eq(0).logical_and(wide[1].isnan().logical_not())
    return with_rule(_xlogy_slopes, is_none.where(0.0, wide[0].mul(wide[1].log())), wide).cast(
        x.dtype
    )


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def logit(x: Tensor, /) -> Tensor:
    """Logit `log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN outside. Integers
    become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logit(sv.Tensor([0.5, 0.75])).round(4).numpy()
        array([0.    , 1.0986], dtype=float32)
    """
    return through_float64(_compute_logit, x)


@operation(test="test_special.py::test_special_functions_agree_with_scipy")
@reuse_graph
def sinc(x: Tensor, /) -> Tensor:
    """Normalized sinc function `sin(pi * x) / (pi * x)`, 1 at 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sinc(sv.Tensor([0.0, 0.5, 1.5])).round(4).numpy()
        array([ 1.    ,  0.6366, -0.2122], dtype=float32)
    """
    return through_float64(_compute_sinc, x)


@elementwise_rule("logit")
def _logit_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """1 / (x (1 - x)) as a sum, whose derivative is not NaN at 0 and 1; NaN outside, as the
    value.
    """
    (x,) = operands
    is_inside = x.ge(0).logical_and(x.le(1))
    return (is_inside.where(x.reciprocal().add(x.neg().add(1).reciprocal()), math.nan),)


def _compute_logit(x: Tensor) -> Tensor:
    # Near 1/2 the quotient is nearly 1, so the logit is computed from the distance to 1/2.
    distance = x.mul(2).sub(1)
    near = distance.log1p().sub(distance.neg().log1p())
    value = distance.abs().lt(0.5).where(near, x.log().sub(x.neg().log1p()))
    return with_rule(_logit_slope, value, (x,))


def _compute_sinc(x: Tensor) -> Tensor:
    is_zero = x.eq(0)
    value = sine_of_pi(x).div(is_zero.where(1.0, x).mul(math.pi))
    # The sine of infinity is NaN, but the quotient tends to 0.
    value = x.isinf().where(0.0, is_zero.where(1.0, value))
    return with_rule(_sinc_slope, value, (x,))

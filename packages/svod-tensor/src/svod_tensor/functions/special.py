"""Functions that call the methods of `Tensor` in `svod_tensor.ops.special`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

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
    "sinc",
    "xlogy",
    "zeta",
]


@explained
def beta(x1: Operand, x2: Operand, /) -> Tensor:
    """`gamma(x) * gamma(y) / gamma(x + y)` of positive numbers. Shapes broadcast and dtypes promote; integers become
    float32.

    It is computed from logarithms, whose size is lost from the digits of float64.

    Args:
        x2: y.

    Example:
        >>> import svod_tensor as sv
        >>> sv.beta(Tensor([1.0, 2.0]), 3.0).round(4).numpy()
        array([0.3333, 0.0833], dtype=float32)
    """
    return first_operand(x1, x2).beta(x2)


@explained
def digamma(x: Operand, /) -> Tensor:
    """The derivative of `lgamma`; NaN at negative whole numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.digamma(Tensor([1.0, 10.0])).round(4).numpy()
        array([-0.5772,  2.2518], dtype=float32)
    """
    return to_tensor(x).digamma()


@explained
def erfc(x: Operand, /) -> Tensor:
    """`1 - erf(x)`, exact where that is tiny. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erfc(Tensor([0.0, 5.0], dtype='float64')).tolist()
        [1.0, 1.5374597944280347e-12]
    """
    return to_tensor(x).erfc()


@explained
def erfcx(x: Operand, /) -> Tensor:
    """`exp(x ** 2) * erfc(x)`, which is finite where its factors are not. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erfcx(Tensor([0.0, 100.0])).round(4).numpy()
        array([1.    , 0.0056], dtype=float32)
    """
    return to_tensor(x).erfcx()


@explained
def erfinv(x: Operand, /) -> Tensor:
    """The number whose `erf` is `x`: infinite at 1 and -1, NaN beyond. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erfinv(Tensor([0.0, 0.5])).round(4).numpy()
        array([0.    , 0.4769], dtype=float32)
    """
    return to_tensor(x).erfinv()


@explained
def gamma(x: Operand, /) -> Tensor:
    """The gamma function, `(x - 1)!` of whole numbers; NaN at negative ones. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gamma(Tensor([0.5, 5.0])).round(4).numpy()
        array([ 1.7725, 24.    ], dtype=float32)
    """
    return to_tensor(x).gamma()


@explained
def i0(x: Operand, /) -> Tensor:
    """The modified Bessel function of the first kind and order 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i0(Tensor([0.0, 2.0])).round(4).numpy()
        array([1.    , 2.2796], dtype=float32)
    """
    return to_tensor(x).i0()


@explained
def i0e(x: Operand, /) -> Tensor:
    """`exp(-abs(x)) * i0(x)`, which does not overflow. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i0e(Tensor([0.0, 2.0])).round(4).numpy()
        array([1.    , 0.3085], dtype=float32)
    """
    return to_tensor(x).i0e()


@explained
def i1(x: Operand, /) -> Tensor:
    """The modified Bessel function of the first kind and order 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i1(Tensor([0.0, 2.0])).round(4).numpy()
        array([0.    , 1.5906], dtype=float32)
    """
    return to_tensor(x).i1()


@explained
def i1e(x: Operand, /) -> Tensor:
    """`exp(-abs(x)) * i1(x)`, which does not overflow. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.i1e(Tensor([0.0, 2.0])).round(4).numpy()
        array([0.    , 0.2153], dtype=float32)
    """
    return to_tensor(x).i1e()


@explained
def j0(x: Operand, /) -> Tensor:
    """The Bessel function of the first kind and order 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.j0(Tensor([0.0, 2.0])).round(4).numpy()
        array([1.    , 0.2239], dtype=float32)
    """
    return to_tensor(x).j0()


@explained
def j1(x: Operand, /) -> Tensor:
    """The Bessel function of the first kind and order 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.j1(Tensor([0.0, 2.0])).round(4).numpy()
        array([0.    , 0.5767], dtype=float32)
    """
    return to_tensor(x).j1()


@explained
def lgamma(x: Operand, /) -> Tensor:
    """The logarithm of `abs(gamma(x))`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.lgamma(Tensor([0.5, 100.0])).round(4).numpy()
        array([  0.5724, 359.1342], dtype=float32)
    """
    return to_tensor(x).lgamma()


@explained
def log_ndtr(x: Operand, /) -> Tensor:
    """The logarithm of `ndtr`, finite far below 0 too. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log_ndtr(Tensor([0.0, -50.0])).numpy()
        array([-6.9314718e-01, -1.2548314e+03], dtype=float32)
    """
    return to_tensor(x).log_ndtr()


@explained
def logit(x: Operand, /) -> Tensor:
    """`log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN outside. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logit(Tensor([0.5, 0.75])).round(4).numpy()
        array([0.    , 1.0986], dtype=float32)
    """
    return to_tensor(x).logit()


@explained
def ndtr(x: Operand, /) -> Tensor:
    """The probability that a normal number is below `x`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ndtr(Tensor([0.0, -1.0])).round(4).numpy()
        array([0.5   , 0.1587], dtype=float32)
    """
    return to_tensor(x).ndtr()


@explained
def ndtri(x: Operand, /) -> Tensor:
    """The inverse of `ndtr`: below which a normal number is with probability `x`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ndtri(Tensor([0.5, 0.975])).round(4).numpy()
        array([0.  , 1.96], dtype=float32)
    """
    return to_tensor(x).ndtri()


@explained
def sinc(x: Operand, /) -> Tensor:
    """`sin(pi * x) / (pi * x)`, 1 at 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sinc(Tensor([0.0, 0.5, 1.5])).round(4).numpy()
        array([ 1.    ,  0.6366, -0.2122], dtype=float32)
    """
    return to_tensor(x).sinc()


@explained
def xlogy(x1: Operand, x2: Operand, /) -> Tensor:
    """`x * log(x2)`, and 0 where `x` is 0 unless the other one is NaN. Shapes broadcast and dtypes promote; integers
    become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.xlogy(Tensor([0.0, 2.0]), [0.0, 1.0]).tolist()
        [0.0, 0.0]
    """
    return first_operand(x1, x2).xlogy(x2)


@explained
def zeta(x: Operand, /, q: Operand = 1) -> Tensor:
    """The sum of `(k + q) ** -x` for k from 0, Riemann's by default: infinite at 1, NaN below. Integers become float32.

    Args:
        q: of 0 or more; NaN where it is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.zeta(Tensor([2.0, 4.0])).round(4).numpy()
        array([1.6449, 1.0823], dtype=float32)
    """
    return to_tensor(x).zeta(q)

"""Tail of the normal cumulative distribution function, accurate in the far tail.

    Phi(-a) = exp(-a^2 / 2) P((a - K) / (a + K)) / (a + K)    for a >= 0

P is the polynomial that equals (a + K) exp(a^2 / 2) Phi(-a) at Chebyshev's nodes for a from 0 to
where a Phi(-a) underflows in the dtype, computed with 40 digits; its relative error is below 2^-26
(float32), 2^-56 (float64) and 2^-19 (float16 and bfloat16, computed in float32). K is chosen for
coefficients that are close to representable numbers.

With a^2 = h^2 + w, where h is a rounded to so few bits that h^2 is exact, and n = round(-h^2 / 2 / log 2),

    exp(-a^2 / 2) = 2^n exp(r),    r = -h^2 / 2 - n log 2 - w / 2.

The exponential would amplify the rounding error of a^2 by a^2 / 2; the narrow dtypes lose no digit
by it, so that h = a and w = 0. The polynomial for exp(r) is minimax, found here by iteratively
reweighted least squares; its relative error is below 2^-26 (float32), 2^-56 (float64) and 2^-22.

Source: M. M. Shepherd, J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0
<= x < infinity, Mathematics of Computation 36 (1981), for the form of P."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from svod_dtype import DType, float32, float64, uint32, uint64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_tensor.tensor import Tensor

__all__ = ["make_gelu_tail", "make_normal_tail"]


class _Format(NamedTuple):
    """Constants of a dtype in which the functions are computed.

    Attributes:
        dtype: the dtype.
        unsigned: the unsigned integer dtype of the same size.
        mantissa_bits: number of explicit bits of the mantissa.
        bias: bias of the exponent.
    """

    dtype: DType
    unsigned: DType
    mantissa_bits: int
    bias: int


class _Tail(NamedTuple):
    """Constants of a precision.

    Attributes:
        shift: K.
        far: upper bound of the arguments; larger ones have the same result, 0.
        head_rounder: number that rounds a to h by an addition; None if h = a.
        log_2: parts of log 2, whose sum is log 2; products of n and the first part are exact
            where h is not a.
        coefficients: coefficients of P in ascending order.
        exp_coefficients: coefficients of (exp(r) - 1) / r in ascending order.
    """

    shift: float
    far: float
    head_rounder: float | None
    log_2: tuple[float, ...]
    coefficients: tuple[float, ...]
    exp_coefficients: tuple[float, ...]


_FORMAT32: Final = _Format(float32, uint32, 23, 127)
_FORMAT64: Final = _Format(float64, uint64, 52, 1023)
_LOG2_E: Final = 1.4426950408889634
# fmt: off
_FLOAT32: Final = _Tail(
    3.375, 14.5, 1.5 * 2.0**15, (0.693145751953125, 1.428606765330187e-06),
    (0.7410802841186523, -0.5529922246932983, 0.29537585377693176, -0.0983842983841896, 0.008719964884221554,
     0.007824626751244068, -0.0022543142549693584, -0.0008503014105372131, 0.00031343367299996316, 0.00013742837472818792),
    (1.0, 0.49999988079071045, 0.16666464507579803, 0.04166904464364052, 0.008374951779842377, 0.0013801711611449718),
)
_FLOAT64: Final = _Tail(
    5.0, 39.0, 1.5 * 2.0**32, (0.6931471803691238, 1.9082149292705877e-10),
    (0.769193049750063, -0.6653825028900567, 0.4953056159699764, -0.31353315667130455, 0.1650203661703847,
     -0.06911863870631016, 0.020795066799883178, -0.0029933767705085422, -0.0007978693984660701, 0.0005448990647731298,
     -5.937572800991586e-05, -4.97628142705858e-05, 1.6681213742042063e-05, 3.9809021578680414e-06,
     -2.76926709599743e-06, -3.366153681012471e-07, 4.331410356862585e-07, 4.2274993740065346e-08,
     -6.594221662477223e-08, -9.31356099432606e-09, 7.66307180076004e-09, 1.753048401408232e-09, -1.5877468827473365e-10),
    (1.0, 0.5, 0.16666666666666657, 0.04166666666658416, 0.00833333333328394, 0.0013888888935305987,
     0.00019841270072071078, 2.4801497527358672e-05, 2.755699218334703e-06, 2.7629754713251936e-07,
     2.521332153111272e-08),
)
_NARROW: Final = _Tail(
    3.75, 14.5, None, (0.6931471824645996,),
    (0.7502936720848083, -0.5881860256195068, 0.3529527485370636, -0.15158404409885406, 0.03741002455353737,
     0.0015408276813104749, -0.0038874379824846983),
    (1.0, 0.499992311000824, 0.16667114198207855, 0.04189014807343483, 0.008312522433698177),
)
# fmt: on


def make_normal_tail(x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute Phi(-|x|) exp(x^2 / 2) and exp(-x^2 / 2), both with a relative error of a few units in
    the last place.

    Args:
        x: float32 or float64 tensor.
    """
    tail = _FLOAT64 if x.dtype is float64 else _FLOAT32
    size = x.abs().minimum(tail.far)
    inverse = size.add(tail.shift).reciprocal()
    t = inverse.mul(-2 * tail.shift).add(1)
    power, first, second = _make_power(size, tail)
    return _evaluate(t, tail.coefficients).mul(inverse), power.mul(first).mul(second)


def make_gelu_tail(x: Tensor, *, is_narrow: bool) -> Tensor:
    """Compute |x| Phi(-|x|) with a relative error of a few units in the last place.

    Args:
        x: float32 or float64 tensor.
        is_narrow: whether the result will be rounded to float16 or bfloat16.
    """
    tail = _NARROW if is_narrow else _FLOAT64 if x.dtype is float64 else _FLOAT32
    size = x.abs().minimum(tail.far)
    quotient = size.div(size.add(tail.shift))
    # (a - K) / (a + K) = 2 a / (a + K) - 1.
    scaled = _evaluate(quotient.mul(2).sub(1), tail.coefficients).mul(quotient)
    power, first, second = _make_power(size, tail)
    return scaled.mul(power).mul(first).mul(second)


def _make_power(size: Tensor, tail: _Tail) -> tuple[Tensor, Tensor, Tensor]:
    """Compute exp(-size^2 / 2) as three factors.

    The product of the last two, powers of two, may be subnormal; each is a normal number.
    """
    layout = _FORMAT64 if size.dtype is float64 else _FORMAT32
    head = size if tail.head_rounder is None else size.add(tail.head_rounder).sub(tail.head_rounder)
    square = head.mul(head.mul(-0.5))
    # The sum has n + 2 bias in its low bits.
    rounder = 1.5 * 2.0**layout.mantissa_bits + 2 * layout.bias
    shifted = square.mul(_LOG2_E).add(rounder)
    n = shifted.sub(rounder)
    r = square
    for part in tail.log_2:
        r = r.sub(n.mul(part))
    if tail.head_rounder is not None:
        r = r.sub(size.sub(head).mul(size.add(head)).mul(0.5))
    exponent = shifted.bitcast(layout.unsigned)
    half = exponent.rshift(1)
    first, second = (
        bits.lshift(layout.mantissa_bits).bitcast(layout.dtype)
        for bits in (half, exponent.sub(half))
    )
    return _evaluate(r, tail.exp_coefficients).mul(r).add(1), first, second


def _evaluate(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Evaluate a polynomial by Horner's rule."""
    leading, *remaining = reversed(coefficients)
    value = x.mul(leading).add(remaining[0])
    for coefficient in remaining[1:]:
        value = value.mul(x).add(coefficient)
    return value

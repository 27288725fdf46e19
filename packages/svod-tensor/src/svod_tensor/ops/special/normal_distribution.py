"""Tail of the normal cumulative distribution function, accurate in the far tail.

    Phi(-a) = exp(-a^2 / 2) P(1 - 2 K / (a + K)) / (a + K)    for a >= 0

P is the polynomial that equals (a + K) exp(a^2 / 2) Phi(-a) at Chebyshev's nodes for a from 0 to
where Phi(-a) underflows in the dtype, computed with 60 digits; its relative error is below 2^-29
(float32) and 2^-56 (float64). The rounding error of a^2 is compensated, since the exponential
amplifies it by a^2 / 2.

Source: M. M. Shepherd, J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0
<= x < infinity, Mathematics of Computation 36 (1981), for the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from svod_dtype import DType, float64

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["make_normal_tail"]


class _Tail(NamedTuple):
    """Constants of a dtype.

    Attributes:
        shift: K.
        far: threshold from which Phi(-a) is treated as 0.
        grid: numbers per unit interval whose squares are exact.
        coefficients: coefficients of P in ascending order.
    """

    shift: float
    far: float
    grid: float
    coefficients: tuple[float, ...]


# fmt: off
_FLOAT32: Final = _Tail(3.0, 15.0, 256.0, (
    0.7290836907139794, -0.5093319888345391, 0.2300176766741665, -0.04726276192117602, -0.01046228896653126,
    0.006969920150912792, 0.0010241573243785498, -0.0010344765508861836, -0.0002447093207917761, 0.00013332395420363602,
    5.5491871716794676e-05,
))
_FLOAT64: Final = _Tail(5.0, 39.0, 2.0**20, (
    0.769193049750063, -0.6653825028900567, 0.4953056159699764, -0.31353315667130455, 0.1650203661703847,
    -0.06911863870631016, 0.020795066799883178, -0.0029933767705085422, -0.0007978693984660701, 0.0005448990647731298,
    -5.937572800991586e-05, -4.97628142705858e-05, 1.6681213742042063e-05, 3.9809021578680414e-06,
    -2.76926709599743e-06, -3.366153681012471e-07, 4.331410356862585e-07, 4.2274993740065346e-08,
    -6.594221662477223e-08, -9.31356099432606e-09, 7.66307180076004e-09, 1.753048401408232e-09, -1.5877468827473365e-10,
))
# fmt: on


def make_normal_tail(x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute Phi(-|x|) exp(x^2 / 2) and exp(-x^2 / 2), both with a relative error of a few units in
    the last place.

    Args:
        x: float32 or float64 tensor.
    """
    tail = _get_tail(x.dtype)
    size = x.abs().minimum(tail.far)
    inverse = size.add(tail.shift).reciprocal()
    t = inverse.mul(-2 * tail.shift).add(1)
    leading, *remaining = reversed(tail.coefficients)
    value = t.mul(leading).add(remaining[0])
    for coefficient in remaining[1:]:
        value = value.mul(t).add(coefficient)
    # size^2 = head^2 + (size - head) (size + head), of which the first is exact.
    head = size.mul(tail.grid).round().mul(1 / tail.grid)
    remainder = size.sub(head).mul(size.add(head)).mul(-0.5)
    # Taylor series of the exponential of the remainder, which is below 0.03, where the next term is
    # below half a unit in the last place.
    correction = remainder.mul(1 / 6).add(0.5).mul(remainder).add(1).mul(remainder).add(1)
    power = head.mul(head).mul(-0.5).exp().mul(correction)
    return value.mul(inverse), power


def _get_tail(dtype: DType) -> _Tail:
    return _FLOAT64 if dtype is float64 else _FLOAT32

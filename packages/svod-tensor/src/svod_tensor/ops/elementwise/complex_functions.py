"""Functions of complex numbers, out of functions of their parts, with the special values of C.

complex64 is computed in float64 and rounded once. What would cancel or overflow in complex128 is
computed otherwise there: the logarithm near the unit circle by exact products, what grows as exp in
two factors.

Source: C11, annex G; W. Kahan, "Branch Cuts for Complex Elementary Functions", 1987.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from svod_dtype import complex128, float64, int64
from svod_ir import Op, make_alu
from svod_ir.sizes import product
from svod_tensor._data import make_constant
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.core.gradient_rules import elementwise_rule, with_rule

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "FUNCTIONS",
    "apply_function",
    "compute_function",
    "multiply_all",
    "multiply_running",
    "raise_power",
]

Pair: TypeAlias = "tuple[Tensor, Tensor]"

_LARGE: Final = 700.0
"""Below the logarithm of the largest float64, so that a factor of at most 1 in front of exp may
still save the product.
"""
_HALF_PI: Final = math.pi / 2


def apply_function(op: Op, x: Tensor) -> Tensor:
    """What an op gives of floats, or a function of that name of complex numbers."""
    return compute_function(_OPS[op], x) if x.dtype.is_complex else x.from_uop(make_alu(op, x.uop))


def compute_function(name: str, x: Tensor) -> Tensor:
    """The function `name` of complex numbers, a key of `FUNCTIONS`."""
    function: Callable[[Tensor, Tensor], Pair] = FUNCTIONS[name][0]
    wide = x.cast(complex128)
    real, imag = function(wide.real, wide.imag)
    # A part that is the same for all, such as a zero, has one element.
    value = real.complex(imag).broadcast_to(x.shape).cast(x.dtype)
    return with_rule(_FUNCTION, value, (x,), name)


@elementwise_rule("complex_function")
def _FUNCTION(value: Tensor, operands: tuple[Tensor], _: object, name: str) -> tuple[Tensor]:
    return (FUNCTIONS[name][1](operands[0], value),)


def _signed(size: Tensor, sign: Tensor) -> Tensor:
    return size.abs().copysign(sign)


def _choose(condition: Tensor, first: float, second: float) -> Tensor:
    """One of two numbers, in float64: Python's would be float32 beside each other."""
    return condition.where(condition.from_uop(make_constant(first, float64)), second)


def _exp(x: Tensor, y: Tensor) -> Pair:
    is_large = x.gt(_LARGE)
    size = is_large.where(x.sub(_LARGE), x).exp()
    # exp(-inf) is 0 whatever the angle is, and exp(inf) infinite.
    is_lost = y.isfinite().logical_not()
    cos, sin = _direction(y)
    real, imag = size.mul(cos), size.mul(sin)
    more = math.exp(_LARGE)
    real, imag = is_large.where(real.mul(more), real), is_large.where(imag.mul(more), imag)
    is_nothing = is_lost.logical_and(x.eq(-math.inf))
    is_infinite = is_lost.logical_and(x.eq(math.inf))
    real = is_nothing.where(0.0, is_infinite.where(math.inf, real))
    imag = is_nothing.where(0.0, imag)
    is_real = y.eq(0)
    return is_real.where(x.exp(), real), is_real.where(y, imag)


def _direction(y: Tensor) -> Pair:
    return y.cos(), y.sin()


def _exp2(x: Tensor, y: Tensor) -> Pair:
    return _exp(x.mul(math.log(2)), y.mul(math.log(2)))


def _expm1(x: Tensor, y: Tensor) -> Pair:
    half = y.mul(0.5).sin()
    real, imag = _exp(x, y)
    near = x.expm1().mul(y.cos()).sub(half.mul(half).mul(2.0))
    is_near = x.abs().lt(2.0).logical_and(y.isfinite())
    return is_near.where(near, y.eq(0).where(x.expm1(), real.sub(1.0))), imag


def _split(x: Tensor) -> Pair:
    """A float64 as a sum of two, the first of which has 26 digits of its fraction, so that products
    of these are exact.
    """
    high = x.bitcast(int64).bitwise_and(-(1 << 27)).bitcast(float64)
    return high, x.sub(high)


def _square(x: Tensor) -> Pair:
    """x^2 as the nearest float64 and the rest."""
    high, low = _split(x)
    product = x.mul(x)
    rest = high.mul(high).sub(product).add(high.mul(low).mul(2.0)).add(low.mul(low))
    return product, rest


def _add_exactly(x: Tensor, y: Tensor) -> Pair:
    """x + y as the nearest float64 and the rest. Source: D. E. Knuth, TAOCP 2, 4.2.2, theorem B."""
    total = x.add(y)
    other = total.sub(x)
    return total, x.sub(total.sub(other)).add(y.sub(other))


def _add_all(first: Tensor, *others: Tensor) -> Tensor:
    """The sum of what may cancel, with the rest of each step."""
    total, rest = first, None
    for other in others:
        total, lost = _add_exactly(total, other)
        rest = lost if rest is None else rest.add(lost)
    return total if rest is None else total.add(rest)


def _log(x: Tensor, y: Tensor) -> Pair:
    a, b = x.abs(), y.abs()
    large, small = a.maximum(b), a.minimum(b)
    size = x.hypot(y)
    # Near the unit circle the logarithm is that of 1 + (x^2 + y^2 - 1).
    is_near = large.gt(0.5).logical_and(large.lt(2.0))
    m, n = is_near.where(large, 1.0), is_near.where(small, 0.0)
    (m_square, m_rest), (n_square, n_rest) = _square(m), _square(n)
    near = _add_all(m_square, m_square.full_like(-1.0), n_square, m_rest, n_rest).log1p().mul(0.5)
    return is_near.where(near, size.log()), y.atan2(x)


def _log1p(x: Tensor, y: Tensor) -> Pair:
    is_near = x.abs().lt(0.5).logical_and(y.abs().lt(2.0))
    a, b = is_near.where(x, 0.0), is_near.where(y, 0.0)
    (a_square, a_rest), (b_square, b_rest) = _square(a), _square(b)
    near = _add_all(a.mul(2.0), b_square, a_square, a_rest, b_rest).log1p().mul(0.5)
    far, angle = _log(x.add(1.0), y)
    return is_near.where(near, far), angle


def _scaled_log(base: float) -> Callable[[Tensor, Tensor], Pair]:
    def function(x: Tensor, y: Tensor) -> Pair:
        real, imag = _log(x, y)
        return real.mul(1.0 / math.log(base)), imag.mul(1.0 / math.log(base))

    return function


def _sqrt(x: Tensor, y: Tensor) -> Pair:
    a, b = x.abs(), y.abs()
    # By a power of 4, so that no sum overflows and no square is lost.
    large = a.maximum(b)
    is_huge, is_tiny = large.gt(1e300), large.lt(1e-290)
    scale = is_huge.where(0.25, _choose(is_tiny, 2.0**200, 1.0))
    back = is_huge.where(2.0, _choose(is_tiny, 2.0**-100, 1.0))
    u, v = a.mul(scale), b.mul(scale)
    root = u.add(u.hypot(v)).mul(0.5).sqrt().mul(back)
    other = b.div(root.eq(0).where(1.0, root)).mul(0.5)
    is_left = x.signbit()
    real, imag = is_left.where(other, root), is_left.where(root, other)
    is_wide = b.eq(math.inf)
    is_low = x.eq(-math.inf).logical_and(is_wide.logical_not())
    is_high = x.eq(math.inf).logical_and(is_wide.logical_not())
    real = is_wide.where(
        math.inf, is_low.where(y.isnan().where(y, 0.0), is_high.where(math.inf, real))
    )
    imag = is_wide.where(
        math.inf, is_low.where(math.inf, is_high.where(y.isnan().where(y, 0.0), imag))
    )
    return real, imag.copysign(y)


def _rsqrt(x: Tensor, y: Tensor) -> Pair:
    real, imag = _sqrt(x, y)
    found = real.complex(imag).reciprocal()
    return found.real, found.imag


def _scaled_sinh(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """sinh and cosh, both over the third, so that they do not overflow."""
    a = x.abs()
    is_large = a.gt(_LARGE)
    half = is_large.where(a.sub(_LARGE), 0.0).exp().mul(0.5)
    inner = is_large.where(0.0, x)
    return (
        is_large.where(half.copysign(x), inner.sinh()),
        is_large.where(half, inner.cosh()),
        _choose(is_large, math.exp(_LARGE), 1.0),
    )


def _sinh(x: Tensor, y: Tensor) -> Pair:
    sinh, cosh, factor = _scaled_sinh(x)
    cos, sin = _direction(y)
    real, imag = sinh.mul(cos).mul(factor), cosh.mul(sin).mul(factor)
    is_lost = y.isfinite().logical_not()
    # 0 and infinities are kept where the angle is none.
    keeps = is_lost.logical_and(x.eq(0).logical_or(x.abs().eq(math.inf)))
    is_real = y.eq(0)
    return keeps.where(x, is_real.where(x.sinh(), real)), is_real.where(y, imag)


def _cosh(x: Tensor, y: Tensor) -> Pair:
    sinh, cosh, factor = _scaled_sinh(x)
    cos, sin = _direction(y)
    real, imag = cosh.mul(cos).mul(factor), sinh.mul(sin).mul(factor)
    is_lost = y.isfinite().logical_not()
    real = is_lost.logical_and(x.abs().eq(math.inf)).where(math.inf, real)
    is_zero = y.eq(0).logical_or(is_lost.logical_and(x.eq(0)))
    sign = _choose(x.signbit().ne(y.signbit()), -1.0, 1.0)
    return y.eq(0).where(x.cosh(), real), is_zero.where(sign.mul(0.0), imag)


def _tanh(x: Tensor, y: Tensor) -> Pair:
    # Far out the real part is 1, and the imaginary one too small for the formula.
    is_far = x.abs().gt(20.0)
    inner = is_far.where(0.0, x)
    tangent, sinh = y.tan(), inner.sinh()
    beta = tangent.mul(tangent).add(1.0)
    rho = sinh.mul(sinh).add(1.0).sqrt()
    bottom = beta.mul(sinh).mul(sinh).add(1.0)
    # At a pole of the tangent, where that may be infinite, the quotient is that of its square.
    real, imag = beta.mul(rho).mul(sinh).div(bottom), tangent.div(bottom)
    cos, sin = _direction(y)
    small = x.abs().mul(-2.0).exp().mul(cos).mul(sin).mul(4.0)
    is_endless = x.abs().eq(math.inf)
    small = is_endless.where(
        y.isfinite().where(sin.mul(cos).mul(0.0), y.isfinite().where(y, 0.0).copysign(y)), small
    )
    one = x.full_like(1.0).copysign(x)
    one = y.isfinite().logical_or(is_endless).where(one, math.nan)
    real, imag = is_far.where(one, real), is_far.where(small, imag)
    is_real = y.eq(0)
    is_lost = y.isfinite().logical_not().logical_and(x.eq(0))
    return is_lost.where(x, is_real.where(x.tanh(), real)), is_real.where(y, imag)


def _turned(function: Callable[[Tensor, Tensor], Pair]) -> Callable[[Tensor, Tensor], Pair]:
    """-i f(iz), as sin of sinh."""

    def turned(x: Tensor, y: Tensor) -> Pair:
        real, imag = function(y.neg(), x)
        return imag, real.neg()

    return turned


def _cos(x: Tensor, y: Tensor) -> Pair:
    return _cosh(y.neg(), x)


def _roots(x: Tensor, y: Tensor) -> tuple[Pair, Pair]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    return _sqrt(x.neg().add(1.0), y.neg()), _sqrt(x.add(1.0), y)


def _asin(x: Tensor, y: Tensor) -> Pair:
    (a, b), (c, d) = _roots(x, y)
    # Re(sqrt(1 - z) sqrt(1 + z)), and Im(conj(sqrt(1 - z)) sqrt(1 + z)).
    real = x.atan2(a.mul(c).sub(b.mul(d)))
    imag = a.mul(d).sub(b.mul(c)).asinh()
    return _at_the_end(x, y, real, imag)


def _at_the_end(x: Tensor, y: Tensor, real: Tensor, imag: Tensor) -> Pair:
    """asin where something is infinite or NaN: a size of infinity, and the angle that is left."""
    is_endless = x.abs().eq(math.inf).logical_or(y.abs().eq(math.inf))
    real = is_endless.where(_signed(x.abs().atan2(y.abs()), x), x.eq(0).where(x, real))
    return real, is_endless.where(y.full_like(math.inf), imag.abs()).copysign(y)


def _acos(x: Tensor, y: Tensor) -> Pair:
    (a, b), (c, d) = _roots(x, y)
    real = a.atan2(c).mul(2.0)
    imag = c.mul(b).sub(d.mul(a)).asinh()
    is_endless = x.abs().eq(math.inf).logical_or(y.abs().eq(math.inf))
    is_plain = x.eq(0).logical_and(y.isnan())
    real = is_endless.where(y.abs().atan2(x), is_plain.where(_HALF_PI, real))
    return real, is_endless.where(x.full_like(math.inf), imag.abs()).copysign(y.neg())


def _acosh(x: Tensor, y: Tensor) -> Pair:
    real, imag = _acos(x, y)
    # i acos(z) or -i acos(z): the one with a real part above 0.
    is_nothing = x.eq(0).logical_and(y.isnan())
    angle = real.copysign(y)
    size = imag.abs()
    # Of a NaN beside a finite part nothing is known.
    return size, is_nothing.where(_HALF_PI, angle)


def _atanh(x: Tensor, y: Tensor) -> Pair:
    a, b = x.abs(), y.abs()
    is_far = a.gt(1e150).logical_or(b.gt(1e150))
    u, v = is_far.where(0.5, a), is_far.where(0.0, b)
    at_pole = u.eq(1.0).logical_and(v.lt(1e-150))
    rest = u.neg().add(1.0)
    square = rest.mul(rest).add(v.mul(v))
    near = u.mul(4.0).div(at_pole.where(1.0, square)).log1p().mul(0.25)
    # log(2 / v) / 2, where the square of v is lost.
    real = at_pole.where(v.eq(0).where(math.inf, v.log().neg().add(math.log(2.0)).mul(0.5)), near)
    imag = v.mul(2.0).atan2(rest.mul(u.add(1.0)).sub(v.mul(v))).mul(0.5)
    # Far out it is 1 / z, whose real part is x / (x^2 + y^2).
    slope = a.div(b)
    far = a.gt(b).where(
        a.reciprocal().div(b.div(a).square().add(1.0)), slope.div(b).div(slope.square().add(1.0))
    )
    is_endless = a.eq(math.inf).logical_or(b.eq(math.inf))
    real = is_far.where(is_endless.where(0.0, far), real)
    is_lost = a.isnan().logical_or(b.isnan()).logical_and(b.ne(math.inf))
    imag = is_far.where(_choose(is_lost, math.nan, _HALF_PI), imag)
    real = x.eq(0).where(0.0, real)
    return real.copysign(x), imag.copysign(y)


def _one_over(x: Tensor) -> Tensor:
    return x.reciprocal()


FUNCTIONS: Final[
    dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], Callable[[Tensor, Tensor], Tensor]]]
] = {
    "exp": (_exp, lambda x, y: y),
    "exp2": (_exp2, lambda x, y: y.mul(math.log(2))),
    "expm1": (_expm1, lambda x, y: y.add(1)),
    "log": (_log, lambda x, y: _one_over(x)),
    "log2": (_scaled_log(2.0), lambda x, y: _one_over(x.mul(math.log(2)))),
    "log10": (_scaled_log(10.0), lambda x, y: _one_over(x.mul(math.log(10)))),
    "log1p": (_log1p, lambda x, y: _one_over(x.add(1))),
    "sqrt": (_sqrt, lambda x, y: _one_over(y.mul(2))),
    "rsqrt": (_rsqrt, lambda x, y: y.div(x).mul(-0.5)),
    "sin": (_turned(_sinh), lambda x, y: compute_function("cos", x)),
    "cos": (_cos, lambda x, y: compute_function("sin", x).neg()),
    "tan": (_turned(_tanh), lambda x, y: y.square().add(1)),
    "sinh": (_sinh, lambda x, y: compute_function("cosh", x)),
    "cosh": (_cosh, lambda x, y: compute_function("sinh", x)),
    "tanh": (_tanh, lambda x, y: y.square().neg().add(1)),
    "asin": (_asin, lambda x, y: _inverse_root(x)),
    "acos": (_acos, lambda x, y: _inverse_root(x).neg()),
    "atan": (_turned(_atanh), lambda x, y: _one_over(x.square().add(1))),
    "asinh": (_turned(_asin), lambda x, y: _inverse_root(x.mul(1j))),
    "acosh": (_acosh, lambda x, y: x.sub(1).sqrt().mul(x.add(1).sqrt()).reciprocal()),
    "atanh": (_atanh, lambda x, y: _one_over(x.square().neg().add(1))),
}
"""A function of one number, and its derivative from the number and the value."""

_OPS: Final = {
    Op.EXP: "exp",
    Op.EXP2: "exp2",
    Op.EXPM1: "expm1",
    Op.LOG: "log",
    Op.LOG2: "log2",
    Op.LOG1P: "log1p",
    Op.SQRT: "sqrt",
    Op.RSQRT: "rsqrt",
    Op.SIN: "sin",
    Op.COS: "cos",
    Op.TAN: "tan",
    Op.SINH: "sinh",
    Op.COSH: "cosh",
    Op.TANH: "tanh",
}
"""What of these is an op of real numbers."""


def _inverse_root(x: Tensor) -> Tensor:
    """1 / sqrt(1 - x^2), without cancellation."""
    return x.neg().add(1).sqrt().mul(x.add(1).sqrt()).reciprocal()


@elementwise_rule("complex_pow")
def _POW(
    value: Tensor, operands: tuple[Tensor, Tensor], wanted: tuple[bool, ...]
) -> Sequence[Tensor | None]:
    base, exponent = operands
    safe = base.eq(0).where(1, base)
    return (
        exponent.mul(raise_power(base, exponent.sub(1))) if wanted[0] else None,
        value.mul(safe.log()) if wanted[1] else None,
    )


def raise_power(base: Tensor, exponent: Tensor) -> Tensor:
    """Complex numbers to the power of others of their dtype. 0 to the power of 0 is 1."""
    dtype = base.dtype
    x, y = base.cast(complex128), exponent.cast(complex128)
    is_zero = x.eq(0)
    power = is_zero.where(1, x).log().mul(y).exp()
    nothing = _choose(y.real.gt(0), 0.0, math.nan)
    at_zero = nothing.complex(nothing)
    value = y.eq(0).where(1, is_zero.where(at_zero, power)).cast(dtype)
    return with_rule(_POW, value, (base, exponent))


def _cut(x: Tensor, axis: int, begin: int, end: int) -> Tensor:
    return x.shrink(*[(begin, end) if a == axis else None for a in range(x.ndim)])


def multiply_all(x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """The product of complex numbers over `axes`, of known sizes: of the two halves, and again."""
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = tuple(x.shape[a] for a in kept)
    (count,) = concrete_shape("prod", (product([x.shape[a] for a in axes]),))
    left = x.permute(*kept, *axes).reshape(*shape, count)
    last = len(shape)
    while count > 1:
        half = count // 2
        first, second = _cut(left, last, 0, half), _cut(left, last, half, 2 * half)
        made = first.mul(second)
        left = made.concat(_cut(left, last, 2 * half, count), axis=last) if count % 2 else made
        # What is read by both halves of the next step is computed once.
        left, count = left.contiguous(), count - half
    value = left.reshape(shape) if count else x.ones_like().sum(tuple(axes)).add(1)
    return (
        value.reshape(tuple(1 if a in axes else s for a, s in enumerate(x.shape)))
        if keepdims
        else value
    )


def multiply_running(x: Tensor, axis: int) -> Tensor:
    """The products of the first 1, 2, ... complex numbers along an axis of known size: of 2, of 4,
    and so on.
    """
    (count,) = concrete_shape("cumprod", (x.shape[axis],))
    step = 1
    while step < count:
        moved = _cut(x, axis, 0, count - step)
        padded = moved.pad(
            *[(step, 0) if a == axis else (0, 0) for a in range(x.ndim)], constant_values=1
        )
        x, step = x.mul(padded).contiguous(), 2 * step
    return x

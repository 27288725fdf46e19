"""Functions of complex numbers, computed from real functions, with the special values of C.

complex64 is computed in float64 and rounded once. For complex128, formulas avoid cancellation and
overflow: the logarithm near the unit circle uses exact products, and exponential growth is split
into two factors.

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
"""Less than the logarithm of the largest float64, so that exp(x) times a factor of at most 1 can be
computed in two steps without overflow.
"""
_HALF_PI: Final = math.pi / 2


def apply_function(op: Op, x: Tensor) -> Tensor:
    """Apply a unary op to floats, or the complex function of the same name."""
    return compute_function(_OPS[op], x) if x.dtype.is_complex else x.from_uop(make_alu(op, x.uop))


def compute_function(name: str, x: Tensor) -> Tensor:
    """Apply the complex function `name`, a key of `FUNCTIONS`."""
    function: Callable[[Tensor, Tensor], Pair] = FUNCTIONS[name][0]
    wide = x.cast(complex128)
    real, imag = function(wide.real, wide.imag)
    # A constant part may be 0-d.
    value = real.complex(imag).broadcast_to(x.shape).cast(x.dtype)
    return with_rule(_FUNCTION, value, (x,), name)


@elementwise_rule("complex_function")
def _FUNCTION(value: Tensor, operands: tuple[Tensor], _: object, name: str) -> tuple[Tensor]:
    return (FUNCTIONS[name][1](operands[0], value),)


def _signed(size: Tensor, sign: Tensor) -> Tensor:
    return size.abs().copysign(sign)


def _choose(condition: Tensor, first: float, second: float) -> Tensor:
    """Select between two numbers in float64: two Python floats would promote to float32."""
    return condition.where(condition.from_uop(make_constant(first, float64)), second)


def _exp(x: Tensor, y: Tensor) -> Pair:
    is_large = x.gt(_LARGE)
    size = is_large.where(x.sub(_LARGE), x).exp()
    # C11: exp(-inf + iy) is 0 and exp(inf + iy) infinite, also for an undefined angle y.
    has_no_angle = y.isfinite().logical_not()
    cos, sin = _direction(y)
    real, imag = size.mul(cos), size.mul(sin)
    factor = math.exp(_LARGE)
    real, imag = is_large.where(real.mul(factor), real), is_large.where(imag.mul(factor), imag)
    is_zero = has_no_angle.logical_and(x.eq(-math.inf))
    is_infinite = has_no_angle.logical_and(x.eq(math.inf))
    real = is_zero.where(0.0, is_infinite.where(math.inf, real))
    imag = is_zero.where(0.0, imag)
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
    """Split a float64 into high and low parts; the high part has 26 bits, so that its products are
    exact.
    """
    high = x.bitcast(int64).bitwise_and(-(1 << 27)).bitcast(float64)
    return high, x.sub(high)


def _square(x: Tensor) -> Pair:
    """Square exactly, as the sum of the rounded square and its error."""
    high, low = _split(x)
    product = x.mul(x)
    error = high.mul(high).sub(product).add(high.mul(low).mul(2.0)).add(low.mul(low))
    return product, error


def _add_exactly(x: Tensor, y: Tensor) -> Pair:
    """Add exactly, as rounded sum and error. Source: D. E. Knuth, TAOCP 2, 4.2.2, theorem B."""
    total = x.add(y)
    y_rounded = total.sub(x)
    return total, x.sub(total.sub(y_rounded)).add(y.sub(y_rounded))


def _add_all(first: Tensor, *terms: Tensor) -> Tensor:
    """Compensated sum, which adds the rounding errors of each step."""
    total, errors = first, None
    for term in terms:
        total, error = _add_exactly(total, term)
        errors = error if errors is None else errors.add(error)
    return total if errors is None else total.add(errors)


def _log(x: Tensor, y: Tensor) -> Pair:
    a, b = x.abs(), y.abs()
    large, small = a.maximum(b), a.minimum(b)
    size = x.hypot(y)
    # Near the unit circle, log|z| = log1p(x^2 + y^2 - 1) / 2, with x^2 + y^2 - 1 computed exactly.
    is_near = large.gt(0.5).logical_and(large.lt(2.0))
    m, n = is_near.where(large, 1.0), is_near.where(small, 0.0)
    (m_square, m_error), (n_square, n_error) = _square(m), _square(n)
    near = _add_all(m_square, m_square.full_like(-1.0), n_square, m_error, n_error).log1p().mul(0.5)
    return is_near.where(near, size.log()), y.atan2(x)


def _log1p(x: Tensor, y: Tensor) -> Pair:
    is_near = x.abs().lt(0.5).logical_and(y.abs().lt(2.0))
    a, b = is_near.where(x, 0.0), is_near.where(y, 0.0)
    (a_square, a_error), (b_square, b_error) = _square(a), _square(b)
    near = _add_all(a.mul(2.0), b_square, a_square, a_error, b_error).log1p().mul(0.5)
    far, angle = _log(x.add(1.0), y)
    return is_near.where(near, far), angle


def _scaled_log(base: float) -> Callable[[Tensor, Tensor], Pair]:
    def function(x: Tensor, y: Tensor) -> Pair:
        real, imag = _log(x, y)
        return real.mul(1.0 / math.log(base)), imag.mul(1.0 / math.log(base))

    return function


def _sqrt(x: Tensor, y: Tensor) -> Pair:
    a, b = x.abs(), y.abs()
    # Scaled by a power of 4, so that sums do not overflow and squares do not underflow.
    large = a.maximum(b)
    is_huge, is_tiny = large.gt(1e300), large.lt(1e-290)
    scale = is_huge.where(0.25, _choose(is_tiny, 2.0**200, 1.0))
    unscale = is_huge.where(2.0, _choose(is_tiny, 2.0**-100, 1.0))
    u, v = a.mul(scale), b.mul(scale)
    root = u.add(u.hypot(v)).mul(0.5).sqrt().mul(unscale)
    quotient = b.div(root.eq(0).where(1.0, root)).mul(0.5)
    is_left = x.signbit()
    real, imag = is_left.where(quotient, root), is_left.where(root, quotient)
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
    result = real.complex(imag).reciprocal()
    return result.real, result.imag


def _scaled_sinh(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return sinh, cosh and their common scale, by which both are divided to avoid overflow."""
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
    has_no_angle = y.isfinite().logical_not()
    # C11: 0 and infinities are kept if the angle is undefined.
    keeps = has_no_angle.logical_and(x.eq(0).logical_or(x.abs().eq(math.inf)))
    is_real = y.eq(0)
    return keeps.where(x, is_real.where(x.sinh(), real)), is_real.where(y, imag)


def _cosh(x: Tensor, y: Tensor) -> Pair:
    sinh, cosh, factor = _scaled_sinh(x)
    cos, sin = _direction(y)
    real, imag = cosh.mul(cos).mul(factor), sinh.mul(sin).mul(factor)
    has_no_angle = y.isfinite().logical_not()
    real = has_no_angle.logical_and(x.abs().eq(math.inf)).where(math.inf, real)
    is_zero = y.eq(0).logical_or(has_no_angle.logical_and(x.eq(0)))
    sign = _choose(x.signbit().ne(y.signbit()), -1.0, 1.0)
    return y.eq(0).where(x.cosh(), real), is_zero.where(sign.mul(0.0), imag)


def _tanh(x: Tensor, y: Tensor) -> Pair:
    # For large |x|, the real part is 1 and the imaginary part underflows in the formula.
    is_far = x.abs().gt(20.0)
    inner = is_far.where(0.0, x)
    tangent, sinh = y.tan(), inner.sinh()
    beta = tangent.mul(tangent).add(1.0)
    rho = sinh.mul(sinh).add(1.0).sqrt()
    denominator = beta.mul(sinh).mul(sinh).add(1.0)
    # Near a pole of the tangent, the quotient is dominated by its square.
    real, imag = beta.mul(rho).mul(sinh).div(denominator), tangent.div(denominator)
    cos, sin = _direction(y)
    small = x.abs().mul(-2.0).exp().mul(cos).mul(sin).mul(4.0)
    is_infinite = x.abs().eq(math.inf)
    small = is_infinite.where(
        y.isfinite().where(sin.mul(cos).mul(0.0), y.isfinite().where(y, 0.0).copysign(y)), small
    )
    unit = x.full_like(1.0).copysign(x)
    unit = y.isfinite().logical_or(is_infinite).where(unit, math.nan)
    real, imag = is_far.where(unit, real), is_far.where(small, imag)
    is_real = y.eq(0)
    is_undefined = y.isfinite().logical_not().logical_and(x.eq(0))
    return is_undefined.where(x, is_real.where(x.tanh(), real)), is_real.where(y, imag)


def _rotated(function: Callable[[Tensor, Tensor], Pair]) -> Callable[[Tensor, Tensor], Pair]:
    """Rotate a function: -i f(iz), which maps sinh to sin."""

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
    return _asin_special_values(x, y, real, imag)


def _asin_special_values(x: Tensor, y: Tensor, real: Tensor, imag: Tensor) -> Pair:
    """Special values of asin for infinities and NaN."""
    is_infinite = x.abs().eq(math.inf).logical_or(y.abs().eq(math.inf))
    real = is_infinite.where(_signed(x.abs().atan2(y.abs()), x), x.eq(0).where(x, real))
    return real, is_infinite.where(y.full_like(math.inf), imag.abs()).copysign(y)


def _acos(x: Tensor, y: Tensor) -> Pair:
    (a, b), (c, d) = _roots(x, y)
    real = a.atan2(c).mul(2.0)
    imag = c.mul(b).sub(d.mul(a)).asinh()
    is_infinite = x.abs().eq(math.inf).logical_or(y.abs().eq(math.inf))
    is_plain = x.eq(0).logical_and(y.isnan())
    real = is_infinite.where(y.abs().atan2(x), is_plain.where(_HALF_PI, real))
    return real, is_infinite.where(x.full_like(math.inf), imag.abs()).copysign(y.neg())


def _acosh(x: Tensor, y: Tensor) -> Pair:
    real, imag = _acos(x, y)
    # i acos(z) or -i acos(z), whichever has a positive real part.
    is_special = x.eq(0).logical_and(y.isnan())
    angle = real.copysign(y)
    magnitude = imag.abs()
    # C11: acosh(0 + iNaN) is NaN + i pi/2.
    return magnitude, is_special.where(_HALF_PI, angle)


def _atanh(x: Tensor, y: Tensor) -> Pair:
    a, b = x.abs(), y.abs()
    is_far = a.gt(1e150).logical_or(b.gt(1e150))
    u, v = is_far.where(0.5, a), is_far.where(0.0, b)
    at_pole = u.eq(1.0).logical_and(v.lt(1e-150))
    complement = u.neg().add(1.0)
    square = complement.mul(complement).add(v.mul(v))
    near = u.mul(4.0).div(at_pole.where(1.0, square)).log1p().mul(0.25)
    # log(2 / v) / 2, where the square of v underflows.
    real = at_pole.where(v.eq(0).where(math.inf, v.log().neg().add(math.log(2.0)).mul(0.5)), near)
    imag = v.mul(2.0).atan2(complement.mul(u.add(1.0)).sub(v.mul(v))).mul(0.5)
    # For large |z| it is 1 / z, whose real part is x / (x^2 + y^2).
    slope = a.div(b)
    far = a.gt(b).where(
        a.reciprocal().div(b.div(a).square().add(1.0)), slope.div(b).div(slope.square().add(1.0))
    )
    is_infinite = a.eq(math.inf).logical_or(b.eq(math.inf))
    real = is_far.where(is_infinite.where(0.0, far), real)
    is_undefined = a.isnan().logical_or(b.isnan()).logical_and(b.ne(math.inf))
    imag = is_far.where(_choose(is_undefined, math.nan, _HALF_PI), imag)
    real = x.eq(0).where(0.0, real)
    return real.copysign(x), imag.copysign(y)


def _reciprocal(x: Tensor) -> Tensor:
    return x.reciprocal()


FUNCTIONS: Final[
    dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], Callable[[Tensor, Tensor], Tensor]]]
] = {
    "exp": (_exp, lambda x, y: y),
    "exp2": (_exp2, lambda x, y: y.mul(math.log(2))),
    "expm1": (_expm1, lambda x, y: y.add(1)),
    "log": (_log, lambda x, y: _reciprocal(x)),
    "log2": (_scaled_log(2.0), lambda x, y: _reciprocal(x.mul(math.log(2)))),
    "log10": (_scaled_log(10.0), lambda x, y: _reciprocal(x.mul(math.log(10)))),
    "log1p": (_log1p, lambda x, y: _reciprocal(x.add(1))),
    "sqrt": (_sqrt, lambda x, y: _reciprocal(y.mul(2))),
    "rsqrt": (_rsqrt, lambda x, y: y.div(x).mul(-0.5)),
    "sin": (_rotated(_sinh), lambda x, y: compute_function("cos", x)),
    "cos": (_cos, lambda x, y: compute_function("sin", x).neg()),
    "tan": (_rotated(_tanh), lambda x, y: y.square().add(1)),
    "sinh": (_sinh, lambda x, y: compute_function("cosh", x)),
    "cosh": (_cosh, lambda x, y: compute_function("sinh", x)),
    "tanh": (_tanh, lambda x, y: y.square().neg().add(1)),
    "asin": (_asin, lambda x, y: _inverse_root(x)),
    "acos": (_acos, lambda x, y: _inverse_root(x).neg()),
    "atan": (_rotated(_atanh), lambda x, y: _reciprocal(x.square().add(1))),
    "asinh": (_rotated(_asin), lambda x, y: _inverse_root(x.mul(1j))),
    "acosh": (_acosh, lambda x, y: x.sub(1).sqrt().mul(x.add(1).sqrt()).reciprocal()),
    "atanh": (_atanh, lambda x, y: _reciprocal(x.square().neg().add(1))),
}
"""Complex functions: the function of (real, imag), and its derivative from operand and value."""

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
"""Names of the functions that are ops for real numbers."""


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
    """Raise complex numbers to complex powers of the same dtype. 0 to the power 0 is 1."""
    dtype = base.dtype
    x, y = base.cast(complex128), exponent.cast(complex128)
    is_zero = x.eq(0)
    power = is_zero.where(1, x).log().mul(y).exp()
    zero_or_nan = _choose(y.real.gt(0), 0.0, math.nan)
    at_zero = zero_or_nan.complex(zero_or_nan)
    value = y.eq(0).where(1, is_zero.where(at_zero, power)).cast(dtype)
    return with_rule(_POW, value, (base, exponent))


def _cut(x: Tensor, axis: int, begin: int, end: int) -> Tensor:
    return x.shrink(*[(begin, end) if a == axis else None for a in range(x.ndim)])


def multiply_all(x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Product of complex numbers over `axes` of known sizes, by pairwise halving."""
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = tuple(x.shape[a] for a in kept)
    (count,) = concrete_shape("prod", (product([x.shape[a] for a in axes]),))
    remaining = x.permute(*kept, *axes).reshape(*shape, count)
    last = len(shape)
    while count > 1:
        half = count // 2
        first, second = _cut(remaining, last, 0, half), _cut(remaining, last, half, 2 * half)
        products = first.mul(second)
        remaining = (
            products.concat(_cut(remaining, last, 2 * half, count), axis=last)
            if count % 2
            else products
        )
        # Contiguous, since both halves of the next step read it.
        remaining, count = remaining.contiguous(), count - half
    value = remaining.reshape(shape) if count else x.ones_like().sum(tuple(axes)).add(1)
    return (
        value.reshape(tuple(1 if a in axes else s for a, s in enumerate(x.shape)))
        if keepdims
        else value
    )


def multiply_running(x: Tensor, axis: int) -> Tensor:
    """Cumulative product of complex numbers along an axis of known size, by a parallel scan with
    doubling steps.
    """
    (count,) = concrete_shape("cumprod", (x.shape[axis],))
    step = 1
    while step < count:
        shifted = _cut(x, axis, 0, count - step)
        padded = shifted.pad(
            *[(step, 0) if a == axis else (0, 0) for a in range(x.ndim)], constant_values=1
        )
        x, step = x.mul(padded).contiguous(), 2 * step
    return x

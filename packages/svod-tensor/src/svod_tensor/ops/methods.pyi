"""Methods of `Tensor` that are registered operations."""

# Written by tools/stubs.py from svod_tensor.ops: change the functions there.

from svod_tensor.ops.base import DTypeLike, Operand
from svod_tensor.ops.theme import Theme
from typing import Self

class Methods(Theme):
    def abs(self) -> Self:
        """The absolute value, in the dtype of `x`; that of the smallest signed integer wraps to itself."""
    def acos(self) -> Self:
        """The angle from 0 to pi with this cosine; NaN outside -1 to 1. Integers become float32."""
    def arccos(self) -> Self:
        """The angle from 0 to pi with this cosine; NaN outside -1 to 1. Integers become float32."""
    def acosh(self) -> Self:
        """The number, not negative, with this hyperbolic cosine; NaN below 1. Integers become float32."""
    def arccosh(self) -> Self:
        """The number, not negative, with this hyperbolic cosine; NaN below 1. Integers become float32."""
    def add(self, x2: Operand, /) -> Self:
        """The sum with `x2`; of bools it is the logical or. Shapes broadcast and dtypes promote."""
    def angle(self) -> Self:
        """The angle of each element in radians, from -pi to pi: 0 or pi of a real number. Integers become
        float32."""
    def as_complex(self) -> Self:
        """The complex numbers whose parts lie along the last axis, of size 2, the real one first, as a new
        tensor."""
    def as_real(self) -> Self:
        """The parts of complex numbers along a last axis of size 2, the real one first, as a new tensor."""
    def asin(self) -> Self:
        """The angle from -pi/2 to pi/2 with this sine; NaN outside -1 to 1. Integers become float32."""
    def arcsin(self) -> Self:
        """The angle from -pi/2 to pi/2 with this sine; NaN outside -1 to 1. Integers become float32."""
    def asinh(self) -> Self:
        """The number with this hyperbolic sine. Integers become float32."""
    def arcsinh(self) -> Self:
        """The number with this hyperbolic sine. Integers become float32."""
    def astype(self, dtype: DTypeLike, *, copy: bool = True, device: str | None = None) -> Self:
        """Each element converted to `dtype` by the rules of `cast`."""
    def atan(self) -> Self:
        """The angle from -pi/2 to pi/2 with this tangent. Integers become float32."""
    def arctan(self) -> Self:
        """The angle from -pi/2 to pi/2 with this tangent. Integers become float32."""
    def atan2(self, x2: Operand, /) -> Self:
        """The angle of the point (`x2`, this), from -pi to pi, with the signs of zeros respected. Shapes
        broadcast and dtypes promote."""
    def arctan2(self, x2: Operand, /) -> Self:
        """The angle of the point (`x2`, this), from -pi to pi, with the signs of zeros respected. Shapes
        broadcast and dtypes promote."""
    def atanh(self) -> Self:
        """The number with this hyperbolic tangent; NaN outside -1 to 1. Integers become float32."""
    def arctanh(self) -> Self:
        """The number with this hyperbolic tangent; NaN outside -1 to 1. Integers become float32."""
    def beta(self, x2: Operand, /) -> Self:
        """`gamma(x1) * gamma(x2) / gamma(x1 + x2)` of positive numbers. Shapes broadcast and dtypes promote;
        integers become float32."""
    def bitcast(self, dtype: DTypeLike) -> Self:
        """The same bits read as `dtype`; where its elements have another size, the last axis changes with
        it."""
    def bitwise_and(self, x2: Operand, /) -> Self:
        """The bits that both `x1` and `x2` have. Shapes broadcast and dtypes promote."""
    def bitwise_count(self) -> Self:
        """The number of bits set in the absolute value of each element, in uint8."""
    def bitwise_invert(self) -> Self:
        """All bits inverted; of bools, the logical not."""
    def bitwise_not(self) -> Self:
        """All bits inverted; of bools, the logical not."""
    def invert(self) -> Self:
        """All bits inverted; of bools, the logical not."""
    def bitwise_left_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0. Shapes broadcast and
        dtypes promote."""
    def left_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0. Shapes broadcast and
        dtypes promote."""
    def lshift(self, x2: Operand, /) -> Self:
        """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0. Shapes broadcast and
        dtypes promote."""
    def bitwise_or(self, x2: Operand, /) -> Self:
        """The bits that `x1` or `x2` has. Shapes broadcast and dtypes promote."""
    def bitwise_right_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and dtypes promote."""
    def right_shift(self, x2: Operand, /) -> Self:
        """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and dtypes promote."""
    def rshift(self, x2: Operand, /) -> Self:
        """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and dtypes promote."""
    def bitwise_xor(self, x2: Operand, /) -> Self:
        """The bits that one of `x1` and `x2` has. Shapes broadcast and dtypes promote."""
    def cast(self, dtype: DTypeLike) -> Self:
        """Each element converted to `dtype`, as a new tensor."""
    def cbrt(self) -> Self:
        """The cube root, of negative numbers too. Integers become float32."""
    def ceil(self) -> Self:
        """The smallest integer that is not below each element, in the dtype of `x`."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """The elements, limited to `min` and `max`, either of which may be left out; NaN stays NaN. Shapes
        broadcast and dtypes promote."""
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """The elements, limited to `min` and `max`, either of which may be left out; NaN stays NaN. Shapes
        broadcast and dtypes promote."""
    def complex(self, imag: Operand) -> Self:
        """Complex numbers with these elements as their real parts. Shapes broadcast, dtypes promote, and all
        but float64 become float32."""
    def conj(self) -> Self:
        """Each element with its imaginary part negated; of a real tensor, its elements."""
    def conjugate(self) -> Self:
        """Each element with its imaginary part negated; of a real tensor, its elements."""
    def contiguous(self) -> Self:
        """The same values as a new tensor that is computed into a buffer of its own."""
    def copysign(self, x2: Operand, /) -> Self:
        """The magnitude of each element with the sign of `x2`. Shapes broadcast and dtypes promote; integers
        become float32."""
    def cos(self) -> Self:
        """The cosine of angles in radians. Integers become float32."""
    def cosh(self) -> Self:
        """The hyperbolic cosine. Integers become float32."""
    def deg2rad(self) -> Self:
        """Degrees as radians. Integers become float32."""
    def radians(self) -> Self:
        """Degrees as radians. Integers become float32."""
    def detach(self) -> Self:
        """The same elements, taken as a constant where gradients are computed: a view."""
    def digamma(self) -> Self:
        """The derivative of `lgamma`; NaN at negative whole numbers. Integers become float32."""
    def divide(self, x2: Operand, /) -> Self:
        """The quotient by `x2`; integers are divided as float32. Shapes broadcast and dtypes promote."""
    def true_divide(self, x2: Operand, /) -> Self:
        """The quotient by `x2`; integers are divided as float32. Shapes broadcast and dtypes promote."""
    def div(self, x2: Operand, /) -> Self:
        """The quotient by `x2`; integers are divided as float32. Shapes broadcast and dtypes promote."""
    def elu(self, alpha: float = 1.0) -> Self:
        """The element where it is positive, else `alpha * (exp(x) - 1)`. Integers become float32."""
    def equal(self, x2: Operand, /) -> Self:
        """Whether each element equals that of `x2`, as bools; NaN equals nothing. Shapes broadcast."""
    def eq(self, x2: Operand, /) -> Self:
        """Whether each element equals that of `x2`, as bools; NaN equals nothing. Shapes broadcast."""
    def erf(self) -> Self:
        """The error function. Integers become float32."""
    def erfc(self) -> Self:
        """`1 - erf(x)`, exact where that is tiny. Integers become float32."""
    def erfcx(self) -> Self:
        """`exp(x ** 2) * erfc(x)`, which is finite where its factors are not. Integers become float32."""
    def erfinv(self) -> Self:
        """The number whose `erf` is `x`: infinite at 1 and -1, NaN beyond. Integers become float32."""
    def exp(self) -> Self:
        """e to the power of each element. Integers become float32."""
    def exp2(self) -> Self:
        """2 to the power of each element. Integers become float32."""
    def expm1(self) -> Self:
        """`exp(x) - 1`, accurate near 0. Integers become float32."""
    def floor(self) -> Self:
        """The largest integer that is not above each element, in the dtype of `x`."""
    def floor_divide(self, x2: Operand, /) -> Self:
        """The quotient by `x2`, rounded toward negative infinity. Shapes broadcast and dtypes promote."""
    def fmax(self, x2: Operand, /) -> Self:
        """The larger of each element and that of `x2`; where one is NaN, the other. Shapes broadcast and dtypes
        promote."""
    def fmin(self, x2: Operand, /) -> Self:
        """The smaller of each element and that of `x2`; where one is NaN, the other. Shapes broadcast and
        dtypes promote."""
    def fmod(self, x2: Operand, /) -> Self:
        """The remainder of division by `x2`, truncated toward zero: it has the sign of `x1`. Shapes broadcast
        and dtypes promote."""
    def frexp(self) -> tuple[Self, Self]:
        """Mantissas from 1/2 to below 1 and exponents (int32): `x = mantissa * 2 ** exponent`. Integers become
        float32."""
    def gamma(self) -> Self:
        """The gamma function, `(x - 1)!` of whole numbers; NaN at negative ones. Integers become float32."""
    def gcd(self, x2: Operand, /) -> Self:
        """The greatest common divisor of the absolute values, 0 for two zeros. Shapes broadcast and dtypes
        promote."""
    def gelu(self, approximate: str = 'none') -> Self:
        """`x * Phi(x)`, where Phi is the distribution function of normal numbers. Integers become float32."""
    def glu(self, axis: int = -1) -> Self:
        """The first half of `axis`, gated by the sigmoid of the second: half as long on that axis. Integers
        become float32."""
    def greater(self, x2: Operand, /) -> Self:
        """Whether each element is above that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def gt(self, x2: Operand, /) -> Self:
        """Whether each element is above that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def greater_equal(self, x2: Operand, /) -> Self:
        """Whether each element is at least that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def ge(self, x2: Operand, /) -> Self:
        """Whether each element is at least that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def hardsigmoid(self) -> Self:
        """`min(max(x + 3, 0), 6) / 6`. Integers become float32."""
    def hardswish(self) -> Self:
        """`x * hardsigmoid(x)`. Integers become float32."""
    def heaviside(self, x2: Operand, /) -> Self:
        """0 for negative numbers, 1 for positive ones, `x2` for zeros, and NaN for NaN. Integers become
        float32."""
    def hypot(self, x2: Operand, /) -> Self:
        """`sqrt(x1^2 + x2^2)` without overflow. Shapes broadcast and dtypes promote; integers become
        float32."""
    def i0(self) -> Self:
        """The modified Bessel function of the first kind and order 0. Integers become float32."""
    def i0e(self) -> Self:
        """`exp(-abs(x)) * i0(x)`, which does not overflow. Integers become float32."""
    def i1(self) -> Self:
        """The modified Bessel function of the first kind and order 1. Integers become float32."""
    def i1e(self) -> Self:
        """`exp(-abs(x)) * i1(x)`, which does not overflow. Integers become float32."""
    def imag(self) -> Self:
        """The imaginary part of each element, as a new tensor; of a real tensor, zeros."""
    def isclose(self, x2: Operand, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Self:
        """Whether `abs(x1 - x2) <= atol + rtol * abs(x2)`, or both are equal, as bools. Shapes broadcast."""
    def isfinite(self) -> Self:
        """Whether each element is neither infinite nor NaN, as bools."""
    def isinf(self) -> Self:
        """Whether each element is infinite, as bools."""
    def isnan(self) -> Self:
        """Whether each element is NaN, as bools."""
    def j0(self) -> Self:
        """The Bessel function of the first kind and order 0. Integers become float32."""
    def j1(self) -> Self:
        """The Bessel function of the first kind and order 1. Integers become float32."""
    def lcm(self, x2: Operand, /) -> Self:
        """The least common multiple of the absolute values, 0 if one is 0. Shapes broadcast and dtypes promote;
        overflow wraps."""
    def ldexp(self, x2: Operand, /) -> Self:
        """`x1 * 2 ** x2`, rounded once. Shapes broadcast; integers become float32."""
    def leaky_relu(self, slope: float = 0.01) -> Self:
        """The element where it is not negative, else `slope` times it. Integers become float32."""
    def lerp(self, end: Operand, weight: Operand) -> Self:
        """`x + (end - x) * weight`: `x` where `weight` is 0, `end` where it is 1. Shapes broadcast and dtypes
        promote."""
    def less(self, x2: Operand, /) -> Self:
        """Whether each element is below that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def lt(self, x2: Operand, /) -> Self:
        """Whether each element is below that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def less_equal(self, x2: Operand, /) -> Self:
        """Whether each element is at most that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def le(self, x2: Operand, /) -> Self:
        """Whether each element is at most that of `x2`, as bools; False where one is NaN. Shapes broadcast."""
    def lgamma(self) -> Self:
        """The logarithm of `abs(gamma(x))`. Integers become float32."""
    def log(self) -> Self:
        """The natural logarithm; NaN of negative numbers. Integers become float32."""
    def log10(self) -> Self:
        """The logarithm to base 10; NaN of negative numbers. Integers become float32."""
    def log1p(self) -> Self:
        """`log(1 + x)`, accurate near 0. Integers become float32."""
    def log2(self) -> Self:
        """The logarithm to base 2; NaN of negative numbers. Integers become float32."""
    def log_ndtr(self) -> Self:
        """The logarithm of `ndtr`, finite far below 0 too. Integers become float32."""
    def log_softmax(self, axis: int = -1) -> Self:
        """`log(softmax(x))` along `axis`, accurate where the softmax is near 0. Integers become float32."""
    def logaddexp(self, x2: Operand, /) -> Self:
        """`log(exp(x1) + exp(x2))` without overflow. Shapes broadcast and dtypes promote; integers become
        float32."""
    def logical_and(self, x2: Operand, /) -> Self:
        """Whether an element and that of `x2` are both not zero, as bools. Shapes broadcast."""
    def logical_not(self) -> Self:
        """Whether each element is zero, as bools."""
    def logical_or(self, x2: Operand, /) -> Self:
        """Whether an element or that of `x2` is not zero, as bools. Shapes broadcast."""
    def logical_xor(self, x2: Operand, /) -> Self:
        """Whether one of an element and that of `x2` is not zero, as bools. Shapes broadcast."""
    def logit(self) -> Self:
        """`log(x / (1 - x))`, the inverse of `sigmoid`: infinite at 0 and 1, NaN outside. Integers become
        float32."""
    def maximum(self, x2: Operand, /) -> Self:
        """The larger of each element and that of `x2`; NaN where either is NaN. Shapes broadcast and dtypes
        promote."""
    def minimum(self, x2: Operand, /) -> Self:
        """The smaller of each element and that of `x2`; NaN where either is NaN. Shapes broadcast and dtypes
        promote."""
    def mish(self) -> Self:
        """`x * tanh(softplus(x))`. Integers become float32."""
    def multiply(self, x2: Operand, /) -> Self:
        """The product with `x2`; of bools it is the logical and. Shapes broadcast and dtypes promote."""
    def mul(self, x2: Operand, /) -> Self:
        """The product with `x2`; of bools it is the logical and. Shapes broadcast and dtypes promote."""
    def ndtr(self) -> Self:
        """The probability that a normal number is below `x`. Integers become float32."""
    def ndtri(self) -> Self:
        """The inverse of `ndtr`: below which a normal number is with probability `x`. Integers become
        float32."""
    def negative(self) -> Self:
        """The negative, in the dtype of `x`; unsigned integers wrap."""
    def neg(self) -> Self:
        """The negative, in the dtype of `x`; unsigned integers wrap."""
    def nextafter(self, x2: Operand, /) -> Self:
        """The next number of the dtype in the direction of `x2`. Shapes broadcast and dtypes promote; integers
        become float32."""
    def not_equal(self, x2: Operand, /) -> Self:
        """Whether each element differs from that of `x2`, as bools; NaN differs from everything. Shapes
        broadcast."""
    def ne(self, x2: Operand, /) -> Self:
        """Whether each element differs from that of `x2`, as bools; NaN differs from everything. Shapes
        broadcast."""
    def polygamma(self, n: int) -> Self:
        """The derivative of order `n` of `digamma`, which is that of order 0. Integers become float32."""
    def positive(self) -> Self:
        """The same values as a new tensor."""
    def pow(self, x2: Operand, /) -> Self:
        """`x1` to the power of `x2`. Shapes broadcast and dtypes promote."""
    def power(self, x2: Operand, /) -> Self:
        """`x1` to the power of `x2`. Shapes broadcast and dtypes promote."""
    def rad2deg(self) -> Self:
        """Radians as degrees. Integers become float32."""
    def degrees(self) -> Self:
        """Radians as degrees. Integers become float32."""
    def real(self) -> Self:
        """The real part of each element, as a new tensor; of a real tensor, its elements."""
    def reciprocal(self) -> Self:
        """`1 / x`. Integers become float32."""
    def relu(self) -> Self:
        """`max(x, 0)`, in the dtype of `x`; NaN stays NaN."""
    def relu6(self) -> Self:
        """`min(max(x, 0), 6)`, in the dtype of `x`."""
    def remainder(self, x2: Operand, /) -> Self:
        """`x1 - (x1 // x2) * x2`: it has the sign of `x2`. Shapes broadcast and dtypes promote."""
    def mod(self, x2: Operand, /) -> Self:
        """`x1 - (x1 // x2) * x2`: it has the sign of `x2`. Shapes broadcast and dtypes promote."""
    def round(self, decimals: int = 0) -> Self:
        """The nearest integer, in the dtype of `x`; halves go to the even one. Of complex numbers, each part is
        rounded."""
    def rint(self, decimals: int = 0) -> Self:
        """The nearest integer, in the dtype of `x`; halves go to the even one. Of complex numbers, each part is
        rounded."""
    def rsqrt(self) -> Self:
        """`1 / sqrt(x)`. Integers become float32."""
    def selu(self) -> Self:
        """`elu` with the scale and the slope that keep mean 0 and variance 1. Integers become float32."""
    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-x))`. Integers become float32."""
    def sign(self) -> Self:
        """-1, 0 or 1 in the dtype of `x`, and NaN for NaN; of a complex number, `x / abs(x)`, and 0 for 0."""
    def signbit(self) -> Self:
        """Whether the sign bit is set, as bools: it is for -0.0 and for some NaNs."""
    def silu(self) -> Self:
        """`x * sigmoid(x)`. Integers become float32."""
    def swish(self) -> Self:
        """`x * sigmoid(x)`. Integers become float32."""
    def sin(self) -> Self:
        """The sine of angles in radians. Integers become float32."""
    def sinc(self) -> Self:
        """`sin(pi * x) / (pi * x)`, 1 at 0. Integers become float32."""
    def sinh(self) -> Self:
        """The hyperbolic sine. Integers become float32."""
    def softmax(self, axis: int = -1) -> Self:
        """`exp(x)`, scaled to a sum of 1 along `axis`, without overflow. Integers become float32."""
    def softplus(self, beta: float = 1.0) -> Self:
        """`log(1 + exp(beta * x)) / beta` without overflow. Integers become float32."""
    def softsign(self) -> Self:
        """`x / (1 + abs(x))`. Integers become float32."""
    def sqrt(self) -> Self:
        """The square root; NaN of negative numbers. Integers become float32."""
    def square(self) -> Self:
        """Each element times itself, in the dtype of `x`."""
    def subtract(self, x2: Operand, /) -> Self:
        """`x1` minus `x2`. Shapes broadcast and dtypes promote."""
    def sub(self, x2: Operand, /) -> Self:
        """`x1` minus `x2`. Shapes broadcast and dtypes promote."""
    def tan(self) -> Self:
        """The tangent of angles in radians. Integers become float32."""
    def tanh(self) -> Self:
        """The hyperbolic tangent. Integers become float32."""
    def trunc(self) -> Self:
        """Each element without its fraction, in the dtype of `x`."""
    def where(self, x1: Operand, x2: Operand) -> Self:
        """Elements of `x1` where `condition` holds, else of `x2`."""
    def xlogy(self, x2: Operand, /) -> Self:
        """`x1 * log(x2)`, and 0 where `x1` is 0 unless `x2` is NaN. Shapes broadcast and dtypes promote;
        integers become float32."""
    def zeta(self, q: Operand = 1) -> Self:
        """The sum of `(k + q) ** -x` for k from 0, Riemann's by default: infinite at 1, NaN below. Integers
        become float32."""

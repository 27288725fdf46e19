"""Exponentials, logarithms and roots. Integers and bools are computed as float32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_dtype import float64
from svod_ir import Op
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule
from svod_tensor.ops.core.operands import apply_unary, promote_to_float, through_float64, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.elementwise.complex_functions import apply_function, compute_function
from svod_tensor.ops.elementwise.partials import CBRT, HYPOT, LOGADDEXP

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "cbrt",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "rsqrt",
    "sigmoid",
    "sqrt",
]


@gradient_rule("sigmoid", is_symmetric=True)
def _sigmoid_gradient(cotangent: Tensor, value: Tensor, _: object, __: object) -> tuple[Tensor]:
    """Computed from the value only, which does not overflow."""
    return (cotangent.mul(value.mul(value.neg().add(1))),)


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def exp(x: Tensor, /) -> Tensor:
    """Exponential function e**x, element-wise. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.exp(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([1.    , 2.7183], dtype=float32)
    """
    return apply_function(Op.EXP, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy")
def exp2(x: Tensor, /) -> Tensor:
    """Power of two 2**x, element-wise. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.exp2(sv.Tensor([0.0, 3.0, -1.0])).tolist()
        [1.0, 8.0, 0.5]
    """
    return apply_function(Op.EXP2, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def expm1(x: Tensor, /) -> Tensor:
    """Exponential minus one, `exp(x) - 1`, accurate near 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.expm1(sv.Tensor([1e-10], dtype="float64")).tolist()
        [1.00000000005e-10]
    """
    return apply_function(Op.EXPM1, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def log(x: Tensor, /) -> Tensor:
    """Natural logarithm; NaN for negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log(sv.Tensor([1.0, 10.0, 0.0])).round(4).numpy()
        array([0.    , 2.3026,   -inf], dtype=float32)
    """
    return apply_function(Op.LOG, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def log2(x: Tensor, /) -> Tensor:
    """Base-2 logarithm; NaN for negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log2(sv.Tensor([1.0, 8.0])).tolist()
        [0.0, 3.0]
    """
    return apply_function(Op.LOG2, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
@reuse_graph
def log10(x: Tensor, /) -> Tensor:
    """Base-10 logarithm; NaN for negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log10(sv.Tensor([1.0, 1000.0])).tolist()
        [0.0, 3.0]
    """
    if x.dtype.is_complex:
        return compute_function("log10", x)
    # In float32, the rounded factor would make log10(1e9) equal to 9.000001.
    return through_float64(lambda x: x.log().mul(1.0 / math.log(10.0)), x)


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def log1p(x: Tensor, /) -> Tensor:
    """Natural logarithm of one plus `x`, accurate near 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log1p(sv.Tensor([1e-10], dtype="float64")).tolist()
        [9.999999999500001e-11]
    """
    return apply_function(Op.LOG1P, to_float(x))


@operation(test="test_functions.py::test_two_argument_functions_agree_with_numpy", standard=True)
@reuse_graph
@rounds_once
def logaddexp(x1: Tensor, x2: Operand, /) -> Tensor:
    """Logarithm of the sum of exponentials, `log(exp(x1) + exp(x2))`, without overflow. Shapes
    broadcast and dtypes promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logaddexp(sv.Tensor([1000.0]), 1000.0).round(4).numpy()
        array([1000.6932], dtype=float32)
    """
    x, y = promote_to_float(x1, x2)
    high, low = x.maximum(y), x.minimum(y)
    difference = low.sub(high)
    # The difference of two equal infinities would be NaN.
    value = high.eq(low).where(high.add(math.log(2.0)), high.add(difference.exp().log1p()))
    return with_rule(LOGADDEXP, value, (x, y))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def sqrt(x: Tensor, /) -> Tensor:
    """Square root; NaN for negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sqrt(sv.Tensor([4, 9])).tolist()
        [2.0, 3.0]
    """
    return apply_function(Op.SQRT, to_float(x))


@operation(test="test_functions.py::test_rsqrt_and_reciprocal")
def rsqrt(x: Tensor, /) -> Tensor:
    """Reciprocal square root `1 / sqrt(x)`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.rsqrt(sv.Tensor([4.0, 0.25])).tolist()
        [0.5, 2.0]
    """
    return apply_function(Op.RSQRT, to_float(x))


@operation(test="test_functions.py::test_cube_roots_are_within_two_ulps")
@reuse_graph
def cbrt(x: Tensor, /) -> Tensor:
    """Cube root, also of negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cbrt(sv.Tensor([-8.0, 27.0])).tolist()
        [-2.0, 3.0]
    """
    x = to_float(x)
    wide = x.cast(float64)
    magnitude = wide.abs()
    # Scaled by a cube, so that the cubed root in the Newton step is a normal number.
    is_small = magnitude.lt(2.0**-960)
    magnitude = is_small.where(magnitude.mul(2.0**99), magnitude)
    root = magnitude.pow(1.0 / 3.0)
    # A Newton step: 1/3 is rounded, and with it the power.
    root = root.sub(root.mul(root).mul(root).sub(magnitude).div(root.mul(root).mul(3.0)))
    root = is_small.where(root.mul(2.0**-33), root)
    is_special = wide.eq(0).logical_or(wide.isfinite().logical_not())
    value = is_special.where(wide, wide.lt(0).where(root.neg(), root))
    return with_rule(CBRT, value, (wide,)).cast(x.dtype)


@operation(test="test_functions.py::test_two_argument_functions_agree_with_numpy", standard=True)
@reuse_graph
def hypot(x1: Tensor, x2: Operand, /) -> Tensor:
    """Hypotenuse `sqrt(x1**2 + x2**2)` without overflow. Shapes broadcast and dtypes promote;
    integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.hypot(sv.Tensor([3.0, 5.0]), [4.0, 12.0]).tolist()
        [5.0, 13.0]
    """
    x, y = promote_to_float(x1, x2)
    dtype = x.dtype
    wide = x.cast(float64), y.cast(float64)
    x, y = wide[0].abs(), wide[1].abs()
    large, small = x.maximum(y), x.minimum(y)
    # The square of a ratio of at most 1 cannot overflow.
    ratio = small.div(large.eq(0).where(1.0, large))
    result = ratio.square().add(1).sqrt().mul(large)
    # C11, F.10.4.3: hypot(inf, NaN) is infinite.
    infinite = x.isinf().logical_or(y.isinf())
    return with_rule(HYPOT, infinite.where(math.inf, result), wide).cast(dtype)


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def sigmoid(x: Tensor, /) -> Tensor:
    """Logistic sigmoid `1 / (1 + exp(-x))`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sigmoid(sv.Tensor([0.0, 2.0])).round(4).numpy()
        array([0.5   , 0.8808], dtype=float32)
    """
    x = to_float(x)
    # For very negative x, exp overflows to infinity, whose reciprocal is the correct 0.
    return with_rule(_sigmoid_gradient, x.neg().exp().add(1).reciprocal(), (x,))


@operation(test="test_functions.py::test_erf_and_sigmoid")
def erf(x: Tensor, /) -> Tensor:
    """Error function, `2 / sqrt(pi)` times the integral of `exp(-t ** 2)` from 0 to x. Integers
    become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erf(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.8427], dtype=float32)
    """
    return apply_unary(Op.ERF, to_float(x))

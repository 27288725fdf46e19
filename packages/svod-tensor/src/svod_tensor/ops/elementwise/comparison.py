"""Element-wise comparisons, maximum and minimum, and tests of floats."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_dtype import bool_, int8, int16, int32, int64
from svod_ir import Op, OperandError, UOp
from svod_tensor._shapes import broadcast_node
from svod_tensor.ops.core.operands import apply_binary, apply_op, promote, promote_to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "clip",
    "copysign",
    "equal",
    "fmax",
    "fmin",
    "greater",
    "greater_equal",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "maximum",
    "minimum",
    "nextafter",
    "not_equal",
    "signbit",
]


@operation(
    test="test_comparison.py::test_comparisons_agree_with_numpy", standard=True, methods=("eq",)
)
def equal(x1: Tensor, x2: Operand, /) -> Tensor:
    """Return `x1 == x2` element-wise, as bool; NaN is not equal to anything. Shapes broadcast and
    dtypes promote.

    A Python integer out of range for the dtype is compared by value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.equal(sv.Tensor([1, 2]), 2).tolist()
        [False, True]
    """
    return _compare(x1, Op.EQ, x2)


@operation(
    test="test_comparison.py::test_comparisons_agree_with_numpy", standard=True, methods=("ne",)
)
def not_equal(x1: Tensor, x2: Operand, /) -> Tensor:
    """Return `x1 != x2` element-wise, as bool; True for NaN. Shapes broadcast and dtypes promote.

    A Python integer out of range for the dtype is compared by value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.not_equal(sv.Tensor([1, 2]), 2).tolist()
        [True, False]
    """
    return _compare(x1, Op.NE, x2)


@operation(
    test="test_comparison.py::test_comparisons_agree_with_numpy", standard=True, methods=("lt",)
)
def less(x1: Tensor, x2: Operand, /) -> Tensor:
    """Return `x1 < x2` element-wise, as bool; False for NaN. Shapes broadcast and dtypes promote.

    A Python integer out of range for the dtype is compared by value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.less(sv.Tensor([1, 2, 3]), 2).tolist()
        [True, False, False]
    """
    return _compare(x1, Op.LT, x2)


@operation(
    test="test_comparison.py::test_comparisons_agree_with_numpy", standard=True, methods=("le",)
)
def less_equal(x1: Tensor, x2: Operand, /) -> Tensor:
    """Return `x1 <= x2` element-wise, as bool; False for NaN. Shapes broadcast and dtypes promote.

    A Python integer out of range for the dtype is compared by value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.less_equal(sv.Tensor([1, 2, 3]), 2).tolist()
        [True, True, False]
    """
    return _compare(x1, Op.LE, x2)


@operation(
    test="test_comparison.py::test_comparisons_agree_with_numpy", standard=True, methods=("gt",)
)
def greater(x1: Tensor, x2: Operand, /) -> Tensor:
    """Return `x1 > x2` element-wise, as bool; False for NaN. Shapes broadcast and dtypes promote.

    A Python integer out of range for the dtype is compared by value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.greater(sv.Tensor([1, 2, 3]), 2).tolist()
        [False, False, True]
    """
    return _compare(x1, Op.LT, x2, is_swapped=True)


@operation(
    test="test_comparison.py::test_comparisons_agree_with_numpy", standard=True, methods=("ge",)
)
def greater_equal(x1: Tensor, x2: Operand, /) -> Tensor:
    """Return `x1 >= x2` element-wise, as bool; False for NaN. Shapes broadcast and dtypes promote.

    A Python integer out of range for the dtype is compared by value.

    Example:
        >>> import svod_tensor as sv
        >>> sv.greater_equal(sv.Tensor([1, 2, 3]), 2).tolist()
        [False, True, True]
    """
    return _compare(x1, Op.LE, x2, is_swapped=True)


def _compare(x: Tensor, op: Op, other: Operand, *, is_swapped: bool = False) -> Tensor:
    if (
        isinstance(other, int)
        and not isinstance(other, bool)
        and x.dtype.is_int
        and not x.dtype.min <= other <= x.dtype.max
    ):
        # As in numpy 2: a number that does not fit is compared by its value, since a cast would
        # wrap around.
        is_less = other > x.dtype.max
        return _all_equal_to(x, op is Op.NE if op in (Op.EQ, Op.NE) else is_less != is_swapped)
    x, y = promote(x, other)
    # The IR has no GT and GE.
    return apply_op(op, y, x) if is_swapped else apply_op(op, x, y)


@operation(test="test_arithmetic.py::test_isclose_and_lerp")
@reuse_graph
@rounds_once
def isclose(
    x1: Tensor, x2: Operand, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Test element-wise for equality within a tolerance: `abs(x1 - x2) <= atol + rtol * abs(x2)`,
    as bool. Shapes broadcast and dtypes promote.

    Args:
        x2: the reference values.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether to compare NaNs as equal.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isclose(sv.Tensor([1.0, 1.1, float("nan")]), [1.0000001, 1.0, float("nan")]).tolist()
        [True, False, False]
    """
    x, y = promote_to_float(x1, x2)
    # An infinite reference has an infinite tolerance, so it is compared for equality only.
    near = x.sub(y).abs().le(y.abs().mul(rtol).add(atol)).logical_and(y.isfinite())
    result = near.logical_or(x.eq(y))
    return result.logical_or(x.isnan().logical_and(y.isnan())) if equal_nan else result


@operation(
    test="test_comparison.py::test_nan_infinities_and_signed_zeros_follow_ieee", standard=True
)
def isnan(x: Tensor, /) -> Tensor:
    """Test element-wise for NaN, as bool; False for integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isnan(sv.Tensor([1.0, float("nan")])).tolist()
        [False, True]
    """
    return apply_op(Op.NE, x, x) if x.dtype.is_inexact else _all_equal_to(x, False)


@operation(
    test="test_comparison.py::test_nan_infinities_and_signed_zeros_follow_ieee", standard=True
)
def isinf(x: Tensor, /) -> Tensor:
    """Test element-wise for positive or negative infinity, as bool; False for integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isinf(sv.Tensor([1.0, float("-inf")])).tolist()
        [False, True]
    """
    if x.dtype.is_complex:
        return x.real.isinf().logical_or(x.imag.isinf())
    # Integers and float8_e4m3 have no infinities.
    return x.abs().eq(math.inf) if x.dtype.max == math.inf else _all_equal_to(x, False)


@operation(
    test="test_comparison.py::test_nan_infinities_and_signed_zeros_follow_ieee", standard=True
)
def isfinite(x: Tensor, /) -> Tensor:
    """Test element-wise for finiteness, neither infinity nor NaN, as bool; True for integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isfinite(sv.Tensor([1.0, float("nan"), float("inf")])).tolist()
        [True, False, False]
    """
    if x.dtype.is_complex:
        return x.real.isfinite().logical_and(x.imag.isfinite())
    if x.dtype.max == math.inf:
        return x.abs().lt(math.inf)
    # float8_e4m3 has NaN but no infinities.
    return x.isnan().logical_not() if x.dtype.is_float else _all_equal_to(x, True)


@operation(test="test_comparison.py::test_nans_keep_their_signs", standard=True)
@reuse_graph
def signbit(x: Tensor, /) -> Tensor:
    """Test element-wise whether the sign bit is set, also for -0.0 and NaN, as bool. It is not set
    for unsigned integers.

    Raises:
        OperandError: if the dtype is complex.

    Example:
        >>> import svod_tensor as sv
        >>> sv.signbit(sv.Tensor([1.0, -0.0, -2.0])).tolist()
        [False, True, True]
    """
    if not x.dtype.is_inexact:
        return x.lt(0) if x.dtype.is_signed else _all_equal_to(x, False)
    if x.dtype.is_complex:
        raise OperandError(
            operation="signbit", found=x.dtype, expected="a real dtype", hint="use x.real or x.imag"
        )
    # The sign of the bits: a comparison with 0 is False for -0.0 and NaN.
    return x.bitcast({1: int8, 2: int16, 4: int32, 8: int64}[x.dtype.itemsize]).lt(0)


def _all_equal_to(x: Tensor, answer: bool) -> Tensor:
    return x.from_uop(broadcast_node(UOp.const(bool_, answer), x.shape))


@operation(
    test="test_arithmetic.py::test_arithmetic_agrees_with_numpy_on_every_dtype", standard=True
)
def maximum(x1: Tensor, x2: Operand, /) -> Tensor:
    """Element-wise maximum of `x1` and `x2`; NaN if either is NaN. Shapes broadcast, dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.maximum(sv.Tensor([1, 5]), 3).tolist()
        [3, 5]
    """
    return apply_binary(Op.MAX, x1, x2)


@operation(
    test="test_arithmetic.py::test_arithmetic_agrees_with_numpy_on_every_dtype", standard=True
)
def minimum(x1: Tensor, x2: Operand, /) -> Tensor:
    """Element-wise minimum of `x1` and `x2`; NaN if either is NaN. Shapes broadcast, dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.minimum(sv.Tensor([1, 5]), 3).tolist()
        [1, 3]
    """
    return apply_binary(Op.MIN, x1, x2)


@operation(test="test_comparison.py::test_pairs_of_special_values_agree_with_numpy")
@reuse_graph
def fmax(x1: Tensor, x2: Operand, /) -> Tensor:
    """Element-wise maximum of `x1` and `x2`, ignoring NaN: NaN only if both are. Shapes
    broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fmax(sv.Tensor([1.0, float("nan")]), 3.0).tolist()
        [3.0, 3.0]
    """
    x, y = promote(x1, x2)
    # As in C's fmax, NaN only if both are NaN.
    return x.isnan().where(y, y.isnan().where(x, x.maximum(y)))


@operation(test="test_comparison.py::test_pairs_of_special_values_agree_with_numpy")
@reuse_graph
def fmin(x1: Tensor, x2: Operand, /) -> Tensor:
    """Element-wise minimum of `x1` and `x2`, ignoring NaN: NaN only if both are. Shapes
    broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fmin(sv.Tensor([1.0, float("nan")]), 3.0).tolist()
        [1.0, 3.0]
    """
    x, y = promote(x1, x2)
    return x.isnan().where(y, y.isnan().where(x, x.minimum(y)))


@operation(
    test="test_operations.py::test_limits_agree_with_numpy", standard=True, methods=("clamp",)
)
def clip(x: Tensor, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Clip the elements to the range from `min` to `max`; either may be None, and NaN stays NaN.
    Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.clip(sv.Tensor([-2, 3, 9]), 0, 5).tolist()
        [0, 3, 5]
        >>> sv.clip(sv.Tensor([-2, 3, 9]), max=5).tolist()
        [-2, 3, 5]
    """
    result = x.clone() if min is None else x.maximum(min)
    return result if max is None else result.minimum(max)


@operation(test="test_functions.py::test_two_argument_functions_agree_with_numpy", standard=True)
@reuse_graph
def copysign(x1: Tensor, x2: Operand, /) -> Tensor:
    """Change the sign of `x1` to that of `x2`, element-wise. Shapes broadcast and dtypes promote;
    integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.copysign(sv.Tensor([1.0, -2.0]), [-0.0, 5.0]).tolist()
        [-1.0, 2.0]
    """
    x, y = promote_to_float(x1, x2)
    return y.signbit().where(x.abs().neg(), x.abs())


@operation(test="test_comparison.py::test_pairs_of_special_values_agree_with_numpy", standard=True)
@reuse_graph
def nextafter(x1: Tensor, x2: Operand, /) -> Tensor:
    """Return the next floating-point value after `x1` towards `x2`, element-wise. Shapes broadcast
    and dtypes promote; integers become float32.

    Raises:
        OperandError: if the dtype is float8.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nextafter(sv.Tensor([1.0]), 2.0).sub(1.0).item()
        1.1920928955078125e-07
    """
    x, y = promote_to_float(x1, x2)
    signed = {2: int16, 4: int32, 8: int64}.get(x.dtype.itemsize)
    if signed is None:
        raise OperandError(
            operation="nextafter",
            found=x.dtype,
            expected="a floating-point dtype of at least 16 bits",
        )
    bits = x.bitcast(signed)
    # A step away from zero increments the bit pattern; the smallest subnormal has the pattern 1.
    is_away = x.lt(y).eq(x.gt(0))
    stepped = is_away.where(bits.add(1), bits.sub(1)).bitcast(x.dtype)
    smallest = y.bitcast(signed).bitwise_and(signed.min).bitwise_or(1).bitcast(x.dtype)
    moved = x.eq(0).where(smallest, stepped)
    return x.eq(y).where(y, x.isnan().where(x, y.isnan().where(y, moved)))

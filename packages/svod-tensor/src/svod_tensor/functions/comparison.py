"""Functions that call the methods of `Tensor` in `svod_tensor.ops.comparison`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

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


@explained
def clip(x: Operand, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """The elements, limited to `min` and `max`, either of which may be left out; NaN stays NaN. Shapes broadcast and
    dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.clip(Tensor([-2, 3, 9]), 0, 5).tolist()
        [0, 3, 5]
        >>> sv.clip(Tensor([-2, 3, 9]), max=5).tolist()
        [-2, 3, 5]
    """
    return first_operand(x, min, max).clip(min, max)


@explained
def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """The magnitude of each element with the sign of `x2`. Shapes broadcast and dtypes promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.copysign(Tensor([1.0, -2.0]), [-0.0, 5.0]).tolist()
        [-1.0, 2.0]
    """
    return first_operand(x1, x2).copysign(x2)


@explained
def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether each element equals that of `x2`, as bools; NaN equals nothing. Shapes broadcast.

    An integer that the dtype does not hold has the true answer.

    Example:
        >>> import svod_tensor as sv
        >>> sv.equal(Tensor([1, 2]), 2).tolist()
        [False, True]
    """
    return first_operand(x1, x2).equal(x2)


@explained
def fmax(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger of each element and that of `x2`; where one is NaN, the other. Shapes broadcast and dtypes
    promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fmax(Tensor([1.0, float('nan')]), 3.0).tolist()
        [3.0, 3.0]
    """
    return first_operand(x1, x2).fmax(x2)


@explained
def fmin(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller of each element and that of `x2`; where one is NaN, the other. Shapes broadcast and dtypes
    promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fmin(Tensor([1.0, float('nan')]), 3.0).tolist()
        [1.0, 3.0]
    """
    return first_operand(x1, x2).fmin(x2)


@explained
def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether each element is above that of `x2`, as bools; False where one is NaN. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.greater(Tensor([1, 2, 3]), 2).tolist()
        [False, False, True]
    """
    return first_operand(x1, x2).greater(x2)


@explained
def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether each element is at least that of `x2`, as bools; False where one is NaN. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.greater_equal(Tensor([1, 2, 3]), 2).tolist()
        [False, True, True]
    """
    return first_operand(x1, x2).greater_equal(x2)


@explained
def isclose(x1: Operand, x2: Operand, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether `abs(x - other) <= atol + rtol * abs(x2)`, or both are equal, as bools. Shapes broadcast.

    Args:
        x2: what to compare with.
        rtol: the distance that is allowed, as a part of `x2`.
        atol: the distance that is allowed besides.
        equal_nan: whether NaN is close to NaN.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isclose(Tensor([1.0, 1.1, float('nan')]), [1.0000001, 1.0, float('nan')]).tolist()
        [True, False, False]
    """
    return first_operand(x1, x2).isclose(x2, rtol, atol, equal_nan)


@explained
def isfinite(x: Operand, /) -> Tensor:
    """Whether each element is neither infinite nor NaN, as bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isfinite(Tensor([1.0, float('nan'), float('inf')])).tolist()
        [True, False, False]
    """
    return to_tensor(x).isfinite()


@explained
def isinf(x: Operand, /) -> Tensor:
    """Whether each element is infinite, as bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isinf(Tensor([1.0, float('-inf')])).tolist()
        [False, True]
    """
    return to_tensor(x).isinf()


@explained
def isnan(x: Operand, /) -> Tensor:
    """Whether each element is NaN, as bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isnan(Tensor([1.0, float('nan')])).tolist()
        [False, True]
    """
    return to_tensor(x).isnan()


@explained
def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether each element is below that of `x2`, as bools; False where one is NaN. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.less(Tensor([1, 2, 3]), 2).tolist()
        [True, False, False]
    """
    return first_operand(x1, x2).less(x2)


@explained
def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether each element is at most that of `x2`, as bools; False where one is NaN. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.less_equal(Tensor([1, 2, 3]), 2).tolist()
        [True, True, False]
    """
    return first_operand(x1, x2).less_equal(x2)


@explained
def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger of each element and that of `x2`; NaN where either is NaN. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.maximum(Tensor([1, 5]), 3).tolist()
        [3, 5]
    """
    return first_operand(x1, x2).maximum(x2)


@explained
def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller of each element and that of `x2`; NaN where either is NaN. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.minimum(Tensor([1, 5]), 3).tolist()
        [1, 3]
    """
    return first_operand(x1, x2).minimum(x2)


@explained
def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """The next number of the dtype in the direction of `x2`. Shapes broadcast and dtypes promote; integers become
    float32.

    Raises:
        OperandError: if the dtype is float8.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nextafter(Tensor([1.0]), 2.0).sub(1.0).item()
        1.1920928955078125e-07
    """
    return first_operand(x1, x2).nextafter(x2)


@explained
def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether each element differs from that of `x2`, as bools; NaN differs from everything. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.not_equal(Tensor([1, 2]), 2).tolist()
        [True, False]
    """
    return first_operand(x1, x2).not_equal(x2)


@explained
def signbit(x: Operand, /) -> Tensor:
    """Whether the sign bit is set, as bools: it is for -0.0 and for some NaNs.

    Example:
        >>> import svod_tensor as sv
        >>> sv.signbit(Tensor([1.0, -0.0, -2.0])).tolist()
        [False, True, True]
    """
    return to_tensor(x).signbit()

"""Functions that call the methods of `Tensor` in `svod_tensor.ops.exponential`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

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


@explained
def cbrt(x: Operand, /) -> Tensor:
    """The cube root, of negative numbers too. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cbrt(Tensor([-8.0, 27.0])).tolist()
        [-2.0, 3.0]
    """
    return to_tensor(x).cbrt()


@explained
def erf(x: Operand, /) -> Tensor:
    """The error function. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.erf(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.8427], dtype=float32)
    """
    return to_tensor(x).erf()


@explained
def exp(x: Operand, /) -> Tensor:
    """e to the power of each element. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.exp(Tensor([0.0, 1.0])).round(4).numpy()
        array([1.    , 2.7183], dtype=float32)
    """
    return to_tensor(x).exp()


@explained
def exp2(x: Operand, /) -> Tensor:
    """2 to the power of each element. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.exp2(Tensor([0.0, 3.0, -1.0])).tolist()
        [1.0, 8.0, 0.5]
    """
    return to_tensor(x).exp2()


@explained
def expm1(x: Operand, /) -> Tensor:
    """`exp(x) - 1`, accurate near 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.expm1(Tensor([1e-10], dtype='float64')).tolist()
        [1.00000000005e-10]
    """
    return to_tensor(x).expm1()


@explained
def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """`sqrt(x^2 + x2^2)` without overflow. Shapes broadcast and dtypes promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.hypot(Tensor([3.0, 5.0]), [4.0, 12.0]).tolist()
        [5.0, 13.0]
    """
    return first_operand(x1, x2).hypot(x2)


@explained
def log(x: Operand, /) -> Tensor:
    """The natural logarithm; NaN of negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log(Tensor([1.0, 10.0, 0.0])).round(4).numpy()
        array([0.    , 2.3026,   -inf], dtype=float32)
    """
    return to_tensor(x).log()


@explained
def log10(x: Operand, /) -> Tensor:
    """The logarithm to base 10; NaN of negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log10(Tensor([1.0, 1000.0])).tolist()
        [0.0, 3.0]
    """
    return to_tensor(x).log10()


@explained
def log1p(x: Operand, /) -> Tensor:
    """`log(1 + x)`, accurate near 0. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log1p(Tensor([1e-10], dtype='float64')).tolist()
        [9.999999999500001e-11]
    """
    return to_tensor(x).log1p()


@explained
def log2(x: Operand, /) -> Tensor:
    """The logarithm to base 2; NaN of negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log2(Tensor([1.0, 8.0])).tolist()
        [0.0, 3.0]
    """
    return to_tensor(x).log2()


@explained
def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """`log(exp(x) + exp(x2))` without overflow. Shapes broadcast and dtypes promote; integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logaddexp(Tensor([1000.0]), 1000.0).round(4).numpy()
        array([1000.6932], dtype=float32)
    """
    return first_operand(x1, x2).logaddexp(x2)


@explained
def rsqrt(x: Operand, /) -> Tensor:
    """`1 / sqrt(x)`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.rsqrt(Tensor([4.0, 0.25])).tolist()
        [0.5, 2.0]
    """
    return to_tensor(x).rsqrt()


@explained
def sigmoid(x: Operand, /) -> Tensor:
    """`1 / (1 + exp(-x))`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sigmoid(Tensor([0.0, 2.0])).round(4).numpy()
        array([0.5   , 0.8808], dtype=float32)
    """
    return to_tensor(x).sigmoid()


@explained
def sqrt(x: Operand, /) -> Tensor:
    """The square root; NaN of negative numbers. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sqrt(Tensor([4, 9])).tolist()
        [2.0, 3.0]
    """
    return to_tensor(x).sqrt()

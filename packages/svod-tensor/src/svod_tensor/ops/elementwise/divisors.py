"""Common divisors and multiples, by Euclid's algorithm with least absolute remainders, unrolled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from svod_dtype import DType, uint8, uint16, uint32, uint64
from svod_ir import OperandError
from svod_tensor._shapes import broadcast_shapes
from svod_tensor.ops.core.operands import promote
from svod_tensor.ops.core.operation import operation

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "gcd",
    "lcm",
]


_UNSIGNED: Final = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
"""Unsigned dtypes by item size in bytes."""


@operation(test="test_divisors.py::test_common_divisors_and_multiples_agree_with_numpy")
def gcd(x1: Tensor, x2: Operand, /) -> Tensor:
    """Greatest common divisor of the absolute values; 0 for two zeros. Shapes broadcast and dtypes
    promote.

    Args:
        x2: integers.

    Raises:
        OperandError: if an operand is not an integer tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gcd(sv.Tensor([12, -9, 0]), sv.Tensor([18, 6, 5])).tolist()
        [6, 3, 5]
    """
    x, y, dtype = _to_magnitudes("gcd", *promote(x1, x2))
    return _compute_divisor(x, y).cast(dtype)


@operation(test="test_divisors.py::test_common_divisors_and_multiples_agree_with_numpy")
def lcm(x1: Tensor, x2: Operand, /) -> Tensor:
    """Least common multiple of the absolute values; 0 if either is 0. Shapes broadcast and dtypes
    promote; overflow wraps.

    Args:
        x2: integers.

    Raises:
        OperandError: if an operand is not an integer tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.lcm(sv.Tensor([12, -9, 0]), sv.Tensor([18, 6, 5])).tolist()
        [36, 18, 0]
    """
    x, y, dtype = _to_magnitudes("lcm", *promote(x1, x2))
    return x.floor_divide(_compute_divisor(x, y).maximum(1)).mul(y).cast(dtype)


def _to_magnitudes(operation: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, DType]:
    """Magnitudes in the unsigned dtype, which holds them all, and the original dtype."""
    if not x.dtype.is_int:
        raise OperandError(operation=operation, found=x.dtype, expected="integers")
    shape, dtype = broadcast_shapes(x.shape, y.shape), _UNSIGNED[x.dtype.itemsize]
    left, right = (v.abs().cast(dtype).broadcast_to(shape) for v in (x, y))
    return left, right, x.dtype


def _compute_divisor(x: Tensor, y: Tensor) -> Tensor:
    """Greatest common divisor. With least absolute remainders, a step shrinks the numbers by a factor
    of 1 + sqrt(2) on average in the worst case, which bounds the number of steps.

    Source: D. E. Knuth, The Art of Computer Programming, volume 2, section 4.5.3, exercise 30.
    """
    n_steps = math.ceil(x.dtype.bits * math.log(2) / math.log(1 + math.sqrt(2))) + 1
    for _ in range(n_steps):
        is_last = y.eq(0)
        # The divisor 1 only replaces a 0 whose result is not selected.
        remainder = x.remainder(is_last.where(1, y))
        # The least absolute remainder: r or y - r, which have the same common divisor with y.
        x, y = is_last.where(x, y), is_last.where(0, remainder.minimum(y.sub(remainder)))
    return x

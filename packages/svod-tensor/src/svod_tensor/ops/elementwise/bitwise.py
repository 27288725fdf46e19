"""Element-wise bitwise operations on integers and booleans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import bool_
from svod_ir import Op, OperandError
from svod_tensor.ops.core.operands import apply_op, apply_unary, promote
from svod_tensor.ops.core.operation import operation

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
]


@operation(test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy", standard=True)
def bitwise_and(x1: Tensor, x2: Operand, /) -> Tensor:
    """Bitwise AND of `x1` and `x2`, element-wise. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if an operand is floating-point.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_and(sv.Tensor([12, 10]), 6).tolist()
        [4, 2]
    """
    return _integer_binary(x1, "bitwise_and", Op.AND, x2)


@operation(test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy", standard=True)
def bitwise_or(x1: Tensor, x2: Operand, /) -> Tensor:
    """Bitwise OR of `x1` and `x2`, element-wise. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if an operand is floating-point.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_or(sv.Tensor([12, 10]), 6).tolist()
        [14, 14]
    """
    return _integer_binary(x1, "bitwise_or", Op.OR, x2)


@operation(test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy", standard=True)
def bitwise_xor(x1: Tensor, x2: Operand, /) -> Tensor:
    """Bitwise XOR of `x1` and `x2`, element-wise. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if an operand is floating-point.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_xor(sv.Tensor([12, 10]), 6).tolist()
        [10, 12]
    """
    return _integer_binary(x1, "bitwise_xor", Op.XOR, x2)


@operation(
    test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy",
    standard=True,
    aliases=("bitwise_not", "invert"),
)
def bitwise_invert(x: Tensor, /) -> Tensor:
    """Bitwise NOT, element-wise; the logical not for booleans.

    Raises:
        OperandError: if the tensor is floating-point.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_invert(sv.Tensor([0, 5])).tolist()
        [-1, -6]
    """
    return apply_unary(Op.NOT, _need_integers(x, "bitwise_invert"))


@operation(
    test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy",
    standard=True,
    aliases=("left_shift",),
    methods=("lshift",),
)
def bitwise_left_shift(x1: Tensor, x2: Operand, /) -> Tensor:
    """Shift bits to the left by `x2`; 0 for a shift outside of [0, bits - 1]. Shapes broadcast and
    dtypes promote.

    Raises:
        OperandError: if an operand is floating-point, or both are boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_left_shift(sv.Tensor([1, 3]), sv.Tensor([4, 32])).tolist()
        [16, 0]
    """
    return _shift(x1, "bitwise_left_shift", Op.SHL, x2)


@operation(
    test="test_bitwise.py::test_bits_and_shifts_agree_with_numpy",
    standard=True,
    aliases=("right_shift",),
    methods=("rshift",),
)
def bitwise_right_shift(x1: Tensor, x2: Operand, /) -> Tensor:
    """Arithmetic shift of bits to the right by `x2`. Shapes broadcast and dtypes promote.

    A shift outside of [0, bits - 1] shifts out all bits: the result is 0, or -1 for negative
    elements.

    Raises:
        OperandError: if an operand is floating-point, or both are boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_right_shift(sv.Tensor([16, -16, -16]), sv.Tensor([2, 2, 32])).tolist()
        [4, -4, -1]
    """
    return _shift(x1, "bitwise_right_shift", Op.SHR, x2)


def _shift(x: Tensor, operation: str, op: Op, amount: Operand) -> Tensor:
    x, y = promote(_need_integers(x, operation), amount, refused=(bool_,))
    _need_integers(y, operation)
    last = x.dtype.bits - 1
    # An arithmetic shift by `last` leaves the sign; other shifts out of range give 0.
    keeps_sign = op is Op.SHR and x.dtype.is_signed
    # A negative shift is treated like a shift beyond the last bit.
    # A known amount needs no comparison in the kernel.
    if y.uop.op is Op.CONST:
        is_inside = 0 <= y.uop.arg <= last
        if is_inside:
            return apply_op(op, x, y)
        return _shift(x, operation, Op.SHR, last) if keeps_sign else x.mul(0)
    inside = y.ge(0).logical_and(y.le(last)) if y.dtype.is_signed else y.le(last)
    # Clamped: in C and LLVM, a shift by the number of bits or more is undefined.
    shifted = apply_op(op, x, y, inside.where(y, last).uop)
    return shifted if keeps_sign else inside.where(shifted, 0)


def _integer_binary(x: Tensor, operation: str, op: Op, other: Operand) -> Tensor:
    x, y = promote(x, other)
    _need_integers(x, operation)
    return apply_op(op, x, y)


def _need_integers(x: Tensor, operation: str) -> Tensor:
    if x.dtype.is_float:
        raise OperandError(
            operation=operation,
            found=x.dtype,
            expected="an integer or boolean dtype",
            hint="cast with x.cast(int32)",
        )
    return x

"""Operations on the bits of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from svod_dtype import bool_
from svod_ir import Op, OperandError
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Bitwise"]


@operations
class Bitwise(Theme):
    """Bitwise operations and shifts."""

    __slots__ = ()

    def bitwise_and(self, other: Operand) -> Self:
        """The bits that both this tensor and `other` have. Shapes broadcast and dtypes promote.

        Raises:
            OperandError: if an operand is of floats.

        Example:
            >>> Tensor([12, 10]).bitwise_and(6).tolist()
            [4, 2]
        """
        return self._integer_binary("bitwise_and", Op.AND, other)

    def bitwise_or(self, other: Operand) -> Self:
        """The bits that this tensor or `other` has. Shapes broadcast and dtypes promote.

        Raises:
            OperandError: if an operand is of floats.

        Example:
            >>> Tensor([12, 10]).bitwise_or(6).tolist()
            [14, 14]
        """
        return self._integer_binary("bitwise_or", Op.OR, other)

    def bitwise_xor(self, other: Operand) -> Self:
        """The bits that one of this tensor and `other` has. Shapes broadcast and dtypes promote.

        Raises:
            OperandError: if an operand is of floats.

        Example:
            >>> Tensor([12, 10]).bitwise_xor(6).tolist()
            [10, 12]
        """
        return self._integer_binary("bitwise_xor", Op.XOR, other)

    def bitwise_not(self) -> Self:
        """All bits inverted; of bools, the logical not.

        Raises:
            OperandError: if the tensor is of floats.

        Example:
            >>> Tensor([0, 5]).bitwise_not().tolist()
            [-1, -6]
        """
        return self._need_integers("bitwise_not")._unary(Op.NOT)

    invert = bitwise_invert = bitwise_not

    def lshift(self, amount: Operand) -> Self:
        """The bits moved to the left by `amount`; one that is not from 0 to bits - 1 gives 0. Shapes broadcast and dtypes
        promote.

        Raises:
            OperandError: if an operand is of floats, or both are bools.

        Example:
            >>> Tensor([1, 3]).lshift(Tensor([4, 32])).tolist()
            [16, 0]
        """
        return self._shift("lshift", Op.SHL, amount)

    left_shift = bitwise_left_shift = lshift

    def rshift(self, amount: Operand) -> Self:
        """The bits moved to the right by `amount`, keeping the sign. Shapes broadcast and dtypes promote.

        An amount that is not from 0 to bits - 1 moves all bits out: 0 is left, or -1 of what is negative.

        Raises:
            OperandError: if an operand is of floats, or both are bools.

        Example:
            >>> Tensor([16, -16, -16]).rshift(Tensor([2, 2, 32])).tolist()
            [4, -4, -1]
        """
        return self._shift("rshift", Op.SHR, amount)

    right_shift = bitwise_right_shift = rshift

    def _shift(self, operation: str, op: Op, amount: Operand) -> Self:
        x, y = self._need_integers(operation)._pair(amount, refused=(bool_,))
        y._need_integers(operation)
        last = x.dtype.bits - 1
        # Where there is no sign, not even that is left.
        keeps_sign = op is Op.SHR and x.dtype.is_signed
        # A negative amount, read as unsigned, is above the last bit too.
        if y.uop.op is Op.CONST:
            is_inside = 0 <= y.uop.arg <= last
            if is_inside:
                return x._apply(op, x.uop, y.uop)
            return x._shift(operation, Op.SHR, last) if keeps_sign else x.mul(0)
        inside = y.ge(0).logical_and(y.le(last)) if y.dtype.is_signed else y.le(last)
        shifted = x._apply(op, x.uop, inside.where(y, last).uop, y)
        return shifted if keeps_sign else inside.where(shifted, 0)

    def _integer_binary(self, operation: str, op: Op, other: Operand) -> Self:
        x, y = self._pair(other)
        x._need_integers(operation)
        return x._apply(op, x.uop, y.uop, y)

    def _need_integers(self, operation: str) -> Self:
        if self.dtype.is_float:
            raise OperandError(
                operation=operation, found=self.dtype, expected="bool or integers", hint="cast with x.cast(int32)"
            )
        return self

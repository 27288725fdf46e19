"""Truth values, and selecting by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from svod_dtype import bool_, promote_types
from svod_ir import Op, OperandError, make_alu
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme, is_scalar, take_digits

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Logic"]


@operations
class Logic(Theme):
    """Logic and selection."""

    __slots__ = ()

    def logical_and(self, other: Operand) -> Self:
        """Whether an element and that of `other` are both not zero, as bools. Shapes broadcast.

        Example:
            >>> Tensor([0, 1, 2]).logical_and([True, True, False]).tolist()
            [False, True, False]
        """
        return self._logical(Op.AND, other)

    def logical_or(self, other: Operand) -> Self:
        """Whether an element or that of `other` is not zero, as bools. Shapes broadcast.

        Example:
            >>> Tensor([0, 0, 2]).logical_or([True, False, False]).tolist()
            [True, False, True]
        """
        return self._logical(Op.OR, other)

    def logical_xor(self, other: Operand) -> Self:
        """Whether one of an element and that of `other` is not zero, as bools. Shapes broadcast.

        Example:
            >>> Tensor([0, 1, 2]).logical_xor(1).tolist()
            [True, False, False]
        """
        return self._logical(Op.XOR, other)

    def logical_not(self) -> Self:
        """Whether each element is zero, as bools.

        Example:
            >>> Tensor([0.0, 1.5]).logical_not().tolist()
            [True, False]
        """
        return self.cast(bool_)._unary(Op.NOT)

    def _logical(self, op: Op, other: Operand) -> Self:
        y = self._wrap(other).cast(bool_)
        return self._apply(op, self.uop.cast(bool_), y.uop, y)

    def where(self, x: Operand, y: Operand) -> Self:
        """Elements of `x` where this tensor of bools holds, else of `y`; `Tensor.where(c, x, y)` reads as numpy's.

        The shapes of all three broadcast, and the dtypes of `x` and `y` promote.

        Raises:
            OperandError: if this tensor is not of bools.

        Example:
            >>> Tensor([True, False]).where(Tensor([1, 2]), 0).tolist()
            [1, 0]
        """
        if not self.dtype.is_bool:
            raise OperandError(
                operation="where",
                found=self.dtype,
                expected="a bool condition",
                hint="compare it, as in (x != 0).where(a, b)",
            )
        left, right = self._values(x, y)
        shape = broadcast_shapes(self.shape, left.shape, right.shape)
        nodes = [node if not node.shape else broadcast_node(node, shape) for node in (self.uop, left.uop, right.uop)]
        return self._make(broadcast_node(make_alu(Op.WHERE, *nodes), shape), left, right)

    def _values(self, x: Operand, y: Operand) -> tuple[Self, Self]:
        """Two values of one dtype, at least one of which may be a Python scalar."""
        if is_scalar(x) and is_scalar(y):
            return self._scalars(x, y)
        if is_scalar(x):
            right, left = self._wrap(y)._pair(x)
            return left, right
        left = self._wrap(x)
        if is_scalar(y):
            return left._pair(y)
        right = left._wrap(y)
        return take_digits(left, x, right.dtype)._pair(right)

    def _scalars(self, x: Operand, y: Operand) -> tuple[Self, Self]:
        left, right = self._wrap(x), self._wrap(y)
        dtype = promote_types(left.dtype, right.dtype)
        return left.cast(dtype), right.cast(dtype)

    def heaviside(self, at_zero: Operand) -> Self:
        """0 for negative numbers, 1 for positive ones, `at_zero` for zeros, and NaN for NaN. Integers become float32.

        Shapes broadcast and dtypes promote.

        Example:
            >>> Tensor([-2.0, 0.0, 3.0]).heaviside(0.5).tolist()
            [0.0, 0.5, 1.0]
        """
        x, y = self._pair(at_zero)
        x, y = x._to_float(), y._to_float()
        return x.isnan().where(x, x.eq(0).where(y, x.gt(0).cast(x.dtype)))

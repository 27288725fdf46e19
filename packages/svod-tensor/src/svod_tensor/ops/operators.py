"""Python's operators and indexing, as the operations that they stand for; either side may be a number or a numpy array.

An augmented operator (`x += y`) writes the result of the plain one to the tensor on its left, as in numpy: dtype and shape stay,
and all views of the elements see the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Self, TypeVar

from svod_dtype import bool_
from svod_ir import OperandError, ShapeError, format_shape
from svod_tensor._origins import wrap
from svod_tensor._shapes import concrete_shape
from svod_tensor._variable import explain_unbound
from svod_tensor.errors import ResultDtypeError
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.indexing import get_items
from svod_tensor.ops.naming import operations
from svod_tensor.ops.operands import as_tensor, cast_to, is_operand, promote, promote_to_float
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.index_items import Index

__all__ = ["Operators"]

T = TypeVar("T", bound=Theme)
R = TypeVar("R")

_KINDS: Final = ("bool", "uint", "int", "float", "complex")
"""Kinds of dtypes in ascending order: what is written to a tensor is of its kind or a lower one (numpy's 'same_kind')."""


def _operator(method: Callable[[T, Operand], R]) -> Callable[[T, Operand], R]:
    """Let an operator leave an operand that is no tensor, number, array or list to the operand's own operator."""

    def call(self: T, other: Operand, /) -> R:
        if is_operand(other) or _is_explained(other):
            return method(self, other)
        return NotImplemented

    # Origins name the operator, and not this function.
    return wrap(call, method)


def _is_explained(value: object) -> bool:
    """True for a value that is no operand, and that an error says what to write instead of."""
    return value is None or explain_unbound(value) is not None


@operations
class Operators(Theme):
    """Arithmetic, comparison and bit operators."""

    __slots__ = ()

    def __getitem__(self, index: Index, /) -> Self:
        """The elements at an index, by numpy's rules: a view of basic indices, else values of their own.

        As many integers as axes give a value too, which later writes do not change; with `...` beside them, a view.

        Args:
            index: ints, slices, `...`, None, variables, and integer lists, arrays and tensors, of which several
                broadcast together; or masks, which are computed where they are tensors; one without axes puts an axis of
                size 1 or 0 in front. An index in a tensor that is out of range reads as 0, or is an error in a plan that
                checks its operands.

        Raises:
            IndexOutOfRangeError: if a known index is out of range.
            IndexKindError: if something is no index, or there are more indices than axes.
            DataDependentShapeError: in a function that is captured, if a mask is a tensor.

        Example:
            >>> x = Tensor([[1, 2, 3], [4, 5, 6]])
            >>> x[1].tolist(), x[:, ::2].tolist(), x[:, [2, 0]].tolist()
            ([4, 5, 6], [[1, 3], [4, 6]], [[3, 1], [6, 4]])
        """
        return get_items(self, index)  # pyright: ignore[reportArgumentType, reportReturnType]

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: object) -> Self:
        return self.clone()

    def __len__(self) -> int:
        """The size of the first axis.

        Raises:
            OperandError: if there are no axes.
            SymbolicShapeError: if that size is symbolic.

        Example:
            >>> len(Tensor([[1, 2, 3], [4, 5, 6]]))
            2
        """
        if not self.ndim:
            raise OperandError(operation="len", found="a 0-d tensor", expected="a tensor with axes")
        return concrete_shape("len", self.shape[:1])[0]

    def __iter__(self) -> Iterator[Self]:
        """The slices along the first axis: views, or of a tensor of one axis the values of its elements.

        Example:
            >>> [row.tolist() for row in Tensor([[1, 2], [3, 4]])]
            [[1, 2], [3, 4]]
        """
        return (self[i] for i in range(len(self)))

    @_operator
    def __add__(self, other: Operand, /) -> Self:
        return self.add(other)

    @_operator
    def __radd__(self, other: Operand, /) -> Self:
        return self.add(other)

    @_operator
    def __sub__(self, other: Operand, /) -> Self:
        return self.sub(other)

    @_operator
    def __rsub__(self, other: Operand, /) -> Self:
        x, y = promote(self, other, refused=(bool_,))
        return y.sub(x)

    @_operator
    def __mul__(self, other: Operand, /) -> Self:
        return self.mul(other)

    @_operator
    def __rmul__(self, other: Operand, /) -> Self:
        return self.mul(other)

    @_operator
    def __truediv__(self, other: Operand, /) -> Self:
        return self.div(other)

    @_operator
    def __rtruediv__(self, other: Operand, /) -> Self:
        x, y = promote_to_float(self, other)
        return y.div(x)

    @_operator
    def __floordiv__(self, other: Operand, /) -> Self:
        return self.floor_divide(other)

    @_operator
    def __rfloordiv__(self, other: Operand, /) -> Self:
        x, y = promote(self, other)
        return y.floor_divide(x)

    @_operator
    def __mod__(self, other: Operand, /) -> Self:
        return self.remainder(other)

    @_operator
    def __rmod__(self, other: Operand, /) -> Self:
        x, y = promote(self, other)
        return y.remainder(x)

    @_operator
    def __divmod__(self, other: Operand, /) -> tuple[Self, Self]:
        return self.floor_divide(other), self.remainder(other)

    @_operator
    def __pow__(self, other: Operand, /) -> Self:
        return self.pow(other)

    @_operator
    def __rpow__(self, other: Operand, /) -> Self:
        x, y = promote(self, other)
        return y.pow(x)

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self.clone()

    def __abs__(self) -> Self:
        return self.abs()

    def __round__(self, ndigits: int | None = None) -> Self:
        return self.round(ndigits or 0)

    def __trunc__(self) -> int:
        return int(self)

    def __contains__(self, value: Operand) -> bool:
        return bool(self.eq(value).any().item())

    def __invert__(self) -> Self:
        return self.bitwise_not()

    @_operator
    def __and__(self, other: Operand, /) -> Self:
        return self.bitwise_and(other)

    __rand__ = __and__

    @_operator
    def __or__(self, other: Operand, /) -> Self:
        return self.bitwise_or(other)

    __ror__ = __or__

    @_operator
    def __xor__(self, other: Operand, /) -> Self:
        return self.bitwise_xor(other)

    __rxor__ = __xor__

    @_operator
    def __lshift__(self, other: Operand, /) -> Self:
        return self.lshift(other)

    @_operator
    def __rlshift__(self, other: Operand, /) -> Self:
        x, y = promote(self, other)
        return y.lshift(x)

    @_operator
    def __rshift__(self, other: Operand, /) -> Self:
        return self.rshift(other)

    @_operator
    def __rrshift__(self, other: Operand, /) -> Self:
        x, y = promote(self, other)
        return y.rshift(x)

    @_operator
    def __eq__(self, other: object, /) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.eq(other)  # pyright: ignore[reportArgumentType]

    @_operator
    def __ne__(self, other: object, /) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.ne(other)  # pyright: ignore[reportArgumentType]

    @_operator
    def __lt__(self, other: Operand, /) -> Self:
        return self.lt(other)

    @_operator
    def __le__(self, other: Operand, /) -> Self:
        return self.le(other)

    @_operator
    def __gt__(self, other: Operand, /) -> Self:
        return self.gt(other)

    @_operator
    def __ge__(self, other: Operand, /) -> Self:
        return self.ge(other)

    @_operator
    def __matmul__(self, other: Operand, /) -> Self:
        return self.matmul(other)

    @_operator
    def __rmatmul__(self, other: Operand, /) -> Self:
        return as_tensor(other, self).matmul(self)

    @_operator
    def __iadd__(self, other: Operand, /) -> Self:
        return self._write_result("add", self.add(other))

    @_operator
    def __isub__(self, other: Operand, /) -> Self:
        return self._write_result("sub", self.sub(other))

    @_operator
    def __imul__(self, other: Operand, /) -> Self:
        return self._write_result("mul", self.mul(other))

    @_operator
    def __itruediv__(self, other: Operand, /) -> Self:
        return self._write_result("div", self.div(other))

    @_operator
    def __ifloordiv__(self, other: Operand, /) -> Self:
        return self._write_result("floor_divide", self.floor_divide(other))

    @_operator
    def __imod__(self, other: Operand, /) -> Self:
        return self._write_result("remainder", self.remainder(other))

    @_operator
    def __ipow__(self, other: Operand, /) -> Self:
        return self._write_result("pow", self.pow(other))

    @_operator
    def __imatmul__(self, other: Operand, /) -> Self:
        return self._write_result("matmul", self.matmul(other))

    @_operator
    def __iand__(self, other: Operand, /) -> Self:
        return self._write_result("bitwise_and", self.bitwise_and(other))

    @_operator
    def __ior__(self, other: Operand, /) -> Self:
        return self._write_result("bitwise_or", self.bitwise_or(other))

    @_operator
    def __ixor__(self, other: Operand, /) -> Self:
        return self._write_result("bitwise_xor", self.bitwise_xor(other))

    @_operator
    def __ilshift__(self, other: Operand, /) -> Self:
        return self._write_result("lshift", self.lshift(other))

    @_operator
    def __irshift__(self, other: Operand, /) -> Self:
        return self._write_result("rshift", self.rshift(other))

    def _write_result(self, operation: str, result: Self) -> Self:
        """Write `result`, which has the shape of this tensor and a dtype of its kind or a lower one, and return this tensor."""
        if result.shape != self.shape:
            raise ShapeError(
                operation=operation, shape=self.shape,
                problem=f"of the output operand doesn't match the broadcast shape {format_shape(result.shape)}",
                hint="write x = x + y for a new tensor of the broadcast shape",
            )  # fmt: skip
        if _KINDS.index(result.dtype.kind) > _KINDS.index(self.dtype.kind):
            raise ResultDtypeError(operation=operation, result=result.dtype, target=self.dtype)
        self._write(cast_to(result, self.dtype))
        return self

    __hash__ = TensorBase.__hash__

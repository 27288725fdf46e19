"""Python's operators and indexing, mapped to operations; either operand may be a number or a numpy
array.

An augmented assignment (`x += y`) writes the result to the tensor on its left, as in numpy: dtype
and shape stay, and all views of the elements see the new values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from svod_ir import OperandError, ShapeError, format_shape
from svod_tensor._shapes import concrete_shape
from svod_tensor._variable import explain_unbound
from svod_tensor.errors import ResultDtypeError
from svod_tensor.ops.core.operands import as_tensor, cast_to, is_operand, promote, promote_to_float
from svod_tensor.ops.core.operation import OPERATIONS, special_method
from svod_tensor.ops.elementwise.arithmetic import (
    add,
    divide,
    floor_divide,
    multiply,
    pow,
    remainder,
    subtract,
)
from svod_tensor.ops.elementwise.bitwise import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from svod_tensor.ops.elementwise.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)
from svod_tensor.ops.indexing.gathering import get_items
from svod_tensor.ops.interface.assignment import write
from svod_tensor.ops.products.matmul import matmul

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.ops.indexing.index_items import Index
    from svod_tensor.tensor import Tensor

__all__: list[str] = []

_ARITHMETIC: Final = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "truediv": divide,
    "floordiv": floor_divide,
    "mod": remainder,
    "pow": pow,
    "matmul": matmul,
    "and": bitwise_and,
    "or": bitwise_or,
    "xor": bitwise_xor,
    "lshift": bitwise_left_shift,
    "rshift": bitwise_right_shift,
}
"""Operators that have a reflected and an augmented form: `__add__`, `__radd__` and `__iadd__`."""

_COMPARISONS: Final = {
    "eq": equal,
    "ne": not_equal,
    "lt": less,
    "le": less_equal,
    "gt": greater,
    "ge": greater_equal,
}

_COMMUTATIVE: Final = (add, multiply, bitwise_and, bitwise_or, bitwise_xor)

_KINDS: Final = ("bool", "uint", "int", "float", "complex")
"""Dtype kinds in ascending order: a value is cast to a tensor of its own kind or a higher one
(numpy's 'same_kind').
"""


def _operator(
    name: str, public: Callable[..., Tensor], compute: Callable[[Tensor, Any], Tensor], call: str
) -> None:
    """Register an operator, which returns NotImplemented for operands that are not tensors, numbers,
    arrays or lists.

    Args:
        name: name of the special method.
        public: the operation.
        compute: implementation of the method.
        call: docstring of the method.
    """

    def method(x: Tensor, other: Operand, /) -> Tensor:
        # With NotImplemented, Python tries the reflected operator of the other operand.
        return compute(x, other) if is_operand(other) or _is_explained(other) else NotImplemented

    method.__name__ = method.__qualname__ = name
    method.__doc__ = call
    # `object` defines them for every operand, and type checkers compare the signatures.
    if name in ("__eq__", "__ne__"):
        method.__annotations__["other"] = "object"
    special_method(public.__name__)(method)


def _is_explained(value: object) -> bool:
    """True for a non-operand for which an error with a hint is raised instead of NotImplemented."""
    return value is None or explain_unbound(value) is not None


def _reflect(name: str, operation: Callable[..., Tensor]) -> Callable[[Tensor, Any], Tensor]:
    """Return the operation with swapped operands; a number or array on the left is promoted with the
    tensor.
    """
    # `matmul` promotes the dtypes itself.
    if name == "matmul":
        return lambda x, other: operation(as_tensor(other, x), x)
    promote_both = promote_to_float if name == "truediv" else promote

    def compute(x: Tensor, other: Any) -> Tensor:
        right, left = promote_both(x, other)
        return operation(left, right)

    return compute


def _augment(operation: Callable[..., Tensor]) -> Callable[[Tensor, Any], Tensor]:
    return lambda x, other: _write_result(operation.__name__, x, operation(x, other))


def _write_result(operation: str, x: Tensor, result: Tensor) -> Tensor:
    """Write `result`, of the shape of `x` and a dtype of the same or a lower kind, to `x`."""
    # As in numpy, an augmented assignment never changes the shape of its target.
    if result.shape != x.shape:
        raise ShapeError(
            operation=operation,
            shape=x.shape,
            problem=(
                f"output operand with shape {format_shape(x.shape)} doesn't match the broadcast"
                f" shape {format_shape(result.shape)}"
            ),
            hint="write x = x + y for a new tensor of the broadcast shape",
        )
    # As in numpy: `int_array += 0.5` would lose the fraction.
    if _KINDS.index(result.dtype.kind) > _KINDS.index(x.dtype.kind):
        raise ResultDtypeError(operation=operation, result=result.dtype, target=x.dtype)
    write(x, cast_to(result, x.dtype))
    return x


for _name, _public in {**_ARITHMETIC, **_COMPARISONS}.items():
    _shown, _function = _public.__name__, OPERATIONS[_public.__name__].function
    _operator(f"__{_name}__", _public, _function, f"Return `{_shown}(x, other)`.")
    if _name in _ARITHMETIC:
        # A commutative operation saves the promotion of swapped operands.
        _reflected = _function if _public in _COMMUTATIVE else _reflect(_name, _function)
        _operator(f"__r{_name}__", _public, _reflected, f"Return `{_shown}(other, x)`.")
        _operator(
            f"__i{_name}__",
            _public,
            _augment(_function),
            f"Write `{_shown}(x, other)` to this tensor, and return it.",
        )


@special_method()
def __divmod__(x: Tensor, other: Operand, /) -> tuple[Tensor, Tensor]:
    """Return `floor_divide(x, other)` and `remainder(x, other)`."""
    if not (is_operand(other) or _is_explained(other)):
        return NotImplemented
    return x.floor_divide(other), x.remainder(other)


@special_method()
def __neg__(x: Tensor) -> Tensor:
    return x.neg()


@special_method()
def __pos__(x: Tensor) -> Tensor:
    return x.clone()


@special_method()
def __abs__(x: Tensor) -> Tensor:
    return x.abs()


@special_method()
def __invert__(x: Tensor) -> Tensor:
    return x.bitwise_not()


@special_method()
def __round__(x: Tensor, ndigits: int | None = None) -> Tensor:
    return x.round(ndigits or 0)


@special_method()
def __trunc__(x: Tensor) -> int:
    return int(x)


@special_method()
def __contains__(x: Tensor, value: Operand) -> bool:
    return bool(x.eq(value).any().item())


@special_method("indexing")
def __getitem__(x: Tensor, index: Index, /) -> Tensor:
    """Return the elements at an index, by numpy's rules: a view for basic indexing, else a copy.

    One integer per axis also gives a copy, which later writes do not change; with `...` added, a
    view.

    Args:
        index: ints, slices, `...`, None, variables, integer lists, arrays and tensors, which
            broadcast together, or boolean masks, which are realized if they are tensors; a 0-d mask
            adds a leading axis of size 1 or 0. An out-of-range index in a tensor reads 0, or is an
            error in a plan that checks its operands.

    Raises:
        IndexOutOfRangeError: if a known index is out of range.
        IndexKindError: if an item is not a valid index, or there are more indices than axes.
        DataDependentShapeError: in a captured function, if a mask is a tensor.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([[1, 2, 3], [4, 5, 6]])
        >>> x[1].tolist(), x[:, ::2].tolist(), x[:, [2, 0]].tolist()
        ([4, 5, 6], [[1, 3], [4, 6]], [[3, 1], [6, 4]])
    """
    return get_items(x, index)


@special_method("len")
def __len__(x: Tensor) -> int:
    """Size of the first axis.

    Raises:
        OperandError: if the tensor is 0-d.
        SymbolicShapeError: if that size is symbolic.

    Example:
        >>> from svod_tensor import Tensor
        >>> len(Tensor([[1, 2, 3], [4, 5, 6]]))
        2
    """
    # As in numpy, a scalar has no length.
    if not x.ndim:
        raise OperandError(
            operation="len", found="a 0-d tensor", expected="a tensor with at least 1 dimension"
        )
    return concrete_shape("len", x.shape[:1])[0]


@special_method()
def __iter__(x: Tensor) -> Iterator[Tensor]:
    """Iterate over the slices along the first axis: views, or elements of a 1-d tensor.

    Example:
        >>> from svod_tensor import Tensor
        >>> [row.tolist() for row in Tensor([[1, 2], [3, 4]])]
        [[1, 2], [3, 4]]
    """
    # A generator expression evaluates `len(x)` at once, so that a scalar fails at `iter`, not at
    # the first element.
    return (x[i] for i in range(len(x)))

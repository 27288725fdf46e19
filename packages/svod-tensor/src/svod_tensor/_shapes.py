"""Shape and axis rules that operations share."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import NoReturn, TypeAlias, cast

from svod_dtype import DType, find_dtype
from svod_ir import (
    AxisError,
    BroadcastError,
    OperandError,
    ShapeError,
    SInt,
    UOp,
    make_expand,
    make_reshape,
)
from svod_ir.sizes import is_known_at_most, normalize_size
from svod_tensor._variable import explain_unbound
from svod_tensor.errors import CalledPropertyError, SymbolicBoundsError, SymbolicShapeError

__all__ = [
    "Axes",
    "ElementCount",
    "Shape",
    "broadcast_node",
    "broadcast_shapes",
    "check_within",
    "concrete_shape",
    "item_count",
    "normalize_axes",
    "normalize_axis",
    "to_shape",
]


class ElementCount(int):
    """Number of elements. Calling it, like PyTorch's `size`, raises an error with a hint."""

    __slots__ = ()

    def __call__(self, axis: int | None = None) -> NoReturn:
        hint = "write x.shape" if axis is None else f"write x.shape[{axis!r}]"
        raise CalledPropertyError(name="size", hint=f"{hint}; x.size is the number of elements")


Shape: TypeAlias = tuple[SInt, ...]
Axes: TypeAlias = int | Sequence[int] | None


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all `shapes` broadcast to, aligned at the last axis.

    Raises:
        BroadcastError: if two sizes of one axis differ and neither is 1.
    """
    result: Shape = ()
    for shape in shapes:
        result = (
            shape
            if not result
            else _broadcast_pair(result, shape)
            # Equal shapes, the usual case, are not compared axis by axis.
            if shape and shape != result
            else result
        )
    return result


def _broadcast_pair(left: Shape, right: Shape) -> Shape:
    ndim = max(len(left), len(right))
    sizes: list[SInt] = []
    for axis in range(-ndim, 0):
        a = left[axis] if -axis <= len(left) else 1
        b = right[axis] if -axis <= len(right) else 1
        if a != b and a != 1 and b != 1:
            raise BroadcastError(left=left, right=right, axis=axis)
        sizes.append(b if a == 1 else a)
    return tuple(sizes)


def broadcast_node(node: UOp, shape: Shape) -> UOp:
    """`node` broadcast to `shape`, which the caller has checked."""
    if node.shape == shape:
        return node
    padded = (1,) * (len(shape) - len(node.shape)) + node.shape
    return make_expand(make_reshape(node, padded), shape)


def normalize_axis(operation: str, axis: int, ndim: int) -> int:
    """`axis` as a non-negative number.

    Raises:
        AxisError: if there is no such axis.
        OperandError: if `axis` is not an integer.
    """
    axis = _to_axis(operation, axis)
    if not -ndim <= axis < ndim:
        raise AxisError(operation=operation, axis=axis, ndim=ndim)
    return axis + ndim if axis < 0 else axis


def _to_axis(operation: str, axis: object) -> int:
    # The usual case, without a further call.
    if type(axis) is int:
        return axis
    return _to_integer(operation, axis, "integer axes")


def _to_integer(operation: str, value: object, expected: str) -> int:
    # `operator.index` accepts a bool, which is usually an argument in the wrong position.
    if not isinstance(value, bool):
        try:
            return int(operator.index(value))  # pyright: ignore[reportArgumentType]
        except TypeError:
            pass
    is_dtype = isinstance(value, DType) or (
        isinstance(value, str) and find_dtype(value) is not None
    )
    hint = f"write dtype={value!r}" if is_dtype else explain_unbound(value)
    raise OperandError(operation=operation, found=repr(value), expected=expected, hint=hint)


def normalize_axes(operation: str, axes: Axes, ndim: int) -> tuple[int, ...]:
    """`axes` as non-negative numbers; None means all of them.

    Raises:
        AxisError: if an axis does not exist.
        ShapeError: if an axis is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, Iterable):
        return (normalize_axis(operation, axes, ndim),)
    result = tuple(normalize_axis(operation, a, ndim) for a in axes)
    if len(set(result)) != len(result):
        raise ShapeError(
            operation=operation, shape=tuple(axes), problem=f"repeated axis in {tuple(axes)}"
        )
    return result


def to_shape(operation: str, sizes: Sequence[SInt | Sequence[SInt]]) -> Shape:
    """The shape given as separate sizes or as one sequence."""
    items: Sequence[object] = sizes
    # `tuple` comes first: `isinstance` with an abstract class is slower.
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, Sequence)):
        items = cast("Sequence[object]", sizes[0])
    return tuple([_to_size(operation, size) for size in items])


def _to_size(operation: str, size: object) -> SInt:
    if type(size) is int or isinstance(size, UOp):
        return normalize_size(size)
    return _to_integer(operation, size, "integer sizes")


def concrete_shape(operation: str, shape: Shape) -> tuple[int, ...]:
    """`shape`, if all its sizes are known.

    Raises:
        SymbolicShapeError: if one is symbolic.
    """
    if all(isinstance(s, int) for s in shape):
        return shape  # pyright: ignore[reportReturnType]
    raise SymbolicShapeError(operation=operation, shape=shape)


def item_count(begin: SInt, end: SInt, step: int) -> SInt:
    """Number of elements of a slice."""
    return normalize_size((end - begin + abs(step) - 1) // abs(step))


def check_within(operation: str, axis: int, found: SInt, low: SInt, high: SInt | None) -> None:
    """Raise unless `low <= found <= high` for all values of the variables; None as `high` is no
    limit.

    Raises:
        SymbolicBoundsError: if that is not known.
    """
    if not is_known_at_most(low, found) or (high is not None and not is_known_at_most(found, high)):
        raise SymbolicBoundsError(operation=operation, axis=axis, found=found, low=low, high=high)

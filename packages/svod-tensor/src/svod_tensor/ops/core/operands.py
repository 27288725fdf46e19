"""Operands: conversion to tensors, dtype promotion, and application of the IR's elementwise ops.

    x, y = promote(x1, x2)
    return apply_op(Op.FMOD, x, y)

Python numbers are weakly typed: combined with a tensor they take its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Final, cast

from svod_dtype import DType, default_float, float64, promote_types, promote_with_scalar
from svod_ir import Op, OperandError, SInt, UOp, make_alu
from svod_tensor._data import Scalar, make_constant
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor._shards import move_like
from svod_tensor.cells.views import Shrink
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from svod_tensor.ops.core.base import Operand

__all__ = [
    "apply_binary",
    "apply_op",
    "apply_unary",
    "as_tensor",
    "as_value",
    "cast_to",
    "first_operand",
    "is_operand",
    "is_scalar",
    "make_result",
    "move_beside",
    "overrides_ufuncs",
    "promote",
    "promote_to_float",
    "slice_axis",
    "through_float64",
    "to_float",
    "to_tensor",
    "to_tensors",
]

_OPERANDS: Final = (TensorBase, bool, int, float, complex, list, tuple, range, bytes, UOp)


def to_tensor(value: Operand) -> Tensor:
    """Convert `value` to a tensor; a tensor is returned as it is."""
    return cast("Tensor", value if isinstance(value, TensorBase) else Tensor(value))


def to_tensors(*operands: Operand) -> list[Tensor]:
    """Convert operands to tensors; Python floats get the precision of the other operands."""
    tensors = [to_tensor(x) for x in operands]
    if all(tensor is x for tensor, x in zip(tensors, operands, strict=True)):
        return tensors
    dtype = reduce(promote_types, (tensor.dtype for tensor in tensors))
    return [_keep_digits(tensor, x, dtype) for tensor, x in zip(tensors, operands, strict=True)]


def first_operand(x1: Operand, *others: Operand | None) -> Tensor:
    """Convert `x1` to a tensor; a number combined with a tensor is weak, as it is on the right side.

    Raises:
        IntegerOverflowError: if the number is out of range for the dtype of the tensor.
    """
    if isinstance(x1, TensorBase):
        return cast("Tensor", x1)
    if is_scalar(x1) and len(others) == 1 and isinstance(others[0], TensorBase):
        constant = make_constant(x1, promote_with_scalar(others[0].dtype, x1))
        return cast("Tensor", others[0].from_uop(move_like(constant, others[0].uop)))
    return to_tensors(x1, *(x for x in others if x is not None and not is_scalar(x)))[0]


def _keep_digits(tensor: Tensor, value: object, dtype: DType) -> Tensor:
    """Return `tensor`, or `value` in float64 if it holds Python floats and `dtype` is float64."""
    is_rounded = (
        tensor.dtype.is_inexact and tensor.dtype.part is not float64 and not hasattr(value, "dtype")
    )
    if not is_rounded or not dtype.is_inexact or dtype.part is not float64:
        return tensor
    return type(tensor)(value, dtype=promote_types(tensor.dtype, float64))  # pyright: ignore[reportArgumentType, reportCallIssue]


def as_tensor(value: Operand, like: Tensor) -> Tensor:
    """Convert `value` to a tensor of the class of `like`; Python data and arrays go to its device."""
    kind = type(like)
    if isinstance(value, kind):
        return value
    tensor = _keep_digits(kind(value), value, like.dtype)  # pyright: ignore[reportArgumentType]
    # A tensor stays on its device: a mismatch is an error, never an implicit transfer.
    return (
        tensor
        if isinstance(value, (TensorBase, UOp))
        else like.from_uop(move_like(tensor.uop, like.uop))
    )


def move_beside(tensor: Tensor, x: Tensor) -> Tensor:
    """`tensor`, made from data of the operation itself, on the device or devices of `x`."""
    return x.from_uop(move_like(tensor.uop, x.uop))


def as_value(value: Operand, target: Tensor) -> Tensor:
    """Convert `value` to the dtype of `target` and, unless it is a tensor, to its device."""
    if isinstance(value, TensorBase):
        return as_tensor(value, target).cast(target.dtype)
    return target.from_uop(move_like(type(target)(value, dtype=target.dtype).uop, target.uop))


def promote(x: Tensor, other: Operand, *, refused: tuple[DType, ...] = ()) -> tuple[Tensor, Tensor]:
    """Cast both operands to their promoted dtype.

    Raises:
        OperandError: if that dtype is one of `refused`.
    """
    if is_scalar(other):
        x, constant = _promote_with_scalar(x, other, refused)
        return x, x._make(constant)  # pyright: ignore[reportPrivateUsage]
    right = as_tensor(other, x)
    dtype = promote_types(x.dtype, right.dtype)
    _check_dtype(refused, dtype, dtype)
    return cast_to(x, dtype), cast_to(right, dtype)


def _promote_with_scalar(
    x: Tensor, other: Scalar, refused: tuple[DType, ...]
) -> tuple[Tensor, UOp]:
    dtype = promote_with_scalar(x.dtype, other)
    _check_dtype(refused, dtype, x.dtype if isinstance(other, bool) else dtype)
    return cast_to(x, dtype), make_constant(other, dtype)


def promote_to_float(x: Tensor, other: Operand) -> tuple[Tensor, Tensor]:
    """Cast both operands to one inexact dtype; a number may be out of range for an integer tensor."""
    x, y = promote(to_float(x) if is_scalar(other) else x, other)
    x, y = to_float(x), to_float(y)
    dtype = promote_types(x.dtype, y.dtype)
    return cast_to(x, dtype), cast_to(y, dtype)


def cast_to(x: Tensor, dtype: DType) -> Tensor:
    """Cast `x` to `dtype`; nearly all operands have it, and are returned as they are."""
    return x if x.uop.dtype is dtype else x.cast(dtype)


def to_float(x: Tensor) -> Tensor:
    """Cast integers and bools to the default float dtype."""
    return x if x.dtype.is_inexact else x.cast(default_float())


def through_float64(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply `function` in float64 and round once to the float dtype of `x`."""
    x = to_float(x)
    return function(x) if x.dtype is float64 else function(x.cast(float64)).cast(x.dtype)


def apply_unary(op: Op, x: Tensor) -> Tensor:
    """Apply an op elementwise."""
    return x._make_alike(make_alu(op, x.uop))  # pyright: ignore[reportPrivateUsage]


def apply_binary(op: Op, x: Tensor, other: Operand, *, refused: tuple[DType, ...] = ()) -> Tensor:
    """Apply an op to two operands, with promotion and broadcasting.

    Raises:
        OperandError: if the promoted dtype is one of `refused`.
    """
    if isinstance(other, type(x)):
        left, right = x.uop, other.uop
        is_alike = (
            left.dtype is right.dtype
            and left.shape == right.shape
            and left.placement == right.placement
        )
        if is_alike and left.dtype not in refused:
            # Fast path: no promotion, no broadcast, same device.
            return x._make_alike(make_alu(op, left, right))  # pyright: ignore[reportPrivateUsage]
    if is_scalar(other):
        x, constant = _promote_with_scalar(x, other, refused)
        # A 0-d node broadcasts implicitly, and a constant has no device.
        return x._make_alike(make_alu(op, x.uop, constant))  # pyright: ignore[reportPrivateUsage]
    x, y = promote(x, other, refused=refused)
    return apply_op(op, x, y)


def apply_op(op: Op, x: Tensor, y: Tensor, node: UOp | None = None) -> Tensor:
    """Apply an op to operands of one dtype, with broadcasting; `node`, if given, replaces `y` in the
    graph.

    Raises:
        DeviceMismatchError: if the operands are on different devices.
    """
    return make_result(_make_broadcast(op, x.uop, y.uop if node is None else node), x, y)


def make_result(node: UOp, x: Tensor, *operands: TensorBase) -> Tensor:
    """Create the tensor of `node`, which is computed from `x` and `operands`, even if it does not
    read all of them.

    Raises:
        DeviceMismatchError: if they are on different devices.
    """
    return x._make(node, *operands)  # pyright: ignore[reportPrivateUsage]


def _make_broadcast(op: Op, x: UOp, y: UOp) -> UOp:
    left, right = x.shape, y.shape
    # A 0-d node broadcasts implicitly.
    if left != right and left and right:
        shape = broadcast_shapes(left, right)
        x, y = broadcast_node(x, shape), broadcast_node(y, shape)
    return make_alu(op, x, y)


def slice_axis(x: Tensor, axis: int, begin: SInt, end: SInt) -> Tensor:
    """View of the elements from `begin` to `end` along one axis."""
    bounds = tuple((begin, end) if a == axis else (0, size) for a, size in enumerate(x.shape))
    return x.along(Shrink(x.shape, bounds))


def is_scalar(value: object) -> TypeIs[Scalar]:
    """True for a Python number."""
    return isinstance(value, (bool, int, float, complex))


def is_operand(value: object) -> bool:
    """True if an operator accepts `value` with a tensor: a tensor, a number, an array, a list of
    these, or bytes.
    """
    if isinstance(value, _OPERANDS):
        return True
    kind = type(value)
    is_array = hasattr(kind, "__array__") or hasattr(value, "__array_interface__")
    return is_array and not overrides_ufuncs(value)


def overrides_ufuncs(value: object) -> bool:
    """True if another library overrides numpy's functions for its arrays, and so implements
    operators with other arrays itself (NEP 13); a class may do so by `__array_ufunc__ = None`.
    """
    import numpy as np

    own = getattr(type(value), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return own is not np.ndarray.__array_ufunc__ and not isinstance(value, TensorBase)


def _check_dtype(refused: tuple[DType, ...], dtype: DType, operand_dtype: DType) -> None:
    if dtype in refused:
        raise OperandError(
            operation="arithmetic",
            found=operand_dtype,
            expected="a numeric dtype",
            hint="cast with x.cast(int32), or use logical_xor",
        )

"""Functions that call the methods of `Tensor` in `svod_tensor.ops.movement`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_ir import SInt
    from svod_tensor._shapes import Axes
    from svod_tensor.ops.base import Operand

__all__ = [
    "broadcast_to",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "squeeze",
    "transpose",
]


@explained
def broadcast_to(x: Operand, /, shape: SInt | Sequence[SInt]) -> Tensor:
    """`x`, repeated to `shape` by the rules of broadcasting: a view, which cannot be assigned to where
    elements are repeated.

    Raises:
        BroadcastError: if it does not broadcast to that shape.

    Example:
        >>> import svod_tensor as sv
        >>> sv.broadcast_to(Tensor([1, 2]), (2, 2)).tolist()
        [[1, 2], [1, 2]]
    """
    return to_tensor(x).broadcast_to(shape)


@explained
def expand_dims(x: Operand, /, axis: int | Sequence[int]) -> Tensor:
    """`x` with an axis of size 1 at `axis`, or at each of several: a view.

    Args:
        axis: where the result has the new axes.

    Raises:
        AxisError: if the result has no such axis.
        ShapeError: if an axis is named twice.

    Example:
        >>> import svod_tensor as sv
        >>> sv.expand_dims(Tensor([1, 2]), 1).tolist()
        [[1], [2]]
    """
    return to_tensor(x).expand_dims(axis)


@explained
def flatten(x: Operand, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """The axes from `start_axis` to `end_axis`, both included, as one.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if the end is before the start.

    Example:
        >>> import svod_tensor as sv
        >>> sv.flatten(Tensor([[1, 2], [3, 4]])).tolist()
        [1, 2, 3, 4]
    """
    return to_tensor(x).flatten(start_axis, end_axis)


@explained
def flip(x: Operand, /, *, axis: Axes = None) -> Tensor:
    """`x` with the elements along an axis in reverse order: a view. `axis` is one axis, several, or None for
    all.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.flip(Tensor([[1, 2], [3, 4]]), axis=0).tolist()
        [[3, 4], [1, 2]]
    """
    return to_tensor(x).flip(axis=axis)


@explained
def matrix_transpose(x: Operand, /) -> Tensor:
    """`x` with the last two axes swapped: a view.

    Raises:
        AxisError: if there are less than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.matrix_transpose(Tensor.zeros(2, 3, 4)).shape
        (2, 4, 3)
    """
    return to_tensor(x).matrix_transpose()


@explained
def moveaxis(x: Operand, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """`x` with axis `source`, or each of several, at place `destination`; the others keep their order: a view.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are not as many places as axes, or one is named twice.

    Example:
        >>> import svod_tensor as sv
        >>> sv.moveaxis(Tensor.zeros(2, 3, 4), 0, -1).shape
        (3, 4, 2)
    """
    return to_tensor(x).moveaxis(source, destination)


@explained
def permute_dims(x: Operand, /, axes: int | Sequence[int]) -> Tensor:
    """`x` with its axes in another order: a view. Axis i of the result is axis `axes[i]` of `x`.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if not each axis is named once.

    Example:
        >>> import svod_tensor as sv
        >>> sv.permute_dims(Tensor.zeros(2, 3, 4), (2, 0, 1)).shape
        (4, 2, 3)
    """
    return to_tensor(x).permute_dims(axes)


@explained
def ravel(x: Operand, /) -> Tensor:
    """The axes from `start_axis` to `end_axis`, both included, as one.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if the end is before the start.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ravel(Tensor([[1, 2], [3, 4]])).tolist()
        [1, 2, 3, 4]
    """
    return to_tensor(x).ravel()


@explained
def reshape(x: Operand, /, shape: SInt | Sequence[SInt], *, copy: bool | None = None) -> Tensor:
    """The same elements in row-major order as a tensor of `shape`: a view where numpy makes one, else a copy.

    Args:
        shape: sizes, or one sequence of them; one may be -1 and is then inferred.
        copy: True gives values of their own, False an error where there is no view.

    Raises:
        ShapeError: if the shape holds another number of elements, or no view has it and `copy` is False.

    Example:
        >>> import svod_tensor as sv
        >>> sv.reshape(Tensor([1, 2, 3, 4]), (2, -1)).tolist()
        [[1, 2], [3, 4]]
    """
    return to_tensor(x).reshape(shape, copy=copy)


@explained
def squeeze(x: Operand, /, axis: Axes) -> Tensor:
    """`x` without axes of size 1: a view. `axis` is one axis, several, or None for all that have size 1.

    Raises:
        ShapeError: if a named axis has another size.

    Example:
        >>> import svod_tensor as sv
        >>> sv.squeeze(Tensor([[[1], [2]]]), 0).shape
        (2, 1)
    """
    return to_tensor(x).squeeze(axis)


@explained
def transpose(x: Operand, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """`x` with its axes in reverse order, or with two of them swapped: a view.

    Args:
        axes: one of two axes; or all of them in the order that is wanted, as `permute` takes it.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if one axis is named alone.

    Example:
        >>> import svod_tensor as sv
        >>> sv.transpose(Tensor([[1, 2], [3, 4]])).tolist()
        [[1, 3], [2, 4]]
    """
    return to_tensor(x).transpose(axes)

"""Reshaping and reordering of axes, as views of the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_ir import AxisError, ShapeError, SInt, format_shape, format_size
from svod_ir.sizes import divide_size, product
from svod_tensor._shapes import (
    Axes,
    Shape,
    broadcast_shapes,
    normalize_axes,
    normalize_axis,
    to_shape,
)
from svod_tensor.cells.views import Expand, Flip, Permute, Reshape, Step
from svod_tensor.ops.core.operands import to_tensor
from svod_tensor.ops.core.operation import operation, static_operation

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "T",
    "broadcast_arrays",
    "broadcast_to",
    "expand",
    "expand_dims",
    "flatten",
    "flip",
    "mT",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
    "unflatten",
]


@operation(
    test="test_movement.py::test_reshape_keeps_row_major_order",
    standard=True,
    methods=("view",),
    is_variadic=True,
)
def reshape(x: Tensor, /, shape: SInt | Sequence[SInt], *, copy: bool | None = None) -> Tensor:
    """Reshape a tensor in row-major order: a view where numpy returns one, else a copy.

    Args:
        shape: the new shape; one size may be -1, and is inferred.
        copy: True always copies; False raises if the result cannot be a view.

    Raises:
        ShapeError: if the number of elements differs, or a copy is needed and `copy` is False.

    Example:
        >>> import svod_tensor as sv
        >>> sv.reshape(sv.Tensor([1, 2, 3, 4]), (2, -1)).tolist()
        [[1, 2], [3, 4]]
    """
    new_shape = _infer_size(x.shape, to_shape("reshape", (shape,)))
    view = x.along(Reshape(x.shape, new_shape))
    if copy:
        return view.clone()
    # `along` gives a new cell where the elements are not a view of the memory.
    if copy is False and view.content.cell is not x.content.cell:
        raise ShapeError(
            operation="reshape",
            shape=x.shape,
            problem=(
                f"shape {format_shape(x.shape)} cannot be viewed as"
                f" {format_shape(new_shape)} without a copy"
            ),
            hint="omit copy",
        )
    return view


@operation(test="test_movement.py::test_reshape_keeps_row_major_order", aliases=("ravel",))
def flatten(x: Tensor, /, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Flatten the axes from `start_axis` to `end_axis`, inclusive, into one.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if `start_axis` is after `end_axis`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.flatten(sv.Tensor([[1, 2], [3, 4]])).tolist()
        [1, 2, 3, 4]
    """
    if x.ndim == 0:
        return x.reshape(1)
    start, end = (normalize_axis("flatten", a, x.ndim) for a in (start_axis, end_axis))
    if start > end:
        raise ShapeError(
            operation="flatten",
            shape=x.shape,
            problem=f"start_axis {start} must not come after end_axis {end}",
        )
    return x.reshape(*x.shape[:start], product(x.shape[start : end + 1]), *x.shape[end + 1 :])


@operation(test="test_movement.py::test_reshape_keeps_row_major_order", is_function=False)
def unflatten(x: Tensor, /, axis: int, sizes: Sequence[int]) -> Tensor:
    """Expand `axis` into several axes of `sizes`; one size may be -1, and is inferred.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the product of the sizes is not the size of the axis.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1, 2, 3, 4]).unflatten(0, (2, 2)).tolist()
        [[1, 2], [3, 4]]
    """
    axis = normalize_axis("unflatten", axis, x.ndim)
    inner = _infer_size((x.shape[axis],), to_shape("unflatten", sizes))
    return x.reshape(*x.shape[:axis], *inner, *x.shape[axis + 1 :])


@operation(test="test_movement.py::test_axes_of_size_one_are_added_and_removed", standard=True)
def squeeze(x: Tensor, /, axis: Axes = None) -> Tensor:
    """Remove axes of size 1, as a view. `axis` is one axis, several, or None for all of size 1.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if the size of a given axis is not 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.squeeze(sv.Tensor([[[1], [2]]]), 0).shape
        (2, 1)
    """
    axes = normalize_axes("squeeze", axis, x.ndim)
    for a in axes:
        if axis is not None and x.shape[a] != 1:
            raise ShapeError(
                operation="squeeze",
                shape=x.shape,
                problem=(
                    f"cannot squeeze axis {a} of size {format_size(x.shape[a])}:"
                    f" {format_shape(x.shape)}"
                ),
            )
    # As in numpy, None leaves other axes as they are; a named one was checked above.
    return x.reshape(tuple(s for i, s in enumerate(x.shape) if not (i in axes and s == 1)))


@operation(
    test="test_movement.py::test_axes_of_size_one_are_added_and_removed",
    standard=True,
    methods=("unsqueeze",),
)
def expand_dims(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """Insert axes of size 1, as a view.

    Args:
        axis: index or indices of the new axes in the result.

    Raises:
        AxisError: if an axis is out of bounds for the result.
        ShapeError: if an axis is repeated.

    Example:
        >>> import svod_tensor as sv
        >>> sv.expand_dims(sv.Tensor([1, 2]), 1).tolist()
        [[1], [2]]
    """
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    ndim = x.ndim + len(axes)
    new_axes, sizes = normalize_axes("expand_dims", axes, ndim), iter(x.shape)
    return x.reshape(tuple(1 if a in new_axes else next(sizes) for a in range(ndim)))


@operation(
    test="test_movement.py::test_axes_are_reordered_as_in_numpy",
    standard=True,
    methods=("permute",),
    is_variadic=True,
)
def permute_dims(x: Tensor, /, axes: int | Sequence[int]) -> Tensor:
    """Permute the axes, as a view: axis i of the result is axis `axes[i]` of `x`.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if `axes` is not a permutation of all axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.permute_dims(sv.Tensor.zeros(2, 3, 4), (2, 0, 1)).shape
        (4, 2, 3)
    """
    order = axes if isinstance(axes, Sequence) else (axes,)
    return x.along(Permute(tuple(normalize_axis("permute_dims", a, x.ndim) for a in order)))


@operation(test="test_movement.py::test_axes_are_reordered_as_in_numpy")
def transpose(
    x: Tensor, /, axes: int | Sequence[int] | None = None, axis1: int | None = None
) -> Tensor:
    """Reverse the axes, permute them, or swap two of them, as a view.

    Args:
        axes: a permutation of all axes, or the first of two axes to swap; None reverses all axes.
        axis1: the second of two axes to swap.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if only one axis is given.

    Example:
        >>> import svod_tensor as sv
        >>> sv.transpose(sv.Tensor([[1, 2], [3, 4]])).tolist()
        [[1, 3], [2, 4]]
        >>> sv.Tensor.zeros(2, 3, 4).transpose(0, 1).shape
        (3, 2, 4)
    """
    # numpy accepts no axes or an order, and torch two axes.
    if axes is None and axis1 is None:
        return x.T
    if isinstance(axes, Sequence) and axis1 is None:
        return x.permute(axes)
    if not isinstance(axes, int) or axis1 is None:
        problem = "expected two axes, or all axes in their new order"
        raise ShapeError(operation="transpose", shape=x.shape, problem=problem)
    return x.swapaxes(axes, axis1)


@operation(test="test_movement.py::test_axes_are_reordered_as_in_numpy")
def swapaxes(x: Tensor, /, axis1: int, axis2: int) -> Tensor:
    """Swap `axis1` and `axis2`, as a view.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.swapaxes(sv.Tensor.zeros(2, 3, 4), axis1=0, axis2=2).shape
        (4, 3, 2)
    """
    first, second = (normalize_axis("swapaxes", a, x.ndim) for a in (axis1, axis2))
    axes = list(range(x.ndim))
    axes[first], axes[second] = axes[second], axes[first]
    return x.along(Permute(tuple(axes)))


@operation(test="test_products.py::test_traces_and_transposes", standard=True)
def matrix_transpose(x: Tensor, /) -> Tensor:
    """Transpose matrices: swap the last two axes, as a view.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.matrix_transpose(sv.Tensor.zeros(2, 3, 4)).shape
        (2, 4, 3)
    """
    return x.swapaxes(-1, -2)


@operation(test="test_movement.py::test_axes_are_reordered_as_in_numpy", standard=True)
def moveaxis(x: Tensor, /, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move axes to new positions, as a view; the other axes keep their order.

    Raises:
        AxisError: if an axis is out of bounds.
        ShapeError: if `source` and `destination` differ in length or repeat an axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.moveaxis(sv.Tensor.zeros(2, 3, 4), 0, -1).shape
        (3, 4, 2)
    """
    axes_from, axes_to = (
        [
            normalize_axis("moveaxis", a, x.ndim)
            for a in ((ends,) if isinstance(ends, int) else ends)
        ]
        for ends in (source, destination)
    )
    if (
        len(axes_from) != len(axes_to)
        or len(set(axes_from)) < len(axes_from)
        or len(set(axes_to)) < len(axes_to)
    ):
        problem = f"source {source} and destination {destination} must name distinct axes"
        raise ShapeError(operation="moveaxis", shape=x.shape, problem=problem)
    axes = [a for a in range(x.ndim) if a not in axes_from]
    # In ascending order, so that later insertions do not move earlier ones.
    for index, axis in sorted(zip(axes_to, axes_from, strict=True)):
        axes.insert(index, axis)
    return x.along(Permute(tuple(axes)))


@operation(
    test="test_movement.py::test_axes_are_reordered_as_in_numpy",
    standard=True,
    is_function=False,
    is_property=True,
)
def T(x: Tensor, /) -> Tensor:
    """Transpose: this tensor with its axes reversed, as a view.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1, 2], [3, 4]]).T.tolist()
        [[1, 3], [2, 4]]
    """
    return x.along(Permute(tuple(reversed(range(x.ndim)))))


@operation(
    test="test_movement.py::test_axes_are_reordered_as_in_numpy",
    standard=True,
    is_function=False,
    is_property=True,
)
def mT(x: Tensor, /) -> Tensor:
    """Matrix transpose: this tensor with its last two axes swapped, as a view.

    Raises:
        AxisError: if there are fewer than two axes.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor.zeros(2, 3, 4).mT.shape
        (2, 4, 3)
    """
    if x.ndim < 2:
        raise AxisError(operation="mT", axis=-2, ndim=x.ndim)
    return x.transpose(-2, -1)


@operation(test="test_movement.py::test_axes_are_reordered_as_in_numpy", standard=True)
def flip(x: Tensor, /, axis: Axes = None) -> Tensor:
    """Reverse the elements along axes, as a view. `axis` is one axis, several, or None for all.

    Raises:
        AxisError: if an axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.flip(sv.Tensor([[1, 2], [3, 4]]), axis=0).tolist()
        [[3, 4], [1, 2]]
    """
    axes = normalize_axes("flip", axis, x.ndim)
    return x.along(Flip(tuple(a in axes for a in range(x.ndim))))


@operation(
    test="test_movement.py::test_expand_and_broadcast_repeat_axes_of_size_one",
    is_function=False,
    is_variadic=True,
)
def expand(x: Tensor, /, shape: SInt | Sequence[SInt]) -> Tensor:
    """Expand axes of size 1 and add leading axes, as a read-only view.

    Args:
        shape: shape of the result; -1 keeps the size of an axis.

    Raises:
        ShapeError: if an axis to expand does not have size 1.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1], [2]]).expand(-1, 3).tolist()
        [[1, 1, 1], [2, 2, 2]]
    """
    sizes = to_shape("expand", (shape,))
    offset = len(sizes) - x.ndim
    if offset < 0:
        raise ShapeError(
            operation="expand",
            shape=x.shape,
            problem=(
                f"the target shape {format_shape(sizes)} has fewer dimensions than"
                f" {format_shape(x.shape)}"
            ),
        )
    target = tuple(
        # As in torch, -1 keeps a size; a new leading axis has none to keep.
        x.shape[i - offset] if isinstance(s, int) and s == -1 and i >= offset else s
        for i, s in enumerate(sizes)
    )
    return _expand(x, target)


def _expand(x: Tensor, shape: Shape) -> Tensor:
    before = (1,) * (len(shape) - x.ndim) + x.shape
    steps: list[Step] = [] if before == x.shape else [Reshape(x.shape, before)]
    # Without a repeated element the view stays writable.
    return x.along(*steps, Expand(before, shape)) if shape != before else x.along(*steps)


@operation(
    test="test_movement.py::test_expand_and_broadcast_repeat_axes_of_size_one",
    standard=True,
    is_variadic=True,
)
def broadcast_to(x: Tensor, /, shape: SInt | Sequence[SInt]) -> Tensor:
    """Broadcast a tensor to `shape`, as a view, which is read-only if elements are repeated.

    Raises:
        BroadcastError: if the shapes are not compatible.
        ShapeError: if the shapes broadcast to another shape than `shape`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.broadcast_to(sv.Tensor([1, 2]), (2, 2)).tolist()
        [[1, 2], [1, 2]]
    """
    sizes = to_shape("broadcast_to", (shape,))
    if broadcast_shapes(x.shape, sizes) != sizes:
        raise ShapeError(
            operation="broadcast_to",
            shape=x.shape,
            problem=f"cannot broadcast shape {format_shape(x.shape)} to {format_shape(sizes)}",
        )
    return _expand(x, sizes)


@static_operation(test="test_movement.py::test_broadcast_arrays_agrees_with_numpy", standard=True)
def broadcast_arrays(*arrays: Operand) -> tuple[Tensor, ...]:
    """Broadcast arrays against each other, as views.

    Raises:
        BroadcastError: if they do not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> x, y = sv.broadcast_arrays(sv.Tensor([1, 2]), sv.Tensor([[5], [6]]))
        >>> x.tolist(), y.tolist()
        ([[1, 2], [1, 2]], [[5, 5], [6, 6]])
    """
    tensors = [to_tensor(array) for array in arrays]
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.broadcast_to(shape) for t in tensors)


def _infer_size(old: Shape, new: Shape) -> Shape:
    if not any(isinstance(s, int) and s == -1 for s in new):
        return new
    unknown = [i for i, s in enumerate(new) if isinstance(s, int) and s == -1]
    if len(unknown) > 1:
        raise ShapeError(
            operation="reshape", shape=new, problem="can only specify one unknown dimension (-1)"
        )
    known = product(tuple(s for s in new if not (isinstance(s, int) and s == -1)))
    # None if the known sizes do not divide the number of elements, or if it is 0 and any size would
    # do.
    inferred = divide_size(product(old), known)
    if inferred is None:
        problem = (
            f"cannot reshape tensor of size {format_size(product(old))} into shape"
            f" {format_shape(new)}"
        )
        raise ShapeError(operation="reshape", shape=old, problem=problem)
    return (*new[: unknown[0]], inferred, *new[unknown[0] + 1 :])

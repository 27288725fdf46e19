"""Concatenation, splitting and repetition of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, cast

from svod_dtype import promote_types
from svod_ir import (
    OperandError,
    ShapeError,
    SInt,
    UOp,
    format_shape,
    make_concat,
    make_empty,
    make_expand,
    make_reshape,
)
from svod_ir.placement import check_devices
from svod_ir.sizes import bounds_of_size
from svod_tensor._shapes import Shape, concrete_shape, normalize_axis, to_shape
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.operands import slice_axis, to_tensors
from svod_tensor.ops.core.operation import operation, static_operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.indexing.data_dependent import repeat_each

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "chunk",
    "concat",
    "repeat",
    "split",
    "stack",
    "tile",
    "unstack",
]


@static_operation(
    test="test_movement.py::test_concat_and_stack_agree_with_numpy",
    standard=True,
    methods=("cat",),
    binds=True,
)
@reuse_graph
def concat(*arrays: Operand | Iterable[Operand] | None, axis: int | None = 0) -> Tensor:
    """Concatenate arrays along an existing axis, in their promoted dtype.

    Args:
        arrays: tensors, as separate arguments or a sequence, with equal sizes on every other axis;
            the axis may follow: `sv.concat([x, y], axis=1)`, `Tensor.concat([x, y], 1)`,
            `x.concat(y)`.
        axis: the axis to concatenate along; None flattens the arrays first.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if there are no tensors, or their shapes differ on another axis.
        OperandError: if an item is not a tensor or an array.

    Example:
        >>> import svod_tensor as sv
        >>> sv.concat([sv.Tensor([1, 2]), sv.Tensor([3])]).tolist()
        [1, 2, 3]
    """
    tensors, axis = _take_operands("concat", arrays, axis)
    if axis is None:
        # As in numpy and the array API standard, None joins the flattened arrays.
        tensors, axis = [t.flatten() for t in tensors], 0
    axis = normalize_axis("concat", axis, tensors[0].ndim)
    _check_alike("concat", tensors, axis)
    return tensors[0].from_uop(_join(tensors, axis))


@static_operation(
    test="test_movement.py::test_concat_and_stack_agree_with_numpy", standard=True, binds=True
)
@reuse_graph
def stack(*arrays: Operand | Iterable[Operand], axis: int = 0) -> Tensor:
    """Stack arrays of equal shape along a new axis, in their promoted dtype.

    Args:
        arrays: tensors, as for `concat`.
        axis: index of the new axis in the result.

    Raises:
        AxisError: if `axis` is out of bounds for the result.
        ShapeError: if there are no tensors, or their shapes differ.
        OperandError: if an item is not a tensor or an array.

    Example:
        >>> import svod_tensor as sv
        >>> sv.stack([sv.Tensor([1, 2]), sv.Tensor([3, 4])], axis=1).tolist()
        [[1, 3], [2, 4]]
    """
    tensors, new_axis = _take_operands("stack", arrays, axis)
    new_axis = normalize_axis("stack", 0 if new_axis is None else new_axis, tensors[0].ndim + 1)
    # `_join` only compares the devices, and dtypes promote.
    _check_alike("stack", tensors, None)
    return tensors[0].from_uop(_join([t.unsqueeze(new_axis) for t in tensors], new_axis))


@operation(test="test_movement.py::test_splitting_agrees_with_numpy")
def split(x: Tensor, /, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor along an axis into views.

    Args:
        sizes: sizes of the parts; an int gives parts of that size, the last possibly smaller.
        axis: the axis to split.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if a single size is not positive, or the sizes do not sum to the size of the
            axis.
        SymbolicShapeError: if the size of the axis is symbolic.

    Example:
        >>> import svod_tensor as sv
        >>> [part.tolist() for part in sv.split(sv.Tensor([1, 2, 3, 4, 5]), 2)]
        [[1, 2], [3, 4], [5]]
    """
    axis = normalize_axis("split", axis, x.ndim)
    (total,) = concrete_shape("split", (x.shape[axis],))
    if isinstance(sizes, int):
        if sizes < 1:
            raise ShapeError(
                operation="split", shape=x.shape, problem=f"size must be positive: {sizes}"
            )
        # As in torch, the last part may be smaller, and an empty axis has one empty part.
        sizes = [min(sizes, total - i) for i in range(0, max(total, 1), sizes)]
    if sum(sizes) != total:
        raise ShapeError(
            operation="split",
            shape=x.shape,
            problem=f"sizes {list(sizes)} sum to {sum(sizes)}, but axis {axis} has size {total}",
        )
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(
        slice_axis(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)
    )


@operation(test="test_movement.py::test_splitting_agrees_with_numpy", is_function=False)
def chunk(x: Tensor, /, n_parts: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor along `axis` into at most `n_parts` views of equal size, the last possibly smaller.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if `n_parts` is less than 1.
        SymbolicShapeError: if the size of the axis is symbolic.

    Example:
        >>> from svod_tensor import Tensor
        >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).chunk(2)]
        [[1, 2, 3], [4, 5]]
    """
    axis = normalize_axis("chunk", axis, x.ndim)
    (total,) = concrete_shape("chunk", (x.shape[axis],))
    if n_parts < 1:
        raise ShapeError(
            operation="chunk",
            shape=x.shape,
            problem=f"number of chunks must be positive: {n_parts}",
        )
    # As in torch, there may be fewer parts than `n_parts`: 4 elements in 3 chunks are parts of 2.
    return x.split(max(1, math.ceil(total / n_parts)), axis)


@operation(
    test="test_movement.py::test_splitting_agrees_with_numpy", standard=True, methods=("unbind",)
)
def unstack(x: Tensor, /, axis: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor into views along `axis`, which is removed.

    Raises:
        AxisError: if `axis` is out of bounds.
        SymbolicShapeError: if the size of the axis is symbolic.

    Example:
        >>> import svod_tensor as sv
        >>> [row.tolist() for row in sv.unstack(sv.Tensor([[1, 2], [3, 4]]))]
        [[1, 2], [3, 4]]
    """
    axis = normalize_axis("unstack", axis, x.ndim)
    (total,) = concrete_shape("unstack", (x.shape[axis],))
    return tuple(slice_axis(x, axis, i, i + 1).squeeze(axis) for i in range(total))


@operation(
    test="test_movement.py::test_repetition_agrees_with_numpy", standard=True, is_variadic=True
)
@reuse_graph
def tile(x: Tensor, /, repetitions: SInt | Sequence[SInt]) -> Tensor:
    """Repeat the whole tensor along each axis, as `numpy.tile`; `repeat` repeats the elements.

    Args:
        repetitions: number of repetitions per axis, as separate arguments or a sequence. Fewer
            numbers than axes belong to the last axes; additional numbers add leading axes.

    Returns:
        A tensor whose axis i has `repetitions[i]` times the size of axis i of `x`.

    Raises:
        ShapeError: if a repetition is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tile(sv.Tensor([1, 2]), (2, 2)).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    times = to_shape("tile", (repetitions,))
    if any(bounds_of_size(n)[0] < 0 for n in times):
        raise ShapeError(
            operation="tile", shape=times, problem=f"repetitions must not be negative: {times}"
        )
    shape: Shape = (1,) * (len(times) - x.ndim) + x.shape
    times = (1,) * (len(shape) - len(times)) + times
    # An axis of size 1 before each axis is expanded to the repetitions, and merged with it.
    node = make_reshape(x.uop, tuple(n for s in shape for n in (1, s)))
    # EXPAND has no size 0: a node without elements needs none of the operand.
    if any(isinstance(n, int) and n == 0 for n in times):
        return x.from_uop(
            make_empty(x.dtype, tuple(n * s for n, s in zip(times, shape, strict=True)))
        )
    node = make_expand(node, tuple(m for n, s in zip(times, shape, strict=True) for m in (n, s)))
    return x.from_uop(make_reshape(node, tuple(s * n for n, s in zip(times, shape, strict=True))))


@operation(
    test="test_movement.py::test_repetition_agrees_with_numpy",
    standard=True,
    aliases=("repeat_interleave",),
)
def repeat(
    x: Tensor, /, repeats: int | Sequence[int] | TensorBase, axis: int | None = None
) -> Tensor:
    """Repeat each element consecutively; `tile` repeats the whole tensor.

    Args:
        repeats: number of repetitions, or one for each slice along the axis; a tensor is realized.
        axis: the axis to repeat along; None flattens first.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the number of repeats differs from the number of slices, or a repeat is
            negative.
        DataDependentShapeError: in a captured function, if the repeats are a tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.repeat(sv.Tensor([1, 2]), 2).tolist()
        [1, 1, 2, 2]
    """
    if axis is None:
        return x.flatten().repeat(repeats, 0)
    axis = normalize_axis("repeat", axis, x.ndim)
    if not isinstance(repeats, int):
        return repeat_each(x, repeats, axis)
    if repeats < 0:
        # `expand` would take -1 as the size of the axis.
        problem = f"repeats must not be negative: {repeats}"
        raise ShapeError(operation="repeat", shape=x.shape, problem=problem)
    shape = x.shape
    # As in `tile`, but with the new axis after the repeated one.
    wide = x.unsqueeze(axis + 1)
    repeated = (
        wide.expand(*shape[: axis + 1], repeats, *shape[axis + 1 :])
        if repeats
        else slice_axis(wide, axis + 1, 0, 0)
    )
    # A copy, as in numpy: a view would repeat elements, and be read-only.
    return repeated.reshape(*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]).clone()


def _take_operands(
    operation: str, arrays: Sequence[Operand | Iterable[Operand] | None], axis: int | None
) -> tuple[list[Tensor], int | None]:
    """Flatten separate and sequence arguments to a list of tensors, and extract a trailing axis."""
    # `concat(x, y, 1)`: a number is no array to join, so that a trailing one is the axis.
    if len(arrays) > 1 and (arrays[-1] is None or isinstance(arrays[-1], int)):
        arrays, axis = arrays[:-1], arrays[-1]
    operands: list[object] = []
    for item in arrays:
        operands.extend(item if isinstance(item, Iterable) and not _is_array(item) else (item,))
    invalid = next(
        (x for x in operands if not _is_array(x) and not isinstance(x, (list, tuple))), None
    )
    if invalid is not None:
        raise OperandError(
            operation=operation,
            found=type(invalid).__name__,
            expected="tensors, as separate arguments or a sequence",
        )
    if not operands:
        raise ShapeError(operation=operation, shape=(), problem="expected at least one tensor")
    return to_tensors(*cast("list[Operand]", operands)), axis


def _is_array(value: object) -> bool:
    return isinstance(value, TensorBase) or hasattr(value, "__array__")


def _join(tensors: Sequence[Tensor], axis: int) -> UOp:
    """Concatenate tensors of equal sizes on all other axes."""
    check_devices(*(t.uop for t in tensors))
    dtype = reduce(promote_types, (t.dtype for t in tensors))
    # Empty parts take part in the promotion of dtypes, as in numpy, but have no elements to read.
    nodes = [t.uop.cast(dtype) for t in tensors if t.shape[axis] != 0]
    return make_concat(nodes, axis) if nodes else tensors[0].uop.cast(dtype)


def _check_alike(operation: str, tensors: Sequence[Tensor], axis: int | None) -> None:
    first = tensors[0]
    for tensor in tensors[1:]:
        if tensor.ndim != first.ndim or any(
            a != b
            for i, (a, b) in enumerate(zip(first.shape, tensor.shape, strict=True))
            if i != axis
        ):
            shapes = f"{format_shape(first.shape)} and {format_shape(tensor.shape)}"
            rule = (
                "shapes must be equal"
                if axis is None
                else f"sizes must match except along axis {axis}"
            )
            raise ShapeError(operation=operation, shape=tensor.shape, problem=f"{rule}: {shapes}")

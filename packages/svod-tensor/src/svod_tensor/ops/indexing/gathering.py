"""Indexing and gather operations.

The rules are numpy's: basic indices (ints, slices, `...`, None) and integer arrays, which broadcast
together and share their axes in the result. Indices known when the graph is built (ints, lists,
numpy arrays) are checked then. An out-of-range index from a tensor reads 0 and never accesses
memory out of bounds; if the plan checks its operands, it is an error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from svod_dtype import DType, int64
from svod_ir import (
    Op,
    OperandError,
    ShapeError,
    Sharding,
    SInt,
    UOp,
    format_shape,
    index_dtype_for,
    make_alu,
    make_broadcasted_iota,
    make_check,
    make_gather,
    make_permute,
    make_reshape,
    make_shrink,
)
from svod_ir.placement import check_devices
from svod_ir.sizes import normalize_size, product
from svod_ir.uop import to_node
from svod_tensor._shapes import (
    Shape,
    broadcast_node,
    broadcast_shapes,
    concrete_shape,
    item_count,
    normalize_axis,
)
from svod_tensor._shards import distribute, join_like, move_like, shards_of
from svod_tensor.cells.cell import Element, View
from svod_tensor.cells.registry import record_read_of
from svod_tensor.cells.tables import captured
from svod_tensor.cells.views import Every, Flip, Reshape, Shrink, Step
from svod_tensor.errors import IndexKindError
from svod_tensor.ops.core.base import DTypeLike, TensorBase
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule
from svod_tensor.ops.core.operands import as_tensor, make_result
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.indexing.index_items import (
    NonzeroIndices,
    check_indices,
    expand_index,
    find_single_mask,
    index_dtype_problem,
    is_array_index,
    read_values,
    resolve_index,
    resolve_item,
    wrap_negative,
)

if TYPE_CHECKING:
    from types import EllipsisType

    from svod_tensor.ops.core.base import Operand
    from svod_tensor.ops.indexing.index_items import Index, IndexItem
    from svod_tensor.tensor import Tensor

__all__ = [
    "embedding",
    "gather",
    "gather_along_axis",
    "get_items",
    "masked_fill",
    "masked_select",
    "one_hot",
    "take",
    "take_along_axis",
    "view_items",
]


class _Array(NamedTuple):
    """An integer-array index on one axis: non-negative indices, as a node."""

    indices: UOp
    is_checked: bool


def _find_path_to_element(index: object, shape: Shape) -> list[Step] | None:
    """Find the view path of an index of plain ints, one per axis; None for any other index, and for
    one out of range.
    """
    items = cast("tuple[object, ...]", index) if type(index) is tuple else (index,)
    if len(items) != len(shape):
        return None
    bounds: list[tuple[SInt, SInt]] = []
    for item, size in zip(items, shape, strict=True):
        # Exactly int: a bool is a mask.
        if type(item) is not int or type(size) is not int or not -size <= item < size:
            return None
        begin = item % size
        bounds.append((begin, begin + 1))
    ones = (1,) * len(shape)
    path: list[Step] = [] if shape == ones else [Shrink(shape, tuple(bounds))]
    return [*path, Reshape(ones, ())]


def _has_ellipsis(index: object) -> bool:
    return any(
        item is ...
        for item in (cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,))
    )


def _take_one_tangent(
    tangents: tuple[Tensor | None, Tensor | None],
    _: Tensor,
    operands: tuple[Tensor, Tensor],
    axis: int,
) -> Tensor:
    tangent = tangents[0]
    assert tangent is not None
    return tangent.from_uop(gather_along_axis(tangent.uop, operands[1].uop, axis))


@gradient_rule("take_one_along_axis", forward=_take_one_tangent)
def _take_one_gradient(
    cotangent: Tensor, _: Tensor, operands: tuple[Tensor, Tensor], __: object, axis: int
) -> tuple[Tensor, None]:
    # A comparison is fused into its consumer, which a scatter-add into zeros is not.
    x, indices = operands
    axis_indices = x.from_uop(make_broadcasted_iota(x.shape, axis))
    return axis_indices.eq(indices).where(cotangent, 0.0), None


def get_items(x: Tensor, index: Index) -> Tensor:
    """Return `x[index]`: a view for basic indices, except that a single element is a value."""
    path = _find_path_to_element(index, x.shape)
    if path is not None:
        return _element(x, *path)
    # A 0-d index may be a loop counter, which selects a view.
    if isinstance(index, TensorBase) and index.dtype.is_int and index.ndim and x.ndim:
        return _take_rows(x, index)
    items = _select(x, index)
    # As in numpy: `x[0]` is a value, `x[0, ...]` a 0-d view.
    is_element = isinstance(items.content, View) and not items.ndim and not _has_ellipsis(index)
    return _element(items) if is_element else items


@reuse_graph
def _take_rows(x: Tensor, indices: TensorBase) -> Tensor:
    return _take(x, indices, 0, "indexing")


def _element(x: Tensor, *steps: Step) -> Tensor:
    """Return the one element that view `steps` select, as a value."""
    content = x.content
    if captured:
        record_read_of(content)
    return x.from_content(Element(content, steps))


def view_items(x: Tensor, index: Index) -> Tensor:
    """Return `x[index]`, as a view for a single element too."""
    path = _find_path_to_element(index, x.shape)
    return _select(x, index) if path is None else x.along(*path)


def _select(x: Tensor, index: Index) -> Tensor:
    known = _make_key(index)
    if known is not None and all(type(size) is int for size in x.shape):
        return x.along(*_make_path(known, x.shape))
    mask = find_single_mask(index)
    if mask is not None:
        # As in numpy: a 0-d mask adds a leading axis of size 1 or 0.
        return x.unsqueeze(0)[read_values(mask, "indexing with a bool tensor").reshape(1)]
    items = expand_index(index if isinstance(index, tuple) else (index,), x.shape)
    has_arrays = any(is_array_index(item) for item in items)
    view, arrays = _apply_basic(x, items, keep_ints=has_arrays)
    return _apply_arrays(view, arrays) if arrays else view


@operation(test="test_indexing.py::test_take_and_gather_agree_with_numpy", standard=True)
@reuse_graph
def take(
    x: Tensor,
    /,
    indices: IndexItem,
    axis: int | None = None,
    *,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> Tensor:
    """Take elements from a tensor along an axis; the axes of `indices` replace `axis`.

    Args:
        indices: integers; negative indices count from the end. Known indices (ints, lists, arrays)
            are checked; an out-of-range index in a tensor reads 0, or is an error in a plan that
            checks its operands.
        axis: the axis to take from; None flattens first.
        mode: `"raise"` treats out-of-range indices as above, `"wrap"` takes them modulo the size,
            `"clip"` clips them to the range.

    Raises:
        AxisError: if `axis` is out of bounds.
        IndexOutOfRangeError: if a known index is out of range.
        IndexKindError: if the indices are not integers.
        OperandError: if `mode` is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.take(sv.Tensor([[1, 2, 3], [4, 5, 6]]), [2, 0], axis=1).tolist()
        [[3, 1], [6, 4]]
    """
    if axis is None:
        return x.flatten().take(indices, 0, mode=mode)
    axis = normalize_axis("take", axis, x.ndim)
    if mode != "raise":
        indices = _bring_in_range(as_tensor(cast("Operand", indices), x), x.shape[axis], axis, mode)
    return _take(x, indices, axis, "take")


def _take(x: Tensor, indices: IndexItem, axis: int, operation: str) -> Tensor:
    array, operand = _to_array(x, indices, axis, operation)
    return make_result(make_gather(x.uop, array.indices, axis), x, *operand)


@operation(test="test_indexing.py::test_take_and_gather_agree_with_numpy", standard=True)
@reuse_graph
def take_along_axis(x: Tensor, /, indices: TensorBase, axis: int = -1) -> Tensor:
    """Take the elements at `indices` along `axis`, as numpy and the array API standard do. Other
    axes broadcast.

    Args:
        indices: integers, of any size along `axis`; negative indices count from the end. An
            out-of-range index reads 0, or is an error in a plan that checks its operands.
        axis: the axis to take from.

    Raises:
        AxisError: if `axis` is out of bounds.
        OperandError: if the indices are not integers.
        ShapeError: if `indices` has a different number of axes.
        BroadcastError: if the sizes of another axis differ and neither is 1.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([[3, 1, 2], [6, 5, 4]])
        >>> sv.take_along_axis(x, x.argsort(1), axis=1).tolist()
        [[1, 2, 3], [4, 5, 6]]
    """
    axis = normalize_axis("take_along_axis", axis, x.ndim)
    _check_gather("take_along_axis", x, indices, axis)
    outer_shapes = [(*t.shape[:axis], 1, *t.shape[axis + 1 :]) for t in (x, indices)]
    if outer_shapes[0] != outer_shapes[1]:
        common = broadcast_shapes(*outer_shapes)
        source, indices = (
            as_tensor(t, x).broadcast_to((*common[:axis], t.shape[axis], *common[axis + 1 :]))
            for t in (x, indices)
        )
        return _gather_along(source, "take_along_axis", indices, axis)
    return _gather_along(x, "take_along_axis", indices, axis)


def _gather_along(x: Tensor, operation: str, indices: TensorBase, axis: int) -> Tensor:
    size = x.shape[axis]
    non_negative = wrap_negative(make_check(indices.uop, operation, axis, size), size)
    gathered = make_result(gather_along_axis(x.uop, non_negative, axis), x, indices)
    # One element for each row, such as the label of a sample in a cross entropy.
    if indices.shape == (*x.shape[:axis], 1, *x.shape[axis + 1 :]):
        return with_rule(_take_one_gradient, gathered, (x, x.from_uop(non_negative)), axis)
    return gathered


@operation(test="test_indexing.py::test_take_and_gather_agree_with_numpy")
@reuse_graph
def gather(x: Tensor, /, axis: int, indices: TensorBase) -> Tensor:
    """Gather the elements at `indices` along `axis`, as PyTorch does. Other axes may be shorter than
    those of `x`.

    Args:
        axis: the axis to gather along.
        indices: as in `take_along_axis`, but without broadcasting: along a shorter axis, the first
            slices are read.

    Raises:
        AxisError: if `axis` is out of bounds.
        OperandError: if the indices are not integers.
        ShapeError: if `indices` has a different number of axes, or another axis is longer.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gather(sv.Tensor([[1, 2], [3, 4]]), 1, sv.Tensor([[0, 0], [1, 0]])).tolist()
        [[1, 1], [4, 3]]
        >>> sv.gather(sv.Tensor([[1, 2], [3, 4]]), 1, sv.Tensor([[1]])).tolist()
        [[2]]
    """
    axis = normalize_axis("gather", axis, x.ndim)
    _check_gather("gather", x, indices, axis)
    # torch's rule: longer axes would read elements that do not exist.
    for a, (n, limit) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if a != axis and isinstance(n, int) and isinstance(limit, int) and n > limit:
            raise ShapeError(
                operation="gather",
                shape=indices.shape,
                problem=(
                    f"indices {format_shape(indices.shape)} exceed the operand"
                    f" {format_shape(x.shape)} along axis {a}"
                ),
            )
    return _gather_along(x, "gather", indices, axis)


@operation(test="test_indexing.py::test_one_hot_and_embedding")
@reuse_graph
def embedding(x: Tensor, /, weight: Tensor) -> Tensor:
    """Gather the rows of `weight` at the indices in `x`: shape (*x.shape, *weight.shape[1:]).

    An out-of-range index reads zeros, or is an error in a plan that checks its operands.

    Raises:
        OperandError: if `x` is not an integer tensor.
        ShapeError: if `weight` is 0-d.

    Example:
        >>> import svod_tensor as sv
        >>> sv.embedding(sv.Tensor([1, 0, 1]), sv.Tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    if not x.dtype.is_int:
        raise OperandError(operation="embedding", found=x.dtype, expected="integer indices")
    if not weight.ndim:
        raise ShapeError(
            operation="embedding",
            shape=weight.shape,
            problem="weight must have at least 1 dimension",
        )
    return _take(weight, x, 0, "embedding")


@operation(test="test_indexing.py::test_one_hot_and_embedding")
@reuse_graph
def one_hot(x: Tensor, /, n_classes: int, *, dtype: DTypeLike | None = None) -> Tensor:
    """Encode class indices as one-hot vectors along a new last axis; an out-of-range index gives
    zeros.

    Args:
        n_classes: number of classes, the size of the new axis.
        dtype: dtype of the result; by default int64.

    Raises:
        OperandError: if `x` is not an integer tensor.
        ShapeError: if `n_classes` is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.one_hot(sv.Tensor([0, 2]), 3).tolist()
        [[1, 0, 0], [0, 0, 1]]
    """
    if not x.dtype.is_int:
        raise OperandError(operation="one_hot", found=x.dtype, expected="integer class indices")
    if n_classes < 0:
        raise ShapeError(
            operation="one_hot",
            shape=(n_classes,),
            problem=f"n_classes must not be negative: {n_classes}",
        )
    # Classes that wrapped around in a narrow dtype would equal small indices.
    classes = x.arange(n_classes, dtype=x.dtype if n_classes <= x.dtype.max else int64)
    return x.unsqueeze(-1).eq(classes).cast(int64 if dtype is None else dtype)


@operation(test="test_operations.py::test_elements_are_filled_by_a_mask")
def masked_fill(x: Tensor, /, mask: TensorBase, value: bool | int | float | Tensor) -> Tensor:
    """Fill with `value` where `mask` is True, and keep the elements of `x` elsewhere. All shapes
    broadcast, and the dtypes promote.

    Raises:
        OperandError: if the mask is not boolean.

    Example:
        >>> import svod_tensor as sv
        >>> x = sv.Tensor([1, -2, 3])
        >>> sv.masked_fill(x, x < 0, 0).tolist()
        [1, 0, 3]
    """
    # torch's name for a `where`.
    return as_tensor(mask, x).where(value, x)  # pyright: ignore[reportArgumentType]


@operation(test="test_indexing.py::test_masks_of_known_values_select")
def masked_select(x: Tensor, /, mask: object) -> Tensor:
    """Select the elements where `mask` is True; one axis replaces the axes of the mask. A mask that
    is a tensor is realized.

    Raises:
        DataDependentShapeError: in a captured function, if the mask is a tensor.
        OperandError: if it is not a boolean array.

    Example:
        >>> import svod_tensor as sv
        >>> sv.masked_select(sv.Tensor([1, 2, 3]), [True, False, True]).tolist()
        [1, 3]
    """
    import numpy as np

    try:
        known = read_values(mask, "masked_select")
    except ValueError:
        # Nested lists with an inhomogeneous shape: indexing raises the error.
        return x[mask]  # pyright: ignore[reportArgumentType]
    if known.dtype != np.bool_ or not known.ndim:
        raise OperandError(
            operation="masked_select",
            found=f"{known.dtype} of shape {known.shape}",
            expected="a boolean array",
        )
    return x[known]


def _apply_basic(
    x: Tensor, items: Sequence[IndexItem], *, keep_ints: bool
) -> tuple[Tensor, dict[int, _Array]]:
    """Apply basic indices; ints drop their axis, or become 0-d arrays if there are array indices."""
    return _arrange(x, *_trace_steps(items, x.shape), items, keep_ints)


_Key: TypeAlias = (
    "tuple[int | tuple[int | None, int | None, int | None] | EllipsisType | None, ...]"
)


def _make_key(index: object) -> _Key | None:
    """Return an index of plain integers and slices in hashable form; None for other indices."""
    items = cast("tuple[object, ...]", index) if type(index) is tuple else (index,)
    key: list[int | tuple[int | None, int | None, int | None] | EllipsisType | None] = []
    for item in items:
        # Exactly int: a bool is a mask.
        if item is None or item is ... or type(item) is int:
            key.append(item)
        elif type(item) is slice and _is_known(item.start, item.stop, item.step):
            key.append((item.start, item.stop, item.step))
        else:
            return None
    return tuple(key)


def _is_known(*bounds: object) -> bool:
    return all(bound is None or type(bound) is int for bound in bounds)


# Slices of loops and of caches repeat; an entry takes about 500 bytes.
@lru_cache(maxsize=4096)
def _make_path(key: _Key, shape: Shape) -> tuple[Step, ...]:
    """Make the view steps of an index of plain integers and slices.

    Raises:
        IndexOutOfRangeError: if an integer is out of bounds.
    """
    index = tuple(slice(*item) if isinstance(item, tuple) else item for item in key)
    items = expand_index(index, shape)
    path, sliced = _trace_steps(items, shape)
    sizes = iter(sliced)
    kept: list[SInt] = []
    for item in items:
        size = 1 if item is None else next(sizes)
        if not isinstance(item, int):
            kept.append(size)
    return tuple(path) if tuple(kept) == sliced else (*path, Reshape(sliced, tuple(kept)))


def _trace_steps(items: Sequence[IndexItem], old_shape: Shape) -> tuple[list[Step], Shape]:
    """Return the view path and the shape of basic indices; an int selects a slice of one element."""
    bounds: list[tuple[SInt, SInt]] = []
    steps: list[int] = []
    flips: list[bool] = []
    for axis, item in enumerate(i for i in items if i is not None):
        begin, end, step = resolve_item(item, old_shape[axis], axis)
        bounds.append((begin, end))
        steps.append(abs(step))
        flips.append(step < 0)
    path: list[Step] = []
    shape = tuple(normalize_size(end - begin) for begin, end in bounds)
    if shape != old_shape:
        path.append(Shrink(old_shape, tuple(bounds)))
    if any(flips):
        path.append(Flip(tuple(flips)))
    for axis, step in enumerate(steps):
        size = shape[axis]
        # A step over at most one element changes nothing.
        if step != 1 and not (isinstance(size, int) and size <= 1):
            path.append(Every(shape, axis, step))
            shape = (*shape[:axis], item_count(0, size, step), *shape[axis + 1 :])
    return path, shape


def _arrange(
    x: Tensor, path: list[Step], sliced_shape: Shape, items: Sequence[IndexItem], keep_ints: bool
) -> tuple[Tensor, dict[int, _Array]]:
    """Drop axes of ints, insert axes for None, and map each array to its axis of the result."""
    shape: list[SInt] = []
    arrays: dict[int, _Array] = {}
    operands: list[TensorBase] = []
    source_axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        if is_array_index(item):
            array, operand = _to_array(x, item, source_axis, "indexing")
            arrays[len(shape)] = array
            operands.extend(operand)
            shape.append(sliced_shape[source_axis])
        elif isinstance(item, int) and keep_ints:
            # The slice has only this index left on the axis.
            arrays[len(shape)] = _Array(UOp.const(int64, 0), True)
            shape.append(1)
        elif not isinstance(item, (int, UOp)):
            shape.append(sliced_shape[source_axis])
        source_axis += 1
    check_devices(x.uop, *[o.uop for o in operands])
    if tuple(shape) != sliced_shape:
        path.append(Reshape(sliced_shape, tuple(shape)))
    return x.along(*path), arrays


def _apply_arrays(x: Tensor, arrays: dict[int, _Array]) -> Tensor:
    axes = list(arrays)
    if len(axes) == 1:
        return x.from_uop(make_gather(x.uop, arrays[axes[0]].indices, axes[0]))
    shape = broadcast_shapes(*(a.indices.shape for a in arrays.values()))
    # As in numpy: adjacent arrays are replaced by their axes in place, others by leading axes.
    is_adjacent = axes == list(range(axes[0], axes[-1] + 1))
    other_axes = [a for a in range(x.ndim) if a not in arrays]
    gathered_axis = axes[0] if is_adjacent else 0
    node = make_permute(x.uop, (*other_axes[:gathered_axis], *axes, *other_axes[gathered_axis:]))
    sizes = tuple(x.shape[a] for a in axes)
    merged = (*node.shape[:gathered_axis], product(sizes), *node.shape[gathered_axis + len(axes) :])
    indices = [broadcast_node(arrays[a].indices, shape) for a in axes]
    # Several index arrays are one gather, at flat indices of the merged axes.
    linear = _flatten_indices(indices, sizes, checked=[arrays[a].is_checked for a in axes])
    return x.from_uop(make_gather(make_reshape(node, merged), linear, gathered_axis))


def _to_array(
    x: Tensor, item: object, axis: int, operation: str
) -> tuple[_Array, tuple[TensorBase, ...]]:
    """Convert an array index on `axis` to non-negative indices; also return the tensor of origin."""
    size = x.shape[axis]
    if isinstance(item, TensorBase):
        if not item.dtype.is_int:
            raise IndexKindError(found=item, problem=index_dtype_problem(item.dtype))
        return _Array(wrap_negative(make_check(item.uop, operation, axis, size), size), False), (
            item,
        )
    if isinstance(item, UOp):
        index = to_node(resolve_index(item, size, axis))
        return _Array(index.cast(int64), True), ()
    if isinstance(item, NonzeroIndices):
        if item.size != size:
            raise IndexKindError(
                found="a mask",
                problem=(
                    f"boolean index did not match indexed tensor along axis {axis}; size of axis is"
                    f" {size} but size of boolean axis is {item.size}"
                ),
            )
        item = item.indices
    return _Array(move_like(check_indices(item, size, axis), x.uop), True), ()


def gather_along_axis(source: UOp, indices: UOp, axis: int) -> UOp:
    """Build the node of `take_along_axis` for non-negative indices."""
    placement = source.placement
    if isinstance(placement, Sharding) and _is_local(source, indices, axis, placement):
        # Indices of flattened elements would name elements of all shards, which would be gathered.
        pairs = zip(shards_of(source), shards_of(distribute(indices, placement)), strict=True)
        return join_like(source, [_gather_along_axis(x, own, axis) for x, own in pairs])
    return _gather_along_axis(source, indices, axis)


def _is_local(source: UOp, indices: UOp, axis: int, sharding: Sharding) -> bool:
    """Whether all elements that a shard takes are its own."""
    split = [a for a in range(len(source.shape)) if sharding.splits(a)]
    return (
        bool(split)
        and axis not in split
        and all(indices.shape[a] == source.shape[a] for a in split)
    )


def _gather_along_axis(source: UOp, indices: UOp, axis: int) -> UOp:
    ndim = len(source.shape)
    coordinates = [
        indices if a == axis else make_broadcasted_iota(indices.shape, a) for a in range(ndim)
    ]
    outer = tuple(s if a != axis else source.shape[axis] for a, s in enumerate(indices.shape))
    # As in torch, other axes of the indices may be shorter.
    window = make_shrink(source, tuple((0, s) for s in outer))
    linear = _flatten_indices(coordinates, window.shape, checked=[a != axis for a in range(ndim)])
    return make_gather(make_reshape(window, (product(window.shape),)), linear, 0)


def _bring_in_range(indices: Tensor, size: SInt, axis: int, mode: str) -> Tensor:
    """Wrap or clip out-of-range indices."""
    if mode not in ("wrap", "clip"):
        raise OperandError(
            operation="take", found=f"mode={mode!r}", expected='mode "raise", "wrap" or "clip"'
        )
    if not indices.dtype.is_int:
        raise IndexKindError(found=indices, problem=index_dtype_problem(indices.dtype))
    (known,) = concrete_shape("take", (size,))
    if not known:
        raise ShapeError(
            operation="take", shape=(0,), problem=f"cannot take from the empty axis {axis}"
        )
    wide = indices.cast(int64)
    return wide.remainder(known) if mode == "wrap" else wide.clip(0, known - 1)


def _flatten_indices(
    coordinates: Sequence[UOp], sizes: Sequence[SInt], checked: Sequence[bool]
) -> UOp:
    """Flatten coordinates to row-major indices; -1 where an unchecked coordinate is out of range."""
    dtype = index_dtype_for(product(sizes))
    linear: UOp | None = None
    valid: UOp | None = None
    for coordinate, size, is_checked in zip(coordinates, sizes, checked, strict=True):
        # Compared in the original dtype: the cast to a narrower one could wrap an out-of-range
        # index into the range.
        if not is_checked:
            inside = _is_inside(coordinate, size)
            valid = inside if valid is None else make_alu(Op.AND, valid, inside)
        length = _to_dtype(size, dtype)
        index = coordinate.cast(dtype)
        linear = (
            index if linear is None else make_alu(Op.ADD, make_alu(Op.MUL, linear, length), index)
        )
    assert linear is not None
    # -1 is out of bounds for the flat axis, too, and reads 0.
    return linear if valid is None else make_alu(Op.WHERE, valid, linear, UOp.const(dtype, -1))


def _is_inside(coordinate: UOp, size: SInt) -> UOp:
    dtype = coordinate.dtype
    # The size itself would wrap around in the dtype of the indices.
    if isinstance(size, int) and size > dtype.max:
        coordinate, dtype = coordinate.cast(int64), int64
    below = make_alu(Op.LT, coordinate, _to_dtype(size, dtype))
    return (
        make_alu(Op.AND, make_alu(Op.LE, UOp.const(dtype, 0), coordinate), below)
        if dtype.is_signed
        else below
    )


def _to_dtype(size: SInt, dtype: DType) -> UOp:
    return size.cast(dtype) if isinstance(size, UOp) else UOp.const(dtype, size)


def _check_gather(operation: str, source: TensorBase, indices: TensorBase, axis: int) -> None:
    if not indices.dtype.is_int:
        raise OperandError(operation=operation, found=indices.dtype, expected="integer indices")
    if indices.ndim != source.ndim:
        raise ShapeError(
            operation=operation,
            shape=indices.shape,
            problem=(
                f"indices {format_shape(indices.shape)} and operand"
                f" {format_shape(source.shape)} must have the same number of"
                " dimensions"
            ),
        )

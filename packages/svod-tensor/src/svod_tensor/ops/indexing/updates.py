"""Functional updates of elements: results are new tensors, and no memory is written.

`x.with_items(index, value)` is a graph in which the elements at slices, integers, masks and integer
arrays are replaced. For repeated indices, the last value is kept, as in numpy. Rows at arrays of indices are
replaced by a SCATTER, and `x.add_at(index, value)` is one that adds. `x[indices] = value` writes only
these rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, cast

from svod_dtype import int64
from svod_ir import (
    Op,
    OperandError,
    ShapeError,
    SInt,
    UOp,
    format_shape,
    make_as_complex,
    make_as_real,
    make_check,
    make_reshape,
    make_scatter,
)
from svod_ir.sizes import max_size, product
from svod_ir.uop import to_node
from svod_tensor._data import make_array_node
from svod_tensor._shapes import (
    Shape,
    broadcast_node,
    broadcast_shapes,
    normalize_axis,
)
from svod_tensor._shards import move_like
from svod_tensor.cells.views import put
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.operands import as_tensor, as_value, make_result
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.indexing.gathering import view_items
from svod_tensor.ops.indexing.index_items import (
    NonzeroIndices,
    expand_index,
    find_single_mask,
    is_array_index,
    read_values,
    resolve_index,
    wrap_negative,
)
from svod_tensor.ops.indexing.scatter_reductions import ReductionAt, check_reduction, reduce_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_tensor.ops.core.base import Operand
    from svod_tensor.ops.indexing.index_items import Index, IndexItem
    from svod_tensor.tensor import Tensor

__all__ = [
    "add_at",
    "bincount",
    "check_value",
    "index_add",
    "put_along_axis",
    "replace_items",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "with_items",
]


@operation(test="test_update.py::test_assignment_agrees_with_numpy", is_function=False)
def with_items(x: Tensor, /, index: Index, value: Operand) -> Tensor:
    """Return a copy of this tensor with the elements of `x[index]` replaced. No memory is written.

    Args:
        index: slices, integers, integer arrays and tensors, or a mask. For repeated indices, the
            last value is kept.
        value: broadcasts to the shape of `x[index]`, and is cast to the dtype of `x`.

    Raises:
        DataDependentShapeError: in a captured function, if several values are assigned to a mask
            that is a tensor.
        BroadcastError: if `value` does not broadcast.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1, 2, 3, 4]).with_items(slice(1, 3), 0).tolist()
        [1, 0, 0, 4]
    """
    return replace_items(x, index, as_value(value, x), is_written=False)


def replace_items(x: Tensor, index: Index, value: Tensor, *, is_written: bool) -> Tensor:
    """`with_items` of a value in the dtype of `x`.

    Args:
        x: the tensor.
        index: as for `with_items`.
        value: the new elements.
        is_written: whether the result is written to `x`, so that elements which are not replaced need
            no work.
    """
    single = find_single_mask(index)
    if single is not None:
        return _with_0d_mask(x, single, value)
    if isinstance(index, TensorBase) and index.dtype.is_bool:
        return _with_masked(x, as_tensor(index, x), value)
    items = expand_index(index if isinstance(index, tuple) else (index,), x.shape)
    if any(is_array_index(item) for item in items):
        return _with_arrays(x, index, items, value, is_written=is_written)
    return _with_slices(x, index, value)


def _with_0d_mask(x: Tensor, mask: TensorBase | np.bool_, value: Tensor) -> Tensor:
    """Replace the whole tensor by `value` if a 0-d mask is True."""
    if value.ndim == x.ndim + 1 and value.shape[0] == 0:
        # A value of size 0, as selected by the same mask when it is False.
        selected = (int(read_values(mask, "assignment of values to x[mask]").item()), *x.shape)
        check_value("x[index]", value.shape, selected)
        return x
    check_value("x[index]", value.shape, (1, *x.shape))
    squeezed = value.squeeze(0) if value.ndim > x.ndim else value
    return as_tensor(cast("Operand", mask), x).where(squeezed.broadcast_to(x.shape), x)


def _with_masked(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    if mask.shape != x.shape[: mask.ndim]:
        raise ShapeError(
            operation="assignment to x[mask]",
            shape=mask.shape,
            problem=(
                f"mask of shape {format_shape(mask.shape)} does not match the"
                f" leading axes of {format_shape(x.shape)}"
            ),
        )
    wide = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)).broadcast_to(x.shape)
    # Each selected element has a value of its own, so that their positions must be known.
    if value.ndim > x.ndim - mask.ndim:
        return x.with_items(read_values(mask, "assignment of several values to x[mask]"), value)
    return wide.where(value.broadcast_to(x.shape), x)


def _with_slices(x: Tensor, index: Index, value: Tensor) -> Tensor:
    """Replace the elements of a basic index."""
    view = view_items(x, index)
    check_value("x[index]", value.shape, view.shape)
    # The steps from `x` to the view, without those from the memory to `x`.
    path = view.content.path[len(x.content.path) :]
    return make_result(put(path, x.uop, broadcast_node(value.uop, view.shape)), x, value)


MAX_COMPARED: Final = 1 << 14
"""Maximum number of elements of which one row is written by comparing indices. The comparison of an
element is fused into its readers and into loops; a write of the row alone takes 2 us for any size.
"""


def _with_arrays(
    x: Tensor, index: Index, items: Sequence[IndexItem], value: Tensor, *, is_written: bool
) -> Tensor:
    """Replace the elements of an array index."""
    import numpy as np

    shape = x.shape
    is_compared = not is_written or max_size(product(shape)) <= MAX_COMPARED
    # A comparison is fused into its readers; a scatter is a kernel of its own.
    if is_compared and all(map(_is_full_slice_or_index, items)):
        return _with_single_index(x, items, shape, value)
    start, end = _get_indexed_axes(items)
    sizes = [size for size in shape[start:end] if isinstance(size, int)]
    is_known = len(sizes) == end - start
    if not is_known or any(isinstance(item, TensorBase) for item in items):
        indices = _flat_indices_of(x, items, shape, start, end)
    else:
        # Evaluated for its checks of the index.
        x[index]
        # numpy applies the index to a table of flat indices, so its rules are not repeated here.
        table = np.arange(math.prod(sizes)).reshape(sizes)
        flat = cast("NDArray[np.int64]", table[_list_items(items, start, end)])  # pyright: ignore[reportArgumentType, reportCallIssue]
        indices = x.from_uop(move_like(make_array_node(flat, may_share=True), x.uop))
    check_value("x[index]", value.shape, (*shape[:start], *indices.shape, *shape[end:]))
    return _with_scattered(x, indices, value, start, end)


def _with_single_index(
    x: Tensor, items: Sequence[IndexItem], shape: Shape, value: Tensor
) -> Tensor:
    """Replace the elements at one index on some axes, and all indices on the others, by comparison of
    indices.
    """
    selected = [size for size, item in zip(shape, items, strict=True) if isinstance(item, slice)]
    check_value("x[index]", value.shape, tuple(selected))
    is_selected: Tensor | None = None
    for axis, (size, item) in enumerate(zip(shape, items, strict=True)):
        if isinstance(item, slice):
            continue
        axis_indices = x.arange(size, dtype=int64).reshape(
            *(size if a == axis else 1 for a in range(len(shape)))
        )
        is_index = axis_indices.eq(_get_index(x, item, axis))
        is_selected = is_index if is_selected is None else is_selected.logical_and(is_index)
    assert is_selected is not None, items
    mask_shape = [
        size if isinstance(item, slice) else 1 for size, item in zip(shape, items, strict=True)
    ]
    return is_selected.where(value.broadcast_to(tuple(selected)).reshape(mask_shape), x)


def _get_index(x: Tensor, item: IndexItem, axis: int) -> Tensor:
    """Convert integers to non-negative indices."""
    size = x.shape[axis]
    if isinstance(item, TensorBase):
        return make_result(
            wrap_negative(make_check(item.uop, "indexing", axis, size), size).cast(int64), x, item
        )
    assert isinstance(item, (int, UOp)), item
    return x.from_uop(to_node(resolve_index(item, size, axis)).cast(int64))


@operation(
    test="test_update.py::test_put_along_axis_and_scatter_agree_with_numpy", is_function=False
)
def put_along_axis(x: Tensor, /, indices: TensorBase, values: Operand, axis: int) -> Tensor:
    """Return a copy with `values` at the elements that `take_along_axis(indices, axis)` reads; for
    repeated indices, the last value is kept.

    Args:
        indices: integers, which broadcast to the other axes of `x`; negative indices count from the
            end. An out-of-range index is ignored, or is an error in a plan that checks its
            operands.
        values: broadcasts to the shape of `indices`, and is cast to the dtype of `x`.
        axis: the axis to write along.

    Raises:
        AxisError: if `axis` is out of bounds.
        OperandError: if the indices are not integers.
        ShapeError: if `indices` has a different number of axes, or does not broadcast.
        BroadcastError: if `values` does not broadcast.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([[1, 2], [3, 4]]).put_along_axis(Tensor([[0], [1]]), 9, axis=1).tolist()
        [[9, 2], [3, 9]]
    """
    new, axis = as_value(values, x), normalize_axis("put_along_axis", axis, x.ndim)
    if indices.ndim == x.ndim:
        shape = (*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :])
        if indices.shape != shape:
            # As in numpy, indices of size 1 broadcast along the other axes.
            if any(n not in (1, size) for n, size in zip(indices.shape, shape, strict=True)):
                problem = (
                    f"indices {format_shape(indices.shape)} could not be broadcast to"
                    f" {format_shape(shape)}"
                )
                raise ShapeError(operation="put_along_axis", shape=indices.shape, problem=problem)
            indices = as_tensor(indices, x).broadcast_to(shape)
    return _with_scattered(x, _flat_indices_along_axis(x, indices, new, axis), new, 0, x.ndim)


@operation(test="test_update.py::test_put_along_axis_and_scatter_agree_with_numpy")
@reuse_graph
def scatter(x: Tensor, /, axis: int, indices: TensorBase, value: Operand) -> Tensor:
    """Write `value` to a copy of `x` at the elements that `gather(axis, indices)` reads; for repeated
    indices, the last value is kept.

    Args:
        axis: the axis to write along.
        indices: integers, as in `gather`: other axes may be shorter than the axes of `x`. Negative
            indices count from the end. An out-of-range index is ignored, or is an error in a plan
            that checks its operands.
        value: broadcasts to the shape of `indices`, and is cast to the dtype of `x`.

    Raises:
        AxisError: if `axis` is out of bounds.
        OperandError: if the indices are not integers.
        ShapeError: if `indices` has a different number of axes, or another axis is longer.
        BroadcastError: if `value` does not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.scatter(sv.Tensor([[1, 2], [3, 4]]), 1, sv.Tensor([[0], [1]]), 9).tolist()
        [[9, 2], [3, 9]]
    """
    new = as_value(value, x)
    return _with_scattered(x, _flat_indices_along_axis(x, indices, new, axis), new, 0, x.ndim)


@operation(test="test_update.py::test_add_at_accumulates_repeated_indices", is_function=False)
def add_at(x: Tensor, /, index: Index, value: Operand) -> Tensor:
    """Add `value` to the elements at `index` of a copy of this tensor; repeated indices accumulate, as
    in `np.add.at`.

    Float16 and narrower floats are accumulated in float32.

    Args:
        index: as in `with_items`.
        value: broadcasts to the shape of `x[index]`, and is cast to the dtype of `x`.

    Raises:
        DataDependentShapeError: in a captured function, if a mask is a tensor.
        BroadcastError: if `value` does not broadcast.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([0, 0, 0]).add_at(Tensor([1, 1, 2]), Tensor([1, 2, 3])).tolist()
        [0, 3, 3]
    """
    new = as_value(value, x)
    items = expand_index(index if isinstance(index, tuple) else (index,), x.shape)
    # A basic index selects no element twice, so nothing accumulates.
    if not any(is_array_index(item) for item in items):
        return x.with_items(index, x[index].add(new))
    start, end = _get_indexed_axes(items)
    indices = _flat_indices_of(x, items, x.shape, start, end)
    check_value("x[index]", new.shape, (*x.shape[:start], *indices.shape, *x.shape[end:]))
    return _with_scattered(x, indices, new, start, end, op=Op.ADD)


@operation(test="test_update.py::test_index_add_and_scatter_add")
def index_add(x: Tensor, /, axis: int, indices: IndexItem, value: Operand) -> Tensor:
    """Add the slices of `value` to the slices of a copy of `x` at `indices` along an axis, as
    torch's `index_add` does.

    Args:
        axis: the axis of the slices.
        indices: 1-d integers; repeated indices accumulate, and negative indices count from the end.
            Known indices are checked; an out-of-range index in a tensor is ignored, or is an error
            in a plan that checks its operands.
        value: broadcasts to the indexed slices, and is cast to the dtype of `x`.

    Raises:
        AxisError: if `axis` is out of bounds.
        IndexOutOfRangeError: if a known index is out of range.
        IndexKindError: if the indices are not integers.
        BroadcastError: if `value` does not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.index_add(sv.Tensor([[0, 0], [0, 0]]), 0, sv.Tensor([1, 1]), sv.Tensor([[1, 2], [3, 4]])).tolist()
        [[0, 0], [4, 6]]
    """
    axis = normalize_axis("index_add", axis, x.ndim)
    new = as_value(value, x)
    new = new.moveaxis(axis, 0) if new.ndim else new
    return x.moveaxis(axis, 0).add_at(indices, new).moveaxis(0, axis)


@operation(test="test_update.py::test_index_add_and_scatter_add")
@reuse_graph
def scatter_add(x: Tensor, /, axis: int, indices: TensorBase, value: Operand) -> Tensor:
    """Add `value` to a copy of `x` at the elements that `gather(axis, indices)` reads, as torch's
    `scatter_add` does.

    Args:
        axis: the axis to add along.
        indices: integers, as in `gather`; repeated indices accumulate, and negative indices count
            from the end. An out-of-range index is ignored, or is an error in a plan that checks its
            operands.
        value: broadcasts to the shape of `indices`, and is cast to the dtype of `x`.

    Raises:
        AxisError: if `axis` is out of bounds.
        OperandError: if the indices are not integers.
        ShapeError: if `indices` has a different number of axes, or another axis is longer.
        BroadcastError: if `value` does not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.scatter_add(sv.Tensor([[0, 0]]), 1, sv.Tensor([[1, 1]]), sv.Tensor([[2, 3]])).tolist()
        [[0, 5]]
    """
    new = as_value(value, x)
    flat = _flat_indices_along_axis(x, indices, new, axis)
    return _with_scattered(x, flat, new, 0, x.ndim, op=Op.ADD)


@operation(test="test_scatter_reduce.py::test_scatter_reduce_agrees_with_numpy")
@rounds_once
def scatter_reduce(
    x: Tensor,
    /,
    axis: int,
    indices: TensorBase,
    value: Operand,
    reduce: ReductionAt,
    *,
    include_self: bool = True,
) -> Tensor:
    """Reduce the values scattered to each index into `x`, as torch's `scatter_reduce` does.

    Elements that are not indexed keep their value. Sums and means are computed by kernels, the other
    reductions by numpy on the host. The gradient of an extreme is split equally among equal
    elements.

    Args:
        axis: the axis to scatter along.
        indices: integers, as in `gather`; negative indices count from the end. An out-of-range
            index is ignored, or is an error in a plan that checks its operands.
        value: broadcasts to the shape of `indices`, and is cast to the dtype of `x`.
        reduce: `"sum"`, `"prod"`, `"mean"` (rounded down for integers), `"amax"` or `"amin"`.
        include_self: whether the element of `x` takes part in the reduction.

    Raises:
        AxisError: if `axis` is out of bounds.
        OperandError: if `reduce` is unknown or not defined for complex numbers, or the indices are
            not integers.
        ShapeError: if `indices` has a different number of axes.
        BroadcastError: if `value` does not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> x, indices = (sv.Tensor([1, 2, 3]), sv.Tensor([0, 0, 2]))
        >>> sv.scatter_reduce(x, 0, indices, sv.Tensor([4, 5, 6]), "prod").tolist()
        [20, 2, 18]
        >>> sv.scatter_reduce(x, 0, indices, sv.Tensor([4, 5, 6]), "amax", include_self=False).tolist()
        [5, 2, 6]
    """
    check_reduction(reduce, x.dtype)
    new = as_value(value, x)
    flat_indices = _flat_indices_along_axis(x, indices, new, axis)
    if not (x.size and flat_indices.size):
        return x.clone()
    values = new.broadcast_to(flat_indices.shape).flatten()
    reduced = reduce_at(
        x.flatten(), flat_indices.flatten(), values, reduce, include_self=include_self
    )
    return reduced.reshape(x.shape)


@operation(test="test_update.py::test_bincount_agrees_with_numpy")
def bincount(
    x: Tensor, /, weights: Operand | None = None, minlength: int = 0, *, n_bins: SInt | None = None
) -> Tensor:
    """Count the occurrences of each non-negative integer (int64), or sum the weights of each, in
    their dtype: shape (bins,).

    The number of bins is the largest element plus 1, for which `x` is realized, unless `n_bins` is
    given.

    Args:
        weights: broadcasts to the shape of `x`.
        minlength: minimum number of bins.
        n_bins: number of bins; elements outside of them are ignored.

    Raises:
        OperandError: if `x` is not an integer tensor, or has negative elements and `n_bins` is not
            given.
        DataDependentShapeError: in a captured function, without `n_bins`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bincount(sv.Tensor([0, 2, 2, 7]), n_bins=3).tolist()
        [1, 0, 2]
        >>> sv.bincount(sv.Tensor([0, 2, 2]), minlength=5).tolist()
        [1, 0, 2, 0, 0]
    """
    if not x.dtype.is_int:
        raise OperandError(operation="bincount", found=x.dtype, expected="integers")
    if n_bins is None:
        n_bins = _count_bins(x, minlength)
    values = as_tensor(1 if weights is None else weights, x)
    counts = x.zeros((n_bins,), dtype=int64 if weights is None else values.dtype)
    return _with_scattered(counts, x, values.cast(counts.dtype), 0, 1, op=Op.ADD)


def _count_bins(x: Tensor, at_least: int) -> int:
    """Return the number of bins: the largest element plus 1, or `at_least`."""
    values = read_values(x, "bincount", hint="pass the number of bins, as in x.bincount(n_bins=8)")
    if not values.size:
        return at_least
    if values.min() < 0:
        raise OperandError(
            operation="bincount",
            found=int(values.min()),
            expected="non-negative integers",
            hint=(
                "pass the number of bins, as in x.bincount(n_bins=8), to ignore elements outside of"
                " them"
            ),
        )
    return max(int(values.max()) + 1, at_least)


def _flat_indices_along_axis(x: Tensor, indices: TensorBase, value: Tensor, axis: int) -> Tensor:
    """Return the flat indices of the elements that `gather(axis, indices)` reads, and check that
    `value` broadcasts to them.
    """
    flat_indices = _flat_indices_plus_one(x, x.shape).gather(axis, indices).sub(1)
    check_value("the elements along an axis", value.shape, flat_indices.shape)
    return flat_indices


def _flat_indices_of(
    x: Tensor, items: Sequence[IndexItem], shape: Shape, start: int, end: int
) -> Tensor:
    """Return the flat indices that an index selects over the axes from `start` to `end`; those out of
    bounds select nothing.
    """
    first = items[start]
    if (
        end - start == 1
        and len(items) == x.ndim
        and isinstance(first, TensorBase)
        and first.dtype.is_int
    ):
        return _get_index(x, first, start)
    table = _flat_indices_plus_one(x, shape[start:end])
    return table[_list_items(items, start, end)].sub(1)


def _flat_indices_plus_one(x: Tensor, shape: Shape) -> Tensor:
    """Flat indices plus 1, on the device of `x`, so that the 0 of an out-of-range gather becomes -1."""
    return x.from_uop(
        move_like(x.arange(product(shape), dtype=int64).add(1).reshape(shape).uop, x.uop)
    )


def _with_scattered(
    x: Tensor,
    indices: Tensor,
    value: Tensor,
    start: int,
    end: int,
    *,
    op: Literal[Op.ADD] | None = None,
) -> Tensor:
    """Write the rows of `value` at flat indices over the axes from `start` to `end`, or add them;
    indices out of bounds are ignored.
    """
    if indices.size == 0 or x.size == 0:
        return x.clone()
    at_indices = (*x.shape[:start], *indices.shape, *x.shape[end:])
    rows, base = broadcast_node(value.uop, at_indices), x.uop
    # Memory holds complex numbers as pairs, whose rows are written in place.
    if x.dtype.is_complex:
        rows, base = make_as_real(rows), make_as_real(base)
    flat = make_reshape(base, (*x.shape[:start], product(x.shape[start:end]), *base.shape[end:]))
    replaced = make_reshape(make_scatter(flat, indices.uop, rows, start, op=op), base.shape)
    new = make_as_complex(replaced) if x.dtype.is_complex else replaced
    return make_result(move_like(new, x.uop) if x.sharding is not None else new, x, indices, value)


def _get_indexed_axes(items: Sequence[IndexItem]) -> tuple[int, int]:
    """Return the first axis that an index with arrays selects from, and the one after the last; other
    axes are selected whole.
    """
    # A row has an entry in the flat indices, not each of its elements.
    selected = [a for a, item in enumerate(items) if not _is_full_slice(item)]
    indexed = [a for a in selected if not isinstance(items[a], slice)]
    if any(item is None for item in items):
        # New axes have no place among the axes of rows.
        return 0, sum(item is not None for item in items)
    # The axes of separated arrays come first in the result, before those of slices.
    is_adjacent = indexed[-1] - indexed[0] == len(indexed) - 1
    return selected[0] if is_adjacent else 0, selected[-1] + 1


def _list_items(items: Sequence[IndexItem], start: int, end: int) -> tuple[IndexItem, ...]:
    """List the items of an index on some axes, with indices in place of known masks."""
    has_new_axes = any(item is None for item in items)
    listed = items if has_new_axes else items[start:end]
    return tuple(i.indices if isinstance(i, NonzeroIndices) else i for i in listed)


def _is_full_slice(item: IndexItem) -> bool:
    return isinstance(item, slice) and item.start is item.stop is item.step is None


def _is_full_slice_or_index(item: IndexItem) -> bool:
    """True if an item of an index is a full slice, an integer or a 0-d integer tensor."""
    if isinstance(item, slice):
        return _is_full_slice(item)
    return isinstance(item, (int, UOp)) or (
        isinstance(item, TensorBase) and item.ndim == 0 and item.dtype.is_int
    )


def check_value(what: str, value: Shape, selected: Shape) -> None:
    if broadcast_shapes(value, selected) != selected:
        raise ShapeError(
            operation=f"assignment to {what}",
            shape=value,
            problem=(
                f"could not broadcast value of shape {format_shape(value)} into"
                f" shape {format_shape(selected)}"
            ),
        )

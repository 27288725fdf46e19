"""Replacing parts of a tensor, as new values: no memory is written, and other tensors never change.

`x.with_items(index, value)` is a graph in which the named elements are replaced: by slices,
integers, masks and integer arrays. Where one of these names a place twice, the last value stays, as
in numpy. Each element looks its value up: the inverse of an index that is known is found when the
graph is built; of a tensor, by a function of the host between the kernels. `x.add_at(index, value)`
is the sum of x and of what a kernel adds up for each place (SCATTER_ADD)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from svod_dtype import bool_, float32, int64, promote_types
from svod_ir import (
    Op,
    OperandError,
    ShapeError,
    UOp,
    format_shape,
    make_alu,
    make_check,
    make_gather,
    make_reshape,
    make_scatter_add,
)
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import product
from svod_ir.uop import to_node
from svod_tensor._data import make_array_node
from svod_tensor._shapes import (
    Shape,
    broadcast_node,
    broadcast_shapes,
    concrete_shape,
    normalize_axis,
)
from svod_tensor._shards import move_like
from svod_tensor.cells.views import put
from svod_tensor.host_functions.scatter import INVERT, invert_indices
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.operands import as_tensor, as_value, make_result
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.indexing.gathering import view_items
from svod_tensor.ops.indexing.index_items import (
    Selected,
    expand_index,
    find_single_mask,
    is_array_index,
    read_values,
    resolve_position,
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
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "with_items",
]


@operation(test="test_update.py::test_assignment_agrees_with_numpy", is_function=False)
def with_items(x: Tensor, /, index: Index, value: Operand) -> Tensor:
    """This tensor with the elements at `index` replaced; `x[index]` says which these are. No memory
    is written.

    Args:
        index: slices, integers, integer arrays and tensors, or a mask. Of several values for one
            place, the last stays.
        value: broadcasts to the shape of `x[index]`, and gets the dtype of `x`.

    Raises:
        DataDependentShapeError: in a function that is captured, if several values are given for a
            mask that is a tensor.
        BroadcastError: if the value does not broadcast.

    Example:
        >>> Tensor([1, 2, 3, 4]).with_items(slice(1, 3), 0).tolist()
        [1, 0, 0, 4]
    """
    new = as_value(value, x)
    single = find_single_mask(index)
    if single is not None:
        return _with_single(x, single, new)
    if isinstance(index, TensorBase) and index.dtype.is_bool:
        return _with_masked(x, as_tensor(index, x), new)
    items = expand_index(index if isinstance(index, tuple) else (index,), x.shape)
    if any(is_array_index(item) for item in items):
        return _with_arrays(x, index, items, new)
    return _with_slices(x, index, new)


def _with_single(x: Tensor, mask: TensorBase | np.bool_, value: Tensor) -> Tensor:
    """This tensor, or `value` if a mask without axes holds."""
    if value.ndim == x.ndim + 1 and value.shape[0] == 0:
        # Nothing for nothing: what was selected by the same mask.
        selected = (int(read_values(mask, "assignment of values to x[mask]").item()), *x.shape)
        check_value("x[index]", value.shape, selected)
        return x
    check_value("x[index]", value.shape, (1, *x.shape))
    part = value.squeeze(0) if value.ndim > x.ndim else value
    return as_tensor(cast("Operand", mask), x).where(part.broadcast_to(x.shape), x)


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
    if value.ndim > x.ndim - mask.ndim:
        return x.with_items(read_values(mask, "assignment of several values to x[mask]"), value)
    return wide.where(value.broadcast_to(x.shape), x)


def _with_slices(x: Tensor, index: Index, value: Tensor) -> Tensor:
    """The value where slices and integers lead to."""
    view = view_items(x, index)
    check_value("x[index]", value.shape, view.shape)
    path = view.content.path[len(x.content.path) :]
    return make_result(put(path, x.uop, broadcast_node(value.uop, view.shape)), x, value)


def _with_arrays(x: Tensor, index: Index, items: Sequence[IndexItem], value: Tensor) -> Tensor:
    """Each element looks up which value, if any, it gets: the inverse of the index, found now where
    all of it is known.
    """
    import numpy as np

    shape = concrete_shape("assignment", x.shape)
    if all(map(_is_whole_or_one, items)):
        return _with_part(x, items, shape, value)
    if any(isinstance(item, TensorBase) for item in items):
        places, n_axes = _number_selected(x, index, items, shape)
        check_value("x[index]", value.shape, (*places.shape, *shape[n_axes:]))
        return _with_places(x, places, value, n_axes)
    # Checks the index, and gives what it selects.
    x[index]
    n_axes = _count_numbered_axes(items, len(shape))
    everything = np.arange(math.prod(shape[:n_axes])).reshape(shape[:n_axes])
    numbered = index if n_axes == len(shape) else _get_rows(items)
    places = cast("NDArray[np.int64]", everything[numbered])  # pyright: ignore[reportArgumentType, reportCallIssue]
    check_value("x[index]", value.shape, (*places.shape, *shape[n_axes:]))
    if not (places.size and x.size):
        return x.clone()
    lookup = np.empty(everything.size, np.int64)
    invert_indices(lookup, places.reshape(-1))
    node = move_like(make_array_node(lookup.reshape(everything.shape), may_share=True), x.uop)
    return _with_lookup(x, x.from_uop(node), places.shape, value)


def _with_part(
    x: Tensor, items: Sequence[IndexItem], shape: tuple[int, ...], value: Tensor
) -> Tensor:
    """The value where one position on some axes, and all of the others, lead to: a comparison finds
    the place of each.
    """
    selected = [size for size, item in zip(shape, items, strict=True) if isinstance(item, slice)]
    check_value("x[index]", value.shape, tuple(selected))
    inside: Tensor | None = None
    for axis, (size, item) in enumerate(zip(shape, items, strict=True)):
        if isinstance(item, slice):
            continue
        places = x.arange(size, dtype=int64).reshape(
            *(size if a == axis else 1 for a in range(len(shape)))
        )
        is_there = places.eq(_get_position(x, item, axis))
        inside = is_there if inside is None else inside.logical_and(is_there)
    assert inside is not None, items
    kept = [size if isinstance(item, slice) else 1 for size, item in zip(shape, items, strict=True)]
    return inside.where(value.broadcast_to(tuple(selected)).reshape(kept), x)


def _get_position(x: Tensor, item: IndexItem, axis: int) -> Tensor:
    """The position that an item of an index names, counted from the front."""
    size = x.shape[axis]
    if isinstance(item, TensorBase):
        return make_result(
            wrap_negative(make_check(item.uop, "indexing", axis, size), size).cast(int64), x, item
        )
    assert isinstance(item, (int, UOp)), item
    return x.from_uop(to_node(resolve_position(item, size, axis)).cast(int64))


@operation(
    test="test_update.py::test_values_along_an_axis_are_put_where_they_are_taken", is_function=False
)
def put_along_axis(x: Tensor, /, indices: TensorBase, values: Operand, axis: int) -> Tensor:
    """This tensor with `values` at the elements that `take_along_axis(indices, axis)` reads; of
    several for one, the last stays.

    Args:
        indices: integers, negative ones counted from the end, which broadcast to the other axes of
            `x`. An index out of range is left out, or is an error in a plan that checks its
            operands.
        values: broadcasts to the shape of `indices`, and gets the dtype of `x`.
        axis: along which.

    Raises:
        OperandError: if the indices are no integers.
        ShapeError: if `indices` has another number of axes, or does not broadcast.
        BroadcastError: if the values do not broadcast.

    Example:
        >>> Tensor([[1, 2], [3, 4]]).put_along_axis(Tensor([[0], [1]]), 9, axis=1).tolist()
        [[9, 2], [3, 9]]
    """
    new, axis = as_value(values, x), normalize_axis("put_along_axis", axis, x.ndim)
    if indices.ndim == x.ndim:
        shape = (*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :])
        if indices.shape != shape:
            if any(n not in (1, size) for n, size in zip(indices.shape, shape, strict=True)):
                problem = (
                    f"indices {format_shape(indices.shape)} could not be broadcast to"
                    f" {format_shape(shape)}"
                )
                raise ShapeError(operation="put_along_axis", shape=indices.shape, problem=problem)
            indices = as_tensor(indices, x).broadcast_to(shape)
    return _with_places(x, _places_along_axis(x, "put_along_axis", indices, new, axis), new, x.ndim)


@operation(test="test_update.py::test_values_along_an_axis_are_put_where_they_are_taken")
def scatter(x: Tensor, /, axis: int, indices: TensorBase, value: Operand) -> Tensor:
    """`x` with `value` at the elements that `gather(axis, indices)` reads; of several for one, the
    last stays.

    Args:
        axis: along which.
        indices: as `gather` takes them: on other axes they may be shorter than `x`.
        value: broadcasts to the shape of `indices`, and gets the dtype of `x`.

    Raises:
        OperandError: if the indices are no integers.
        ShapeError: if `indices` has another number of axes, or is longer on another one.
        BroadcastError: if the value does not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.scatter(Tensor([[1, 2], [3, 4]]), 1, Tensor([[0], [1]]), 9).tolist()
        [[9, 2], [3, 9]]
    """
    new = as_value(value, x)
    return _with_places(x, _places_along_axis(x, "scatter", indices, new, axis), new, x.ndim)


@operation(test="test_update.py::test_every_value_of_a_place_is_added", is_function=False)
def add_at(x: Tensor, /, index: Index, value: Operand) -> Tensor:
    """This tensor with `value` added to the elements at `index`; a repeated position adds each
    time, as in `np.add.at`.

    Float16 and narrower floats are added up in float32.

    Args:
        index: as `with_items` takes it.
        value: broadcasts to the shape of `x[index]`, and gets the dtype of `x`.

    Raises:
        DataDependentShapeError: in a function that is captured, if a mask is a tensor.
        BroadcastError: if the value does not broadcast.

    Example:
        >>> Tensor([0, 0, 0]).add_at(Tensor([1, 1, 2]), Tensor([1, 2, 3])).tolist()
        [0, 3, 3]
    """
    new = as_value(value, x)
    items = expand_index(index if isinstance(index, tuple) else (index,), x.shape)
    if not any(is_array_index(item) for item in items):
        return x.with_items(index, x[index].add(new))
    shape = concrete_shape("add_at", x.shape)
    places, n_axes = _number_selected(x, index, items, shape)
    check_value("x[index]", new.shape, (*places.shape, *shape[n_axes:]))
    return _with_sums(x, places, new, n_axes)


@operation(test="test_update.py::test_values_are_added_along_an_axis_and_by_slices")
def index_add(x: Tensor, /, axis: int, indices: IndexItem, value: Operand) -> Tensor:
    """`x` with slices of `value` added to its own along an axis, in torch's order of arguments.

    Args:
        axis: along which.
        indices: to which of the slices each is added; one that is named several times gets each.
        value: broadcasts to the slices that are named, and gets the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.index_add(Tensor([[0, 0], [0, 0]]), 0, Tensor([1, 1]), Tensor([[1, 2], [3, 4]])).tolist()
        [[0, 0], [4, 6]]
    """
    axis = normalize_axis("index_add", axis, x.ndim)
    new = as_value(value, x)
    new = new.moveaxis(axis, 0) if new.ndim else new
    return x.moveaxis(axis, 0).add_at(indices, new).moveaxis(0, axis)


@operation(test="test_update.py::test_values_are_added_along_an_axis_and_by_slices")
def scatter_add(x: Tensor, /, axis: int, indices: TensorBase, value: Operand) -> Tensor:
    """`x` with `value` added to the elements that `gather(axis, indices)` reads, in torch's order
    of arguments.

    Args:
        axis: along which.
        indices: integers; a place that is named several times gets each value.
        value: broadcasts to the shape of `indices`, and gets the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.scatter_add(Tensor([[0, 0]]), 1, Tensor([[1, 1]]), Tensor([[2, 3]])).tolist()
        [[0, 5]]
    """
    new = as_value(value, x)
    return _with_sums(x, _places_along_axis(x, "scatter_add", indices, new, axis), new, x.ndim)


@operation(test="test_scatter_reduce.py::test_what_comes_to_a_place_is_reduced_as_by_numpy")
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
    """`x` with what is written to each place by `scatter`, reduced to one element, in torch's order
    of arguments.

    What is no place of `indices` stays as it is. Sums are added by kernels, the others found by
    numpy on the host. The derivative of an extreme goes to equal elements in equal parts.

    Args:
        axis: along which.
        indices: integers, negative ones counted from the end, as `gather` takes them. A position
            out of range is left out, or is an error in a plan that checks its operands.
        value: broadcasts to the shape of `indices`, and gets the dtype of `x`.
        reduce: `"sum"`, `"prod"`, `"mean"` (of integers rounded down), `"amax"` or `"amin"`.
        include_self: whether the element that was there counts.

    Raises:
        OperandError: if there is no such reduction, or none of complex numbers, or the positions
            are no integers.
        ShapeError: if `indices` has another number of axes.
        BroadcastError: if the values do not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> x, indices = (Tensor([1, 2, 3]), Tensor([0, 0, 2]))
        >>> sv.scatter_reduce(x, 0, indices, Tensor([4, 5, 6]), "prod").tolist()
        [20, 2, 18]
        >>> sv.scatter_reduce(x, 0, indices, Tensor([4, 5, 6]), "amax", include_self=False).tolist()
        [5, 2, 6]
    """
    check_reduction(reduce, x.dtype)
    new = as_value(value, x)
    places = _places_along_axis(x, "scatter_reduce", indices, new, axis)
    if not (x.size and places.size):
        return x.clone()
    values = new.broadcast_to(places.shape).flatten()
    found = reduce_at(x.flatten(), places.flatten(), values, reduce, include_self=include_self)
    return found.reshape(x.shape)


@operation(test="test_update.py::test_bins_count_what_falls_into_them")
def bincount(
    x: Tensor, /, weights: Operand | None = None, minlength: int = 0, *, n_bins: int | None = None
) -> Tensor:
    """How many elements are 0, 1, ... (int64), or the sum of the weights of each, in the dtype of
    these: shape (bins,).

    The largest element says how many bins there are, so that `x` is computed; `n_bins` says it
    without that.

    Args:
        weights: broadcasts to the shape of `x`.
        minlength: there are at least as many bins.
        n_bins: there are as many bins; what falls into none of them is left out.

    Raises:
        OperandError: if `x` is not of integers, or has negative ones, for which there are no bins,
            while `n_bins` is not given.
        DataDependentShapeError: in a function that is captured, without `n_bins`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bincount(Tensor([0, 2, 2, 7]), n_bins=3).tolist()
        [1, 0, 2]
        >>> sv.bincount(Tensor([0, 2, 2]), minlength=5).tolist()
        [1, 0, 2, 0, 0]
    """
    if not x.dtype.is_int:
        raise OperandError(operation="bincount", found=x.dtype, expected="integers")
    if n_bins is None:
        n_bins = _count_bins(x, minlength)
    values = as_tensor(1 if weights is None else weights, x)
    counts = x.zeros((n_bins,), dtype=int64 if weights is None else values.dtype)
    return _with_sums(counts, x, values.cast(counts.dtype), 1)


def _count_bins(x: Tensor, at_least: int) -> int:
    """How many bins the elements fall into, or `at_least`."""
    found = read_values(x, "bincount", hint="say how many bins there are: x.bincount(n_bins=8)")
    if not found.size:
        return at_least
    if found.min() < 0:
        raise OperandError(
            operation="bincount",
            found=int(found.min()),
            expected="integers from 0 on",
            hint=(
                "give the number of bins, as in x.bincount(n_bins=8): what falls into none of them"
                " is left out"
            ),
        )
    return max(int(found.max()) + 1, at_least)


def _places_along_axis(
    x: Tensor, operation: str, indices: TensorBase, value: Tensor, axis: int
) -> Tensor:
    """The positions among all elements of those that `gather(axis, indices)` reads, to which
    `value` broadcasts.
    """
    numbers = _number_elements(x, concrete_shape(operation, x.shape))
    places = numbers.gather(axis, indices).sub(1)
    check_value("the elements along an axis", value.shape, places.shape)
    return places


def _gathered(x: Tensor) -> UOp:
    """This tensor in memory of its own on one device, where a function can read it."""
    whole = x if x.sharding is None else x.to(x.sharding.devices[0])
    return whole.contiguous().uop


def _with_sums(x: Tensor, places: Tensor, value: Tensor, n_axes: int) -> Tensor:
    """The rows of `value` added to those at these positions among all that the first axes have;
    others are left out.
    """
    if not (x.size and places.size):
        return x.clone()
    shape = concrete_shape("add_at", x.shape)
    dtype = promote_types(x.dtype, float32) if x.dtype.is_float else x.dtype
    rows = value.broadcast_to((*places.shape, *shape[n_axes:])).cast(dtype)
    node = make_scatter_add(rows.uop, places.uop, 0, math.prod(shape[:n_axes]))
    sums = make_result(node, x, places, value).reshape(shape)
    return x.cast(dtype).add(sums).cast(x.dtype) if x.dtype is not bool_ else x.bitwise_or(sums)


def _number_selected(
    x: Tensor, index: Index, items: Sequence[IndexItem], shape: tuple[int, ...]
) -> tuple[Tensor, int]:
    """The numbers of what an index selects along the first axes, and how many of these are
    numbered.
    """
    n_axes = _count_numbered_axes(items, len(shape))
    return (
        _number_elements(x, shape[:n_axes])[
            index if n_axes == len(shape) else _get_rows(items)
        ].sub(1),
        n_axes,
    )


def _number_elements(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """1, 2, ... in the shape of `x`, where it is, so that a lookup beyond it finds a 0."""
    return x.from_uop(
        move_like(x.arange(1, math.prod(shape) + 1, dtype=int64).reshape(shape).uop, x.uop)
    )


def _with_places(x: Tensor, places: Tensor, value: Tensor, n_axes: int) -> Tensor:
    """The rows of `value` at these positions among all that the first axes have, of which -1 is
    none.
    """
    if places.size == 0 or x.size == 0:
        return x.clone()
    flat = concrete_shape("assignment", places.shape)
    shape = concrete_shape("assignment", x.shape)
    read = _gathered(places.reshape(math.prod(flat)))
    node = make_custom_function(INVERT, [ArraySpec(int64, (math.prod(shape[:n_axes]),))], [read])
    lookup = x.from_uop(node if places.sharding is None else move_like(node, x.uop))
    return _with_lookup(x, lookup.reshape(shape[:n_axes]), flat, value)


def _with_lookup(x: Tensor, lookup: Tensor, shape: Shape, value: Tensor) -> Tensor:
    """At each place the row of `value`, of which there are as many as `shape` says, that `lookup`
    names there, if any.
    """
    row = x.shape[lookup.ndim :]
    values = make_reshape(broadcast_node(value.uop, (*shape, *row)), (product(shape), *row))
    found = lookup.ge(0).reshape(*lookup.shape, *(1,) * len(row)).broadcast_to(x.shape)
    return make_result(
        make_alu(Op.WHERE, found.uop, make_gather(values, lookup.uop, 0), x.uop), x, value
    )


def _count_numbered_axes(items: Sequence[IndexItem], ndim: int) -> int:
    """Along how many axes a place is counted: where an index names whole rows, along the first;
    else along all of them.
    """
    is_rows = is_array_index(items[0]) and all(
        isinstance(i, slice) and i == slice(None) for i in items[1:]
    )
    return 1 if is_rows else ndim


def _get_rows(items: Sequence[IndexItem]) -> IndexItem:
    """Which rows an index names, as an array or a tensor; of a mask of rows, where it holds."""
    first = items[0]
    return first.positions if isinstance(first, Selected) else first


def _is_whole_or_one(item: IndexItem) -> bool:
    """Whether an item of an index selects all of an axis, or one position that numbers or tensors
    say.
    """
    if isinstance(item, slice):
        return item == slice(None)
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

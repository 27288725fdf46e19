"""Replacing parts of a tensor, as new values: no memory is written, and other tensors never change.

`x.with_items(index, value)` is a graph in which the named elements are replaced: by slices, integers, masks and integer
arrays. Where one of these names a place twice, the last value stays, as in numpy. Each element looks its value up: the inverse
of an index that is known is found when the graph is built; of a tensor, by a function of the host between the kernels.
`x.add_at(index, value)` is the sum of x and of what a kernel adds up for each place (SCATTER_ADD).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, cast

from svod_dtype import bool_, float32, int64, promote_types
from svod_ir import Op, OperandError, ShapeError, UOp, make_alu, make_check, make_gather, make_reshape, make_scatter_add
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import product
from svod_ir.uop import to_node
from svod_tensor._data import make_array_node
from svod_tensor._shapes import Shape, broadcast_node, broadcast_shapes, concrete_shape, normalize_axis
from svod_tensor._shards import bring_to
from svod_tensor.cells.views import put
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.index_items import (
    Selected,
    expand_index,
    find_single_mask,
    is_array_index,
    read_values,
    resolve_position,
    wrap_negative,
)  # fmt: skip
from svod_tensor.ops.naming import operations
from svod_tensor.ops.reductions_at import ReductionAt, check_reduction, reduce_at
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import Theme
from svod_tensor.python_functions.places import INVERT, invert_places

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.index_items import Index, IndexItem

__all__ = ["Update", "check_value"]


@operations
class Update(Theme):
    """Replacing elements."""

    __slots__ = ()

    def with_items(self, index: Index, value: Operand) -> Self:
        """This tensor with the elements at `index` replaced; `x[index]` says which these are. No memory is written.

        Args:
            index: slices, integers, integer arrays and tensors, or a mask. Of several values for one place, the last
                stays.
            value: broadcasts to the shape of `x[index]`, and gets the dtype of this tensor.

        Raises:
            DataDependentShapeError: in a function that is captured, if several values are given for a mask that is a
                tensor.
            BroadcastError: if the value does not broadcast.

        Example:
            >>> Tensor([1, 2, 3, 4]).with_items(slice(1, 3), 0).tolist()
            [1, 0, 0, 4]
        """
        new = self._to_value(value)
        single = find_single_mask(index)
        if single is not None:
            return self._with_single(single, new)
        if isinstance(index, TensorBase) and index.dtype.is_bool:
            return self._with_masked(self._wrap(index), new)
        items = expand_index(index if isinstance(index, tuple) else (index,), self.shape)
        if any(is_array_index(item) for item in items):
            return self._with_arrays(index, items, new)
        return self._with_slices(index, new)

    def _with_single(self, mask: TensorBase | np.bool_, value: Self) -> Self:
        """This tensor, or `value` if a mask without axes holds."""
        if value.ndim == self.ndim + 1 and value.shape[0] == 0:
            # Nothing for nothing: what was selected by the same mask.
            selected = (int(read_values(mask, "assignment of values to x[mask]").item()), *self.shape)
            check_value("x[index]", value.shape, selected)
            return self
        check_value("x[index]", value.shape, (1, *self.shape))
        part = value.squeeze(0) if value.ndim > self.ndim else value
        return self._wrap(cast("Operand", mask)).where(part.broadcast_to(self.shape), self)

    def _with_masked(self, mask: Self, value: Self) -> Self:
        if mask.shape != self.shape[: mask.ndim]:
            raise ShapeError(
                operation="assignment to x[mask]", shape=mask.shape, problem=f"is no beginning of {self.shape}"
            )
        wide = mask.reshape(*mask.shape, *(1,) * (self.ndim - mask.ndim)).broadcast_to(self.shape)
        if value.ndim > self.ndim - mask.ndim:
            return self.with_items(read_values(mask, "assignment of several values to x[mask]"), value)
        return wide.where(value.broadcast_to(self.shape), self)

    def _with_slices(self, index: Index, value: Self) -> Self:
        """The value where slices and integers lead to."""
        view = self._view(index)
        check_value("x[index]", value.shape, view.shape)
        path = view.content.path[len(self.content.path) :]
        return self._make(put(path, self.uop, broadcast_node(value.uop, view.shape)), value)

    def _with_arrays(self, index: Index, items: Sequence[IndexItem], value: Self) -> Self:
        """Each element looks up which value, if any, it gets: the inverse of the index, found now where all of it is known."""
        import numpy as np

        shape = concrete_shape("assignment", self.shape)
        if all(map(_is_whole_or_one, items)):
            return self._with_part(items, shape, value)
        if any(isinstance(item, TensorBase) for item in items):
            places, n_axes = self._number_selected(index, items, shape)
            check_value("x[index]", value.shape, (*places.shape, *shape[n_axes:]))
            return self._with_places(places, value, n_axes)
        # Checks the index, and gives what it selects.
        self[index]
        n_axes = _count_numbered_axes(items, len(shape))
        everything = np.arange(math.prod(shape[:n_axes])).reshape(shape[:n_axes])
        numbered = index if n_axes == len(shape) else _get_rows(items)
        places = cast("NDArray[np.int64]", everything[numbered])  # pyright: ignore[reportArgumentType, reportCallIssue]
        check_value("x[index]", value.shape, (*places.shape, *shape[n_axes:]))
        if not (places.size and self.size):
            return self.clone()
        lookup = np.empty(everything.size, np.int64)
        invert_places(lookup, places.reshape(-1))
        node = bring_to(make_array_node(lookup.reshape(everything.shape), may_share=True), self.uop)
        return self._with_lookup(self.from_uop(node), places.shape, value)

    def _with_part(self, items: Sequence[IndexItem], shape: tuple[int, ...], value: Self) -> Self:
        """The value where one position on some axes, and all of the others, lead to: a comparison finds the place of each."""
        selected = [size for size, item in zip(shape, items, strict=True) if isinstance(item, slice)]
        check_value("x[index]", value.shape, tuple(selected))
        inside: Self | None = None
        for axis, (size, item) in enumerate(zip(shape, items, strict=True)):
            if isinstance(item, slice):
                continue
            places = self.arange(size, dtype=int64).reshape(*(size if a == axis else 1 for a in range(len(shape))))
            is_there = places.eq(self._get_position(item, axis))
            inside = is_there if inside is None else inside.logical_and(is_there)
        assert inside is not None, items
        kept = [size if isinstance(item, slice) else 1 for size, item in zip(shape, items, strict=True)]
        return inside.where(value.broadcast_to(tuple(selected)).reshape(kept), self)

    def _get_position(self, item: IndexItem, axis: int) -> Self:
        """The position that an item of an index names, counted from the front."""
        size = self.shape[axis]
        if isinstance(item, TensorBase):
            return self._make(wrap_negative(make_check(item.uop, "indexing", axis, size), size).cast(int64), item)
        assert isinstance(item, (int, UOp)), item
        return self._make(to_node(resolve_position(item, size, axis)).cast(int64))

    def put_along_axis(self, indices: TensorBase, values: Operand, axis: int) -> Self:
        """This tensor with `values` at the elements that `take_along_axis(indices, axis)` reads; of several for one, the
        last stays.

        Args:
            indices: integers, negative ones counted from the end, which broadcast to the other axes of this tensor. An
                index out of range is left out, or is an error in a plan that checks its operands.
            values: broadcasts to the shape of `indices`, and gets the dtype of this tensor.
            axis: along which.

        Raises:
            OperandError: if the indices are no integers.
            ShapeError: if `indices` has another number of axes, or does not broadcast.
            BroadcastError: if the values do not broadcast.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).put_along_axis(Tensor([[0], [1]]), 9, axis=1).tolist()
            [[9, 2], [3, 9]]
        """
        new, axis = self._to_value(values), normalize_axis("put_along_axis", axis, self.ndim)
        if indices.ndim == self.ndim:
            shape = (*self.shape[:axis], indices.shape[axis], *self.shape[axis + 1 :])
            if indices.shape != shape:
                if any(n not in (1, size) for n, size in zip(indices.shape, shape, strict=True)):
                    problem = f"does not broadcast to {shape}, the shape of the tensor with its size on axis {axis}"
                    raise ShapeError(operation="put_along_axis", shape=indices.shape, problem=problem)
                indices = self._wrap(indices).broadcast_to(shape)
        return self._with_places(self._places_along_axis("put_along_axis", indices, new, axis), new, self.ndim)

    def scatter(self, axis: int, indices: TensorBase, value: Operand) -> Self:
        """This tensor with `value` at the elements that `gather(axis, indices)` reads; of several for one, the last stays.

        Args:
            axis: along which.
            indices: as `gather` takes them: on other axes they may be shorter than this tensor.
            value: broadcasts to the shape of `indices`, and gets the dtype of this tensor.

        Raises:
            OperandError: if the indices are no integers.
            ShapeError: if `indices` has another number of axes, or is longer on another one.
            BroadcastError: if the value does not broadcast.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).scatter(1, Tensor([[0], [1]]), 9).tolist()
            [[9, 2], [3, 9]]
        """
        new = self._to_value(value)
        return self._with_places(self._places_along_axis("scatter", indices, new, axis), new, self.ndim)

    def add_at(self, index: Index, value: Operand) -> Self:
        """This tensor with `value` added to the elements at `index`; a repeated position adds each time, as in `np.add.at`.

        Float16 and narrower floats are added up in float32.

        Args:
            index: as `with_items` takes it.
            value: broadcasts to the shape of `x[index]`, and gets the dtype of this tensor.

        Raises:
            DataDependentShapeError: in a function that is captured, if a mask is a tensor.
            BroadcastError: if the value does not broadcast.

        Example:
            >>> Tensor([0, 0, 0]).add_at(Tensor([1, 1, 2]), Tensor([1, 2, 3])).tolist()
            [0, 3, 3]
        """
        new = self._to_value(value)
        items = expand_index(index if isinstance(index, tuple) else (index,), self.shape)
        if not any(is_array_index(item) for item in items):
            return self.with_items(index, self[index].add(new))
        shape = concrete_shape("add_at", self.shape)
        places, n_axes = self._number_selected(index, items, shape)
        check_value("x[index]", new.shape, (*places.shape, *shape[n_axes:]))
        return self._with_sums(places, new, n_axes)

    def index_add(self, axis: int, indices: IndexItem, value: Operand) -> Self:
        """This tensor with slices of `value` added to its own along an axis, in torch's order of arguments.

        Args:
            axis: along which.
            indices: to which of the slices each is added; one that is named several times gets each.
            value: broadcasts to the slices that are named, and gets the dtype of this tensor.

        Example:
            >>> Tensor([[0, 0], [0, 0]]).index_add(0, Tensor([1, 1]), Tensor([[1, 2], [3, 4]])).tolist()
            [[0, 0], [4, 6]]
        """
        axis = normalize_axis("index_add", axis, self.ndim)
        new = self._to_value(value)
        new = new.moveaxis(axis, 0) if new.ndim else new
        return self.moveaxis(axis, 0).add_at(indices, new).moveaxis(0, axis)

    def scatter_add(self, axis: int, indices: TensorBase, value: Operand) -> Self:
        """This tensor with `value` added to the elements that `gather(axis, indices)` reads, in torch's order of
        arguments.

        Args:
            axis: along which.
            indices: integers; a place that is named several times gets each value.
            value: broadcasts to the shape of `indices`, and gets the dtype of this tensor.

        Example:
            >>> Tensor([[0, 0]]).scatter_add(1, Tensor([[1, 1]]), Tensor([[2, 3]])).tolist()
            [[0, 5]]
        """
        new = self._to_value(value)
        return self._with_sums(self._places_along_axis("scatter_add", indices, new, axis), new, self.ndim)

    @rounds_once
    def scatter_reduce(
        self, axis: int, indices: TensorBase, value: Operand, reduce: ReductionAt, *, include_self: bool = True
    ) -> Self:
        """This tensor with what is written to each place by `scatter`, reduced to one element, in torch's order of arguments.

        What is no place of `indices` stays as it is. Sums are added by kernels, the others found by numpy on the host. The
        derivative of an extreme goes to equal elements in equal parts.

        Args:
            axis: along which.
            indices: integers, negative ones counted from the end, as `gather` takes them. A position out of range is
                left out, or is an error in a plan that checks its operands.
            value: broadcasts to the shape of `indices`, and gets the dtype of this tensor.
            reduce: `"sum"`, `"prod"`, `"mean"` (of integers rounded down), `"amax"` or `"amin"`.
            include_self: whether the element that was there counts.

        Raises:
            OperandError: if there is no such reduction, or none of complex numbers, or the positions are no integers.
            ShapeError: if `indices` has another number of axes.
            BroadcastError: if the values do not broadcast.

        Example:
            >>> x, indices = Tensor([1, 2, 3]), Tensor([0, 0, 2])
            >>> x.scatter_reduce(0, indices, Tensor([4, 5, 6]), "prod").tolist()
            [20, 2, 18]
            >>> x.scatter_reduce(0, indices, Tensor([4, 5, 6]), "amax", include_self=False).tolist()
            [5, 2, 6]
        """
        check_reduction(reduce, self.dtype)
        new = self._to_value(value)
        places = self._places_along_axis("scatter_reduce", indices, new, axis)
        if not (self.size and places.size):
            return self.clone()
        values = new.broadcast_to(places.shape).flatten()
        found = reduce_at(self.flatten(), places.flatten(), values, reduce, include_self=include_self)
        return found.reshape(self.shape)

    def bincount(self, weights: Operand | None = None, minlength: int = 0, *, n_bins: int | None = None) -> Self:
        """How many elements are 0, 1, ... (int64), or the sum of the weights of each, in the dtype of these: shape (bins,).

        The largest element says how many bins there are, so that this tensor is computed; `n_bins` says it without that.

        Args:
            weights: broadcasts to the shape of this tensor.
            minlength: there are at least as many bins.
            n_bins: there are as many bins; what falls into none of them is left out.

        Raises:
            OperandError: if this tensor is not of integers, or has negative ones, for which there are no bins, while
                `n_bins` is not given.
            DataDependentShapeError: in a function that is captured, without `n_bins`.

        Example:
            >>> Tensor([0, 2, 2, 7]).bincount(n_bins=3).tolist()
            [1, 0, 2]
            >>> Tensor([0, 2, 2]).bincount(minlength=5).tolist()
            [1, 0, 2, 0, 0]
        """
        if not self.dtype.is_int:
            raise OperandError(operation="bincount", found=self.dtype, expected="integers")
        if n_bins is None:
            n_bins = self._count_bins(minlength)
        values = self._wrap(1 if weights is None else weights)
        counts = self.zeros((n_bins,), dtype=int64 if weights is None else values.dtype)
        return counts._with_sums(self, values.cast(counts.dtype), 1)

    def _count_bins(self, at_least: int) -> int:
        """How many bins the elements fall into, or `at_least`."""
        found = read_values(self, "bincount", hint="say how many bins there are: x.bincount(n_bins=8)")
        if not found.size:
            return at_least
        if found.min() < 0:
            raise OperandError(
                operation="bincount",
                found=int(found.min()),
                expected="integers from 0 on",
                hint="give the number of bins, as in x.bincount(n_bins=8): what falls into none of them is left out",
            )
        return max(int(found.max()) + 1, at_least)

    def _places_along_axis(self, operation: str, indices: TensorBase, value: Self, axis: int) -> Self:
        """The positions among all elements of those that `gather(axis, indices)` reads, to which `value` broadcasts."""
        numbers = self._number_elements(concrete_shape(operation, self.shape))
        places = numbers.gather(axis, indices).sub(1)
        check_value("the elements along an axis", value.shape, places.shape)
        return places

    def _gathered(self) -> UOp:
        """This tensor in memory of its own on one device, where a function can read it."""
        whole = self if self.sharding is None else self.to(self.sharding.devices[0])
        return whole.contiguous().uop

    def _with_sums(self, places: Self, value: Self, n_axes: int) -> Self:
        """The rows of `value` added to those at these positions among all that the first axes have; others are left out."""
        if not (self.size and places.size):
            return self.clone()
        shape = concrete_shape("add_at", self.shape)
        dtype = promote_types(self.dtype, float32) if self.dtype.is_float else self.dtype
        rows = value.broadcast_to((*places.shape, *shape[n_axes:])).cast(dtype)
        node = make_scatter_add(rows.uop, places.uop, 0, math.prod(shape[:n_axes]))
        sums = self._make(node, places, value).reshape(shape)
        return self.cast(dtype).add(sums).cast(self.dtype) if self.dtype is not bool_ else self.bitwise_or(sums)

    def _number_selected(self, index: Index, items: Sequence[IndexItem], shape: tuple[int, ...]) -> tuple[Self, int]:
        """The numbers of what an index selects along the first axes, and how many of these are numbered."""
        n_axes = _count_numbered_axes(items, len(shape))
        return self._number_elements(shape[:n_axes])[index if n_axes == len(shape) else _get_rows(items)].sub(1), n_axes

    def _number_elements(self, shape: tuple[int, ...]) -> Self:
        """1, 2, ... in the shape of this tensor, where it is, so that a lookup beyond it finds a 0."""
        return self._make(bring_to(self.arange(1, math.prod(shape) + 1, dtype=int64).reshape(shape).uop, self.uop))

    def _with_places(self, places: Self, value: Self, n_axes: int) -> Self:
        """The rows of `value` at these positions among all that the first axes have, of which -1 is none."""
        if places.size == 0 or self.size == 0:
            return self.clone()
        flat = concrete_shape("assignment", places.shape)
        shape = concrete_shape("assignment", self.shape)
        read = places.reshape(math.prod(flat))._gathered()
        node = make_custom_function(INVERT, [ArraySpec(int64, (math.prod(shape[:n_axes]),))], [read])
        lookup = self.from_uop(node if places.sharding is None else bring_to(node, self.uop))
        return self._with_lookup(lookup.reshape(shape[:n_axes]), flat, value)

    def _with_lookup(self, lookup: Self, shape: Shape, value: Self) -> Self:
        """At each place the row of `value`, of which there are as many as `shape` says, that `lookup` names there, if any."""
        row = self.shape[lookup.ndim :]
        values = make_reshape(broadcast_node(value.uop, (*shape, *row)), (product(shape), *row))
        found = lookup.ge(0).reshape(*lookup.shape, *(1,) * len(row)).broadcast_to(self.shape)
        return self._make(make_alu(Op.WHERE, found.uop, make_gather(values, lookup.uop, 0), self.uop), value)


def _count_numbered_axes(items: Sequence[IndexItem], ndim: int) -> int:
    """Along how many axes a place is counted: where an index names whole rows, along the first; else along all of them."""
    is_rows = is_array_index(items[0]) and all(isinstance(i, slice) and i == slice(None) for i in items[1:])
    return 1 if is_rows else ndim


def _get_rows(items: Sequence[IndexItem]) -> IndexItem:
    """Which rows an index names, as an array or a tensor; of a mask of rows, where it holds."""
    first = items[0]
    return first.positions if isinstance(first, Selected) else first


def _is_whole_or_one(item: IndexItem) -> bool:
    """Whether an item of an index selects all of an axis, or one position that numbers or tensors say."""
    if isinstance(item, slice):
        return item == slice(None)
    return isinstance(item, (int, UOp)) or (isinstance(item, TensorBase) and item.ndim == 0 and item.dtype.is_int)


def check_value(what: str, value: Shape, selected: Shape) -> None:
    if broadcast_shapes(value, selected) != selected:
        raise ShapeError(operation=f"assignment to {what}", shape=value, problem=f"does not broadcast to {selected}")

"""Sorting: short rows and a few of the largest elements by kernels (`sorting_kernels`), the rest by
the array library of the host.

There an element becomes the 64-bit integer `key << 32 | position`, whose key orders like the
element: so sorting integers in any way sorts the elements stably, and carries their positions
along. Making the integers and taking them apart is part of the kernels around; the sorting itself
is a function on arrays, since loops over independent elements, which kernels are, are no way to
sort many."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final, Literal

from svod_dtype import float32, int32, int64, promote_types, uint32
from svod_ir import ShapeError, SInt, format_shape, make_gather
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import max_size
from svod_tensor._shapes import check_within, normalize_axis
from svod_tensor._shards import move_like
from svod_tensor.host_functions.sort_rows import SORT
from svod_tensor.ops.core.operands import as_tensor, is_scalar, make_result, promote, slice_axis
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.indexing.gathering import look_up
from svod_tensor.ops.indexing.sorting_kernels import find_order, pack_places

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "argsort",
    "isin",
    "ordered_key",
    "searchsorted",
    "sort",
    "topk",
]


_MAX_COMPARED: Final = 32
"""With how many values each element is compared; among more, they are sorted and each is searched
for.
"""


@operation(test="test_sorting.py::test_sorting_is_stable_and_agrees_with_numpy", standard=True)
def argsort(
    x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The positions (int64) of the elements in order; equal elements keep theirs, and NaN counts as
    the largest value.

    Complex numbers are in order of their real parts, then of their imaginary parts, as in numpy.

    Args:
        axis: along which.
        descending: whether the largest comes first.
        stable: whether equal elements must keep their order, as they always do.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are 2^31 elements or more along it.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argsort(Tensor([3, 1, 2])).tolist()
        [1, 2, 0]
    """
    axis = normalize_axis("argsort", axis, x.ndim)
    return _order(x, axis, x.shape[axis], is_descending=descending)


@operation(test="test_sorting.py::test_sorting_is_stable_and_agrees_with_numpy", standard=True)
def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order; NaN counts as the largest value. `argsort` gives their positions.

    Complex numbers are in order of their real parts, then of their imaginary parts, as in numpy.

    Args:
        axis: along which.
        descending: whether the largest comes first.
        stable: whether equal elements must keep their order, as they always do.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are 2^31 elements or more along it.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sort(Tensor([3, 1, 2]), descending=True).tolist()
        [3, 2, 1]
    """
    return _in_order(x, x.argsort(axis, descending=descending, stable=stable), axis)


@operation(test="test_sorting.py::test_a_few_elements_of_long_rows_are_found_in_stable_order")
def topk(x: Tensor, /, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements in order, and their positions (int64); of equal ones the first come
    first.

    Args:
        k: how many.
        axis: along which.
        largest: whether the largest are meant, or the smallest.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if it has less than `k` elements.

    Example:
        >>> import svod_tensor as sv
        >>> values, positions = sv.topk(Tensor([3, 1, 4, 2]), 2)
        >>> (values.tolist(), positions.tolist())
        ([4, 3], [2, 0])
    """
    axis, k = normalize_axis("topk", axis, x.ndim), operator.index(k)
    size = x.shape[axis]
    if isinstance(size, int) and not 0 <= k <= size:
        raise ShapeError(
            operation="topk",
            shape=x.shape,
            problem=f"k={k} is out of range for axis {axis} with size {size}",
        )
    check_within("topk", axis, k, 0, size)
    order = _order(x, axis, k, is_descending=largest)
    return _in_order(x, order, axis), order


def _order(x: Tensor, axis: int, n: SInt, *, is_descending: bool) -> Tensor:
    """The positions of the first `n` elements in order along `axis`."""
    size = x.shape[axis]
    if max_size(size) >= 1 << 31:
        raise ShapeError(
            operation="sort", shape=x.shape, problem=f"axis {axis} must be shorter than 2**31"
        )
    moved = x.moveaxis(axis, -1)
    order = x.arange(size).cast(int64).broadcast_to(moved.shape)
    if max_size(size) < 2 or x.size == 0 or n == 0:
        return slice_axis(order, order.ndim - 1, 0, n).moveaxis(-1, axis).clone()
    keys = _keys_of_complex(moved) if moved.dtype.is_complex else (ordered_key(moved),)
    if is_descending:
        # Bits turned over order the other way round, and what is equal stays so.
        keys = tuple(key.bitwise_not() for key in keys)
    found = find_order(keys, n)
    if found is not None:
        # Elements of two bytes are looked up one by one, for which a kernel would take its lanes
        # along what is compared.
        found = found.contiguous() if x.dtype.itemsize == 2 else found
        return found.moveaxis(-1, axis)
    words = [word for key in keys for word in _words_of(key)]
    for number, word in enumerate(words, 1):
        # Words of less weight only break ties, so that all of their order is needed.
        order = _in_order(
            order,
            _argsort_words(_in_order(word, order, -1), n if number == len(words) else size),
            -1,
        )
    return order.moveaxis(-1, axis)


def _in_order(x: Tensor, order: Tensor, axis: int) -> Tensor:
    """`take_along_axis` of positions that are known to be there."""
    return make_result(look_up(x.uop, order.uop, normalize_axis("sort", axis, x.ndim)), x, order)


@operation(test="test_sorting.py::test_places_in_a_sorted_tensor", standard=True)
def searchsorted(
    x1: Tensor,
    x2: Operand,
    /,
    side: Literal["left", "right"] = "left",
    *,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where in this sorted tensor of one axis values can be inserted (int64), in the shape of `x2`.

    Args:
        x2: what is looked for; dtypes promote.
        side: `"left"` for the place before equal elements, `"right"` for that behind them.
        sorter: positions that sort `x1`, as `argsort` gives them, where it is not sorted itself.

    Raises:
        ShapeError: if `x1` has not one axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.searchsorted(Tensor([1, 3, 3, 5]), [3, 4]).tolist()
        [1, 3]
    """
    if x1.ndim != 1:
        raise ShapeError(
            operation="searchsorted",
            shape=x1.shape,
            problem=f"the sorted tensor must be 1-d: {format_shape(x1.shape)}",
        )
    if sorter is not None:
        return x1.take_along_axis(sorter, 0).searchsorted(x2, side)
    # A Python number is weak: it is not rounded to float32 first.
    wanted = promote(x1, x2)[1] if is_scalar(x2) else as_tensor(x2, x1)
    dtype = promote_types(x1.dtype, wanted.dtype)
    (size,) = x1.shape
    # Keys compare NaNs too, which come last.
    keys, sought = ordered_key(x1.cast(dtype)), ordered_key(wanted.cast(dtype))
    place = sought.zeros_like(dtype=int64)
    step = 1 << max_size(size).bit_length()
    while step := step // 2:
        end = place.add(step)
        key = make_result(make_gather(keys.uop, end.sub(1).uop, 0), keys, sought)
        is_before = key.lt(sought) if side == "left" else key.le(sought)
        is_inside = end.le(size if isinstance(size, int) else x1.from_uop(size.cast(int64)))
        place = is_before.logical_and(is_inside).where(end, place)
    return place


@operation(test="test_sorting.py::test_membership", standard=True)
def isin(x1: Tensor, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Whether each element is among `x2`, as bools in the shape of `x1`.

    Args:
        x2: what is looked for; dtypes promote.
        invert: whether it is asked which are not.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isin(Tensor([1, 2, 3]), [2, 5]).tolist()
        [False, True, False]
    """
    x, y = promote(x1, x2)
    y = y.flatten()
    # Complex numbers have no order in which a place could be searched.
    if max_size(y.size) <= _MAX_COMPARED or x.dtype.is_complex:
        found = x.unsqueeze(-1).eq(y).any(-1)
    else:
        # The place before which an element belongs is its own if it is there at all.
        y = y.sort()
        last = y.size - 1
        place = y.searchsorted(x)
        place = place.minimum(last if isinstance(last, int) else x1.from_uop(last.cast(int64)))
        found = x.eq(make_result(make_gather(y.uop, place.uop, 0), y, place))
    return found.logical_not() if invert else found


def ordered_key(x: Tensor) -> Tensor:
    """Signed integers of 32 or 64 bits that order like `x`."""
    if x.dtype.is_float and x.dtype.itemsize < 4:
        x = x.cast(float32)
    if x.dtype.is_float:
        bits = x.eq(0).where(x.zeros_like(), x).bitcast(int32 if x.dtype is float32 else int64)
        # Below zero, a larger pattern is a smaller number.
        return x.isnan().where(
            bits.dtype.max, bits.lt(0).where(bits.bitwise_xor(bits.dtype.max), bits)
        )
    if x.dtype.itemsize < 4:
        return x.cast(int32)
    signed = int32 if x.dtype.itemsize == 4 else int64
    return x.bitcast(signed).bitwise_xor(signed.min) if x.dtype.is_unsigned else x


def _words_of(key: Tensor) -> tuple[Tensor, ...]:
    """Signed 32-bit words that order like `key`: the most significant one last."""
    if key.dtype is int32:
        return (key,)
    return key.cast(uint32).bitwise_xor(1 << 31).bitcast(int32), key.rshift(32).cast(int32)


def _keys_of_complex(x: Tensor) -> tuple[Tensor, ...]:
    """Keys that order complex numbers as numpy does: by real parts, then by imaginary ones, those
    with a NaN behind the rest.
    """
    has_nan = x.real.isnan().where(2, 0).add(x.imag.isnan().where(1, 0)).cast(int32)
    return ordered_key(x.imag), ordered_key(x.real), has_nan


def _argsort_words(key: Tensor, n: SInt) -> Tensor:
    """The first `n` positions in the stable order of 32-bit words along the last axis."""
    return _sort_rows(pack_places(key, key.arange(key.shape[-1]).cast(int64)), n).bitwise_and(
        (1 << 32) - 1
    )


def _sort_rows(x: Tensor, n: SInt) -> Tensor:
    """The `n` smallest elements of each row in order."""
    whole = x if x.sharding is None else x.to(x.sharding.devices[0])
    node = make_custom_function(
        SORT, [ArraySpec(int64, (*x.shape[:-1], n))], [whole.contiguous().uop], []
    )
    return x.from_uop(node if x.sharding is None else move_like(node, x.uop))

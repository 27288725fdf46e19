"""Sorting: short rows and small top-k by kernels (`sorting_kernels`), all else by numpy on the host.

For the host, an element is packed into the 64-bit integer `key << 32 | index`, whose key orders like
the element: any sort of these integers is a stable sort of the elements, and carries their indices.
Packing and unpacking are fused into the surrounding kernels. The sort itself is a host function,
since kernels are loops over independent elements, which cannot sort long rows efficiently."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final, Literal

from svod_dtype import float32, int32, int64, promote_types, uint32
from svod_ir import OperandError, ShapeError, SInt, format_shape, make_gather
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import max_size
from svod_tensor._shapes import check_within, normalize_axis
from svod_tensor._shards import move_like
from svod_tensor.host_functions.sort_rows import SORT
from svod_tensor.ops.core.operands import as_tensor, is_scalar, make_result, promote, slice_axis
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.indexing.gathering import gather_along_axis
from svod_tensor.ops.indexing.sorting_kernels import find_order, pack_indices

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
"""Maximum number of values to compare each element with; more values are sorted and searched."""


@operation(test="test_sorting.py::test_sorting_is_stable_and_agrees_with_numpy", standard=True)
@reuse_graph
def argsort(
    x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """Return the indices (int64) that sort a tensor along an axis, stably; NaN sorts last, as the
    largest value.

    Complex numbers are ordered by real part, then by imaginary part, as in numpy.

    Args:
        axis: the axis to sort along.
        descending: whether to sort in descending order.
        stable: accepted for compatibility; the sort is always stable.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the axis has 2^31 elements or more.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argsort(sv.Tensor([3, 1, 2])).tolist()
        [1, 2, 0]
    """
    axis = normalize_axis("argsort", axis, x.ndim)
    return _order(x, axis, x.shape[axis], is_descending=descending)


@operation(test="test_sorting.py::test_sorting_is_stable_and_agrees_with_numpy", standard=True)
@reuse_graph
def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return a sorted copy of a tensor; NaN sorts last, as the largest value. `argsort` gives indices.

    Complex numbers are ordered by real part, then by imaginary part, as in numpy.

    Args:
        axis: the axis to sort along.
        descending: whether to sort in descending order.
        stable: accepted for compatibility; the sort is always stable.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the axis has 2^31 elements or more.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sort(sv.Tensor([3, 1, 2]), descending=True).tolist()
        [3, 2, 1]
    """
    return _take_order(x, x.argsort(axis, descending=descending, stable=stable), axis)


@operation(test="test_sorting.py::test_topk_of_long_rows_is_stable")
@reuse_graph
def topk(x: Tensor, /, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the `k` largest elements along an axis, sorted, and their indices (int64); the sort is
    stable.

    Args:
        k: number of elements.
        axis: the axis to search along.
        largest: whether to return the largest or the smallest elements.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the axis has fewer than `k` elements.

    Example:
        >>> import svod_tensor as sv
        >>> values, indices = sv.topk(sv.Tensor([3, 1, 4, 2]), 2)
        >>> (values.tolist(), indices.tolist())
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
    return _take_order(x, order, axis), order


def _order(x: Tensor, axis: int, n: SInt, *, is_descending: bool) -> Tensor:
    """Return the indices of the first `n` elements in sorted order along `axis`."""
    size = x.shape[axis]
    if max_size(size) >= 1 << 31:
        raise ShapeError(
            operation="sort", shape=x.shape, problem=f"axis {axis} must be shorter than 2**31"
        )
    moved = x.moveaxis(axis, -1)
    order = x.arange(size).cast(int64).broadcast_to(moved.shape)
    if max_size(size) < 2 or x.size == 0 or n == 0:
        return slice_axis(order, order.ndim - 1, 0, n).moveaxis(-1, axis).clone()
    keys = _complex_keys(moved) if moved.dtype.is_complex else (ordered_key(moved),)
    if is_descending:
        # Complementing the bits reverses the order and keeps the sort stable.
        keys = tuple(key.bitwise_not() for key in keys)
    order_by_kernel = find_order(keys, n)
    if order_by_kernel is not None:
        # Realized for elements of two bytes: their gather is scalar, and fusion would make the
        # kernel vectorize along the compared axis.
        order_by_kernel = order_by_kernel.contiguous() if x.dtype.itemsize == 2 else order_by_kernel
        return order_by_kernel.moveaxis(-1, axis)
    words = [word for key in keys for word in _split_words(key)]
    for n_sorted, word in enumerate(words, 1):
        # Radix sort: a less significant word breaks ties, so its full order is needed.
        order = _take_order(
            order,
            _argsort_words(_take_order(word, order, -1), n if n_sorted == len(words) else size),
            -1,
        )
    return order.moveaxis(-1, axis)


def _take_order(x: Tensor, order: Tensor, axis: int) -> Tensor:
    """`take_along_axis` for indices that are known to be in range."""
    return make_result(
        gather_along_axis(x.uop, order.uop, normalize_axis("sort", axis, x.ndim)), x, order
    )


@operation(test="test_sorting.py::test_searchsorted_agrees_with_numpy", standard=True)
@reuse_graph
def searchsorted(
    x1: Tensor,
    x2: Operand,
    /,
    side: Literal["left", "right"] = "left",
    *,
    sorter: Tensor | None = None,
) -> Tensor:
    """Find the indices (int64) at which to insert `x2` into this sorted 1-d tensor to keep its order.

    The result has the shape of `x2` and values from 0 to the size of `x1`. NaN sorts last.

    Args:
        x2: the values to insert; dtypes promote.
        side: `"left"` for the index before equal elements, `"right"` for the index after them.
        sorter: indices that sort `x1`, as from `argsort`, if it is not sorted.

    Raises:
        ShapeError: if `x1` is not 1-d.
        OperandError: if `side` is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.searchsorted(sv.Tensor([1, 3, 3, 5]), [3, 4]).tolist()
        [1, 3]
    """
    if x1.ndim != 1:
        raise ShapeError(
            operation="searchsorted",
            shape=x1.shape,
            problem=f"the sorted tensor must be 1-d: {format_shape(x1.shape)}",
        )
    if side not in ("left", "right"):
        raise OperandError(
            operation="searchsorted", found=f"{side=}", expected='side "left" or "right"'
        )
    if sorter is not None:
        return x1.take_along_axis(sorter, 0).searchsorted(x2, side)
    # A Python number is weakly typed: it is not rounded to float32 first.
    values = promote(x1, x2)[1] if is_scalar(x2) else as_tensor(x2, x1)
    dtype = promote_types(x1.dtype, values.dtype)
    (size,) = x1.shape
    # Keys are totally ordered, with NaN last.
    keys, targets = ordered_key(x1.cast(dtype)), ordered_key(values.cast(dtype))
    index = targets.zeros_like(dtype=int64)
    step = 1 << max_size(size).bit_length()
    while step := step // 2:
        end = index.add(step)
        key = make_result(make_gather(keys.uop, end.sub(1).uop, 0), keys, targets)
        is_before = key.lt(targets) if side == "left" else key.le(targets)
        is_inside = end.le(size if isinstance(size, int) else x1.from_uop(size.cast(int64)))
        index = is_before.logical_and(is_inside).where(end, index)
    return index


@operation(test="test_sorting.py::test_membership", standard=True)
@reuse_graph
def isin(x1: Tensor, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Test whether each element of `x1` is in `x2`; returns booleans in the shape of `x1`.

    Args:
        x2: the values to test against; dtypes promote.
        invert: whether to invert the result.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isin(sv.Tensor([1, 2, 3]), [2, 5]).tolist()
        [False, True, False]
    """
    x, y = promote(x1, x2)
    y = y.flatten()
    # `ordered_key` has no single key for complex numbers, so they are always compared.
    if max_size(y.size) <= _MAX_COMPARED or x.dtype.is_complex:
        is_member = x.unsqueeze(-1).eq(y).any(-1)
    else:
        # A member is found exactly at its insertion index.
        y = y.sort()
        last = y.size - 1
        index = y.searchsorted(x)
        index = index.minimum(last if isinstance(last, int) else x1.from_uop(last.cast(int64)))
        is_member = x.eq(make_result(make_gather(y.uop, index.uop, 0), y, index))
    return is_member.logical_not() if invert else is_member


def ordered_key(x: Tensor) -> Tensor:
    """Map elements to signed 32- or 64-bit integers of the same order."""
    if x.dtype.is_float and x.dtype.itemsize < 4:
        x = x.cast(float32)
    if x.dtype.is_float:
        bits = x.eq(0).where(x.zeros_like(), x).bitcast(int32 if x.dtype is float32 else int64)
        # For negative floats, a larger bit pattern is a smaller number.
        return x.isnan().where(
            bits.dtype.max, bits.lt(0).where(bits.bitwise_xor(bits.dtype.max), bits)
        )
    if x.dtype.itemsize < 4:
        return x.cast(int32)
    signed = int32 if x.dtype.itemsize == 4 else int64
    return x.bitcast(signed).bitwise_xor(signed.min) if x.dtype.is_unsigned else x


def _split_words(key: Tensor) -> tuple[Tensor, ...]:
    """Split a key into signed 32-bit words of the same order, the most significant last."""
    if key.dtype is int32:
        return (key,)
    return key.cast(uint32).bitwise_xor(1 << 31).bitcast(int32), key.rshift(32).cast(int32)


def _complex_keys(x: Tensor) -> tuple[Tensor, ...]:
    """Keys that order complex numbers as numpy does: by real part, then by imaginary part, with NaN
    last.
    """
    has_nan = x.real.isnan().where(2, 0).add(x.imag.isnan().where(1, 0)).cast(int32)
    return ordered_key(x.imag), ordered_key(x.real), has_nan


def _argsort_words(key: Tensor, n: SInt) -> Tensor:
    """Stable argsort of 32-bit words along the last axis: the first `n` indices."""
    return _sort_rows(pack_indices(key, key.arange(key.shape[-1]).cast(int64)), n).bitwise_and(
        (1 << 32) - 1
    )


def _sort_rows(x: Tensor, n: SInt) -> Tensor:
    """Sort each row, and return the `n` smallest elements."""
    gathered = x if x.sharding is None else x.to(x.sharding.devices[0])
    node = make_custom_function(
        SORT, [ArraySpec(int64, (*x.shape[:-1], n))], [gathered.contiguous().uop], []
    )
    return x.from_uop(node if x.sharding is None else move_like(node, x.uop))

"""Gather, scatter, slicing, padding, and data-dependent selection."""

from __future__ import annotations

from math import prod
from typing import Any, Final, Literal, cast

import numpy as np

from svod_onnx._broadcasting import multiply_sizes
from svod_onnx._registry import Ints, Known, Value, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "compress",
    "gather",
    "gather_elements",
    "gather_nd",
    "nonzero",
    "one_hot",
    "pad",
    "pad_since_1",
    "pad_since_2",
    "reverse_sequence",
    "scatter_elements",
    "scatter_nd",
    "slice_",
    "slice_since_1",
    "tensor_scatter",
    "unique",
]

_REDUCTIONS: Final[dict[str, Literal["sum", "prod", "amax", "amin"]]] = {
    "add": "sum",
    "mul": "prod",
    "max": "amax",
    "min": "amin",
}


@operator("Gather")
def gather(node: Call, data: Tensor, indices: Value, *, axis: int = 0) -> Tensor:
    """Elements of `data` at `indices` along `axis`."""
    if isinstance(indices, np.ndarray) and indices.size == 1:
        # A known index is a view, which needs no kernel.
        index = indices.item()
        size = data.shape[axis]
        # Kernels read 0 for such an index; a known one can be refused.
        if isinstance(size, int) and not -size <= index < size:
            raise node.refuse(f"index {index} is out of bounds for axis {axis} with size {size}")
        leading = (slice(None),) * (axis % data.ndim)
        taken = data[(*leading, index)]
        return taken.reshape(
            *data.shape[: len(leading)], *indices.shape, *data.shape[len(leading) + 1 :]
        )
    return data.take(node.trace.get_tensor(node.node, node.node.inputs[1], indices), axis)


@operator("GatherElements")
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Elements of `data` at `indices`, which select along `axis` for each position."""
    return data.gather(axis, indices)


@operator("GatherND")
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices of `data` at index tuples, which lie along the last axis of `indices`.

    Leading batch axes are matched.
    """
    depth = _get_int(indices.shape[-1])
    # Index arrays of the batch axes broadcast against the index tuples.
    batch = [
        Tensor.arange(size).reshape(*(-1 if a == axis else 1 for a in range(indices.ndim - 1)))
        for axis, size in enumerate(indices.shape[:batch_dims])
    ]
    return data[(*batch, *(indices[..., i] for i in range(depth)))]


@operator("Scatter", "ScatterElements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """`data` with `updates` scattered to `indices` along `axis`."""
    if reduction == "none":
        return data.scatter(axis, indices, updates)
    return data.scatter_reduce(axis, indices, updates, _get_reduction(reduction))


@operator("ScatterND")
def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """`data` with slices scattered to index tuples, which lie along the last axis of `indices`."""
    depth = _get_int(indices.shape[-1])
    if data.ndim == 0 or depth == 0:
        return _scatter_nd_without_axes(data, updates, reduction)
    sizes = data.shape[:depth]
    flat_indices: Any = None
    is_valid: Any = True
    for i, size in enumerate(sizes):
        axis_indices = indices[..., i]
        # Otherwise an index beyond an axis would select another row of the axis before it.
        is_valid = (axis_indices >= -size) & (axis_indices < size) & is_valid
        # Before the indices are combined: a negative one would borrow from the axis before it.
        axis_indices = (axis_indices < 0).where(axis_indices + size, axis_indices)
        flat_indices = axis_indices if flat_indices is None else flat_indices * size + axis_indices
    n_rows = multiply_sizes(sizes)
    flat_indices = is_valid.where(flat_indices, n_rows) if depth > 1 else flat_indices
    slice_size = multiply_sizes(data.shape[depth:])
    rows = data.reshape(n_rows, slice_size)
    count = multiply_sizes(flat_indices.shape)
    # Index tuples become flat row indices; all elements of a slice share one.
    row_indices = flat_indices.reshape(count, 1).broadcast_to(count, slice_size)
    return scatter_elements(
        rows, row_indices, updates.reshape(count, slice_size), reduction=reduction
    ).reshape(data.shape)


def _scatter_nd_without_axes(x: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Scatter with empty index tuples: each update replaces or combines with all of `x`; the last
    replacement wins.
    """
    count = prod(cast("tuple[int, ...]", updates.shape[: updates.ndim - x.ndim]))
    rows = updates.reshape(count, *x.shape)
    if count == 0:
        return x
    match reduction:
        case "none":
            return rows[-1]
        case "add":
            return x + rows.sum(0)
        case "mul":
            return x * rows.prod(0)
        case "max":
            return x.maximum(rows.max(0))
        case _:
            return x.minimum(rows.min(0))


def _get_reduction(name: str) -> Literal["sum", "prod", "amax", "amin"]:
    if name not in _REDUCTIONS:
        raise ValueError(
            f"unknown reduction {name!r}; expected one of none, {', '.join(_REDUCTIONS)}"
        )
    return _REDUCTIONS[name]


def _get_int(size: Any) -> int:
    if not isinstance(size, int):
        raise TypeError(f"expected a known size, got {size}")
    return size


@operator("TensorScatter")
def tensor_scatter(
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """`past_cache` with `update` written along `axis` from each row's write index on; it wraps
    around in mode "circular".
    """
    axis = axis % past_cache.ndim
    size, length = past_cache.shape[axis], update.shape[axis]
    steps = Tensor.arange(length)
    if write_indices is None:
        write_indices = Tensor.zeros(past_cache.shape[0], dtype="int64")
    indices = write_indices.reshape(-1, 1) + steps
    if mode == "circular":
        indices = indices % size
    shape = [past_cache.shape[0]] + [length if a == axis else 1 for a in range(1, past_cache.ndim)]
    return past_cache.scatter(axis, indices.reshape(shape).broadcast_to(update.shape), update)


@operator("Slice", since=10)
def slice_(
    data: Tensor, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None
) -> Tensor:
    """Slices along axes. Bounds out of range are clamped, as in Python."""
    slices = [slice(None)] * data.ndim
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = 1 if steps is None else steps[i]
        slices[axis] = slice(_bound(starts[i]), _bound(ends[i]), step)
    return data[tuple(slices)]


_FAR: Final = 1 << 31
"""Magnitude of a bound that means the end of an axis. Exporters write INT_MAX or INT64_MAX."""


def _bound(bound: Any) -> Any:
    """`bound`, or None if it means an end of the axis for any size."""
    return None if isinstance(bound, int) and (bound >= _FAR - 1 or bound <= -_FAR) else bound


@operator("Slice")
def slice_since_1(
    data: Tensor, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Tensor:
    """Slice up to version 9, with attributes."""
    return slice_(data, starts, ends, axes)


@operator("Pad", since=11)
def pad(
    data: Tensor,
    pads: Ints,
    constant_value: Known | None = None,
    axes: Ints | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Pad axes by a constant or another mode.

    `pads` lists all starts, then all ends; negative amounts crop.
    """
    padding = [(0, 0)] * data.ndim
    half = len(pads) // 2
    for i, axis in enumerate(range(half) if axes is None else axes):
        padding[axis] = (pads[i], pads[i + half])
    if mode == "constant":
        # Exporters write an empty tensor for an omitted constant.
        value = 0 if constant_value is None or constant_value.size == 0 else constant_value.item()
        return data.pad(padding, constant_values=value)
    return data.pad(padding, mode=cast("Any", mode))


@operator("Pad", since=2)
def pad_since_2(
    data: Tensor, *, pads: list[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Pad of version 2, with attributes."""
    return pad(data, pads, np.array(value), mode=mode)


@operator("Pad")
def pad_since_1(
    data: Tensor, *, paddings: list[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    """Pad of version 1, with the attribute `paddings`."""
    return pad(data, paddings, np.array(value), mode=mode)


@operator("OneHot")
def one_hot(indices: Tensor, depth: Ints, values: Tensor, *, axis: int = -1) -> Tensor:
    """`values[1]` at each index along a new axis, `values[0]` elsewhere.

    Negative indices count from the end.
    """
    size = depth[0]
    axis = axis % (indices.ndim + 1)
    integers = indices.cast("int64")
    shape = [size if a == axis else 1 for a in range(indices.ndim + 1)]
    positions = Tensor.arange(size, dtype="int64").reshape(shape)
    row = integers.unsqueeze(axis)
    # An index out of range matches no position.
    matches = (row >= -size) & (row < size) & ((row < 0).where(row + size, row) == positions)
    return matches.where(values[1], values[0])


@operator("ReverseSequence")
def reverse_sequence(
    input: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Reverse the first steps of each sequence, up to its length."""
    steps = Tensor.arange(input.shape[time_axis], dtype="int64")
    time = steps.reshape(*(-1 if axis == time_axis else 1 for axis in range(2)))
    length = sequence_lens.cast("int64").reshape(
        *(-1 if axis == batch_axis else 1 for axis in range(2))
    )
    indices = (time < length).where(length - 1 - time, time)
    indices = indices.reshape(*indices.shape, *(1,) * (input.ndim - 2)).broadcast_to(input.shape)
    return input.take_along_axis(indices, time_axis)


@operator("NonZero", is_host=True)
def nonzero(x: Known) -> Value:
    """Indices of the nonzero elements, with a row for each axis."""
    # A scalar has no axes, so its result has no rows.
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)[: max(x.ndim, 0)]


@operator("Compress", is_host=True)
def compress(input: Known, condition: Known, *, axis: int | None = None) -> Value:
    """Elements along an axis, or of the flattened input, where `condition` is true; a shorter
    condition is false at its end.
    """
    source = input.ravel() if axis is None else input
    indices = np.flatnonzero(condition.astype(bool))
    return np.take(source, indices, 0 if axis is None else axis)


@operator("Unique", is_host=True)
def unique(x: Known, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    """Unique elements, their first indices, the inverse indices and the counts; sorted, or in order
    of appearance.
    """
    elements, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    # numpy 2.0 gives the inverse the shape of `x`.
    inverse = inverse.ravel()
    if not sorted:
        # numpy sorts by value; the first indices give back the order of appearance.
        order = np.argsort(first)
        elements = np.take(elements, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return elements, *(array.astype(np.int64) for array in (first, inverse, counts))

"""Elements by their positions."""

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
    if isinstance(indices, np.ndarray) and indices.size == 1:
        # A place that is known is a view, and no kernel.
        position = indices.item()
        size = data.shape[axis]
        if isinstance(size, int) and not -size <= position < size:
            raise node.refuse(f"reads element {position} along an axis of size {size}")
        place = (slice(None),) * (axis % data.ndim)
        taken = data[(*place, position)]
        return taken.reshape(
            *data.shape[: len(place)], *indices.shape, *data.shape[len(place) + 1 :]
        )
    return data.take(node.trace.get_tensor(node.node, node.node.inputs[1], indices), axis)


@operator("GatherElements")
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return data.gather(axis, indices)


@operator("GatherND")
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """`indices` has along its last axis the positions in the first axes of `data` behind those of
    the batch.
    """
    depth = _get_int(indices.shape[-1])
    batch = [
        Tensor.arange(size).reshape(
            *(-1 if other == axis else 1 for other in range(indices.ndim - 1))
        )
        for axis, size in enumerate(indices.shape[:batch_dims])
    ]
    return data[(*batch, *(indices[..., number] for number in range(depth)))]


@operator("Scatter", "ScatterElements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    if reduction == "none":
        return data.scatter(axis, indices, updates)
    return data.scatter_reduce(axis, indices, updates, _get_reduction(reduction))


@operator("ScatterND")
def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """`data` with `updates` at the positions in its first axes that `indices` has along its last
    axis.
    """
    depth = _get_int(indices.shape[-1])
    if data.ndim == 0 or depth == 0:
        return _combine_whole(data, updates, reduction)
    sizes = data.shape[:depth]
    place: Any = None
    for number, size in enumerate(sizes):
        position = indices[..., number]
        position = (position < 0).where(position + size, position)
        place = position if place is None else place * size + position
    rest = multiply_sizes(data.shape[depth:])
    rows = data.reshape(multiply_sizes(sizes), rest)
    count = multiply_sizes(place.shape)
    # Each element of a slice has the place of the slice.
    places = place.reshape(count, 1).broadcast_to(count, rest)
    return scatter_elements(
        rows, places, updates.reshape(count, rest), reduction=reduction
    ).reshape(data.shape)


def _combine_whole(x: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Positions without coordinates mean the whole of `x`, each in turn; of several that only set
    it, the last one stays.
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
        raise ValueError(f"has no reduction {name!r}; there are none, {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


def _get_int(size: Any) -> int:
    if not isinstance(size, int):
        raise TypeError(f"needs a size that is a number, and got {size}")
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
    """`past_cache` with `update` along `axis` from a place of each row of the batch on; it goes
    round where it is circular.
    """
    axis = axis % past_cache.ndim
    size, length = past_cache.shape[axis], update.shape[axis]
    steps = Tensor.arange(length)
    if write_indices is None:
        write_indices = Tensor.zeros(past_cache.shape[0], dtype="int64")
    places = write_indices.reshape(-1, 1) + steps
    if mode == "circular":
        places = places % size
    shape = [past_cache.shape[0]] + [
        length if number == axis else 1 for number in range(1, past_cache.ndim)
    ]
    return past_cache.scatter(axis, places.reshape(shape).broadcast_to(update.shape), update)


@operator("Slice", since=10)
def slice_(
    data: Tensor, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None
) -> Tensor:
    """Positions beyond the ends are cut off, as in Python."""
    wanted = [slice(None)] * data.ndim
    for number, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = 1 if steps is None else steps[number]
        wanted[axis] = slice(_bound(starts[number]), _bound(ends[number]), step)
    return data[tuple(wanted)]


_FAR: Final = 1 << 31
"""Models write the greatest integer for an end that is that of the axis."""


def _bound(place: Any) -> Any:
    """`place`, or nothing where it stands for an end of the axis whatever its size is."""
    return None if isinstance(place, int) and (place >= _FAR - 1 or place <= -_FAR) else place


@operator("Slice")
def slice_since_1(
    data: Tensor, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Tensor:
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
    """All amounts before come first, then all behind; negative ones cut off."""
    padding = [(0, 0)] * data.ndim
    half = len(pads) // 2
    for number, axis in enumerate(range(half) if axes is None else axes):
        padding[axis] = (pads[number], pads[number + half])
    if mode == "constant":
        value = 0 if constant_value is None or constant_value.size == 0 else constant_value.item()
        return data.pad(padding, constant_values=value)
    return data.pad(padding, mode=cast("Any", mode))


@operator("Pad", since=2)
def pad_since_2(
    data: Tensor, *, pads: list[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return pad(data, pads, np.array(value), mode=mode)


@operator("Pad")
def pad_since_1(
    data: Tensor, *, paddings: list[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return pad(data, paddings, np.array(value), mode=mode)


@operator("OneHot")
def one_hot(indices: Tensor, depth: Ints, values: Tensor, *, axis: int = -1) -> Tensor:
    """The second of `values` at each index, and the first elsewhere; negative indices count from
    the end.
    """
    size = depth[0]
    axis = axis % (indices.ndim + 1)
    whole = indices.cast("int64")
    shape = [size if number == axis else 1 for number in range(indices.ndim + 1)]
    places = Tensor.arange(size, dtype="int64").reshape(shape)
    row = whole.unsqueeze(axis)
    # An index outside of the axis is at no place.
    is_there = (row >= -size) & (row < size) & ((row < 0).where(row + size, row) == places)
    return is_there.where(values[1], values[0])


@operator("ReverseSequence")
def reverse_sequence(
    input: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first steps of each sequence in the opposite order."""
    steps = Tensor.arange(input.shape[time_axis], dtype="int64")
    time = steps.reshape(*(-1 if axis == time_axis else 1 for axis in range(2)))
    length = sequence_lens.cast("int64").reshape(
        *(-1 if axis == batch_axis else 1 for axis in range(2))
    )
    places = (time < length).where(length - 1 - time, time)
    places = places.reshape(*places.shape, *(1,) * (input.ndim - 2)).broadcast_to(input.shape)
    return input.take_along_axis(places, time_axis)


@operator("NonZero", is_host=True)
def nonzero(x: Known) -> Value:
    """The positions of elements that are not zero: a row for each axis."""
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)[: max(x.ndim, 0)]


@operator("Compress", is_host=True)
def compress(input: Known, condition: Known, *, axis: int | None = None) -> Value:
    """What `condition` marks along an axis, or among all elements; behind its end nothing is
    marked.
    """
    source = input.ravel() if axis is None else input
    places = np.flatnonzero(condition.astype(bool))
    return np.take(source, places, 0 if axis is None else axis)


@operator("Unique", is_host=True)
def unique(x: Known, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    """Each element once, where it was first, which it is of each place, and how often; in order, or
    as they came.
    """
    found, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.ravel()
    if not sorted:
        order = np.argsort(first)
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return found, *(array.astype(np.int64) for array in (first, inverse, counts))

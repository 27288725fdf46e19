"""Movement ops, GATHER and SCATTER on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from svod_ir._arithmetic import Values
from svod_ir.ops import Op

__all__ = ["MOVES", "fill_sizes", "gather", "scatter", "scatter_add"]


def gather(x: Values, indices: Values, axis: int) -> Values:
    size = x.shape[axis]
    # An unsigned index above the int64 range is out of bounds too.
    is_inside = (indices >= 0) & (indices < size)
    safe_indices = np.where(is_inside, indices, 0).astype(np.int64)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    gathered = np.take(x, safe_indices, axis=axis) if size else np.zeros(shape, x.dtype)
    inside = is_inside.reshape(indices.shape + (1,) * (x.ndim - axis - 1))
    return np.where(inside, gathered, np.zeros((), x.dtype))


def scatter(x: Values, indices: Values, base: Values, axis: int) -> Values:
    """Replace the rows of `base` at the indices, in order."""
    n_axes = indices.ndim
    rows = np.moveaxis(x, range(axis, axis + n_axes), range(n_axes))
    replaced = np.moveaxis(base, axis, 0).copy()
    # One by one, since numpy does not promise which of several rows with equal indices is kept.
    for at in np.ndindex(indices.shape):
        if 0 <= indices[at] < base.shape[axis]:
            replaced[int(indices[at])] = rows[at]
    return np.moveaxis(replaced, 0, axis)


def scatter_add(x: Values, indices: Values, base: Values, axis: int) -> Values:
    """Add each row of `x` to the row of `base` at its index."""
    is_inside = (indices >= 0) & (indices < base.shape[axis])
    n_axes = indices.ndim
    rows = np.moveaxis(x, range(axis, axis + n_axes), range(n_axes))
    sums = np.moveaxis(base, axis, 0).copy()
    combine = np.logical_or if x.dtype.kind == "b" else np.add
    # `at`, since `sums[indices] += rows` keeps only one of several rows with equal indices.
    combine.at(sums, indices[is_inside].astype(np.int64), rows[is_inside])
    return np.moveaxis(sums, 0, axis)


def fill_sizes(arg: tuple[Any, ...], sizes: Sequence[Any]) -> tuple[Any, ...]:
    symbolic = iter(sizes)
    return tuple(int(next(symbolic)) if a is None else a for a in arg) if sizes else arg


def _pairs(flat: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


MOVES: Final[dict[Op, Callable[[Values, tuple[Any, ...]], Values]]] = {
    Op.RESHAPE: lambda x, sizes: np.reshape(x, sizes),
    Op.EXPAND: lambda x, sizes: np.broadcast_to(x, sizes),
    Op.PERMUTE: lambda x, axes: np.transpose(x, axes),
    Op.PAD: lambda x, flat: np.pad(x, _pairs(flat)),
    Op.SHRINK: lambda x, flat: x[tuple(slice(b, e) for b, e in _pairs(flat))],
    Op.FLIP: lambda x, flags: np.flip(x, tuple(a for a, f in enumerate(flags) if f)),
}

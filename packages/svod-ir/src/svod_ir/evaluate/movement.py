"""The movement ops, GATHER and SCATTER_ADD on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from svod_ir._arithmetic import Values
from svod_ir.ops import Op

__all__ = ["MOVES", "fill_sizes", "gather", "scatter_add"]


def gather(x: Values, positions: Values, axis: int) -> Values:
    size = x.shape[axis]
    # An unsigned position beyond int64 is out of range too.
    is_inside = (positions >= 0) & (positions < size)
    where = np.where(is_inside, positions, 0).astype(np.int64)
    shape = (*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :])
    found = np.take(x, where, axis=axis) if size else np.zeros(shape, x.dtype)
    inside = is_inside.reshape(positions.shape + (1,) * (x.ndim - axis - 1))
    return np.where(inside, found, np.zeros((), x.dtype))


def scatter_add(x: Values, positions: Values, axis: int, size: int) -> Values:
    """The sum of what `x` has at the places of each position."""
    is_inside = (positions >= 0) & (positions < size)
    n_axes = positions.ndim
    rows = np.moveaxis(x, range(axis, axis + n_axes), range(n_axes))
    found = np.zeros((size, *rows.shape[n_axes:]), x.dtype)
    combine = np.logical_or if x.dtype.kind == "b" else np.add
    combine.at(found, positions[is_inside].astype(np.int64), rows[is_inside])
    return np.moveaxis(found, 0, axis)


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

"""Sorting of rows of distinct integers, which `argsort`, `sort` and `topk` call between kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SORT", "sort_rows"]

SORT: Final = "svod.sort"
"""The custom function that sorts rows."""

_GROUPS_PER_RESULT: Final = 16
_LEAST_GROUPS: Final = 1024
_LEAST_GROUP_SIZE: Final = 4
"""Shape of the groups of a long row for the selection of a few elements. Shorter rows are reduced by
tiles.
"""

_LEAST_TILE: Final = 64
_MOST_TILE: Final = 256
"""Sizes of the tiles of shorter rows. Up to 256 integers numpy sorts by a network in registers, at 1.1
to 1.5 ns per element; longer rows are partitioned, at 6 to 12 ns per element.
"""

_BLOCK_SIZE: Final = 1 << 16
"""Number of elements to sort at a time, so that a block stays in the cache between two steps."""


def sort_rows(out: NDArray[np.int64], x: NDArray[np.int64]) -> None:
    """Fill each row of `out` with the smallest elements of the same row of `x`, in ascending order."""
    n, size = out.shape[-1], x.shape[-1]
    rows, results = x.reshape(-1, size), out.reshape(-1, n)
    n_groups = max(_GROUPS_PER_RESULT * n, _LEAST_GROUPS)
    if size >= _LEAST_GROUP_SIZE * n_groups:
        for row, result in zip(rows, results, strict=True):
            result[:] = _select(row, n, n_groups)
    elif n == size:
        out[...] = x
        out.sort(axis=-1)
    else:
        n_rows = max(_BLOCK_SIZE // size, 1)
        for begin in range(0, len(rows), n_rows):
            _select_by_tiles(results[begin : begin + n_rows], rows[begin : begin + n_rows])


def _select_by_tiles(out: NDArray[np.int64], x: NDArray[np.int64]) -> None:
    """Fill each row of `out` with the smallest elements of a row of `x`.

    The n smallest elements of a row are among the n smallest of each of its tiles, which are sorted
    by themselves. This is repeated until a row is one tile, or the tiles are too small to drop half
    of their elements.
    """
    import numpy as np

    n = out.shape[-1]
    tile = min(max(_LEAST_TILE, 1 << (4 * n - 1).bit_length()), _MOST_TILE)
    while 2 * n <= tile and x.shape[-1] > _MOST_TILE:
        n_rows, size = x.shape
        tiles = np.empty((n_rows, -(-size // tile), tile), np.int64)
        padded = tiles.reshape(n_rows, -1)
        padded[:, :size] = x
        # The padding is never selected: it equals no packed element, and sorts after all of them.
        padded[:, size:] = np.iinfo(np.int64).max
        tiles.sort(axis=-1)
        x = tiles[..., :n].reshape(n_rows, -1)
    candidates = np.array(x)
    if x.shape[-1] > _MOST_TILE:
        candidates.partition(n - 1, axis=-1)
        out[...] = candidates[:, :n]
        out.sort(axis=-1)
    else:
        candidates.sort(axis=-1)
        out[...] = candidates[:, :n]


def _select(row: NDArray[np.int64], n: int, n_groups: int) -> NDArray[np.int64]:
    """The `n` smallest elements of a long row, in ascending order.

    The n-th smallest of the minima of `n_groups` groups is an upper bound of the results that few
    other elements satisfy."""
    import numpy as np

    depth = row.size // n_groups
    minima = row[: depth * n_groups].reshape(depth, n_groups).min(0)
    minima.partition(n - 1)
    candidates = row[row <= minima[n - 1]]
    candidates.partition(n - 1)
    return np.sort(candidates[:n])

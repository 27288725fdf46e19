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
"""Shape of the groups of a long row for the selection of a few elements. Shorter rows are
partitioned as a whole.
"""


def sort_rows(out: NDArray[np.int64], x: NDArray[np.int64]) -> None:
    """Fill each row of `out` with the smallest elements of the same row of `x`, in ascending order."""
    n, size = out.shape[-1], x.shape[-1]
    n_groups = max(_GROUPS_PER_RESULT * n, _LEAST_GROUPS)
    if size >= _LEAST_GROUP_SIZE * n_groups:
        for row, result in zip(x.reshape(-1, size), out.reshape(-1, n), strict=True):
            result[:] = _select(row, n, n_groups)
        return
    if n < size:
        x = x.copy()
        x.partition(n - 1, axis=-1)
    out[...] = x[..., :n]
    out.sort(axis=-1)


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

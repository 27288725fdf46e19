"""Sorting the rows of arrays of distinct integers: what `argsort`, `sort` and `topk` call between
kernels.
"""

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
"""Of what shape a row's groups are where a few of its elements are looked for; of shorter rows, all
are partitioned.
"""


def sort_rows(out: NDArray[np.int64], x: NDArray[np.int64]) -> None:
    """Fill each row of `out` with the smallest elements of that row of `x`, in order."""
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
    """The `n` smallest elements of a long row, in order.

    Of the smallest ones of `n_groups` groups, `n` are at most as large as the n-th: so are the
    results, and few others."""
    import numpy as np

    depth = row.size // n_groups
    least = row[: depth * n_groups].reshape(depth, n_groups).min(0)
    least.partition(n - 1)
    found = row[row <= least[n - 1]]
    found.partition(n - 1)
    return np.sort(found[:n])

"""What becomes of elements that integer tensors name: `x[indices] = value` and `add_at` call these functions between kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ADD_ROWS", "INVERT", "add_rows", "invert_places"]

INVERT: Final = "svod.invert"
ADD_ROWS: Final = "svod.add-rows"
"""The custom functions that invert positions, and that add up the rows of each position."""

_ADDED_AT_ONCE: Final = 1 << 15
"""So many elements that their positions stay in the cache."""


def invert_places(out: NDArray[np.int64], places: NDArray[np.int64]) -> None:
    """Fill `out` with -1, and at each of `places` with the number of the last one that is there; negative ones are nowhere."""
    import numpy as np

    out.fill(-1)
    numbers = np.arange(places.size)
    is_somewhere = places >= 0
    out[places[is_somewhere]] = numbers[is_somewhere]


def add_rows(out: NDArray[np.generic], values: NDArray[np.generic], places: NDArray[np.int64]) -> None:
    """Fill each row of `out` with the sum of the rows of `values` whose place it is; negative places are nowhere."""
    import numpy as np

    out.fill(0)
    width: int = out.shape[1]
    sums, columns = out.reshape(-1), np.arange(width, dtype=np.int64)
    n_rows = max(_ADDED_AT_ONCE // width, 1)
    for begin in range(0, places.size, n_rows):
        named, rows = places[begin : begin + n_rows], values[begin : begin + n_rows]
        is_somewhere = named >= 0
        if not is_somewhere.all():
            named, rows = named[is_somewhere], rows[is_somewhere]
        # Single elements have a fast path in numpy that rows have not.
        np.add.at(sums, (named[:, None] * width + columns).reshape(-1), rows.reshape(-1))

"""Inversion of indices, which `x[indices] = value` calls between kernels to turn a scatter into a
gather.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["INVERT", "invert_indices"]

INVERT: Final = "svod.invert"
"""The custom function that inverts indices."""


def invert_indices(out: NDArray[np.int64], indices: NDArray[np.int64]) -> None:
    """Fill `out` with the position of the last occurrence of each index in `indices`; -1 for none.

    Negative indices are ignored.
    """
    import numpy as np

    out.fill(-1)
    positions = np.arange(indices.size)
    is_valid = indices >= 0
    out[indices[is_valid]] = positions[is_valid]

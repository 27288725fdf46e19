"""What becomes of elements that integer tensors name:

`x[indices] = value` calls a function between kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["INVERT", "invert_places"]

INVERT: Final = "svod.invert"
"""The custom function that inverts positions."""


def invert_places(out: NDArray[np.int64], places: NDArray[np.int64]) -> None:
    """Fill `out` with -1, and at each of `places` with the number of the last one that is there;
    negative ones are nowhere.
    """
    import numpy as np

    out.fill(-1)
    numbers = np.arange(places.size)
    is_somewhere = places >= 0
    out[places[is_somewhere]] = numbers[is_somewhere]

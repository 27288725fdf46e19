"""Products and extremes of what is written to the same places, by numpy: `scatter_reduce` calls
them between kernels.

Each fills `out` from the elements that were there, the places of others and these; negative places
are nowhere. Whether the elements that were there count is the last argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FUNCTIONS"]


def _multiply(
    out: NDArray[Any],
    x: NDArray[Any],
    places: NDArray[np.int64],
    values: NDArray[Any],
    counts: bool,
) -> None:
    out[...] = x
    is_somewhere = places >= 0
    places, values = places[is_somewhere], values[is_somewhere]
    if not counts:
        out[places] = 1
    with np.errstate(all="ignore"):
        np.multiply.at(out, places, values)


def _make_extreme(function: np.ufunc) -> Callable[..., None]:
    def fill(
        out: NDArray[Any],
        x: NDArray[Any],
        places: NDArray[np.int64],
        values: NDArray[Any],
        counts: bool,
    ) -> None:
        out[...] = x
        is_somewhere = places >= 0
        places, values = places[is_somewhere], values[is_somewhere]
        if not counts:
            # Any of the values is a beginning.
            out[places] = values
        with np.errstate(all="ignore"):
            function.at(out, places, values)

    return fill


FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {
    "prod": _multiply,
    "amax": _make_extreme(np.maximum),
    "amin": _make_extreme(np.minimum),
}
"""Each by the name of its reduction."""

"""Scatter reductions by product, maximum and minimum with numpy, for `scatter_reduce`.

Each fills `out` from the initial elements, and indices and values to scatter; a negative index
writes no element. The last argument tells whether initial elements take part in the reduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FUNCTIONS"]


def _make_reduction(function: np.ufunc, identity: int | None) -> Callable[..., None]:
    def fill(
        out: NDArray[Any],
        x: NDArray[Any],
        indices: NDArray[np.int64],
        values: NDArray[Any],
        includes_initial: bool,
    ) -> None:
        out[...] = x
        is_valid = indices >= 0
        indices, values = indices[is_valid], values[is_valid]
        if not includes_initial:
            # Any of the values is a valid start of a maximum or minimum.
            out[indices] = values if identity is None else identity
        with np.errstate(all="ignore"):
            function.at(out, indices, values)

    return fill


FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {
    "prod": _make_reduction(np.multiply, 1),
    "amax": _make_reduction(np.maximum, None),
    "amin": _make_reduction(np.minimum, None),
}
"""Functions by the name of their reduction."""

"""Sampling of calls of the array API's functions, for comparison with array-api-strict."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["Draw"]


class Draw:
    """Sampler of one call's arguments.

    hypothesis samples choices, so that it can shrink them, and numpy samples elements.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.rng = np.random.default_rng(data.draw(st.integers(0, 1 << 20)))

    def one_of(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def flip(self) -> bool:
        return self.data.draw(st.booleans())

    def mix(
        self, shape: tuple[int, ...], special: tuple[float, ...], share: float, deviation: float
    ) -> np.ndarray:
        """Normally distributed numbers, a fraction of which is replaced by special values."""
        is_special, chosen = self.rng.random(shape) < share, self.rng.choice(special, shape)
        return np.where(is_special, chosen, self.rng.normal(0, deviation, shape))

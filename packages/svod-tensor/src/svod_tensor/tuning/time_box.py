"""How much time is left."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

__all__ = ["TimeBox"]


class TimeBox:
    """So many seconds from now on, by a clock."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._ends = self._started + seconds

    def remaining(self) -> float:
        """The seconds that are left, 0 or more."""
        return max(self._ends - self._clock(), 0.0)

    def elapsed(self) -> float:
        """The seconds that have passed."""
        return self._clock() - self._started

    def is_over(self) -> bool:
        """Whether none is left."""
        return self.remaining() == 0.0

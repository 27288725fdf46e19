"""Time limits."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

__all__ = ["TimeBox"]


class TimeBox:
    """Deadline a number of seconds from now, by a clock."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        # By default monotonic: the system's time may be set while a search runs.
        self._clock = clock
        self._started = clock()
        self._ends = self._started + seconds

    def remaining(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self._ends - self._clock(), 0.0)

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    def is_over(self) -> bool:
        """True once no time remains."""
        return self.remaining() == 0.0

"""How many random examples a test draws: fewer in every run than when there is time."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

__all__ = ["count_examples"]

_FULL: Final = 100
"""What hypothesis draws where nobody says how many."""


def count_examples(n: int) -> int:
    """`n` or a share of it, as the profile of hypothesis that is loaded asks for, and at least 1.

    A profile whose `max_examples` is hypothesis's own default of 100 gives `n`, one with 25 a quarter. It takes the place
    of a bare number in `@settings(max_examples=count_examples(200))`, which no profile would change.
    """
    return max(1, -(-n * settings().max_examples // _FULL))

"""How many random examples a test draws: fewer in every run than when there is time.

Example:
    >>> from svod_ir.testing import count_examples, take_share
    >>> count_examples(100) == settings().max_examples
    True
    >>> cases = range(8)
    >>> sorted({case for place in range(8) for case in take_share(cases, place)}) == list(cases)
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import settings

__all__ = ["count_examples", "take_share"]

T = TypeVar("T")

_FULL: Final = 100
"""What hypothesis draws where nobody says how many."""


def count_examples(n: int) -> int:
    """`n` or a share of it, as the profile of hypothesis that is loaded asks for, and at least 1.

    A profile whose `max_examples` is hypothesis's own default of 100 gives `n`, one with 25 a
    quarter. It takes the place of a bare number in `@settings(max_examples=count_examples(200))`,
    which no profile would change."""
    return max(1, -(-n * settings().max_examples // _FULL))


def take_share(cases: Sequence[T], place: int) -> Sequence[T]:
    """Every fourth of `cases`, or what the profile that is loaded asks for; tests of consecutive
    places share all of them.

    For a case that has nothing to do with what the test is called with: a product of both runs in
    the profile `thorough`, and in every run each case with some of the others.

    Args:
        place: which test this is; cases begin at this one modulo the distance between two that are
            taken.
    """
    step = min(len(cases), max(1, _FULL // settings().max_examples))
    return cases[place % step :: step] if step else cases

"""Number of random examples of a test, scaled by the hypothesis profile.

Example:
    >>> from hypothesis._settings import settings
    >>> from svod_ir.testing import count_examples, take_share
    >>> count_examples(100) == settings().max_examples
    True
    >>> cases = range(8)
    >>> sorted({case for index in range(8) for case in take_share(cases, index)}) == list(cases)
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import settings

__all__ = ["count_examples", "take_share"]

T = TypeVar("T")

_FULL: Final = 100
"""Default number of examples of hypothesis."""


def count_examples(n: int) -> int:
    """Scale `n` by the loaded hypothesis profile; at least 1.

    A profile with `max_examples` of 100, hypothesis's default, returns `n`; one with 25 a quarter.
    Write `@settings(max_examples=count_examples(200))` instead of a bare number, which no profile
    would change."""
    return max(1, -(-n * settings().max_examples // _FULL))


def take_share(cases: Sequence[T], index: int) -> Sequence[T]:
    """Every fourth case, or another stride set by the loaded profile; tests of consecutive indices
    cover all cases.

    It is for cases that are independent of the test's other parameters: the profile `thorough` runs
    the product of both, other profiles run each case with some of the parameters.

    Args:
        index: the index of the test; its cases start at this index modulo the stride.
    """
    step = min(len(cases), max(1, _FULL // settings().max_examples))
    return cases[index % step :: step] if step else cases

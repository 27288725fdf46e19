"""Number of random examples, set by the profile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from svod_ir.testing import count_examples, take_share


@pytest.fixture(autouse=True)
def profile_of_now() -> Iterator[None]:
    name = settings.get_current_profile_name()
    yield
    settings.load_profile(name)


@pytest.mark.parametrize(
    ("drawn", "counts"),
    [(100, (1, 3, 60, 2000)), (25, (1, 1, 15, 500)), (1000, (10, 30, 600, 20000))],
)
def test_a_profile_scales_the_examples_of_all_tests(drawn: int, counts: tuple[int, ...]) -> None:
    settings.register_profile("of this test", max_examples=drawn)
    settings.load_profile("of this test")
    assert tuple(map(count_examples, (1, 3, 60, 2000))) == counts


@pytest.mark.parametrize(("drawn", "step"), [(100, 1), (25, 4), (50, 2), (1000, 1)])
def test_tests_of_consecutive_indices_cover_all_cases(drawn: int, step: int) -> None:
    settings.register_profile("of this test", max_examples=drawn)
    settings.load_profile("of this test")
    cases = list(range(10))
    assert [take_share(cases, index) for index in range(step)] == [
        cases[index::step] for index in range(step)
    ]
    assert take_share(cases, step + 1) == take_share(cases, 1)
    assert take_share(cases[:1], 3) == cases[:1]
    assert take_share([], 3) == []

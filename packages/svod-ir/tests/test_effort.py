"""How many examples are drawn is one number, that of the profile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from svod_ir.testing import count_examples


@pytest.fixture(autouse=True)
def profile_of_now() -> Iterator[None]:
    name = settings.get_current_profile_name()
    yield
    settings.load_profile(name)


@pytest.mark.parametrize(
    ("drawn", "counts"), [(100, (1, 3, 60, 2000)), (25, (1, 1, 15, 500)), (1000, (10, 30, 600, 20000))]
)
def test_a_profile_scales_the_numbers_of_all_tests(drawn: int, counts: tuple[int, ...]) -> None:
    settings.register_profile("of this test", max_examples=drawn)
    settings.load_profile("of this test")
    assert tuple(map(count_examples, (1, 3, 60, 2000))) == counts

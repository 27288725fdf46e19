"""How the numbers of graphs follow from a few of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from svod_ir import UOp
from svod_ir.sizes import describe_size
from svod_tensor.engine.size_patterns import Numbers, find_pattern


def describe(samples: list[Numbers]) -> list[str] | None:
    pattern = find_pattern(samples)
    if pattern is None:
        return None
    return [
        describe_size(n) for n in pattern.express([UOp.variable(f"n{v}", 2, 64) for v in range(3)])
    ]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(448, 7, 64), (704, 11, 64), (128, 2, 64)], ["64*n0", "n0", "64"]),
        ([(7, 7), (5, 5), (9, 9)], ["n0", "n0"]),
        ([(6, 7, 9), (4, 5, 7), (8, 9, 11)], ["n0", "n0 + 1", "n0 + 3"]),
        ([(35, 5, 7), (18, 9, 2), (33, 3, 11)], ["n0*n1", "n0", "n1"]),
        ([(10, 20), (3, 6), (5, 10)], ["n0", "2*n0"]),
        ([(4, 16), (3, 9), (5, 25)], ["n0", "n0*n0"]),
        ([(4, 15), (3, 8), (5, 24)], ["n0", "n1"]),
    ],
)
def test_numbers_are_multiples_sums_and_products_of_variables(
    samples: list[Numbers], expected: list[str]
) -> None:
    assert describe(samples) == expected


@pytest.mark.parametrize(
    "samples",
    [
        [(7, 64), (7, 64), (7, 64)],
        [(7, 64), (11, 64), (7, 64)],
        [(7, 64), (11, 32), (13, 64)],
        [(7, 60, 4, 23), (11, 32, 9, 5), (13, 64, 5, 6)],
    ],
    ids=["all alike", "two sizes", "two sizes of one axis", "four variables"],
)
def test_there_is_no_pattern(samples: list[Numbers]) -> None:
    assert find_pattern(samples) is None


def test_sizes_outside_of_a_pattern_do_not_match_it() -> None:
    pattern = find_pattern([(448, 7, 64), (704, 11, 64), (128, 2, 64)])
    assert pattern is not None
    assert pattern.find_values((640, 10, 64)) == (10,)
    assert pattern.find_values((640, 10, 63)) is None
    assert pattern.find_values((641, 10, 64)) is None


@given(
    st.lists(
        st.lists(st.integers(2, 40), min_size=4, max_size=4).map(tuple), min_size=3, max_size=3
    )
)
def test_the_samples_of_a_pattern_fit_it(samples: list[Numbers]) -> None:
    rows = [(*sample, sample[0] * sample[1], sample[0] + 3) for sample in samples]
    pattern = find_pattern(rows)
    if pattern is not None:
        values = [pattern.find_values(row) for row in rows]
        assert None not in values
        assert all(a != b for a, b in pairwise(values))

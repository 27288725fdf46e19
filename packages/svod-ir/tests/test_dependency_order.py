from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from svod_ir._dependency_order import sort_by_dependencies


def test_what_waits_for_nothing_keeps_its_order() -> None:
    assert sort_by_dependencies([set(), set(), set()]) == [0, 1, 2]


def test_the_smallest_position_that_can_run_comes_next() -> None:
    assert sort_by_dependencies([{3}, set(), {1}, set()]) == [1, 2, 3, 0]


def test_what_waits_for_a_cycle_is_left_out() -> None:
    assert sort_by_dependencies([set(), {2}, {1}, {2}]) == [0]


def test_a_rank_says_what_comes_next() -> None:
    assert sort_by_dependencies([set(), set(), {0}], lambda position: -position) == [1, 0, 2]


def test_ranks_may_change_as_positions_are_taken() -> None:
    ranks = [0, 3, 2, 1]

    def finish(position: int) -> list[int]:
        ranks[1] = -1
        return [1] if position == 0 else []

    assert sort_by_dependencies([set()] * 4, lambda position: ranks[position], finish) == [
        0,
        1,
        3,
        2,
    ]


@given(st.data(), st.integers(0, 12))
def test_each_position_follows_its_predecessors(data: st.DataObject, n: int) -> None:
    rank = data.draw(st.permutations(range(n)))
    allowed = [[p for p in range(n) if rank[p] < rank[i]] for i in range(n)]
    predecessors = [
        data.draw(st.sets(st.sampled_from(earlier)) if earlier else st.just(set()))
        for earlier in allowed
    ]
    order = sort_by_dependencies(predecessors)
    place = {position: i for i, position in enumerate(order)}
    assert sorted(order) == list(range(n))
    assert all(place[p] < place[i] for i in range(n) for p in predecessors[i])

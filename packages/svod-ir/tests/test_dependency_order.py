from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from svod_ir._dependency_order import sort_by_dependencies


def test_independent_indices_keep_their_order() -> None:
    assert sort_by_dependencies([set(), set(), set()]) == [0, 1, 2]


def test_the_smallest_ready_index_comes_next() -> None:
    assert sort_by_dependencies([{3}, set(), {1}, set()]) == [1, 2, 3, 0]


def test_indices_that_depend_on_a_cycle_are_left_out() -> None:
    assert sort_by_dependencies([set(), {2}, {1}, {2}]) == [0]


def test_the_lowest_rank_comes_next() -> None:
    assert sort_by_dependencies([set(), set(), {0}], lambda position: -position) == [1, 0, 2]


def test_ranks_may_change_as_indices_are_placed() -> None:
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
def test_each_index_follows_its_predecessors(data: st.DataObject, n: int) -> None:
    rank = data.draw(st.permutations(range(n)))
    allowed = [[p for p in range(n) if rank[p] < rank[i]] for i in range(n)]
    predecessors = [
        data.draw(st.sets(st.sampled_from(earlier)) if earlier else st.just(set()))
        for earlier in allowed
    ]
    order = sort_by_dependencies(predecessors)
    index = {position: i for i, position in enumerate(order)}
    assert sorted(order) == list(range(n))
    assert all(index[p] < index[i] for i in range(n) for p in predecessors[i])

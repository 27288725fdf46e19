"""Where the operand of each movement op is read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from svod_dtype import index, int32
from svod_ir import (
    AxisType,
    Op,
    UOp,
    format_expression,
    make_expand,
    make_flip,
    make_pad,
    make_permute,
    make_shrink,
)
from svod_ir.evaluate import evaluate
from svod_ir.testing.programs import tensor
from svod_schedule.rangeify.analysis.coordinates import (
    Coordinates,
    flatten_index,
    move,
    move_reshape,
)

ROW, COLUMN, DEPTH = (
    UOp.range(size, number, AxisType.LOOP) for number, size in enumerate((2, 3, 5))
)
ZERO = UOp.const(index, 0)


def moved(node: UOp, *indices: UOp) -> Coordinates:
    return move(node, Coordinates(indices))


def test_permute_moves_each_index_to_its_axis() -> None:
    node = make_permute(tensor(1, 5, 2, 3), (1, 2, 0))
    assert moved(node, ROW, COLUMN, DEPTH) == Coordinates((DEPTH, ROW, COLUMN))


def test_expand_reads_the_only_element_of_a_repeated_axis() -> None:
    node = make_expand(tensor(1, 2, 1, 5), (2, 3, 5))
    assert moved(node, ROW, COLUMN, DEPTH) == Coordinates((ROW, ZERO, DEPTH))


def test_shrink_counts_from_the_begin() -> None:
    (found, other), valid = moved(make_shrink(tensor(1, 6, 3), [(4, 6), (0, 3)]), ROW, COLUMN)
    assert found is ROW + 4
    assert other is COLUMN
    assert valid is None


def test_flip_counts_from_the_end() -> None:
    (found, other), _ = moved(make_flip(tensor(1, 2, 3), (False, True)), ROW, COLUMN)
    assert found is ROW
    assert other.substitute({COLUMN: ZERO}).vmin == 2
    assert other.vmin == 0


def test_pad_is_valid_inside_the_source_only() -> None:
    node = make_pad(tensor(1, 2, 3), [(0, 0), (1, 2)])
    column = UOp.range(6, 3, AxisType.LOOP)
    (_, found), valid = moved(node, ROW, column)
    assert valid is not None
    inside = {v for v in range(6) if evaluate(valid, {column: v})}
    assert inside == {1, 2, 3}
    assert [int(evaluate(found, {column: v})) for v in sorted(inside)] == [0, 1, 2]


def test_pad_by_nothing_is_valid_everywhere() -> None:
    column = UOp.range(3, 3, AxisType.LOOP)
    node = UOp(Op.PAD, int32, (tensor(1, 2, 3, dtype=int32),), (0, 0, 0, 0))
    assert moved(node, ROW, column).valid is None


def test_a_condition_adds_to_the_one_before() -> None:
    first, second = ROW < 1, COLUMN < 2
    assert Coordinates((ROW, COLUMN)).and_valid(first).valid is first
    both = Coordinates((ROW, COLUMN), first).and_valid(second).valid
    assert both is not None
    assert set(both.src) == {first, second}


def test_a_condition_that_always_holds_adds_nothing() -> None:
    assert Coordinates((ROW,)).and_valid(ROW < 2).valid is None


def test_reshape_leaves_axes_alone_that_keep_their_size() -> None:
    found = move_reshape((2, 15), (2, 3, 5), (ROW, COLUMN, DEPTH))
    assert found[0] is ROW
    assert format_expression(found[1]) == format_expression(COLUMN * 5 + DEPTH)


def test_reshape_skips_axes_of_size_1() -> None:
    assert move_reshape((2, 1, 3), (1, 2, 3, 1), (ZERO, ROW, COLUMN, ZERO)) == (ROW, ZERO, COLUMN)


def test_splitting_an_axis_and_joining_it_again_gives_the_index_back() -> None:
    joined = UOp.range(15, 0, AxisType.LOOP)
    split = move_reshape((3, 5), (15,), (joined,))
    assert move_reshape((15,), (3, 5), split) == (joined,)


def test_a_symbolic_size_in_front_keeps_its_index() -> None:
    n = UOp.variable("n", 1, 9)
    row = UOp.range(n, 7, AxisType.LOOP)
    found = move_reshape((n, 15), (n, 3, 5), (row, COLUMN, DEPTH))
    assert found[0] is row


def test_a_flat_index_counts_in_row_major_order() -> None:
    assert flatten_index((), ()) is ZERO
    assert flatten_index((ROW, COLUMN, DEPTH), (2, 3, 5)).vmax == 29
    assert format_expression(flatten_index((ROW, COLUMN), (2, 3))) == format_expression(
        ROW * 3 + COLUMN
    )


FACTORS = st.lists(st.sampled_from((1, 2, 3, 4, 5)), min_size=0, max_size=4)


@pytest.mark.parametrize("parts", [1, 2])
@given(sizes=FACTORS, data=st.data())
def test_any_reshape_keeps_the_row_major_order(
    parts: int, sizes: list[int], data: st.DataObject
) -> None:
    old = list(sizes)
    new = list(sizes)
    for _ in range(parts):
        new = data.draw(st.permutations(new)) if data.draw(st.booleans()) else _merge_two(new)
    ranges = [UOp.range(s, i, AxisType.LOOP) if s > 1 else ZERO for i, s in enumerate(new)]
    found = move_reshape(old, new, ranges)
    numbers = np.arange(int(np.prod(old, dtype=int))).reshape(old)
    expected = numbers.reshape(new)
    for position in itertools.islice(itertools.product(*map(range, new)), 40):
        values = {
            r: UOp.const(index, v) for r, v in zip(ranges, position, strict=True) if r is not ZERO
        }
        place = tuple(int(i.substitute(values).vmin) for i in found)
        assert numbers[place] == expected[position]


def _merge_two(sizes: list[int]) -> list[int]:
    return [sizes[0] * sizes[1], *sizes[2:]] if len(sizes) > 1 else [*sizes, 1]

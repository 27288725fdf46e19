"""What whole indices become: the patterns that movement ops leave behind."""

from __future__ import annotations

import pytest

from svod_dtype import bool_, index, int32
from svod_ir import AxisType, Op, UOp
from svod_ir.testing.nodes import alu, register
from svod_schedule.symbolic import simplify, simplify_condition, simplify_under


def loop(end: int | UOp, axis: int) -> UOp:
    return UOp.range(end, axis, AxisType.LOOP)


I, J, K, L = loop(6, 0), loop(4, 1), loop(5, 2), loop(7, 3)  # noqa: E741
N, M = UOp.variable("n", 1, 100), UOp.variable("m", 1, 50)
V = UOp.variable("v", -100, 100)
TRUE, FALSE = UOp.const(bool_, True), UOp.const(bool_, False)


def number(value: int) -> UOp:
    return UOp.const(index, value)


def unflatten(flat: UOp, sizes: tuple[int | UOp, ...]) -> tuple[UOp, ...]:
    """The coordinates of a row-major position, as a reshape computes them."""
    parts: list[UOp] = []
    for size in reversed(sizes[1:]):
        parts.append(simplify(flat % size))
        flat = simplify(flat // size)
    return (flat, *reversed(parts))


def flatten(coordinates: tuple[UOp, ...], sizes: tuple[int | UOp, ...]) -> UOp:
    flat = coordinates[0]
    for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
        flat = flat * size + coordinate
    return simplify(flat)


def test_splitting_a_merged_axis_gives_the_counters_back() -> None:
    assert unflatten(flatten((I, J), (6, 4)), (6, 4)) == (I, J)
    assert unflatten(flatten((I, J, K), (6, 4, 5)), (6, 4, 5)) == (I, J, K)
    assert unflatten(flatten((I, J, K, L), (6, 4, 5, 7)), (6, 4, 5, 7)) == (I, J, K, L)


def test_merging_a_split_axis_gives_the_counter_back() -> None:
    i = loop(840, 0)
    assert flatten(unflatten(i, (6, 4, 5, 7)), (6, 4, 5, 7)) is i
    assert flatten(unflatten(V, (6, 4, 5)), (6, 4, 5)) is V


def test_splitting_at_other_sizes_leaves_strides() -> None:
    flat = flatten((I, J, K), (6, 4, 5))
    assert unflatten(flat, (24, 5)) == (simplify(I * 4 + J), K)
    assert unflatten(flat, (6, 20)) == (I, simplify(J * 5 + K))
    assert unflatten(flat, (3, 2, 20)) == (simplify(I // 2), simplify(I % 2), simplify(J * 5 + K))
    assert unflatten(flat, (6, 2, 2, 5)) == (I, simplify(J // 2), simplify(J % 2), K)


def test_a_transpose_through_a_reshape_keeps_its_strides() -> None:
    # (4, 6) is transposed to (6, 4), flattened and split into (6, 2, 2): the source is read at
    # (column, row).
    row, column = unflatten(flatten((I, loop(2, 4), loop(2, 5)), (6, 2, 2)), (6, 4))
    assert simplify(column * 6 + row) is simplify(I + loop(2, 4) * 12 + loop(2, 5) * 6)


def test_a_flip_of_a_split_axis_flips_its_parts() -> None:
    flipped = 23 - flatten((I, J), (6, 4))
    assert unflatten(flipped, (6, 4)) == (simplify(5 - I), simplify(3 - J))


def test_repeated_elements_are_read_with_stride_zero() -> None:
    # x of size 6, expanded to (6, 4) and flattened: element i*4 + j is x[i].
    assert simplify(flatten((I, J), (6, 4)) // 4) is I
    # x of size 4, expanded to (6, 4) and flattened: it is x[j].
    assert simplify(flatten((I, J), (6, 4)) % 4) is J


def test_a_pool_by_repeating_and_reshaping_reads_a_sliding_window() -> None:
    # Windows of 3 out of 10: repeat x, cut to 3 * 11 elements, reshape to (3, 11): position (k*11 +
    # o) % 10.
    window, start = loop(3, 0), loop(8, 1)
    assert simplify((window * 11 + start) % 10) is simplify(window + start)
    assert simplify((window * 11 + start) // 10) is window


def test_a_dilated_window_keeps_its_stride() -> None:
    window, start = loop(3, 0), loop(6, 1)
    assert simplify((window * 22 + start * 2) % 20) is simplify(window * 2 + start * 2)


def test_padding_a_reshaped_axis_compares_one_counter() -> None:
    flat = flatten((I, J), (6, 4))
    assert simplify(flat < 8) is simplify(I < 2)
    assert simplify(flat >= 8) is simplify(~(I < 2))
    assert simplify(flat // 4 < 2) is simplify(I < 2)
    assert simplify(flat < 24) is TRUE
    assert simplify((flat < 24) & (flat >= 0)) is TRUE


def test_concatenation_conditions_fold_where_a_part_is_certain() -> None:
    assert simplify((I * 4 + J < 20) | (I * 4 + J >= 16)) is TRUE
    assert simplify((I * 4 + J < 16) & (I * 4 + J >= 20)) is FALSE


def test_symbolic_axes_merge_and_split() -> None:
    a, b = loop(N, 0), loop(M, 1)
    assert unflatten(flatten((a, b), (N, M)), (N, M)) == (a, b)
    assert unflatten(flatten((a, b, K), (N, M, 5)), (N, M, 5)) == (a, b, K)
    assert unflatten(flatten((a, b, K), (N, M, 5)), (N, simplify(M * 5))) == (
        a,
        simplify(b * 5 + K),
    )
    assert unflatten(flatten((a, K, b), (N, 5, M)), (simplify(N * 5), M)) == (
        simplify(a * 5 + K),
        b,
    )


def test_a_symbolic_counter_merged_from_a_split_is_itself() -> None:
    i = loop(simplify(N * M), 0)
    assert simplify((i // M) * M + i % M) is i


def test_a_cast_to_int32_and_back_is_transparent() -> None:
    i, j = (x.cast(int32) for x in (I, J))
    assert simplify((i * 4 + j).cast(index) // 4) is I
    assert simplify(((i * 4 + j) // 4).cast(index)) is I
    assert simplify(i * 4 + j < 8) is simplify(I < 2)


def test_equal_sums_have_one_form() -> None:
    forms = [
        I * 4 + (J + V),
        (V + I * 4) + J,
        J + V + I * 2 + I * 2,
        (I * 2 + V) * 1 + J + I * 2,
        V - (0 - J) + I * 4,
    ]
    assert len({simplify(f) for f in forms}) == 1


def test_equal_conditions_have_one_form() -> None:
    forms = [I + 3 < V, I < V - 3, ~(V <= I + 3), V - I > 3, V * 2 > I * 2 + 6]
    assert len({simplify(f) for f in forms}) == 1


def test_the_order_of_terms_does_not_depend_on_the_order_of_making() -> None:
    def make(first: str, second: str) -> str:
        # The nodes of the first call are gone by the second, which makes them anew.
        nodes = {name: UOp.variable(name, 0, 9) for name in (first, second)}
        total = simplify(nodes["p"] * 3 + nodes["q"] * 5 + nodes["q"] * nodes["p"])
        return repr(
            [s.src[0].arg or s.src[0].src for s in (total.src[0].src[0], total.src[0].src[1])]
        )

    assert make("p", "q") == make("q", "p")


def test_a_long_sum_is_left_as_it_is() -> None:
    total = loop(3, 0)
    for axis in range(1, 200):
        total = alu(Op.ADD, total, loop(3, axis))
    assert simplify(total) is total


def test_a_tower_of_products_does_not_explode() -> None:
    total = I + J
    for axis in range(4, 40):
        total = total * (loop(3, axis) + 1) + V
    assert len(simplify(total).toposort()) < 2000


class TestUnderACondition:
    def test_a_bound_decides_a_division(self) -> None:
        i = loop(16, 0)
        assert simplify_under(i < 8, i // 8) is number(0)
        assert simplify_under(i >= 8, i // 8) is number(1)
        assert simplify_under(i < 5, (i + 3) % 8) is simplify(i + 3)

    def test_a_bound_on_a_sum_decides_a_division_of_it(self) -> None:
        i, k = loop(16, 0), loop(3, 1)
        shifted = i + k - 1
        valid = (shifted >= 0) & (shifted < 16)
        assert simplify_under(valid, (shifted * 16 + J) // 256) is number(0)
        assert simplify_under(valid, shifted % 16) is simplify(shifted)

    def test_a_strided_window_of_a_padded_axis_needs_no_division(self) -> None:
        i, k = loop(4, 0), loop(3, 1)
        position = i * 2 + k - 1
        assert simplify_under((position >= 0) & (position < 8), position % 8) is simplify(position)

    def test_a_bound_decides_another_bound(self) -> None:
        assert simplify_under(V < 4, V < 7) is TRUE
        assert simplify_under(V < 4, V + J < 7) is TRUE
        assert simplify_under(V >= 4, V < J) is FALSE

    def test_an_equality_puts_its_value_in(self) -> None:
        assert simplify_under(I.eq(3), I * 4 + J) is simplify(J + 12)

    def test_an_order_of_two_counters_bounds_their_difference(self) -> None:
        i, j = loop(16, 0), loop(16, 1)
        assert simplify_under(i < j, (i - j) // 20) is number(-1)

    def test_an_expression_that_the_condition_does_not_bound_is_only_simplified(self) -> None:
        assert simplify_under(I < 3, J * 2 + J) is simplify(J * 3)

    def test_contradicting_conditions_leave_the_expression_unchanged(self) -> None:
        assert simplify_under((V < 2) & (V > 5), V // 4) is simplify(V // 4)

    def test_a_read_keeps_its_position_and_gate(self) -> None:
        memory = register(0, 4, int32)
        read = memory.index(V // 4, gate=V < 4)
        assert simplify_under(V < 4, read + 0) is read
        assert simplify_under(V.eq(3), read * V.cast(int32)) is simplify(read * 3)

    def test_clauses_that_follow_from_others_are_dropped(self) -> None:
        assert simplify_condition((V < 4) & (V + J < 20)) is simplify(V < 4)
        assert simplify_condition((V < 4) & (I < 3) & (V < 9)) is simplify((V < 4) & (I < 3))
        assert simplify_condition((V < 4) & (V >= 7)) is FALSE


@pytest.mark.parametrize("leaf", [number(3), V, I, UOp.const(bool_, True)])
def test_a_leaf_is_simple(leaf: UOp) -> None:
    assert simplify(leaf) is leaf

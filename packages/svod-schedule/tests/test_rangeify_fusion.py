"""A reduction that is fused into the kernel that reads it keeps its meaning, for every small nest
of two reductions.

The programs are all of this form, for a value x of 2 x 2 x 3 elements, any axes A and B, and any
two of the `READERS` f and g:

    y = f(x, sum of x over A)
    z = g(y, max of y over B)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Final

import pytest

from svod_dtype import index, int32
from svod_ir import (
    AxisType,
    Op,
    Target,
    UOp,
    make_alu,
    make_expand,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
)
from svod_ir.testing import assert_same, take_share
from svod_ir.testing.programs import fit, tensor
from svod_schedule.pipeline import Context, compile_kernel, run_pipeline
from svod_schedule.rangeify.analysis.fusion import find_rows, is_chain

SHAPE: Final = (2, 2, 3)
AXES: Final = [axes for n in (1, 2, 3) for axes in combinations(range(3), n)]


def read_everywhere(x: UOp, r: UOp) -> UOp:
    """Twice, through a function that is expensive enough to be kept for its row."""
    e = make_alu(Op.EXP, x - make_expand(r, SHAPE))
    return e - make_expand(make_reduce_axis(e, Op.MAX, [2]), SHAPE)


def read_masked(x: UOp, r: UOp) -> UOp:
    """Where a comparison of the numbers of row and column says so."""
    row = make_expand(make_reshape(make_iota(2, int32), (2, 1)), (2, 3))
    column = make_expand(make_reshape(make_iota(3, int32), (1, 3)), (2, 3))
    return make_alu(Op.WHERE, fit(make_alu(Op.LT, row, column), SHAPE), x, make_expand(r, SHAPE))


def read_stacked(x: UOp, r: UOp) -> UOp:
    """At the first place of each axis that is reduced, with zeros at the others, as
    stacking does.
    """
    room = [(0, n - 1) if size == 1 else (0, 0) for n, size in zip(SHAPE, r.shape, strict=True)]
    part = make_reshape(r, [size for size in r.shape if size != 1]) * 2
    return x + make_pad(make_reshape(part, r.shape), room)


def read_turned(x: UOp, r: UOp) -> UOp:
    """With two axes exchanged."""
    return x - make_permute(make_expand(r, SHAPE), (1, 0, 2))


READERS: Final = (read_everywhere, read_masked, read_stacked, read_turned)


def write_program(
    axes: tuple[tuple[int, ...], ...], readers: tuple[Callable[[UOp, UOp], UOp], ...]
) -> UOp:
    value = tensor(1, *SHAPE)
    for over, reader, op in zip(axes, readers, (Op.ADD, Op.MAX), strict=True):
        value = reader(value, make_reduce_axis(value, op, list(over)))
    return value


def check_meaning(sink: UOp, context: Context) -> None:
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", sink, context), context)
    assert_same(sink, kernels)
    for body in {call.src[0] for call in kernels.iter_ops(Op.CALL)}:
        _, linear = compile_kernel(body, context)
        assert_same(body, linear)


@pytest.mark.parametrize("first", AXES)
@pytest.mark.parametrize(
    "readers",
    list(product(READERS, repeat=2)),
    ids=lambda pair: "-".join(f.__name__[5:] for f in pair),
)
def test_nests_of_two_reductions_keep_their_meaning(
    first: tuple[int, ...], readers: tuple[Callable[[UOp, UOp], UOp], ...]
) -> None:
    place = AXES.index(first) + sum(map(READERS.index, readers))
    for second in take_share(AXES, place):
        check_meaning(
            UOp.sink(write_program((first, second), readers)),
            Context(target=Target.generic(cores=2)),
        )


class TestRows:
    """`find_rows`: the loops that name an element, if they stay inside the axes by themselves."""

    ROW, COLUMN = UOp.range(4, 0, AxisType.LOOP), UOp.range(3, 1, AxisType.LOOP)
    REDUCED = UOp.range(4, 2, AxisType.REDUCE)

    def find(self, shape: tuple[int, ...], *indices: UOp) -> frozenset[UOp] | None:
        return find_rows(shape, indices, (self.ROW, self.COLUMN))

    def test_loops_over_the_result_and_constants_index_an_element(self) -> None:
        assert self.find((4, 1, 3), self.ROW, UOp.const(index, 0), self.COLUMN) == {
            self.ROW,
            self.COLUMN,
        }
        assert self.find((5,), self.ROW) == {self.ROW}
        assert self.find(()) == frozenset()

    def test_an_index_that_only_a_gate_keeps_in_bounds_has_no_rows(self) -> None:
        assert self.find((3,), self.ROW) is None
        assert self.find((2,), UOp.const(index, 2)) is None
        assert self.find((2,), UOp.const(index, -1)) is None

    def test_an_index_expression_a_repeated_loop_or_a_reduction_loop_has_no_rows(self) -> None:
        assert self.find((4,), self.ROW + 0 * self.COLUMN) is None
        assert self.find((4, 4), self.ROW, self.ROW) is None
        assert self.find((4,), self.REDUCED) is None

    def test_rows_form_a_chain_where_each_contains_or_is_contained(self) -> None:
        i, both = frozenset({self.ROW}), frozenset({self.ROW, self.COLUMN})
        assert is_chain(i, [both, i, frozenset()])
        assert not is_chain(i, [both, frozenset({self.COLUMN})])

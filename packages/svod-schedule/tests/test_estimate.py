"""How much work a kernel is."""

from __future__ import annotations

from svod_ir import Op, UOp, make_alu, make_expand, make_permute, make_reduce_axis, make_reshape
from svod_ir.testing.programs import tensor
from svod_schedule.estimate import Work, estimate_work
from svod_schedule.pipeline import Context, run_pipeline


def kernel_of(graph: UOp) -> UOp:
    ranged = run_pipeline("rangeify", UOp.sink(graph), Context())
    return next(run_pipeline("kernelize", ranged, Context()).iter_ops(Op.CALL)).src[0]


def test_an_addition_counts_once_for_each_element_and_moves_three_arrays() -> None:
    assert estimate_work(kernel_of(make_alu(Op.ADD, tensor(1, 4, 5), tensor(2, 4, 5)))) == Work(
        20, 3 * 80
    )


def test_a_product_of_matrices_is_two_operations_for_each_of_its_terms() -> None:
    left = make_expand(make_reshape(tensor(1, 4, 6), (4, 1, 6)), (4, 5, 6))
    right = make_expand(
        make_permute(make_reshape(tensor(2, 6, 5), (1, 6, 5)), (0, 2, 1)), (4, 5, 6)
    )
    product = make_reduce_axis(make_alu(Op.MUL, left, right), Op.ADD, (2,))
    assert estimate_work(kernel_of(product)) == Work(2 * 4 * 5 * 6, 4 * (24 + 30 + 20))

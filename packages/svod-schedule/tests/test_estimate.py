"""How much work a kernel is."""

from __future__ import annotations

from svod_dtype import float32
from svod_ir.args import BufferArg
from svod_ir.build import make_alu, make_expand, make_permute, make_reduce_axis, make_reshape
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_schedule.estimate import Work, estimate_work
from svod_schedule.pipeline import Context, run_pipeline


def kernel_of(graph: UOp) -> UOp:
    ranged = run_pipeline("rangeify", UOp.sink(graph), Context())
    return next(run_pipeline("kernelize", ranged, Context()).iter_ops(Op.CALL)).src[0]


def buffer(number: int, *shape: int) -> UOp:
    size = 1
    for s in shape:
        size *= s
    return make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(number, size, "CPU")), shape)


def test_an_addition_counts_once_for_each_element_and_moves_three_arrays() -> None:
    assert estimate_work(kernel_of(make_alu(Op.ADD, buffer(1, 4, 5), buffer(2, 4, 5)))) == Work(20, 3 * 80)


def test_a_product_of_matrices_is_two_operations_for_each_of_its_terms() -> None:
    left = make_expand(make_reshape(buffer(1, 4, 6), (4, 1, 6)), (4, 5, 6))
    right = make_expand(make_permute(make_reshape(buffer(2, 6, 5), (1, 6, 5)), (0, 2, 1)), (4, 5, 6))
    product = make_reduce_axis(make_alu(Op.MUL, left, right), Op.ADD, (2,))
    assert estimate_work(kernel_of(product)) == Work(2 * 4 * 5 * 6, 4 * (24 + 30 + 20))

"""Kernels that tests of the optimizer and the lowering start from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svod_dtype import bfloat16, float32, int32, uint8
from svod_ir import (
    Op,
    UOp,
    make_concat,
    make_expand,
    make_flip,
    make_gather,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_shrink,
)
from svod_ir.testing.programs import fit, layernorm, linear, matmul, reduce, softmax, tensor
from svod_ir.testing.pytest_plugin import check_golden
from svod_schedule.pipeline import Context, run_pipeline

# The fixture of golden tests. An sdist lacks the root's conftest, which has its option `--bless` too.
__all__ = ["check_golden"]


def make_kernel(graph: UOp) -> UOp:
    """The one kernel that computes `graph`, simplified and with its loops merged, but
    without Opts.
    """
    context = Context(opts=())
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(graph), context), context)
    (call,) = kernels.iter_ops(Op.CALL)
    kernel = run_pipeline("optimize", call.src[0], context)
    return kernel.with_arg(call.src[0].arg)


GRAPHS: dict[str, Callable[[], UOp]] = {
    "elementwise": lambda: tensor(1, 6, 20) * tensor(2, 6, 20) + 1,
    "broadcast row": lambda: tensor(1, 6, 20) + fit(tensor(2, 20), (6, 20)),
    "broadcast column": lambda: tensor(1, 6, 20) * make_expand(tensor(2, 6, 1), (6, 20)),
    "outer": lambda: make_expand(tensor(1, 9, 1), (9, 16)) * make_expand(tensor(2, 1, 16), (9, 16)),
    "softmax": lambda: softmax(tensor(1, 5, 24)),
    "layernorm": lambda: layernorm(tensor(1, 4, 18), tensor(2, 18), tensor(3, 18)),
    "matmul": lambda: matmul(tensor(1, 6, 10), tensor(2, 10, 16)),
    "matmul of rows": lambda: matmul(tensor(1, 6, 16), make_permute(tensor(2, 8, 16), (1, 0))),
    "linear": lambda: linear(tensor(1, 6, 16), tensor(2, 8, 16), tensor(3, 8)),
    "sum of rows": lambda: reduce(tensor(1, 7, 24), 1),
    "sum of columns": lambda: reduce(tensor(1, 9, 24), 0),
    "sum of the middle": lambda: reduce(tensor(1, 3, 6, 8), 1),
    "maximum of all": lambda: make_reduce_axis(tensor(1, 5, 12), Op.MAX, [0, 1]),
    "product of integers": lambda: reduce(tensor(1, 4, 9, dtype=int32), 1, Op.MUL),
    "transposed copy": lambda: make_permute(tensor(1, 6, 16), (1, 0)),
    "flipped": lambda: make_flip(tensor(1, 6, 16), (False, True)),
    "every third": lambda: make_reshape(
        make_shrink(make_reshape(tensor(1, 6, 48), (6, 16, 3)), [(0, 6), (0, 16), (1, 2)]), (6, 16)
    ),
    "sum of every second": lambda: reduce(
        make_shrink(make_reshape(tensor(1, 6, 32), (6, 16, 2)), [(0, 6), (0, 16), (1, 2)]), 1
    ),
    "scan": lambda: make_scan_axis(tensor(1, 5, 12), Op.ADD, 1),
    "scan of columns": lambda: make_scan_axis(tensor(1, 6, 16), Op.ADD, 0),
    "gather": lambda: make_gather(tensor(1, 10, 8), tensor(2, 6, dtype=int32), 0),
    "gather along": lambda: make_gather(tensor(1, 4, 16), tensor(2, 12, dtype=int32), 1),
    "padded": lambda: make_pad(tensor(1, 5, 12), [(1, 2), (3, 1)]) + 1,
    "sum of padded": lambda: reduce(make_pad(tensor(1, 5, 12), [(1, 2), (3, 1)]), 1),
    "concatenated rows": lambda: make_concat([tensor(1, 3, 20), tensor(2, 4, 20)], axis=0),
    "concatenated columns": lambda: (
        make_concat([tensor(1, 6, 17), tensor(2, 6, 1), tensor(3, 6, 9)], axis=1) * 2
    ),
    "padded on all sides": lambda: make_pad(tensor(1, 3, 4, 18), [(0, 0), (1, 2), (3, 1)]),
    "shrunk": lambda: make_shrink(tensor(1, 8, 20), [(1, 7), (2, 18)]),
    "bytes": lambda: (tensor(1, 8, 40, dtype=uint8) + 3) * 5,
    "bfloat16": lambda: tensor(1, 6, 16, dtype=bfloat16) * tensor(2, 6, 16, dtype=bfloat16),
    "mixed widths": lambda: tensor(1, 6, 16, dtype=uint8).cast(float32) + tensor(2, 6, 16),
}
"""Small tensors whose kernels have the forms that the optimizer tells apart."""


@pytest.fixture(scope="session", params=GRAPHS)
def kernel(request: pytest.FixtureRequest) -> UOp:
    """Each of the kernels in turn."""
    return make_kernel(GRAPHS[request.param]())


@pytest.fixture(scope="session", name="make_kernel")
def give_make_kernel() -> Callable[[UOp], UOp]:
    """The function from a graph to the one kernel that computes it."""
    return make_kernel

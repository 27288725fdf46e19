"""Kernels that tests of the optimizer and the lowering start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import pytest

from svod_dtype import DType, bfloat16, float32, int32, uint8
from svod_ir.args import BufferArg
from svod_ir.build import (
    make_alu,
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
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_schedule.pipeline import Context, run_pipeline

MakeKernel = Callable[[UOp], UOp]


def make_kernel(graph: UOp) -> UOp:
    """The one kernel that computes `graph`, simplified and with its loops merged, but without Opts."""
    context = Context(opts=())
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(graph), context), context)
    (call,) = kernels.iter_ops(Op.CALL)
    kernel = run_pipeline("optimize", call.src[0], context)
    return kernel.with_arg(call.src[0].arg)


def tensor(number: int, *shape: int, dtype: DType = float32) -> UOp:
    return make_reshape(UOp(Op.BUFFER, dtype, (), BufferArg(number, prod(shape), "CPU")), shape)


def fit(node: UOp, shape: Sequence[int]) -> UOp:
    """`node` repeated to `shape`, aligned at the last axis."""
    return make_expand(make_reshape(node, (1,) * (len(shape) - len(node.shape)) + tuple(node.shape)), shape)


def total(node: UOp, axis: int, op: Op = Op.ADD) -> UOp:
    return make_reduce_axis(node, op, [axis])


def matmul(x: UOp, y: UOp) -> UOp:
    """`x` (m, k) times `y` (n, k): both walk along k."""
    (m, k), (n, _) = x.shape, y.shape
    left = make_expand(make_reshape(x, (m, 1, k)), (m, n, k))
    right = make_expand(make_reshape(y, (1, n, k)), (m, n, k))
    return make_reshape(total(left * right, 2), (m, n))


def softmax(x: UOp) -> UOp:
    e = make_alu(Op.EXP, x - make_expand(total(x, 1, Op.MAX), x.shape))
    return e / make_expand(total(e, 1), x.shape)


def layernorm(x: UOp, weight: UOp) -> UOp:
    n = x.shape[1]
    centered = x - make_expand(total(x, 1) * (1 / n), x.shape)
    variance = total(centered * centered, 1) * (1 / n)
    return centered * make_expand(make_alu(Op.RSQRT, variance + 1e-5), x.shape) * fit(weight, x.shape)


GRAPHS: dict[str, Callable[[], UOp]] = {
    "elementwise": lambda: tensor(1, 6, 20) * tensor(2, 6, 20) + 1,
    "broadcast row": lambda: tensor(1, 6, 20) + fit(tensor(2, 20), (6, 20)),
    "broadcast column": lambda: tensor(1, 6, 20) * make_expand(tensor(2, 6, 1), (6, 20)),
    "outer": lambda: make_expand(tensor(1, 9, 1), (9, 16)) * make_expand(tensor(2, 1, 16), (9, 16)),
    "softmax": lambda: softmax(tensor(1, 5, 24)),
    "layernorm": lambda: layernorm(tensor(1, 4, 18), tensor(2, 18)),
    "matmul of rows": lambda: matmul(tensor(1, 6, 16), tensor(2, 8, 16)),
    "matmul": lambda: matmul(tensor(1, 6, 10), make_permute(tensor(2, 10, 16), (1, 0))),
    "matmul with bias": lambda: matmul(tensor(1, 6, 16), tensor(2, 8, 16)) + fit(tensor(3, 8), (6, 8)),
    "sum of rows": lambda: total(tensor(1, 7, 24), 1),
    "sum of columns": lambda: total(tensor(1, 9, 24), 0),
    "sum of the middle": lambda: total(tensor(1, 3, 6, 8), 1),
    "maximum of all": lambda: make_reduce_axis(tensor(1, 5, 12), Op.MAX, [0, 1]),
    "product of integers": lambda: total(tensor(1, 4, 9, dtype=int32), 1, Op.MUL),
    "transposed copy": lambda: make_permute(tensor(1, 6, 16), (1, 0)),
    "flipped": lambda: make_flip(tensor(1, 6, 16), (False, True)),
    "scan": lambda: make_scan_axis(tensor(1, 5, 12), Op.ADD, 1),
    "scan of columns": lambda: make_scan_axis(tensor(1, 6, 16), Op.ADD, 0),
    "gather": lambda: make_gather(tensor(1, 10, 8), tensor(2, 6, dtype=int32), 0),
    "gather along": lambda: make_gather(tensor(1, 4, 16), tensor(2, 12, dtype=int32), 1),
    "padded": lambda: make_pad(tensor(1, 5, 12), [(1, 2), (3, 1)]) + 1,
    "sum of padded": lambda: total(make_pad(tensor(1, 5, 12), [(1, 2), (3, 1)]), 1),
    "shrunk": lambda: make_shrink(tensor(1, 8, 20), [(1, 7), (2, 18)]),
    "bytes": lambda: (tensor(1, 8, 40, dtype=uint8) + 3) * 5,
    "bfloat16": lambda: tensor(1, 6, 16, dtype=bfloat16) * tensor(2, 6, 16, dtype=bfloat16),
    "mixed widths": lambda: tensor(1, 6, 16, dtype=uint8).cast(float32) + tensor(2, 6, 16),
}  # fmt: skip
"""Small tensors whose kernels have the forms that the optimizer tells apart."""


@pytest.fixture(scope="session", params=GRAPHS)
def kernel(request: pytest.FixtureRequest) -> UOp:
    """Each of the kernels in turn."""
    return make_kernel(GRAPHS[request.param]())


@pytest.fixture(scope="session")
def kernels() -> dict[str, UOp]:
    """The kernels by name."""
    return {name: make_kernel(make()) for name, make in GRAPHS.items()}

"""Well-known tensor programs as graphs, as inputs for tests of passes.

Example:
    >>> import numpy as np
    >>> from svod_dtype import float32
    >>> from svod_ir import UOp
    >>> from svod_ir.evaluate import evaluate
    >>> from svod_ir.testing.programs import fit, matmul, reduce, softmax, tensor
    >>> x = tensor(1, 2, 3)
    >>> inputs = {x.source: np.array([1, 2, 3, 4, 5, 6], np.float32)}
    >>> evaluate(reduce(softmax(x), axis=1), inputs).round(3).tolist()
    [[1.0], [1.0]]
    >>> evaluate(matmul(x, fit(UOp.const(float32, 1), (3, 1))), inputs).tolist()
    [[6.0], [15.0]]
    >>> from svod_ir.testing.programs import attention, gelu, layernorm, linear
    >>> weight, bias = tensor(2, 4, 3), tensor(3, 4)
    >>> gelu(linear(x, weight, bias)).shape, layernorm(linear(x, weight, bias), bias, bias).shape
    ((2, 4), (2, 4))
    >>> q, k, v = tensor(4, 8, 5, 16), tensor(5, 8, 7, 16), tensor(6, 8, 7, 32)
    >>> attention(q, k, v).shape
    (8, 5, 32)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from svod_dtype import DType, float32
from svod_ir.build import make_alu, make_expand, make_permute, make_reduce_axis, make_reshape
from svod_ir.ops import Op
from svod_ir.testing.nodes import buffer
from svod_ir.uop import SInt, UOp

__all__ = [
    "attention",
    "fit",
    "gelu",
    "layernorm",
    "linear",
    "matmul",
    "reduce",
    "softmax",
    "tensor",
]


def tensor(buffer_id: int, *shape: int, dtype: DType = float32, device: str = "CPU") -> UOp:
    """Tensor of this shape on the buffer `buffer_id`."""
    return make_reshape(buffer(buffer_id, prod(shape), dtype, device), shape)


def fit(x: UOp, shape: Sequence[SInt]) -> UOp:
    """Broadcast `x` to `shape`, aligned at the last axis."""
    return make_expand(make_reshape(x, (*[1] * (len(shape) - len(x.shape)), *x.shape)), shape)


def reduce(x: UOp, axis: int, op: Op = Op.ADD) -> UOp:
    """Reduce `x` along one axis with `op`; the axis keeps size 1."""
    return make_reduce_axis(x, op, [axis])


def matmul(x: UOp, y: UOp) -> UOp:
    """`x` (..., m, k) times `y` (..., k, n)."""
    *batch, m, k = x.shape
    n = y.shape[-1]
    axes = (*range(len(batch)), len(batch) + 1, len(batch))
    left = make_expand(make_reshape(x, (*batch, m, 1, k)), (*batch, m, n, k))
    right = make_expand(make_reshape(make_permute(y, axes), (*batch, 1, n, k)), (*batch, m, n, k))
    return make_reshape(reduce(left * right, len(batch) + 2), (*batch, m, n))


def linear(x: UOp, weight: UOp, bias: UOp) -> UOp:
    """`x` (m, k) times the transpose of `weight` (n, k), plus `bias` (n)."""
    product = matmul(x, make_permute(weight, (1, 0)))
    return product + fit(bias, product.shape)


def softmax(x: UOp) -> UOp:
    """Softmax along the last axis."""
    axis = len(x.shape) - 1
    e = make_alu(Op.EXP, x - make_expand(reduce(x, axis, Op.MAX), x.shape))
    return e / make_expand(reduce(e, axis), x.shape)


def layernorm(x: UOp, weight: UOp, bias: UOp) -> UOp:
    """Layer normalization of `x` (rows, n) along its last axis, with `weight` and `bias` of shape
    (n,).
    """
    n = x.shape[1]
    assert isinstance(n, int)
    centered = x - make_expand(reduce(x, 1) * (1 / n), x.shape)
    variance = reduce(centered * centered, 1) * (1 / n)
    normalised = centered * make_expand(make_alu(Op.RSQRT, variance + 1e-5), x.shape)
    return normalised * fit(weight, x.shape) + fit(bias, x.shape)


def gelu(x: UOp) -> UOp:
    """The exact GELU, with ERF."""
    return x * 0.5 * (make_alu(Op.ERF, x * 0.5**0.5) + 1.0)


def attention(q: UOp, k: UOp, v: UOp) -> UOp:
    """Scaled dot-product attention: `q`, `k` and `v` are (heads, sequence, channels)."""
    channels = q.shape[-1]
    assert isinstance(channels, int)
    scores = matmul(q, make_permute(k, (0, 2, 1))) * channels**-0.5
    return matmul(softmax(scores), v)

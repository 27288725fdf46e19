"""Number of kernels of common graphs.

A larger number is a regression. After an improvement, update the smaller number here.
"""

from __future__ import annotations

import numpy as np
import pytest

from svod_tensor import Tensor


def _randn(*shape: int) -> Tensor:
    size = int(np.prod(shape))
    return Tensor((np.arange(size, dtype=np.float32) % 17 - 8).reshape(shape) / 8)


def _matmul():
    return _randn(6, 32, 96) @ _randn(96, 96)


def _linear():
    return _randn(6, 32, 96).linear(_randn(96, 96), _randn(96))


def _full_sum():
    return _randn(6, 32, 768).sum()


def _elementwise():
    return (_randn(64, 3) + _randn(64, 3)) * _randn(64, 3)


def _silu():
    x = _randn(64, 64)
    return x * x.sigmoid()


def _gate():
    x = _randn(32, 96)
    return x.linear(_randn(128, 96), _randn(128)).sigmoid() * x.linear(_randn(128, 96), _randn(128))


def _feed_forward():
    return _gate().linear(_randn(96, 128), _randn(96))


def _layernorm():
    return _randn(6, 64, 96).layernorm(weight=_randn(96), bias=_randn(96))


def _softmax():
    return _randn(6, 4, 64, 48).softmax()


def _attention():
    x = _randn(2, 16, 64)

    def heads(y: Tensor) -> Tensor:
        return y.reshape(2, 16, 4, 16).transpose(1, 2)

    q, k, v = (heads(x.linear(_randn(64, 64), _randn(64))) for _ in range(3))
    out = q.scaled_dot_product_attention(k, v)
    return out.transpose(1, 2).reshape(2, 16, 64).linear(_randn(64, 64), _randn(64))


def _reductions_in_one():
    x = _randn(64, 96)
    return (x * 2).sum(1) + (x + 1).sum(1)


def _movement():
    return _randn(8, 6, 4).permute(2, 0, 1).reshape(4, 48).pad((1, 1), (0, 2))[::-1, ::2].flip(1)


def _concat():
    return Tensor.concat([_randn(4, 5), _randn(3, 5), _randn(2, 5)]) * 2


def _gather():
    return _randn(50, 8)[Tensor([1, 2, 3])] + 1


def _arange():
    return Tensor.arange(1000) * 2


def _cumsum():
    return _randn(7, 100).cumsum(1) + 1


def _norm_of_many():
    return sum((_randn(8 + i).square().sum() for i in range(64)), Tensor(0.0)).sqrt()


COUNTS = {
    _matmul: 1,
    _linear: 1,
    _full_sum: 2,
    _elementwise: 1,
    _silu: 1,
    _gate: 1,
    _feed_forward: 2,
    _layernorm: 1,
    _softmax: 1,
    _attention: 7,
    _reductions_in_one: 1,
    _movement: 1,
    _concat: 1,
    _gather: 1,
    _arange: 1,
    _cumsum: 2,
    _norm_of_many: 4,
}


@pytest.mark.parametrize("graph", COUNTS, ids=lambda g: g.__name__.strip("_"))
def test_a_graph_becomes_as_few_kernels_as_it_needs(graph):
    assert len(graph().prepare().kernels()) <= COUNTS[graph]


def test_outputs_that_share_work_share_kernels():
    x = _randn(32, 32)
    y = x @ x
    plan = Tensor.prepare_batch([y, y + 1, y * 2])
    assert len(plan.kernels()) == 2
